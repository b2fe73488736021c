"""Sessions that are opened again: with their history, without it, and as forks."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.client import Json, ScenarioClient, SentPrompt
from accord_conformance.agent.context import AgentContext
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Notification
from accord_conformance.traffic.strict_types import format_value

__all__ = ("SCENARIOS",)

_MINE = ("user_message", "user_message_chunk")
_ITS = ("agent_message", "agent_message_chunk")


@scenario("opening/replay", "R-SESS-08", "R-SESS-10", "R-SESS-14", "R-SESS-15")
async def _replay(stage: AgentContext) -> None:
    """A session with a turn is opened again, with its history."""
    editor = stage.client
    if stage.version == 1:
        editor.require("load")
    session, prompted = await _told(editor)
    before = len(editor.connection.notifications)
    call = await editor.reopen_session(session, replay=True)
    if not call.ok:
        raise NotExercised(f"the session was not opened again: error {call.code}")
    replayed = _replayed(
        editor, session, before, call.response.frame.number if call.response else 0
    )
    mine = [item for item in replayed if item[1].get("sessionUpdate") in _MINE]
    asked = stage.settings.prompt("text")
    whole = asked in _words_of(mine) and (
        not _words_of(prompted.updates(*_ITS))
        or bool(_words_of([item for item in replayed if item[1].get("sessionUpdate") in _ITS]))
    )
    stage.judge(
        "R-SESS-08" if stage.version == 1 else "R-SESS-14",
        whole,
        prompted.request,
        call,
        expected="the prompt, and what the agent said to it, before the answer",
        got=f"updates: {len(replayed)}; words of the user in them: {format_value(_words_of(mine))}",
    )
    if stage.version == 1:
        _unique(stage, replayed)
        return
    ident = prompted.request.result.get("messageId") if is_object(prompted.request.result) else None
    if mine:
        ids = [update.get("messageId") for _, update in mine]
        stage.judge(
            "R-SESS-15",
            ident in ids,
            prompted.request,
            *(note for note, _ in mine),
            expected=f"the message id {ident!r} that it had",
            got=f"{ids!r}",
        )


def _unique(stage: AgentContext, replayed: list[tuple[Notification, Json]]) -> None:
    """Judge that no message has the id of another, of another side or after another."""
    seen: dict[str, str] = {}
    last = None
    for note, update in replayed:
        ident, kind = update.get("messageId"), str(update.get("sessionUpdate"))
        if not isinstance(ident, str) or kind not in (*_MINE, *_ITS, "agent_thought_chunk"):
            continue
        stage.judge(
            "R-SESS-10",
            seen.get(ident) in (None, kind) and (ident not in seen or last == ident),
            note,
            expected="an id for each message",
            got=f"{ident!r} of another message",
        )
        seen[ident], last = kind, ident


@scenario("opening/resume")
async def _resume(stage: AgentContext) -> None:
    """A session with a turn is opened again, without its history, and goes on."""
    editor = stage.client
    if stage.version == 1:
        editor.require("resume")
    session, _ = await _told(editor)
    call = await editor.reopen_session(session, replay=False)
    if call.ok:
        await editor.run_turn(session, "text")


@scenario("opening/cursor", versions=(2,))
async def _cursor(stage: AgentContext) -> None:
    """A session is opened again from where nobody knows, which is refused."""
    session, _ = await _told(stage.client)
    for cursor in ({"type": "_accord_nowhere"}, "start"):
        await stage.client.reopen_session(session, replay=False, replayFrom=cursor)


@scenario("opening/fork", "R-SESS-25")
async def _fork(stage: AgentContext) -> None:
    """A session with a turn is forked, and the fork goes on; the session is as it was."""
    editor = stage.client
    editor.require("fork")
    session = await editor.new_session()
    await editor.run_turn(session, "text")
    call = await editor.open_session("session/fork", editor.setup_params(sessionId=session))
    if not call.ok or not is_object(call.result):
        raise NotExercised(f"the agent did not fork the session: error {call.code}")
    ident = call.result.get("sessionId")
    stage.judge(
        "R-SESS-25",
        isinstance(ident, str) and ident != session,
        call,
        expected="an id of its own for the fork",
        got="that of the session" if ident == session else format_value(ident),
    )
    if not isinstance(ident, str) or ident == session:
        return
    await editor.run_turn(ident, "text")
    before = len(editor.connection.notifications)
    again = await editor.reopen_session(session, replay=True)
    replayed = _replayed(
        editor, session, before, again.response.frame.number if again.response else 0
    )
    mine = [item for item in replayed if item[1].get("sessionUpdate") in _MINE]
    times = _words_of(mine).count(stage.settings.prompt("text"))
    if again.ok and times:
        stage.judge(
            "R-SESS-25",
            times == 1,
            call,
            again,
            expected="the history of the session as it was before the fork",
            got=f"{times} prompts",
        )


@scenario("opening/unknown", "R-SESS-37")
async def _unknown(stage: AgentContext) -> None:
    """A session that there is not is opened again."""
    editor = stage.client
    if stage.version == 1:
        editor.require("load")
    await editor.new_session()
    call = await editor.reopen_session("accord-unknown-session", replay=True)
    stage.judge(
        "R-SESS-37",
        call.code == -32002,
        call,
        expected="-32002 for a session that there is not",
        got="a result" if call.ok else f"error {call.code}",
    )


async def _told(editor: ScenarioClient) -> tuple[str, SentPrompt]:
    """Return a session that had a turn, closed if that can be."""
    session = await editor.new_session()
    prompted = await editor.run_turn(session, "text")
    if editor.supports("close"):
        await editor.close_session(session)
    return session, prompted


def _replayed(
    editor: ScenarioClient, session: str, before: int, answered: int
) -> list[tuple[Notification, Json]]:
    """Return what was told between two moments."""
    late = {id(note) for note in editor.connection.notifications[before:]}
    return [
        (note, update)
        for note, update in editor.updates(session)
        if id(note) in late and note.frame.number < answered
    ]


def _words_of(updates: list[tuple[Notification, Json]]) -> str:
    """Return the text of messages and chunks."""
    words: list[str] = []
    for _, update in updates:
        content = update.get("content")
        blocks: list[Any] = content if is_array(content) else [content]
        found = [block.get("text") for block in blocks if is_object(block)]
        words += [text for text in found if isinstance(text, str)]
    return "".join(words)


SCENARIOS = (_replay, _resume, _cursor, _fork, _unknown)
