"""The commands of the script agent that do one thing: each family, and what all have in common."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from accord import (
    AudioContent,
    AvailableCommand,
    BooleanOption,
    ContentBlock,
    Cost,
    EmbeddedResource,
    ImageContent,
    InternalError,
    NotOffered,
    OptionChoice,
    PlanEntry,
    RequestError,
    ResourceLink,
    SelectOption,
    StartError,
    TextContent,
    ToolCallLocation,
    Turn,
)
from accord.agent import AuthenticationMixin

# What the script agent's commands have in common.


class ScriptCommand(Struct, frozen=True):
    """A command; `run` gets the turn and the arguments, and returns a stop reason or None."""

    name: str
    arguments: str
    summary: str
    run: Callable[[Turn, str], Awaitable[str | None]]
    sends: str | tuple[str, ...]  # for the reference; one text for each alternative of `arguments`

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        return f"{self.name} {self.arguments}".rstrip()


class UsageError(Exception):
    """The arguments of a command are invalid."""


def parse_number(word: str, *, default: int, minimum: int = 0, maximum: int) -> int:
    """Return a number, or the default for no word. Raises `UsageError`."""
    if not word:
        return default
    try:
        value = int(word)
    except ValueError:
        raise UsageError(f"Expected a number, got `{word}`.") from None
    if not minimum <= value <= maximum:
        raise UsageError(f"Expected a number from {minimum} to {maximum}, got `{word}`.")
    return value


# Commands that send messages, in every kind of content.

# A blue square of 8 by 8 pixels.
IMAGE = ImageContent(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000008000000080802000000"
        "4b6d29dc000000114944415478da63304e3b8315310c2d0900b9865941"
        "6e2684fc0000000049454e44ae426082"
    ),
    "image/png",
)
# A millisecond of silence.
AUDIO = AudioContent(
    b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\x08\0\0\0"
    + b"\x80" * 8,
    "audio/wav",
)


async def _echo(turn: Turn, text: str) -> None:
    first = next((index for index, part in enumerate(turn.content) if isinstance(part, str)), None)
    if text:
        prompt = "" if first is None else turn.content[first]
        if isinstance(prompt, TextContent):
            await turn.say(TextContent(text, annotations=prompt.annotations, meta=prompt.meta))
        else:
            await turn.say(text)
    others = [part for index, part in enumerate(turn.content) if index != first]
    for part in others:
        await turn.say(part)
    if not text and not others:
        raise UsageError("Expected TEXT.")


async def _stream(turn: Turn, rest: str) -> None:
    count, _, text = rest.partition(" ")
    for index in range(parse_number(count, default=10, maximum=1_000_000)):
        await turn.say(f"{text} " if text else f"{index + 1} ")


async def _think(turn: Turn, text: str) -> None:
    await turn.think(text or "I think.")
    await turn.say("I have thought.")


async def _content(turn: Turn, _: str) -> None:
    contents: list[ContentBlock] = [
        "Text with **Markdown**.",
        ResourceLink(
            "https://example.com/a.txt", "a.txt", title="A link", mime_type="text/plain", size=6
        ),
        EmbeddedResource("script:///text", "The text of a resource.\n", "text/plain"),
        EmbeddedResource("script:///bytes", b"\0\1\2\3", "application/octet-stream"),
        IMAGE,
        AUDIO,
    ]
    for content in contents:
        await turn.say(content)


MESSAGES = (
    ScriptCommand(
        "echo",
        "TEXT",
        "Say TEXT, then the other content of the prompt",
        _echo,
        "TEXT, then all other content of the prompt, unchanged: images, audio, resources, links.",
    ),
    ScriptCommand(
        "stream",
        "[N] [TEXT]",
        "Say TEXT, or numbers, in N chunks (10)",
        _stream,
        "N chunks (10) of one message: TEXT and a space, or the numbers `1 `, `2 `, …",
    ),
    ScriptCommand(
        "think",
        "[TEXT]",
        "Think TEXT",
        _think,
        "TEXT as a thought; `I have thought.`",
    ),
    ScriptCommand(
        "content",
        "",
        "Say something in each kind of content",
        _content,
        "One message with a text, a link, a text resource, a binary resource, an image (PNG, "
        "8 by 8) and audio (WAV).",
    ),
)


# Commands that show tool calls and plans.

_KINDS = (
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
)


async def _tools(turn: Turn, _: str) -> None:
    for kind in _KINDS:
        raw_input = {"kind": kind}
        async with turn.tool(
            f"A call of kind {kind}", kind=kind, name=f"script_{kind}", raw_input=raw_input
        ) as call:
            await call.add_content(f"The content of {kind}.")
    await _tool_content(turn)
    async with turn.tool("A title to be corrected") as call:
        await call.update(title="A corrected title", kind="search", raw_input={"corrected": True})
    async with turn.tool("The first of two") as first, turn.tool("The second of two") as second:
        await first.add_content("One.")
        await second.add_content("Two.")
    async with turn.tool("A call that fails") as call:
        await call.fail("It failed on request.")
    await turn.say("19 tool calls: 18 completed, 1 failed.")


async def _tool_content(turn: Turn) -> None:
    """Make a tool call with each kind of content."""
    folder = Path(turn.session.cwd, "script")
    locations = [ToolCallLocation(str(folder / "a.py")), ToolCallLocation(str(folder / "b.py"), 3)]
    async with turn.tool("A call with locations", kind="read", locations=locations) as call:
        await call.start()
    request = {"url": "https://example.com/"}
    async with turn.tool("A call with raw output", kind="fetch", raw_input=request) as call:
        await call.set_raw_output({"status": 200, "lines": ["one", "two"]})
    async with turn.tool("A call that streams", kind="execute") as call:
        for index in range(3):
            await call.append_text(f"line {index + 1}\n")
    async with turn.tool("A call with diffs", kind="edit") as call:
        await call.add_diff(str(folder / "added.txt"), None, "new\n")
        await call.add_diff(str(folder / "changed.txt"), "one\ntwo\n", "one\n2\n")
        await call.add_diff(str(folder / "deleted.txt"), "old\n", None)
    async with turn.tool("A call with other content") as call:
        link = ResourceLink("https://example.com/a.txt", "a.txt")
        await call.add_content(link, EmbeddedResource("script:///text", "A resource.\n"), IMAGE)


async def _plan(turn: Turn, _: str) -> None:
    steps = [
        PlanEntry("Look", priority="high"),
        PlanEntry("Think", priority="medium"),
        PlanEntry("Act", priority="low"),
    ]
    plan = await turn.plan(steps)
    for index in range(len(steps)):
        await plan.update(index, status="in_progress")
        await plan.update(index, status="completed")
    await turn.say("The plan is done.")


async def _wait(turn: Turn, rest: str) -> None:
    try:
        seconds = None if rest == "forever" else float(rest or 1)
    except ValueError:
        raise UsageError(f"Expected seconds or `forever`, got `{rest}`.") from None
    async with turn.tool(f"Wait {rest or 1}", raw_input={"seconds": seconds}) as call:
        await call.start()
        if seconds is None:
            await asyncio.Event().wait()
        else:
            await asyncio.sleep(seconds)
    await turn.say("I have waited.")


TOOLS_AND_PLANS = (
    ScriptCommand(
        "tools",
        "",
        "Make tool calls of each kind, with each kind of content and each final status",
        _tools,
        "19 tool calls, [below](#tool-calls); `19 tool calls: 18 completed, 1 failed.`",
    ),
    ScriptCommand(
        "plan",
        "",
        "Show a plan and carry it out",
        _plan,
        "A plan of three steps with the priorities `high`, `medium`, `low`; each step "
        "becomes `in_progress` and then `completed`; `The plan is done.`",
    ),
    ScriptCommand(
        "wait",
        "[SECONDS|forever]",
        "Wait in a tool call (1 second), or until a cancel",
        _wait,
        "A tool call that is in progress for this time (1); `I have waited.` A cancel ends it.",
    ),
)


# Commands that ask the user for permission or input.

_URL = "https://example.com/sign-in"


class _Form(Struct, kw_only=True):
    """One field of each kind."""

    name: Annotated[str, Meta(min_length=1, max_length=40, description="Your name")]
    count: Annotated[int, Meta(ge=0, le=100)] = 3
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    sure: bool = False
    colour: Literal["red", "green", "blue"] = "green"
    parts: list[Literal["docs", "source", "tests"]] = []
    note: str | None = None


async def _permission(turn: Turn, rest: str) -> None:
    times = parse_number(rest, default=1, minimum=1, maximum=100)
    allowed = 0
    for index in range(times):
        async with turn.tool(
            f"Do thing {index + 1}",
            kind="edit",
            name="script_thing",
            raw_input={"thing": index + 1},
        ) as call:
            if await call.permission():
                allowed += 1
                await call.add_content(f"Thing {index + 1} is done.")
    await turn.say(f"{allowed} of {times} allowed.")


async def _elicit(turn: Turn, rest: str) -> None:
    try:
        match rest:
            case "" | "form":
                values = await turn.elicit_form(_Form, "Fill in one field of each kind.")
                if values is None:
                    await turn.say("The form was not filled in.")
                else:
                    await turn.say(f"The form contains: `{msgspec.json.encode(values).decode()}`")
            case "url":
                elicitation = await turn.elicit_url(
                    _URL, "Open a page. You do not have to do anything there."
                )
                if elicitation is None:
                    await turn.say("The page was not opened.")
                else:
                    await elicitation.done()
                    await turn.say("The page was opened.")
            case _:
                raise UsageError(f"Expected `form` or `url`, got `{rest}`.")
    except NotOffered:
        await turn.say("The client does not support that.")


ASK_USER = (
    ScriptCommand(
        "permission",
        "[N]",
        "Ask for permission for N tool calls (1)",
        _permission,
        "N tool calls (1) of kind `edit`, one after another; each asks for permission. `2 of "
        '3 allowed.` After an "always" answer, the agent does not ask again.',
    ),
    ScriptCommand(
        "elicit",
        "[form|url]",
        "Ask to fill in a form, or to open a URL",
        _elicit,
        "A form with a field of each kind, or the URL `https://example.com/sign-in`; then "
        "the result. For a URL, it also reports at once that the request is complete.",
    ),
)


# Commands that work on files and run commands.


async def _fs(turn: Turn, rest: str) -> None:
    action, _, rest = rest.partition(" ")
    if action == "read" and rest:
        await _read(turn, rest)
    elif action == "write" and rest:
        path, _, text = rest.partition(" ")
        await _write(turn, path, text)
    else:
        raise UsageError("Expected `read PATH` or `write PATH TEXT`.")


async def _read(turn: Turn, path: str) -> None:
    absolute = str(Path(turn.session.cwd, path))
    async with turn.tool(
        f"Read {path}", kind="read", name="read_file", locations=[absolute]
    ) as call:
        try:
            text = await turn.files.read(path)
        except (OSError, ValueError, RequestError) as error:
            await call.fail(f"It could not be read: {_error_reason(error)}.")
            await turn.say(f"{path} could not be read: {_error_reason(error)}.")
            return
        await call.add_content(text)
    await turn.say(f"{path} has {len(text)} characters in {len(text.splitlines())} lines.")


async def _write(turn: Turn, path: str, text: str) -> None:
    absolute = str(Path(turn.session.cwd, path))
    async with turn.tool(
        f"Write {path}", kind="edit", name="write_file", locations=[absolute]
    ) as call:
        try:
            await turn.files.write(path, f"{text}\n")
        except (OSError, RequestError) as error:
            await call.fail(f"It could not be written: {_error_reason(error)}.")
            await turn.say(f"{path} could not be written: {_error_reason(error)}.")
            return
    await turn.say(f"{path} is written.")


def _error_reason(error: Exception) -> str:
    """Return a reason that is the same on every machine."""
    match error:
        case FileNotFoundError():
            return "the file does not exist"
        case PermissionError():
            return "permission denied"
        case RequestError():
            return f"the client responded with error {error.code}"
        case UnicodeDecodeError():
            return "it is not a text file"
        case _:
            return "it is not a file"


async def _terminal(turn: Turn, rest: str) -> None:
    try:
        argv = shlex.split(rest)
    except ValueError:
        raise UsageError("Expected a closing quotation mark.") from None
    if not argv:
        raise UsageError("Expected a command.")
    try:
        result = await turn.terminals.run(*argv)
    except (StartError, RequestError):
        await turn.say(f"`{argv[0]}` could not be started.")
        return
    end = f"signal {result.signal}" if result.signal else f"status {result.exit_code}"
    await turn.say(f"`{argv[0]}` ended with {end} and {len(result.output)} characters of output.")


FILES_AND_TERMINALS = (
    ScriptCommand(
        "fs",
        "read PATH | write PATH TEXT",
        "Read or write a file of the session",
        _fs,
        (
            "A tool call of kind `read` that reads the file (through the client if it supports "
            "that, in version 1) and shows its text; `a.txt has 10 characters in 1 lines.`",
            "A tool call of kind `edit` that writes TEXT and a line feed, and shows the diff; "
            "`a.txt is written.`",
        ),
    ),
    ScriptCommand(
        "terminal",
        "COMMAND…",
        "Run a command, without a shell",
        _terminal,
        "A tool call of kind `execute` that runs the command without a shell (in a terminal "
        "of the client if it supports that, in version 1) and shows its output; ``` `make` "
        "ended with status 0 and 12 characters of output.```",
    ),
)


# Commands that change a session: options, mode, slash commands, title, usage.

MODES = SelectOption(
    id="mode",
    name="Mode",
    description="Who decides about tool calls",
    category="mode",
    value="ask",
    choices=(
        OptionChoice("ask", "Ask", "The user decides"),
        OptionChoice("auto", "Auto", "Everything is allowed"),
        OptionChoice("read", "Read only", "Nothing is allowed"),
    ),
)
OPTIONS = (
    MODES,
    SelectOption(
        id="model",
        name="Model",
        category="model",
        value="small",
        choices=(
            OptionChoice("small", "Small", group="Quick"),
            OptionChoice("tiny", "Tiny", group="Quick"),
            OptionChoice("large", "Large", "Takes its time", group="Thorough"),
        ),
    ),
    BooleanOption(id="brief", name="Brief", description="Say less", value=False),
)


async def _usage(turn: Turn, _: str) -> None:
    await turn.set_context_usage(12_000, 200_000, cost=Cost(0.25, "USD"))
    await turn.say("12000 of 200000 tokens are used.")


async def _title(turn: Turn, text: str) -> None:
    if not text:
        raise UsageError("Expected a title.")
    await turn.set_title(text)
    await turn.say(f"The title is: {text}")


async def _commands(turn: Turn, rest: str) -> None:
    names = rest.split() or ["first", "second"]
    await turn.set_commands(
        [AvailableCommand(name, f"does what {name} does", "what") for name in names]
    )
    await turn.say(f"{len(names)} commands: {', '.join(names)}.")


async def _mode(turn: Turn, mode: str) -> None:
    await _set(turn, "mode", mode)
    await turn.say(f"The mode is {mode}.")


async def _option(turn: Turn, rest: str) -> None:
    option_id, _, value = rest.partition(" ")
    await _set(turn, option_id, {"on": True, "off": False}.get(value, value))
    await turn.say(f"{option_id} is {value}.")


async def _logout(turn: Turn, _: str) -> None:
    agent = turn.session.agent
    if not isinstance(agent, AuthenticationMixin):
        raise UsageError("This agent does not require login.")
    await agent.logout()
    await turn.say("You are logged out; log in before the next prompt.")


async def _set(turn: Turn, option_id: str, value: str | bool) -> None:
    try:
        await turn.session.set_option(option_id, value)
    except KeyError:
        known = ", ".join(f"`{option.id}`" for option in turn.session.options)
        raise UsageError(f"Unknown option `{option_id}`: expected one of {known}.") from None
    except ValueError:
        raise UsageError(f"The option `{option_id}` cannot be `{value}`.") from None


SESSION_SETTINGS = (
    ScriptCommand(
        "usage",
        "",
        "Report the context usage and the cost",
        _usage,
        "Context usage: 12000 of 200000 tokens, 0.25 USD; `12000 of 200000 tokens are used.`",
    ),
    ScriptCommand(
        "title",
        "TEXT",
        "Set the title of the session",
        _title,
        "The title; `The title is: TEXT`",
    ),
    ScriptCommand(
        "commands",
        "[NAME…]",
        "Set other slash commands (`first` and `second`)",
        _commands,
        "Other slash commands (`first` and `second`); `2 commands: first, second.`",
    ),
    ScriptCommand(
        "mode",
        "ID",
        "Set the mode: `ask`, `auto` or `read`",
        _mode,
        "The mode; `The mode is auto.`",
    ),
    ScriptCommand(
        "logout",
        "",
        "Log out: the next prompt fails until the client logs in",
        _logout,
        "`You are logged out; log in before the next prompt.` Prompts and new sessions then "
        "fail with -32000 until the client logs in.",
    ),
    ScriptCommand(
        "option",
        "ID VALUE",
        "Set a config option; a boolean option is `on` or `off`",
        _option,
        "All options with the new value, `on` or `off` for a boolean option; `model is tiny.`",
    ),
)


_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")


async def _stop(_: Turn, reason: str) -> str | None:
    if reason not in _REASONS and not reason.startswith("_"):
        own = "or a reason that begins with an underscore"
        raise UsageError(f"Expected {', '.join(f'`{known}`' for known in _REASONS)}, {own}.")
    return reason


async def _error(_: Turn, rest: str) -> None:
    code = parse_number(
        rest, default=InternalError.default_code, minimum=-(2**31), maximum=2**31 - 1
    )
    raise RequestError.of(code, "The script says so", {"code": code})


async def _crash(_turn: Turn, _: str) -> None:
    raise RuntimeError("The script agent was told to crash")


async def _exit(turn: Turn, rest: str) -> None:
    status = parse_number(rest, default=0, maximum=255)
    exit_process: Callable[[int], object] | None = turn.session.data["exit_process"]
    if exit_process is None:
        raise UsageError("This agent does not run in its own process.")
    exit_process(status)


STOP = (
    ScriptCommand(
        "stop",
        "REASON",
        "End the turn with this stop reason",
        _stop,
        "Nothing; the turn ends with this stop reason: one that the protocol defines, or one "
        "that begins with an underscore. Version 1 has fewer stop reasons: unknown ones "
        "become `end_turn`, and `error` becomes an error.",
    ),
    ScriptCommand(
        "error",
        "[CODE]",
        "Fail with this JSON-RPC error (-32603)",
        _error,
        'The error CODE (-32603) with the message `The script says so` and `{"code": CODE}` '
        "as data: in version 1 as the response to the prompt, in version 2 in the idle "
        "state.",
    ),
    ScriptCommand(
        "crash",
        "",
        "Fail with an unexpected exception",
        _crash,
        "The error -32603, `Internal error`, as if the agent had a bug; the traceback is "
        "written to its stderr.",
    ),
    ScriptCommand(
        "exit",
        "[N]",
        "Exit the process with status N (0), in the middle of the turn",
        _exit,
        "Nothing; the process exits at once with status N (0), in the middle of the turn.",
    ),
)
