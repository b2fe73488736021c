"""Turns: the prompt, its effects, and its end."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenario_client import Json, SentPrompt, text_block
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import (
    LoginRequired,
    NotExercised,
    PromptFailed,
    scenario,
)
from accord_conformance.traffic.strict_types import format_value

_LATE_S = 1.0
_WORK = ("agent_message_chunk", "agent_message", "agent_thought_chunk", "tool_call")
# One pixel, and an empty sound.
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)
_SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="


@scenario("prompts/text", "R-PROMPT-03", "R-PROMPT-12", "R-MSG-03")
async def _words(context: AgentContext) -> None:
    """Two turns with text, one after the other."""
    client = context.client
    session = await client.new_session()
    first = client.prompt_for(session, "text")
    if context.version == 2:
        await _idle(context, first)
    else:
        await first.wait_for_end()
    try:
        client.require_accepted(first)
    except LoginRequired:
        raise
    except NotExercised as refused:
        raise PromptFailed(str(refused)) from None
    if first.stop_reason == "error":
        error = first.states()[-1][1].get("error")
        raise PromptFailed(f"the work on the prompt failed: {format_value(error)}")
    client.turns.append(first)
    if context.version == 1:
        # An agent that responds too soon sends updates later.
        await client.wait_for_optional(
            lambda: bool(first.updates(*_WORK)), "work", within_s=_LATE_S
        )
        await client.connection.sync()
        answered = first.request.response.frame.number if first.request.response else 0
        work = first.updates(*_WORK)
        late = [note for note, _ in work if note.frame.number > answered]
        if work:
            context.judge(
                "R-PROMPT-03",
                not late,
                first.request,
                *late[:3],
                expected="the response to the prompt after all updates of its turn",
                got=f"{len(late)} updates after it",
            )
    second = await client.run_turn(session, "text")
    _message_ids(context, first, second)


async def _idle(context: AgentContext, sent: SentPrompt) -> None:
    """Judge that a turn ends; an agent that still works is not judged."""
    connection = context.client.connection
    try:
        await sent.wait_for_end()
    except NoResponse as silence:
        last = connection.observer.state.frames[-1]
        quiet = (
            connection.notifications
            and last.time - connection.notifications[-1].frame.time > context.settings.timeout / 2
        )
        if not connection.is_closed and sent.is_inserted and (quiet or sent.updates(*_WORK)):
            context.judge(
                "R-PROMPT-12",
                False,
                sent.request,
                *(note for note, _ in sent.updates()[-2:]),
                expected="an idle state when the work has ended",
                got=str(silence),
            )
        raise
    if sent.is_inserted:
        context.judge("R-PROMPT-12", True)


def _message_ids(context: AgentContext, first: SentPrompt, second: SentPrompt) -> None:
    """Judge that messages of two turns, and of different kinds, have different ids."""
    owners: dict[str, tuple[int, str]] = {}
    kinds = ("user_message", "agent_message", "agent_thought")
    for number, sent in enumerate((first, second)):
        for note, update in sent.updates():
            if number == 0 and note.frame.number > second.request.frame.number:
                continue
            kind = str(update.get("sessionUpdate")).removesuffix("_chunk")
            ident = update.get("messageId")
            if kind not in kinds or not isinstance(ident, str):
                continue
            owner = owners.setdefault(ident, (number, kind))
            context.judge(
                "R-MSG-03",
                owner == (number, kind),
                note,
                expected="a different id for each message",
                got=f"{ident!r}, which another message already has",
            )


@scenario("prompts/link", "R-INIT-24")
async def _link(context: AgentContext) -> None:
    """The client sends a prompt with a text and a link to a file."""
    client = context.client
    note = context.folder / "note.txt"
    note.write_text("The word is quince.\n", "utf-8")
    session = await client.new_session()
    words = context.settings.prompt("text")
    linked = {"type": "resource_link", "name": "note.txt", "uri": note.as_uri()}
    sent = client.prompt(session, words, linked)
    await sent.wait_for_end()
    if not sent.request.ok and sent.request.code != -32602:
        client.require_accepted(sent)
    context.judge(
        "R-INIT-24",
        sent.request.ok,
        sent.request,
        expected="a result for a prompt with a text and a link",
        got=describe_outcome(sent.request),
    )


@scenario("prompts/media")
async def _media(context: AgentContext) -> None:
    """The client sends a prompt with the media that the agent supports."""
    client = context.client
    blocks: list[Json] = []
    if client.supports("images"):
        blocks.append({"type": "image", "data": _PIXEL, "mimeType": "image/png"})
    if client.supports("audio"):
        blocks.append({"type": "audio", "data": _SOUND, "mimeType": "audio/wav"})
    if client.supports("resources"):
        inner = {"uri": "file:///note.txt", "text": "hello", "mimeType": "text/plain"}
        blocks.append({"type": "resource", "resource": inner})
    if not blocks:
        raise NotExercised("the agent supports only text and links")
    session = await client.new_session()
    sent = client.prompt(session, context.settings.prompt("text"), *blocks)
    await sent.wait_for_end()
    client.require_accepted(sent)


@scenario("prompts/refused", "R-EXT-12", "R-PROMPT-19", versions=(2,))
async def _refused(context: AgentContext) -> None:
    """Invalid prompts leave no message in the session."""
    client = context.client
    session = await client.new_session()
    odd: list[tuple[str, Json]] = [
        ("a text block without `text`", {"type": "text"}),
        ("a text block whose `text` is a number", {"type": "text", "text": 5}),
        ("a block of unknown type", {"type": "_accord"}),
    ]
    if not client.supports("images"):
        image = {"type": "image", "data": _PIXEL, "mimeType": "image/png"}
        odd.append(("an image, which the agent does not advertise", image))
    for why, block in odd:
        sent = client.prompt(session, block)
        await sent.wait_for_end()
        if block["type"] == "text":
            await context.expect_error(
                "R-EXT-12", client, sent.request, (-32602,), why=why, code_authority="derived"
            )
        if sent.request.ok:
            continue
        await client.connection.sync()
        inserted = sent.updates("user_message", "user_message_chunk")
        context.judge(
            "R-PROMPT-19",
            not inserted,
            sent.request,
            *(note for note, _ in inserted),
            expected="no user message for a refused prompt",
            got="a user message",
        )


@scenario("prompts/malformed", "R-GEN-11")
async def _malformed(context: AgentContext) -> None:
    """Malformed prompts are refused."""
    client = context.client
    session = await client.new_session()
    odd: dict[str, Any] = {
        "a prompt that is a string": {"sessionId": session, "prompt": "hello"},
        "no prompt": {"sessionId": session},
    }
    if context.medium != "http":  # where requests name their session in a header
        odd["a session id that is a number"] = {"sessionId": 5, "prompt": [text_block("hello")]}
    for why, params in odd.items():
        call = client.connection.send_request("session/prompt", params)
        await context.expect_error(
            "R-GEN-11", client, call, (-32602,), why=why, authority="derived"
        )


@scenario("prompts/tool", "R-TOOL-02", "R-TOOL-13")
async def _tool(context: AgentContext) -> None:
    """Two turns with tool calls; the observer compares their ids."""
    client = context.client
    session = await client.new_session()
    sent = await client.run_turn(session, "tool")
    calls = sent.updates("tool_call", "tool_call_update")
    if not calls:
        raise NotExercised("the agent reported no tool call")
    first: dict[str, tuple[Any, Any]] = {}
    for note, update in calls:
        ident, name = str(update.get("toolCallId")), update.get("name")
        began, first_name = first.setdefault(ident, (note, name))
        if name is not None:
            context.judge(
                "R-TOOL-13",
                first_name is not None,
                began,
                note,
                expected="the name in the first report of the tool call",
                got=f"{name!r} later",
            )
    await client.run_turn(session, "tool")


@scenario("prompts/command", "R-PROMPT-35")
async def _command(context: AgentContext) -> None:
    """A slash command goes through the same states as any other turn."""
    client = context.client
    session = await client.new_session()
    sent = await client.run_turn(session, "command")
    states = [update.get("state") for _, update in sent.states()]
    context.judge(
        "R-PROMPT-35",
        "running" in states and sent.stop_reason == "end_turn",
        *sent.evidence,
        expected="the state running, then idle with end_turn",
        got=f"{states}, {sent.stop_reason}",
    )


@scenario("prompts/fail", "R-PROMPT-28", versions=(2,))
async def _fail(context: AgentContext) -> None:
    """The work fails after the prompt was inserted."""
    client = context.client
    session = await client.new_session()
    sent = client.prompt_for(session, "fail")
    await sent.wait_for_end()
    if sent.stop_reason not in (None, "error"):
        raise NotExercised(f"the work stopped with {sent.stop_reason}")
    error = sent.states()[-1][1].get("error") if sent.states() else None
    context.judge(
        "R-PROMPT-28",
        sent.request.ok and sent.stop_reason == "error" and is_object(error),
        *sent.evidence,
        expected="a result, then idle with the stop reason error and `error`",
        got=f"{describe_outcome(sent.request)}, {sent.stop_reason}, {error}",
    )


@scenario("prompts/additional")
async def _more(context: AgentContext) -> None:
    """The client sends the additional prompts of the settings, one after the other."""
    client, prompts = context.client, context.settings.more
    if not prompts:
        raise NotExercised("the settings have no additional prompts (`more`)")
    session = await client.new_session()
    for words in prompts:
        sent = client.prompt(session, words)
        await sent.wait_for_end()
        client.require_accepted(sent)


@scenario("prompts/held", "R-PROMPT-27", "R-CANCEL-13", versions=(2,))
async def _held(context: AgentContext) -> None:
    """Prompts that wait for a turn to end are cancelled in three ways."""
    client = context.client
    session = await client.new_session()
    long = client.prompt_for(session, "long")
    await client.connection.wait_for_response(long.request, within_s=context.settings.timeout)
    client.require_accepted(long)
    waiting = await _hold_prompt(context, session, long)
    client.connection.send_notification("$/cancel_request", {"requestId": waiting.request.id})
    withdrawn, within_s = waiting.request, context.settings.answer
    # An agent may ignore the notification (R-REQCAN-01), and keep holding the prompt.
    if await client.wait_for_optional(
        lambda: withdrawn.response is not None, "response", within_s=within_s
    ):
        await _wait_for_answer(context, long, waiting)
        why = "a held prompt that was cancelled"
        # The text also allows a result here.
        await context.expect_error(
            "R-PROMPT-27", client, withdrawn, (-32800,), why=why, authority="derived"
        )
        waiting = await _hold_prompt(context, session, long)
    client.cancel(session)
    why = "a prompt that was not inserted when the session was cancelled"
    await _wait_for_answer(context, long, waiting)
    # The schema demands this code for `session/close` only.
    await context.expect_error(
        "R-CANCEL-13", client, waiting.request, (-32800,), why=why, code_authority="derived"
    )
    await long.wait_for_end(within_s=context.settings.answer)
    long = client.prompt_for(session, "long")
    await client.connection.wait_for_response(long.request, within_s=context.settings.timeout)
    waiting = await _hold_prompt(context, session, long)
    client.connection.send_request("session/close", {"sessionId": session})
    await _wait_for_answer(context, long, waiting)
    why = "a held prompt of a closed session"
    await context.expect_error("R-PROMPT-27", client, waiting.request, (-32800,), why=why)


async def _hold_prompt(context: AgentContext, session: str, long: SentPrompt) -> SentPrompt:
    """Return a prompt that the agent holds; raise `NotExercised` if it does not."""
    waiting = context.client.prompt_for(session, "text")
    await context.client.connection.sync()
    if waiting.request.response is not None:
        raise NotExercised("the agent does not hold prompts")
    if long.is_over:
        raise NotExercised("the turn ended too soon")
    return waiting


async def _wait_for_answer(context: AgentContext, long: SentPrompt, waiting: SentPrompt) -> None:
    """Raise `NotExercised` if the turn failed first: then nothing held the prompt any more."""
    call = waiting.request
    within_s = context.settings.answer
    if not await context.client.wait_for_optional(
        lambda: call.response is not None, "response", within_s=within_s
    ):
        return  # which is judged as no response
    assert call.response is not None
    answered = call.response.frame.number
    if call.ok and any(
        update.get("stopReason") == "error" and note.frame.number < answered
        for note, update in long.states()
    ):
        raise NotExercised("the turn failed before the held prompt could be cancelled")


SCENARIOS = (
    _words,
    _link,
    _media,
    _refused,
    _malformed,
    _tool,
    _command,
    _fail,
    _more,
    _held,
)
