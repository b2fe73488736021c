"""Turns: what goes into a prompt, what comes of it, and when it is over."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.client import Json, Prompted, text
from accord_conformance.agent.context import Stage, outcome_of
from accord_conformance.harness.raw_connection import Silence
from accord_conformance.harness.scenario import LoginWanted, NotExercised, Objection, scenario

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
async def _words(stage: Stage) -> None:
    """Two turns in words, one after the other."""
    editor = stage.editor
    session = await editor.new_session()
    first = editor.ask_for(session, "text")
    if stage.version == 2:
        await _idle(stage, first)
    else:
        await first.end()
    try:
        editor.taken(first)
    except LoginWanted:
        raise
    except NotExercised as refused:
        raise Objection(
            f"plain words came to nothing: {refused}", _DEAD, first.call, wrong=True
        ) from None
    if stage.version == 1:
        # Whoever answers too soon says something later.
        await editor.comes(lambda: bool(first.updates(*_WORK)), "work", within_s=_LATE_S)
        await editor.line.settle()
        answered = first.call.reply.frame.number if first.call.reply else 0
        work = first.updates(*_WORK)
        late = [note for note, _ in work if note.frame.number > answered]
        if work:
            stage.judge(
                "R-PROMPT-03",
                not late,
                first.call,
                *late[:3],
                expected="the answer to the prompt after its work",
                got=f"updates after it: {len(late)}",
            )
    second = await editor.turn(session, "text")
    _message_ids(stage, first, second)


async def _idle(stage: Stage, prompted: Prompted) -> None:
    """Judge that a turn comes to its end; who still works is not blamed for being slow."""
    line = stage.editor.line
    try:
        await prompted.end()
    except Silence as silence:
        last = line.observer.talk.frames[-1]
        quiet = line.notes and last.time - line.notes[-1].frame.time > stage.settings.timeout / 2
        if not line.hung_up and prompted.inserted and (quiet or prompted.updates(*_WORK)):
            stage.judge(
                "R-PROMPT-12",
                False,
                prompted.call,
                *(note for note, _ in prompted.updates()[-2:]),
                expected="an idle state when nothing is left to do",
                got=str(silence),
            )
        raise
    if prompted.inserted:
        stage.judge("R-PROMPT-12", True)


def _message_ids(stage: Stage, first: Prompted, second: Prompted) -> None:
    """Judge that a message of one turn has no id of the other's, nor of another kind's."""
    owners: dict[str, tuple[int, str]] = {}
    kinds = ("user_message", "agent_message", "agent_thought")
    for number, prompted in enumerate((first, second)):
        for note, update in prompted.updates():
            if number == 0 and note.frame.number > second.call.frame.number:
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
async def _link(stage: Stage) -> None:
    """A prompt has a text, and a link to a file."""
    editor = stage.editor
    note = stage.folder / "note.txt"
    note.write_text("The word is quince.\n", "utf-8")
    session = await editor.new_session()
    words = stage.settings.prompt("text")
    linked = {"type": "resource_link", "name": "note.txt", "uri": note.as_uri()}
    prompted = editor.prompt(session, words, linked)
    await prompted.end()
    if not prompted.call.ok and prompted.call.code != -32602:
        editor.taken(prompted)
    stage.judge(
        "R-INIT-24",
        prompted.call.ok,
        prompted.call,
        expected="a turn with a text and a link",
        got=outcome_of(prompted.call),
    )


@scenario("prompts/media")
async def _media(stage: Stage) -> None:
    """A prompt has the media that the agent offers to take."""
    editor = stage.editor
    blocks: list[Json] = []
    if editor.offers("images"):
        blocks.append({"type": "image", "data": _PIXEL, "mimeType": "image/png"})
    if editor.offers("sounds"):
        blocks.append({"type": "audio", "data": _SOUND, "mimeType": "audio/wav"})
    if editor.offers("resources"):
        inner = {"uri": "file:///note.txt", "text": "hello", "mimeType": "text/plain"}
        blocks.append({"type": "resource", "resource": inner})
    if not blocks:
        raise NotExercised("the agent takes text and links alone")
    session = await editor.new_session()
    await editor.prompt(session, stage.settings.prompt("text"), *blocks).end()


@scenario("prompts/refused", "R-EXT-12", "R-PROMPT-19", versions=(2,))
async def _refused(stage: Stage) -> None:
    """Prompts that cannot be taken leave nothing behind."""
    editor = stage.editor
    session = await editor.new_session()
    odd: list[tuple[str, Json]] = [
        ("text without text", {"type": "text"}),
        ("text that is a number", {"type": "text", "text": 5}),
        ("a block of unknown type", {"type": "_accord"}),
    ]
    if not editor.offers("images"):
        image = {"type": "image", "data": _PIXEL, "mimeType": "image/png"}
        odd.append(("an image, which is not offered", image))
    for why, block in odd:
        prompted = editor.prompt(session, block)
        await prompted.end()
        if block["type"] == "text":
            await stage.refused("R-EXT-12", editor, prompted.call, (-32602,), why=why)
        if prompted.call.ok:
            continue
        await editor.line.settle()
        inserted = prompted.updates("user_message", "user_message_chunk")
        stage.judge(
            "R-PROMPT-19",
            not inserted,
            prompted.call,
            *(note for note, _ in inserted),
            expected="no message of a prompt that was refused",
            got="a message of the user",
        )


@scenario("prompts/malformed", "R-GEN-11")
async def _malformed(stage: Stage) -> None:
    """Prompts that are none."""
    editor = stage.editor
    session = await editor.new_session()
    odd: dict[str, Any] = {
        "a prompt that is a text": {"sessionId": session, "prompt": "hello"},
        "no prompt": {"sessionId": session},
        "a session id that is a number": {"sessionId": 5, "prompt": [text("hello")]},
    }
    for why, params in odd.items():
        call = editor.line.ask("session/prompt", params)
        await stage.refused("R-GEN-11", editor, call, (-32602,), why=why)


@scenario("prompts/tool", "R-TOOL-02", "R-TOOL-13")
async def _tool(stage: Stage) -> None:
    """A turn with tool calls, and another one: the observer looks at their ids."""
    editor = stage.editor
    session = await editor.new_session()
    prompted = await editor.turn(session, "tool")
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
    await editor.turn(session, "tool")


@scenario("prompts/command", "R-PROMPT-35")
async def _command(stage: Stage) -> None:
    """A slash command runs through the states of any other turn."""
    editor = stage.editor
    session = await editor.new_session()
    prompted = await editor.turn(session, "command")
    states = [update.get("state") for _, update in prompted.states()]
    stage.judge(
        "R-PROMPT-35",
        "running" in states and prompted.stop_reason == "end_turn",
        *prompted.shows,
        expected="running, and idle with end_turn",
        got=f"{states}, {prompted.stop_reason}",
    )


@scenario("prompts/fail", "R-PROMPT-28", versions=(2,))
async def _fail(stage: Stage) -> None:
    """Work fails after the prompt was inserted."""
    editor = stage.editor
    session = await editor.new_session()
    prompted = editor.ask_for(session, "fail")
    await prompted.end()
    if prompted.stop_reason not in (None, "error"):
        raise NotExercised(f"the work stopped with {prompted.stop_reason}")
    error = prompted.states()[-1][1].get("error") if prompted.states() else None
    stage.judge(
        "R-PROMPT-28",
        prompted.call.ok and prompted.stop_reason == "error" and is_object(error),
        *prompted.shows,
        expected="a successful answer, then idle with the stop reason error and `error`",
        got=f"{outcome_of(prompted.call)}, {prompted.stop_reason}, {error}",
    )


@scenario("prompts/more")
async def _more(stage: Stage) -> None:
    """The further prompts of the settings, one after the other in one session."""
    editor, prompts = stage.editor, stage.settings.more
    if not prompts:
        raise NotExercised("the settings have no further prompts (`more`)")
    session = await editor.new_session()
    for words in prompts:
        prompted = editor.prompt(session, words)
        await prompted.end()
        editor.taken(prompted)


@scenario("prompts/held", "R-PROMPT-27", "R-CANCEL-13", versions=(2,))
async def _held(stage: Stage) -> None:
    """Prompts wait for a turn to end, and are withdrawn, cancelled and closed."""
    editor = stage.editor
    session = await editor.new_session()
    long = editor.ask_for(session, "long")
    await editor.line.reply(long.call, within_s=stage.settings.timeout)
    editor.taken(long)
    waiting = await _waits(stage, session, long)
    editor.line.note("$/cancel_request", {"requestId": waiting.call.id})
    withdrawn, within_s = waiting.call, stage.settings.answer
    # An agent may ignore the notification (R-REQCAN-01), and hold the prompt on.
    if await editor.comes(lambda: withdrawn.reply is not None, "answer", within_s=within_s):
        why = "a held prompt that is withdrawn"
        await stage.refused("R-PROMPT-27", editor, withdrawn, (-32800,), why=why)
        waiting = await _waits(stage, session, long)
    editor.cancel(session)
    why = "a prompt that was not inserted when the session was cancelled"
    await stage.refused("R-CANCEL-13", editor, waiting.call, (-32800,), why=why)
    await long.end(within_s=stage.settings.answer)
    long = editor.ask_for(session, "long")
    await editor.line.reply(long.call, within_s=stage.settings.timeout)
    waiting = await _waits(stage, session, long)
    editor.line.ask("session/close", {"sessionId": session})
    why = "a held prompt of a session that is closed"
    await stage.refused("R-PROMPT-27", editor, waiting.call, (-32800,), why=why)


async def _waits(stage: Stage, session: str, long: Prompted) -> Prompted:
    """Return a prompt that the agent holds; raise `NotExercised`."""
    waiting = stage.editor.ask_for(session, "text")
    await stage.editor.line.settle()
    if waiting.call.reply is not None:
        raise NotExercised("the agent does not hold prompts")
    if long.over:
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
