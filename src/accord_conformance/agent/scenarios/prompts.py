"""Turns: what goes into a prompt, what comes of it, and when it is over."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.client import Json, SentPrompt, text_block
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import Advisory, LoginRequired, NotExercised, scenario

__all__ = ("SCENARIOS",)

_LATE_S = 1.0
_WORK = ("agent_message_chunk", "agent_message", "agent_thought_chunk", "tool_call")
# One pixel, and no sound at all.
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)
_DEAD = (
    "Hardly a turn can be checked like this. See that the agent has all it needs, as the key of"
    " its model, which may stand in the environment or under `[env]` in the settings."
)
_SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="


@scenario("prompts/text", "R-PROMPT-03", "R-PROMPT-12", "R-MSG-03")
async def _words(stage: AgentContext) -> None:
    """Two turns in words, one after the other."""
    editor = stage.client
    session = await editor.new_session()
    first = editor.prompt_for(session, "text")
    if stage.version == 2:
        await _idle(stage, first)
    else:
        await first.wait_for_end()
    try:
        editor.require_accepted(first)
    except LoginRequired:
        raise
    except NotExercised as refused:
        raise Advisory(
            f"plain words came to nothing: {refused}", _DEAD, first.request, is_failure=True
        ) from None
    if stage.version == 1:
        # Whoever answers too soon says something later.
        await editor.wait_for_optional(
            lambda: bool(first.updates(*_WORK)), "work", within_s=_LATE_S
        )
        await editor.connection.sync()
        answered = first.request.response.frame.number if first.request.response else 0
        work = first.updates(*_WORK)
        late = [note for note, _ in work if note.frame.number > answered]
        if work:
            stage.judge(
                "R-PROMPT-03",
                not late,
                first.request,
                *late[:3],
                expected="the answer to the prompt after its work",
                got=f"updates after it: {len(late)}",
            )
    second = await editor.run_turn(session, "text")
    _message_ids(stage, first, second)


async def _idle(stage: AgentContext, prompted: SentPrompt) -> None:
    """Judge that a turn comes to its end; who still works is not blamed for being slow."""
    line = stage.client.connection
    try:
        await prompted.wait_for_end()
    except NoResponse as silence:
        last = line.observer.state.frames[-1]
        quiet = (
            line.notifications
            and last.time - line.notifications[-1].frame.time > stage.settings.timeout / 2
        )
        if not line.is_closed and prompted.is_inserted and (quiet or prompted.updates(*_WORK)):
            stage.judge(
                "R-PROMPT-12",
                False,
                prompted.request,
                *(note for note, _ in prompted.updates()[-2:]),
                expected="an idle state when nothing is left to do",
                got=str(silence),
            )
        raise
    if prompted.is_inserted:
        stage.judge("R-PROMPT-12", True)


def _message_ids(stage: AgentContext, first: SentPrompt, second: SentPrompt) -> None:
    """Judge that a message of one turn has no id of the other's, nor of another kind's."""
    owners: dict[str, tuple[int, str]] = {}
    kinds = ("user_message", "agent_message", "agent_thought")
    for number, prompted in enumerate((first, second)):
        for note, update in prompted.updates():
            if number == 0 and note.frame.number > second.request.frame.number:
                continue
            kind = str(update.get("sessionUpdate")).removesuffix("_chunk")
            ident = update.get("messageId")
            if kind not in kinds or not isinstance(ident, str):
                continue
            owner = owners.setdefault(ident, (number, kind))
            stage.judge(
                "R-MSG-03",
                owner == (number, kind),
                note,
                expected="an id of its own for each message",
                got=f"{ident!r}, which another message has",
            )


@scenario("prompts/link", "R-INIT-24")
async def _link(stage: AgentContext) -> None:
    """A prompt has a text, and a link to a file."""
    editor = stage.client
    note = stage.folder / "note.txt"
    note.write_text("The word is quince.\n", "utf-8")
    session = await editor.new_session()
    words = stage.settings.prompt("text")
    linked = {"type": "resource_link", "name": "note.txt", "uri": note.as_uri()}
    prompted = editor.prompt(session, words, linked)
    await prompted.wait_for_end()
    if not prompted.request.ok and prompted.request.code != -32602:
        editor.require_accepted(prompted)
    stage.judge(
        "R-INIT-24",
        prompted.request.ok,
        prompted.request,
        expected="a turn with a text and a link",
        got=describe_outcome(prompted.request),
    )


@scenario("prompts/media")
async def _media(stage: AgentContext) -> None:
    """A prompt has the media that the agent offers to take."""
    editor = stage.client
    blocks: list[Json] = []
    if editor.supports("images"):
        blocks.append({"type": "image", "data": _PIXEL, "mimeType": "image/png"})
    if editor.supports("sounds"):
        blocks.append({"type": "audio", "data": _SOUND, "mimeType": "audio/wav"})
    if editor.supports("resources"):
        inner = {"uri": "file:///note.txt", "text": "hello", "mimeType": "text/plain"}
        blocks.append({"type": "resource", "resource": inner})
    if not blocks:
        raise NotExercised("the agent takes text and links alone")
    session = await editor.new_session()
    await editor.prompt(session, stage.settings.prompt("text"), *blocks).wait_for_end()


@scenario("prompts/refused", "R-EXT-12", "R-PROMPT-19", versions=(2,))
async def _refused(stage: AgentContext) -> None:
    """Prompts that cannot be taken leave nothing behind."""
    editor = stage.client
    session = await editor.new_session()
    odd: list[tuple[str, Json]] = [
        ("text without text", {"type": "text"}),
        ("text that is a number", {"type": "text", "text": 5}),
        ("a block of unknown type", {"type": "_accord"}),
    ]
    if not editor.supports("images"):
        image = {"type": "image", "data": _PIXEL, "mimeType": "image/png"}
        odd.append(("an image, which is not offered", image))
    for why, block in odd:
        prompted = editor.prompt(session, block)
        await prompted.wait_for_end()
        if block["type"] == "text":
            await stage.expect_error("R-EXT-12", editor, prompted.request, (-32602,), why=why)
        if prompted.request.ok:
            continue
        await editor.connection.sync()
        inserted = prompted.updates("user_message", "user_message_chunk")
        stage.judge(
            "R-PROMPT-19",
            not inserted,
            prompted.request,
            *(note for note, _ in inserted),
            expected="no message of a prompt that was refused",
            got="a message of the user",
        )


@scenario("prompts/malformed", "R-GEN-11")
async def _malformed(stage: AgentContext) -> None:
    """Prompts that are none."""
    editor = stage.client
    session = await editor.new_session()
    odd: dict[str, Any] = {
        "a prompt that is a text": {"sessionId": session, "prompt": "hello"},
        "no prompt": {"sessionId": session},
        "a session id that is a number": {"sessionId": 5, "prompt": [text_block("hello")]},
    }
    for why, params in odd.items():
        call = editor.connection.send_request("session/prompt", params)
        await stage.expect_error("R-GEN-11", editor, call, (-32602,), why=why)


@scenario("prompts/tool", "R-TOOL-02", "R-TOOL-13")
async def _tool(stage: AgentContext) -> None:
    """A turn with tool calls, and another one: the observer looks at their ids."""
    editor = stage.client
    session = await editor.new_session()
    prompted = await editor.run_turn(session, "tool")
    calls = prompted.updates("tool_call", "tool_call_update")
    if not calls:
        raise NotExercised("the agent made no tool call")
    first: dict[str, tuple[Any, Any]] = {}
    for note, update in calls:
        ident, name = str(update.get("toolCallId")), update.get("name")
        began, known = first.setdefault(ident, (note, name))
        if name is not None:
            stage.judge(
                "R-TOOL-13",
                known is not None,
                began,
                note,
                expected="the name in the first report of the tool call",
                got=f"{name!r} later",
            )
    await editor.run_turn(session, "tool")


@scenario("prompts/command", "R-PROMPT-35")
async def _command(stage: AgentContext) -> None:
    """A slash command runs through the states of any other turn."""
    editor = stage.client
    session = await editor.new_session()
    prompted = await editor.run_turn(session, "command")
    states = [update.get("state") for _, update in prompted.states()]
    stage.judge(
        "R-PROMPT-35",
        "running" in states and prompted.stop_reason == "end_turn",
        *prompted.evidence,
        expected="running, and idle with end_turn",
        got=f"{states}, {prompted.stop_reason}",
    )


@scenario("prompts/fail", "R-PROMPT-28", versions=(2,))
async def _fail(stage: AgentContext) -> None:
    """Work fails after the prompt was inserted."""
    editor = stage.client
    session = await editor.new_session()
    prompted = editor.prompt_for(session, "fail")
    await prompted.wait_for_end()
    if prompted.stop_reason not in (None, "error"):
        raise NotExercised(f"the work stopped with {prompted.stop_reason}")
    error = prompted.states()[-1][1].get("error") if prompted.states() else None
    stage.judge(
        "R-PROMPT-28",
        prompted.request.ok and prompted.stop_reason == "error" and is_object(error),
        *prompted.evidence,
        expected="a successful answer, then idle with the stop reason error and `error`",
        got=f"{describe_outcome(prompted.request)}, {prompted.stop_reason}, {error}",
    )


@scenario("prompts/more")
async def _more(stage: AgentContext) -> None:
    """The further prompts of the settings, one after the other in one session."""
    editor, prompts = stage.client, stage.settings.more
    if not prompts:
        raise NotExercised("the settings have no further prompts (`more`)")
    session = await editor.new_session()
    for words in prompts:
        prompted = editor.prompt(session, words)
        await prompted.wait_for_end()
        editor.require_accepted(prompted)


@scenario("prompts/held", "R-PROMPT-27", "R-CANCEL-13", versions=(2,))
async def _held(stage: AgentContext) -> None:
    """Prompts wait for a turn to end, and are withdrawn, cancelled and closed."""
    editor = stage.client
    session = await editor.new_session()
    long = editor.prompt_for(session, "long")
    await editor.connection.wait_for_response(long.request, within_s=stage.settings.timeout)
    editor.require_accepted(long)
    waiting = await _waits(stage, session, long)
    editor.connection.send_notification("$/cancel_request", {"requestId": waiting.request.id})
    withdrawn, within_s = waiting.request, stage.settings.answer
    # An agent may ignore the notification (R-REQCAN-01), and hold the prompt on.
    if await editor.wait_for_optional(
        lambda: withdrawn.response is not None, "answer", within_s=within_s
    ):
        why = "a held prompt that is withdrawn"
        await stage.expect_error("R-PROMPT-27", editor, withdrawn, (-32800,), why=why)
        waiting = await _waits(stage, session, long)
    editor.cancel(session)
    why = "a prompt that was not inserted when the session was cancelled"
    await stage.expect_error("R-CANCEL-13", editor, waiting.request, (-32800,), why=why)
    await long.wait_for_end(within_s=stage.settings.answer)
    long = editor.prompt_for(session, "long")
    await editor.connection.wait_for_response(long.request, within_s=stage.settings.timeout)
    waiting = await _waits(stage, session, long)
    editor.connection.send_request("session/close", {"sessionId": session})
    why = "a held prompt of a session that is closed"
    await stage.expect_error("R-PROMPT-27", editor, waiting.request, (-32800,), why=why)


async def _waits(stage: AgentContext, session: str, long: SentPrompt) -> SentPrompt:
    """Return a prompt that the agent holds; raise `NotExercised`."""
    waiting = stage.client.prompt_for(session, "text")
    await stage.client.connection.sync()
    if waiting.request.response is not None:
        raise NotExercised("the agent does not hold prompts")
    if long.is_over:
        raise NotExercised("the turn was over too soon")
    return waiting


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
