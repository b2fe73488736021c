"""Terminals of the agent (version 2)."""

from __future__ import annotations

import base64
import os

from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import IS_PRESENT, ContainsInOrder
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import StateProbe, expect
from accord_conformance.traffic.frame import Frame

_UPDATE = "terminal_update"


@probe_scenario(
    "state/terminals",
    "R-DTERM-02",
    "R-DTERM-03",
    "R-DTERM-05",
    "R-DTERM-06",
    "R-DTERM-07",
    "R-DTERM-08",
    versions=(2,),
)
async def _terminals(context: ClientContext, probe: StateProbe) -> None:
    """Terminals are reported before and after they are shown, patched, get output, and exit."""
    for order in ("first", "last"):
        await _anchored(context, probe, f"anchor-{order}", anchor_first=order == "first")

    ident = "patched"
    here = os.path.join(context.session.cwd, "here")  # noqa: PTH118  # the agent's path
    known: Json = {"command": "make all", "cwd": here, "size": {"cols": 80, "rows": 24}}
    sent = [_terminal(context, ident, **known)]
    await probe.learn()
    sent += [_terminal(context, ident)]
    await probe.check(sent, expect("R-DTERM-03", "terminals", ident, **known))
    sent += [_terminal(context, ident, command="make", size=None)]
    changed = expect("R-DTERM-03", "terminals", ident, command="make", cwd=here, size=None)
    await probe.check(sent, changed)
    sent += [_terminal(context, ident, command=None, cwd=None)]
    await probe.check(sent, expect("R-DTERM-03", "terminals", ident, command=None, cwd=None))

    ident = "replaced"
    sent = [_print(context, ident, b"old"), _terminal(context, ident, output=_data(b"new"))]
    await probe.check(sent, expect("R-DTERM-05", "terminals", ident, output="new"))
    sent += [_print(context, ident, b"er")]
    await probe.check(sent, expect("R-DTERM-05", "terminals", ident, output="newer"))
    await _decoded(context, probe)
    await _ended(context, probe)


async def _anchored(
    context: ClientContext, probe: StateProbe, ident: str, *, anchor_first: bool
) -> None:
    anchor: Json = {"type": "terminal", "terminalId": ident}
    sent: list[Frame] = []
    if not anchor_first:
        sent += [_terminal(context, ident, command="make"), _print(context, ident, b"early")]
    tool = context.add_tool_call("Shows a terminal", kind="execute", content=[anchor])
    sent += [context.agent.last_frame]
    if anchor_first:
        sent += [_print(context, ident, b"early"), _terminal(context, ident, command="make")]
    await probe.check(
        sent,
        expect("R-DTERM-02", "terminals", ident, output="early"),
        expect("R-DTERM-02", "toolCalls", tool, content=[anchor]),
    )


async def _decoded(context: ClientContext, probe: StateProbe) -> None:
    # Each of them ends with padding, so the two together are not valid base64.
    sent = [_print(context, "chunks", b"a"), _print(context, "chunks", b"b")]
    await probe.check(sent, expect("R-DTERM-06", "terminals", "chunks", output="ab"))
    split = "ä".encode()
    parts = (b"<", split[:1], split[1:] + b">", b"\xff", b"and on")
    sent = [_print(context, "split", part) for part in parts]
    survived = expect("R-DTERM-07", "terminals", "split", output=ContainsInOrder(("<ä>", "and on")))
    await probe.check(sent, survived)


async def _ended(context: ClientContext, probe: StateProbe) -> None:
    sent: list[Frame] = []
    for number, status in enumerate(({"exitCode": 1}, {})):
        ident = f"ended-{number}"
        anchor: Json = {"type": "terminal", "terminalId": ident}
        tool = context.add_tool_call(
            "Goes on", kind="execute", status="in_progress", content=[anchor]
        )
        sent += [context.agent.last_frame, _terminal(context, ident, exitStatus=status)]
        await probe.check(
            sent,
            expect("R-DTERM-08", "terminals", ident, exitStatus=IS_PRESENT),
            expect("R-DTERM-08", "toolCalls", tool, status="in_progress"),
        )


def _terminal(context: ClientContext, ident: str, **fields: object) -> Frame:
    return context.update(_UPDATE, terminalId=ident, **fields)


def _print(context: ClientContext, ident: str, data: bytes) -> Frame:
    return context.update("terminal_output_chunk", terminalId=ident, **_data(data))


def _data(data: bytes) -> Json:
    return {"data": base64.b64encode(data).decode()}


SCENARIOS = (_terminals,)
