"""Files and commands: read, written and run, by the client's means where there are such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.client import Prompted
from accord_conformance.agent.context import Stage
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Call, Note

__all__ = ("SCENARIOS",)

_WORD = "quince"


@scenario("machine/read", "R-SESS-04")
async def _read(stage: Stage) -> None:
    """A file is read that is named as seen from the session's directory."""
    editor = stage.editor
    note = stage.folder / "note.txt"
    note.write_text(f"The word is {_WORD}.\n", "utf-8")
    session = await editor.new_session()
    prompted = await editor.turn(session, "file_read")
    elsewhere = _elsewhere(stage, prompted, note)
    if not elsewhere and _WORD not in prompted.said():
        raise NotExercised("the agent did not tell what the file says")
    stage.judge(
        "R-SESS-04",
        not elsewhere,
        prompted.call,
        *elsewhere,
        expected=f"{note}",
        got="the file of that name in another directory",
    )


def _elsewhere(stage: Stage, prompted: Prompted, note: Path) -> list[Call | Note]:
    """Return what names a note that is not the session's."""
    found: list[Call | Note] = []
    for call in stage.editor.line.calls:
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
async def _write(stage: Stage) -> None:
    """A file is written."""
    editor = stage.editor
    await editor.turn(await editor.new_session(), "file_write")


@scenario("machine/run", "R-DTERM-10")
async def _run(stage: Stage) -> None:
    """A command is run."""
    editor = stage.editor
    prompted = await editor.turn(await editor.new_session(), "terminal")
    await editor.line.settle()  # terminals may be released when the turn is over
    first: dict[str, Note] = {}
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
