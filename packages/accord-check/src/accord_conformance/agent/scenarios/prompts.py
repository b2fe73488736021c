"""Scenarios for turns: prompts, their cancellation, and work that goes on after a turn."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import NotJson, is_array, is_object, loads
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import (
    UNKNOWN_SESSION,
    Json,
    ScenarioClient,
    SentPrompt,
    text_block,
)
from accord_conformance.harness import (
    LoginRequired,
    NoResponse,
    NotExercised,
    PromptFailed,
    scenario,
)
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Frame, Notification, format_value

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
        got=sent.request.outcome,
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
        got=f"{sent.request.outcome}, {sent.stop_reason}, {error}",
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


PROMPTS = (
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


# Cancellation of turns and requests, also of those that have ended or never existed.

# How long a turn works before it is cancelled, in each try.
_WORKS_S = (0.0, 0.5, 1.0)
_TOO_SHORT = "the turn ended before it could be cancelled"


@scenario(
    "cancellation/turn",
    "R-CANCEL-04",
    "R-CANCEL-05",
    "R-CANCEL-06",
    "R-CANCEL-07",
    "R-CANCEL-08",
    "R-SESS-21",
)
async def _turn(context: AgentContext) -> None:
    """A turn is cancelled; another one ends because its session is closed."""
    client = context.client
    await _cancelled(context)
    if not client.supports("close"):
        return
    session = await client.new_session()
    sent = await _working(client, session)
    call = client.connection.send_request("session/close", {"sessionId": session})
    for asked in client.pending_permissions(session):
        client.answer_cancelled(asked)
    if await context.expect_success(
        "R-SESS-21", client, call, why="closing a session during its turn"
    ):
        if context.version == 1:
            # Both are responses, and no rule defines their order.
            await client.wait_for_optional(
                lambda: sent.is_over, "end", within_s=context.settings.answer
            )
        ended = sent.is_over and is_object(call.result)
        context.judge(
            "R-SESS-21",
            ended,
            sent.request,
            call,
            expected="the end of the turn, and an object as the result",
            got="the response, and a turn that continues" if call.ok else call.outcome,
        )


async def _cancelled(context: AgentContext) -> None:
    """Judge the end of a cancelled turn; try again if the messages may have crossed."""
    ends: list[SentPrompt] = []
    cancel: Frame | None = None
    for works_s in _WORKS_S:
        try:
            sent, cancel = await _cancel(context, works_s)
        except NotExercised:
            if not ends:
                raise
            return  # the turn is shorter
        late = not sent.is_over
        if late and not await _ends(context, sent, cancel):
            return
        if sent.stop_reason == "cancelled":
            return
        ends.append(sent)
        if late:
            break  # the messages did not cross
    failed = all(not one.request.ok or one.stop_reason == "error" for one in ends)
    rules = ("R-CANCEL-06", "R-CANCEL-08") if failed else ("R-CANCEL-05", "R-CANCEL-07")
    reasons = dict.fromkeys(one.stop_reason or one.request.outcome for one in ends)
    context.judge(
        rules[context.version - 1],
        False,
        cancel,
        *ends[-1].evidence,
        expected="the stop reason cancelled",
        got=f"{' and '.join(reasons)}, {_in_turns(len(ends))} working when cancelled",
    )


def _in_turns(number: int) -> str:
    return "in a turn that was" if number == 1 else f"in {number} turns that were"


async def _ends(context: AgentContext, sent: SentPrompt, cancel: Frame) -> bool:
    """Wait for a turn that continues after its cancel; judge a turn that does not end."""
    settings = context.settings
    ended = await context.client.wait_for_optional(
        lambda: sent.is_over, "end", within_s=settings.timeout
    )
    if not ended:
        context.judge(
            ("R-CANCEL-05", "R-CANCEL-07")[context.version - 1],
            False,
            sent.request,
            cancel,
            expected="the end of the turn, with the stop reason cancelled",
            got=f"no end, {settings.answer + settings.timeout:g} s after the cancel",
        )
    return ended


async def _cancel(context: AgentContext, works_s: float) -> tuple[SentPrompt, Frame]:
    """Cancel a turn after this time; return the turn and the frame of the cancel."""
    client = context.client
    session = await client.new_session()
    sent = await _working(client, session)
    if works_s and await client.wait_for_optional(lambda: sent.is_over, "end", within_s=works_s):
        raise NotExercised(_TOO_SHORT)
    cancel = client.cancel(session)
    ended = await client.wait_for_optional(
        lambda: sent.is_over, "end", within_s=context.settings.answer
    )
    context.judge(
        "R-CANCEL-04",
        ended,
        sent.request,
        expected=f"the end of the cancelled turn within {context.settings.answer:g} s",
        got="none",
    )
    return sent, cancel


@scenario("cancellation/no-turn", "R-CANCEL-12")
async def _nothing(context: AgentContext) -> None:
    """A session without a turn and an unknown session are cancelled."""
    client = context.client
    session = await client.new_session()
    began = len(client.connection.observer.state.frames)
    client.cancel(session)
    client.connection.send_notification("session/cancel", {"sessionId": UNKNOWN_SESSION})
    await client.connection.sync()
    answers = strays(client, began)
    sent = await client.run_turn(session, "text")
    context.judge(
        "R-CANCEL-12",
        not answers and sent.stop_reason != "cancelled",
        *answers,
        *sent.evidence,
        expected="no response, and a next turn that is not cancelled",
        got="a response" if answers else f"the stop reason {sent.stop_reason}",
    )


@scenario("cancellation/request", "R-REQCAN-13", versions=(1,))
async def _request(context: AgentContext) -> None:
    """A prompt is cancelled by `$/cancel_request` during its turn."""
    client = context.client
    session = await client.new_session()
    sent = await _working(client, session)
    client.connection.send_notification("$/cancel_request", {"requestId": sent.request.id})
    await client.wait_for_optional(lambda: sent.is_over, "end", within_s=context.settings.answer)
    if not sent.is_over:
        client.cancel(session)
        await sent.wait_for_end(within_s=context.settings.answer)
        raise NotExercised("the agent does not support `$/cancel_request`")
    context.judge(
        "R-REQCAN-13",
        sent.request.ok or sent.request.code == -32800,
        sent.request,
        expected="-32800, or the stop reason cancelled",
        got=sent.request.outcome,
    )


@scenario("cancellation/late", "R-REQCAN-06")
async def _late(context: AgentContext) -> None:
    """Requests that are already answered, or never existed, are cancelled."""
    client = context.client
    await client.new_session()
    began = len(client.connection.observer.state.frames)
    unknown: tuple[Any, ...] = (1, 999_999, "accord-unknown")
    for ident in unknown:
        client.connection.send_notification("$/cancel_request", {"requestId": ident})
    call = client.connection.send_request("session/new", client.setup_params())
    why = "a request after cancels of other requests"
    if await context.expect_success("R-REQCAN-06", client, call, why=why):
        answers = strays(client, began)
        context.judge(
            "R-REQCAN-06",
            not answers,
            *answers,
            expected="no response to the cancel of a finished request",
            got="a response",
        )


async def _working(client: ScenarioClient, session: str) -> SentPrompt:
    """Return a turn in progress; raise `NotExercised` if it ends too soon."""
    sent = client.prompt_for(session, "long")
    if client.version == 2:
        await client.connection.wait_for_response(sent.request, within_s=client.settings.timeout)
    await client.wait_for_optional(lambda: bool(sent.updates()) or sent.is_over, "sign of work")
    await client.connection.sync()
    client.require_accepted(sent)
    if sent.is_over:
        raise NotExercised(_TOO_SHORT)
    return sent


def strays(client: ScenarioClient, began: int) -> list[Frame]:
    """Return the agent's responses without a request, from a frame on."""
    responses: list[Frame] = []
    for frame in client.connection.observer.state.frames[began:]:
        if frame.sender != "agent":
            continue
        try:
            value = loads(frame.text)
        except NotJson:
            continue
        if is_object(value) and "method" not in value and value.get("id") is None:
            responses.append(frame)
    return responses


CANCELLATION = (_turn, _nothing, _request, _late)


# Background work, cancellation of single tool calls, and subagents.

_FINAL = ("completed", "failed", "cancelled")


@scenario("background/work", "R-BGW-08", "R-TCAN-04", versions=(2,))
async def _in_background(context: AgentContext) -> None:
    """Work continues after the turn and after a cancel, and is cancelled individually."""
    client = context.client
    session = await client.new_session()
    await client.run_turn(session, "background")
    items = _background(client, session)
    if not items:
        raise NotExercised("the agent reported no background work")
    item = items[0]
    client.cancel(session)
    await client.connection.sync()
    context.judge(
        "R-BGW-08",
        not _ended(client, session, item),
        *_ended(client, session, item),
        expected="background work that continues after `session/cancel`",
        got="a final status",
    )
    if _ended(client, session, item):
        return
    kind = item.get("type")
    if kind == "tool_call":
        method, params = "tool_call/cancel", {"toolCallId": item.get("toolCallId")}
    elif kind == "terminal":
        method, params = "terminal/cancel", {"terminalId": item.get("terminalId")}
    else:
        raise NotExercised(f"work of the type {kind} cannot be cancelled individually")
    call = await client.connection.call(method, {"sessionId": session, **params})
    if call.ok:
        await _expect_end(context, client, session, item)


@scenario("background/cancel-unknown", "R-TCAN-05", versions=(2,))
async def _nothing_to_cancel(context: AgentContext) -> None:
    """Unknown tool calls and terminals are cancelled."""
    session = await context.client.new_session()
    for method, key in (("tool_call/cancel", "toolCallId"), ("terminal/cancel", "terminalId")):
        call = await context.client.connection.call(
            method, {"sessionId": session, key: "accord-unknown"}
        )
        if call.ok:  # errors are observed
            context.judge(
                "R-TCAN-05", False, call, expected=f"-32602 from {method}", got="a result"
            )


@scenario("background/cancel-tool-call", "R-TCAN-04", "R-TCAN-06", versions=(2,))
async def _tool_cancel(context: AgentContext) -> None:
    """A tool call is cancelled individually, during a turn."""
    client = context.client
    session = await client.new_session()
    sent = client.prompt_for(session, "tool_cancel")
    state = client.connection.observer.state

    def cancellable() -> list[str]:
        tools = state.sessions[session].tools if session in state.sessions else {}
        return [
            ident
            for ident, tool in tools.items()
            if tool.cancellable and tool.fields.get("status") not in _FINAL
        ]

    await client.wait_for_optional(lambda: bool(cancellable()) or sent.is_over, "tool call")
    if not cancellable():
        raise NotExercised("no tool call could be cancelled individually")
    ident = cancellable()[0]
    states = len(sent.states())
    call = await client.connection.call(
        "tool_call/cancel", {"sessionId": session, "toolCallId": ident}
    )
    if not call.ok:
        raise NotExercised(f"the tool call was not cancelled: {call.outcome}")
    answered = call.response.frame.number if call.response else 0
    early = [
        note
        for note, update in sent.states()[states:]
        if note.frame.number < answered and update.get("stopReason") == "cancelled"
    ]
    context.judge(
        "R-TCAN-06",
        not early,
        call,
        *early,
        expected="an unchanged session state",
        got="an idle state with the stop reason cancelled",
    )
    await _expect_end(context, client, session, {"type": "tool_call", "toolCallId": ident})
    if not sent.is_over:
        client.cancel(session)
    await sent.wait_for_end()


@scenario("background/subagent", "R-SUBAG-07", "R-SUBAG-08")
async def _subagent(context: AgentContext) -> None:
    """A subagent works in a session of its own."""
    client = context.client
    session = await client.new_session()
    sent = await client.run_turn(session, "subagent")
    reports = sent.updates("subagent_update")
    named = (update.get("sessionId") for _, update in reports)
    children = {ident for ident in named if isinstance(ident, str)}
    if not children:
        raise NotExercised("the agent reported no subagent")
    mirrored = [
        (update.get("sessionId"), update["state"].get("state"))
        for _, update in reports
        if is_object(update.get("state"))
    ]
    if context.version == 1:
        wrong = [note for note in client.connection.notifications if _is_state(note, children)]
        context.judge(
            "R-SUBAG-08",
            not wrong and bool(mirrored),
            *wrong,
            *(note for note, _ in reports[:1]),
            expected="the state of a child only in `subagent_update`",
            got="a `state_update`" if wrong else "no state",
        )
        return
    for child in children:
        for note, update in client.updates(str(child), "state_update"):
            context.judge(
                "R-SUBAG-07",
                (child, update.get("state")) in mirrored,
                note,
                expected=f"the state {update.get('state')} in a `subagent_update`, too",
                got=f"{[state for ident, state in mirrored if ident == child]}",
            )


def _is_state(note: Notification, children: set[Any]) -> bool:
    return note.session_id in children and update_of(note).get("sessionUpdate") == "state_update"


def _background(client: ScenarioClient, session: str) -> list[Json]:
    """Return the work in the last state update."""
    states = client.updates(session, "state_update")
    items = states[-1][1].get("background") if states else None
    return [item for item in items if is_object(item)] if is_array(items) else []


def _ended(client: ScenarioClient, session: str, item: Json) -> list[Notification]:
    """Return the updates that report the end of some work."""
    key = "terminalId" if item.get("type") == "terminal" else "toolCallId"
    return [
        note
        for note, update in client.updates(session, "tool_call_update", "terminal_update")
        if update.get(key) == item.get(key)
        and (update.get("status") in _FINAL or is_object(update.get("exitStatus")))
    ]


async def _expect_end(
    context: AgentContext, client: ScenarioClient, session: str, item: Json
) -> None:
    ended = await client.wait_for_optional(
        lambda: bool(_ended(client, session, item)), "end", within_s=context.settings.answer
    )
    calls = [
        call for call in client.connection.observer.state.requests if call.session_id == session
    ]
    context.judge(
        "R-TCAN-04",
        ended,
        *calls[-1:],
        expected="an update with its final status",
        got=f"none in {context.settings.answer:g} s",
    )


BACKGROUND = (_in_background, _nothing_to_cancel, _tool_cancel, _subagent)
