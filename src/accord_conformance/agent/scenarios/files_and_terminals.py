"""Files and commands: read, written and run, by the client's means where there are such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.client import SentPrompt
from accord_conformance.agent.context import AgentContext
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Notification, Request

__all__ = ("SCENARIOS",)

_WORD = "quince"


@scenario("machine/read", "R-SESS-04")
async def _read(stage: AgentContext) -> None:
    """A file is read that is named as seen from the session's directory."""
    editor = stage.client
    note = stage.folder / "note.txt"
    note.write_text(f"The word is {_WORD}.\n", "utf-8")
    session = await editor.new_session()
    prompted = await editor.run_turn(session, "file_read")
    elsewhere = _elsewhere(stage, prompted, note)
    if not elsewhere and _WORD not in prompted.agent_text():
        raise NotExercised("the agent did not tell what the file says")
    stage.judge(
        "R-SESS-04",
        not elsewhere,
        prompted.request,
        *elsewhere,
        expected=f"{note}",
        got="the file of that name in another directory",
    )


def _elsewhere(
    stage: AgentContext, prompted: SentPrompt, note: Path
) -> list[Request | Notification]:
    """Return what names a note that is not the session's."""
    found: list[Request | Notification] = []
    for call in stage.client.connection.requests:
        path = call.params.get("path") if is_object(call.params) else None
        if call.session_id == prompted.session and _is_other(path, note):
            found.append(call)
    for told, update in prompted.updates("tool_call", "tool_call_update"):
        locations = update.get("locations")
        named: list[Any] = locations if is_array(locations) else []
        paths = [location.get("path") for location in named if is_object(location)]
        if any(_is_other(path, note) for path in paths):
            found.append(told)
    return found


def _is_other(path: object, note: Path) -> bool:
    if not isinstance(path, str) or Path(path).name != note.name:
        return False
    return Path(path).is_absolute() and Path(path).resolve() != note.resolve()


@scenario("machine/write")
async def _write(stage: AgentContext) -> None:
    """A file is written."""
    editor = stage.client
    await editor.run_turn(await editor.new_session(), "file_write")


@scenario("machine/run", "R-DTERM-10")
async def _run(stage: AgentContext) -> None:
    """A command is run."""
    editor = stage.client
    prompted = await editor.run_turn(await editor.new_session(), "terminal")
    await editor.connection.sync()  # terminals may be released when the turn is over
    first: dict[str, Notification] = {}
    for note, update in prompted.updates("terminal_update", "terminal_output_chunk"):
        ident = str(update.get("terminalId"))
        began = first.setdefault(ident, note)
        if isinstance(update.get("command"), str):
            stage.judge(
                "R-DTERM-10",
                began is note,
                began,
                note,
                expected="the command in the first update of the terminal",
                got="it later",
            )


SCENARIOS = (_read, _write, _run)
