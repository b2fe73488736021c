"""Loading, resuming and forking of sessions."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import (
    UNKNOWN_SESSION,
    Json,
    ScenarioClient,
    SentPrompt,
)
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Notification
from accord_conformance.traffic.strict_types import format_value

_USER_KINDS = ("user_message", "user_message_chunk")
_AGENT_KINDS = ("agent_message", "agent_message_chunk")


@scenario("reopening/replay", "R-SESS-08", "R-SESS-10", "R-SESS-14", "R-SESS-15")
async def _replay(context: AgentContext) -> None:
    """A session with a turn is loaded with its history."""
    client = context.client
    if context.version == 1:
        client.require("load")
    session, sent = await _closed_session(client)
    before = len(client.connection.notifications)
    call = await client.reopen_session(session, replay=True)
    if not call.ok:
        raise NotExercised(f"the session could not be opened again: error {call.code}")
    replayed = _replayed(
        client, session, before, call.response.frame.number if call.response else 0
    )
    user_updates = [item for item in replayed if item[1].get("sessionUpdate") in _USER_KINDS]
    asked = context.settings.prompt("text")
    whole = asked in _text_of(user_updates) and (
        not _text_of(sent.updates(*_AGENT_KINDS))
        or bool(
            _text_of([item for item in replayed if item[1].get("sessionUpdate") in _AGENT_KINDS])
        )
    )
    context.judge(
        "R-SESS-08" if context.version == 1 else "R-SESS-14",
        whole,
        sent.request,
        call,
        expected="the prompt and the agent's messages, before the response",
        got=f"{len(replayed)} updates, user text {format_value(_text_of(user_updates))}",
    )
    if context.version == 1:
        _unique(context, replayed)
        return
    ident = sent.request.result.get("messageId") if is_object(sent.request.result) else None
    if user_updates:
        ids = [update.get("messageId") for _, update in user_updates]
        context.judge(
            "R-SESS-15",
            ident in ids,
            sent.request,
            *(note for note, _ in user_updates),
            expected=f"the message id {ident!r} of the original message",
            got=f"{ids!r}",
        )


def _unique(context: AgentContext, replayed: list[tuple[Notification, Json]]) -> None:
    """Judge that messages of both sides have different ids."""
    kind_by_id: dict[str, str] = {}
    last = None
    for note, update in replayed:
        ident, kind = update.get("messageId"), str(update.get("sessionUpdate"))
        if not isinstance(ident, str) or kind not in (
            *_USER_KINDS,
            *_AGENT_KINDS,
            "agent_thought_chunk",
        ):
            continue
        context.judge(
            "R-SESS-10",
            kind_by_id.get(ident) in (None, kind) and (ident not in kind_by_id or last == ident),
            note,
            expected="a different id for each message",
            got=f"{ident!r} of another message",
        )
        kind_by_id[ident], last = kind, ident


@scenario("reopening/resume")
async def _resume(context: AgentContext) -> None:
    """A session with a turn is resumed without its history, and continues."""
    client = context.client
    if context.version == 1:
        client.require("resume")
    session, _ = await _closed_session(client)
    call = await client.reopen_session(session, replay=False)
    if call.ok:
        await client.run_turn(session, "text")


@scenario("reopening/cursor", versions=(2,))
async def _cursor(context: AgentContext) -> None:
    """The client resumes a session from an unknown position, which the agent must refuse."""
    session, _ = await _closed_session(context.client)
    for cursor in ({"type": "_accord_nowhere"}, "start"):
        await context.client.reopen_session(session, replay=False, replayFrom=cursor)


@scenario("reopening/fork", "R-SESS-25")
async def _fork(context: AgentContext) -> None:
    """A session with a turn is forked; the fork continues, and the session is unchanged."""
    client = context.client
    client.require("fork")
    session = await client.new_session()
    await client.run_turn(session, "text")
    call = await client.open_session("session/fork", client.setup_params(sessionId=session))
    if not call.ok or not is_object(call.result):
        raise NotExercised(f"the agent did not fork the session: error {call.code}")
    ident = call.result.get("sessionId")
    context.judge(
        "R-SESS-25",
        isinstance(ident, str) and ident != session,
        call,
        expected="a new id for the fork",
        got="the id of the source session" if ident == session else format_value(ident),
    )
    if not isinstance(ident, str) or ident == session:
        return
    await client.run_turn(ident, "text")
    before = len(client.connection.notifications)
    again = await client.reopen_session(session, replay=True)
    replayed = _replayed(
        client, session, before, again.response.frame.number if again.response else 0
    )
    user_updates = [item for item in replayed if item[1].get("sessionUpdate") in _USER_KINDS]
    times = _text_of(user_updates).count(context.settings.prompt("text"))
    if again.ok and times:
        context.judge(
            "R-SESS-25",
            times == 1,
            call,
            again,
            expected="an unchanged history of the source session",
            got=f"{times} prompts",
        )


@scenario("reopening/unknown", "R-SESS-37")
async def _unknown(context: AgentContext) -> None:
    """An unknown session is loaded or resumed."""
    client = context.client
    if context.version == 1:
        client.require("load")
    await client.new_session()
    call = await client.reopen_session(UNKNOWN_SESSION, replay=True)
    context.judge(
        "R-SESS-37",
        call.code == -32002,
        call,
        expected="-32002 for an unknown session",
        got="a result" if call.ok else f"error {call.code}",
    )


async def _closed_session(client: ScenarioClient) -> tuple[str, SentPrompt]:
    """Return a session with a turn, closed if the agent supports that."""
    session = await client.new_session()
    sent = await client.run_turn(session, "text")
    if client.supports("close"):
        await client.close_session(session)
    return session, sent


def _replayed(
    client: ScenarioClient, session: str, before: int, answered: int
) -> list[tuple[Notification, Json]]:
    """Return the updates between two frames."""
    late = {id(note) for note in client.connection.notifications[before:]}
    return [
        (note, update)
        for note, update in client.updates(session)
        if id(note) in late and note.frame.number < answered
    ]


def _text_of(updates: list[tuple[Notification, Json]]) -> str:
    """Return the text of messages and chunks."""
    texts: list[str] = []
    for _, update in updates:
        content = update.get("content")
        blocks: list[Any] = content if is_array(content) else [content]
        block_texts = [block.get("text") for block in blocks if is_object(block)]
        texts += [text for text in block_texts if isinstance(text, str)]
    return "".join(texts)


SCENARIOS = (_replay, _resume, _cursor, _fork, _unknown)
