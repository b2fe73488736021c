"""What becomes of terminals that the agent runs and shows (version 2)."""

from __future__ import annotations

import base64
import os

from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import (
    IS_PRESENT,
    ContainsInOrder,
)
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import (
    StateProbe,
    expect,
)
from accord_conformance.traffic.frame import Frame

__all__ = ("SCENES",)

_UPDATE = "terminal_update"


@probe_scenario(
    "shown/terminals",
    "R-DTERM-02",
    "R-DTERM-03",
    "R-DTERM-05",
    "R-DTERM-06",
    "R-DTERM-07",
    "R-DTERM-08",
    versions=(2,),
)
async def _terminals(scene: ClientContext, window: StateProbe) -> None:
    """Terminals are announced before and after they are shown, patched, printed to, and end."""
    for order in ("first", "last"):
        await _anchored(scene, window, f"anchor-{order}", anchor_first=order == "first")

    ident = "patched"
    here = os.path.join(scene.session.cwd, "here")  # noqa: PTH118  # as the agent has it
    known: Json = {"command": "make all", "cwd": here, "size": {"cols": 80, "rows": 24}}
    sent = [_terminal(scene, ident, **known)]
    await window.learn()
    sent += [_terminal(scene, ident)]
    await window.check(sent, expect("R-DTERM-03", "terminals", ident, **known))
    sent += [_terminal(scene, ident, command="make", size=None)]
    changed = expect("R-DTERM-03", "terminals", ident, command="make", cwd=here, size=None)
    await window.check(sent, changed)
    sent += [_terminal(scene, ident, command=None, cwd=None)]
    await window.check(sent, expect("R-DTERM-03", "terminals", ident, command=None, cwd=None))

    ident = "afresh"
    sent = [_print(scene, ident, b"old"), _terminal(scene, ident, output=_data(b"new"))]
    await window.check(sent, expect("R-DTERM-05", "terminals", ident, output="new"))
    sent += [_print(scene, ident, b"er")]
    await window.check(sent, expect("R-DTERM-05", "terminals", ident, output="newer"))
    await _decoded(scene, window)
    await _ended(scene, window)


async def _anchored(
    scene: ClientContext, window: StateProbe, ident: str, *, anchor_first: bool
) -> None:
    anchor: Json = {"type": "terminal", "terminalId": ident}
    sent: list[Frame] = []
    if not anchor_first:
        sent += [_terminal(scene, ident, command="make"), _print(scene, ident, b"early")]
    tool = scene.add_tool_call("Shows a terminal", kind="execute", content=[anchor])
    sent += [scene.agent.last_frame]
    if anchor_first:
        sent += [_print(scene, ident, b"early"), _terminal(scene, ident, command="make")]
    await window.check(
        sent,
        expect("R-DTERM-02", "terminals", ident, output="early"),
        expect("R-DTERM-02", "toolCalls", tool, content=[anchor]),
    )


async def _decoded(scene: ClientContext, window: StateProbe) -> None:
    # Each of them ends with padding, so that one text of both is no base64.
    sent = [_print(scene, "chunks", b"a"), _print(scene, "chunks", b"b")]
    await window.check(sent, expect("R-DTERM-06", "terminals", "chunks", output="ab"))
    split = "ä".encode()
    parts = (b"<", split[:1], split[1:] + b">", b"\xff", b"and on")
    sent = [_print(scene, "split", part) for part in parts]
    survived = expect("R-DTERM-07", "terminals", "split", output=ContainsInOrder(("<ä>", "and on")))
    await window.check(sent, survived)


async def _ended(scene: ClientContext, window: StateProbe) -> None:
    sent: list[Frame] = []
    for number, status in enumerate(({"exitCode": 1}, {})):
        ident = f"ended-{number}"
        anchor: Json = {"type": "terminal", "terminalId": ident}
        tool = scene.add_tool_call(
            "Goes on", kind="execute", status="in_progress", content=[anchor]
        )
        sent += [scene.agent.last_frame, _terminal(scene, ident, exitStatus=status)]
        await window.check(
            sent,
            expect("R-DTERM-08", "terminals", ident, exitStatus=IS_PRESENT),
            expect("R-DTERM-08", "toolCalls", tool, status="in_progress"),
        )


def _terminal(scene: ClientContext, ident: str, **fields: object) -> Frame:
    return scene.update(_UPDATE, terminalId=ident, **fields)


def _print(scene: ClientContext, ident: str, data: bytes) -> Frame:
    return scene.update("terminal_output_chunk", terminalId=ident, **_data(data))


def _data(data: bytes) -> Json:
    return {"data": base64.b64encode(data).decode()}


SCENES = (_terminals,)
