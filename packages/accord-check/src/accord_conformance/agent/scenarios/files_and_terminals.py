"""Files and commands, by the client's methods if it has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import SentPrompt
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Notification, Request

_WORD = "quince"


@scenario("files/read", "R-SESS-04")
async def _read(context: AgentContext) -> None:
    """The agent reads a file by its name in the session's directory."""
    client = context.client
    note = context.folder / "note.txt"
    note.write_text(f"The word is {_WORD}.\n", "utf-8")
    session = await client.new_session()
    sent = await client.run_turn(session, "file_read")
    elsewhere = _elsewhere(context, sent, note)
    if not elsewhere and _WORD not in sent.agent_text():
        raise NotExercised("the agent did not report the text of the file")
    context.judge(
        "R-SESS-04",
        not elsewhere,
        sent.request,
        *elsewhere,
        expected=f"{note}",
        got="the file of that name in another directory",
    )


def _elsewhere(context: AgentContext, sent: SentPrompt, note: Path) -> list[Request | Notification]:
    """Return messages with a note that is not in the session's directory."""
    messages: list[Request | Notification] = []
    for call in context.client.connection.requests:
        path = call.params.get("path") if is_object(call.params) else None
        if call.session_id == sent.session and _is_other(path, note):
            messages.append(call)
    for note_update, update in sent.updates("tool_call", "tool_call_update"):
        locations = update.get("locations")
        named: list[Any] = locations if is_array(locations) else []
        paths = [location.get("path") for location in named if is_object(location)]
        if any(_is_other(path, note) for path in paths):
            messages.append(note_update)
    return messages


def _is_other(path: object, note: Path) -> bool:
    if not isinstance(path, str) or Path(path).name != note.name:
        return False
    return Path(path).is_absolute() and Path(path).resolve() != note.resolve()


@scenario("files/write")
async def _write(context: AgentContext) -> None:
    """The agent writes a file."""
    client = context.client
    await client.run_turn(await client.new_session(), "file_write")


@scenario("terminals/run", "R-DTERM-10")
async def _run(context: AgentContext) -> None:
    """The agent runs a command."""
    client = context.client
    sent = await client.run_turn(await client.new_session(), "terminal")
    await client.connection.sync()  # terminals may be released after the turn
    first: dict[str, Notification] = {}
    for note, update in sent.updates("terminal_update", "terminal_output_chunk"):
        ident = str(update.get("terminalId"))
        began = first.setdefault(ident, note)
        if isinstance(update.get("command"), str):
            context.judge(
                "R-DTERM-10",
                began is note,
                began,
                note,
                expected="the command in the first update of the terminal",
                got="the command in a later update",
            )


SCENARIOS = (_read, _write, _run)
