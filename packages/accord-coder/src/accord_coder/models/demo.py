"""The demonstration model: runs the commands of a prompt with the tools of the agent.

It needs no account and no network and answers the same prompt in the same way every time.
`COMMANDS` is the table of its commands: how a prompt is written, and what each command does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from accord import AccordError, ContentBlock, EmbeddedResource, ResourceLink
from accord_coder.instructions import says_plan_mode
from accord_coder.models.base import (
    Finished,
    Message,
    Model,
    ModelError,
    Piece,
    Prompt,
    Request,
    Results,
    Text,
    ToolResult,
    ToolUse,
)
from accord_coder.models.providers import how_to_get_a_model
from accord_coder.tool_results import count_noun, fenced, one_line

_WHAT_IT_IS = "This is the demonstration model, not a language model: it runs a few fixed commands."
_SYNTAX = (
    "Put text with spaces in quotes. Separate commands with `;` or line ends: several commands are"
    " shown as a plan. Attached files are added as the last arguments."
)
_SUMMARY = "Summary of the conversation so far:"  # a compaction puts it before a prompt
_MAX_CHARACTERS = 200_000
# Text up to a `;` or a line end that is outside of quotes. A lone quote is left to shlex.
_STEP = re.compile(r"""(?:[^;\n'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*"|['"\\])+""", re.DOTALL)
_ARTICLES = ("the", "this", "that", "a", "an", "my", "our")  # `Run the tests.` is a sentence
_LINES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_PART = re.compile(r"\n?\[lines (\d+)-(\d+) of (\d+)\]\Z")


class InvalidPrompt(AccordError):
    """The prompt is not a sequence of commands; the text describes the error."""


class Use(Struct, frozen=True):
    """Use a tool; the command continues with its result."""

    name: str
    arguments: dict[str, Any]


# A command yields texts for the user and tools to use, and returns whether it succeeded.
Work: TypeAlias = Generator[str | Use, ToolResult, bool]


class DemoCommand(Struct, frozen=True, kw_only=True):
    """A command: its name, its arguments as shown in the table, and what it does."""

    name: str
    arguments: str = ""
    description: str
    example: str
    changes: bool = False  # so it waits for approval in plan mode
    at_least: int = 0  # arguments
    at_most: int = 0
    run: Callable[..., Work]

    @property
    def usage(self) -> str:
        """The name and the arguments."""
        return f"{self.name} {self.arguments}".rstrip()


class DemoStep(Struct, frozen=True):
    """One command of a prompt, as the user typed it, with its arguments."""

    text: str
    command: DemoCommand
    arguments: tuple[str, ...]

    def run(self) -> Work:
        """Run the command."""
        return self.command.run(*self.arguments)


def _use(name: str, **arguments: Any) -> Generator[Use, ToolResult, ToolResult]:
    return (yield Use(name, arguments))


def _show(tool: str, **arguments: Any) -> Work:
    """Use a tool and show its result as it is."""
    result = yield from _use(tool, **arguments)
    yield fenced(result.text or "[no output]")
    return not result.failed


def _change(tool: str, **arguments: Any) -> Work:
    """Use a tool that changes something and report its result, which is a sentence."""
    result = yield from _use(tool, **arguments)
    yield result.text
    return not result.failed


def _help() -> Work:
    yield help_text()
    return True


def _list(path: str = ".") -> Work:
    if re.search(r"[*?\[]", path):
        return (yield from _show("glob", pattern=path))
    return (yield from _show("list", path=path))


def _find(text: str, path: str = ".") -> Work:
    # Not re.escape: ripgrep refuses a backslash before a space.
    pattern = re.sub(r"[.^$*+?{}\[\]\\|()]", r"\\\g<0>", text)
    return (yield from _show("grep", pattern=pattern, path=path))


def _read(path: str, lines: str = "") -> Work:
    if not lines:
        result = yield from _use("read", path=path)
        if result.failed:
            yield result.text
            return False
        part = _PART.search(result.text)
        count = int(part[3]) if part is not None else len(result.text.splitlines())
        yield f"`{path}` has {count_noun(count, 'line', 'lines')}."
        return True
    wanted = _LINES.fullmatch(lines)
    first, last = (int(wanted[1]), int(wanted[2] or wanted[1])) if wanted else (0, 0)
    if not 1 <= first <= last:
        yield f"`{lines}` is not a range of lines."
        return False
    return (yield from _show("read", path=path, line=first, limit=last - first + 1))


def _replace(path: str, old: str, new: str) -> Work:
    result = yield from _use("read", path=path)
    if result.failed:
        yield result.text
        return False
    edits = [{"old": old, "new": new, "all": True}]
    return (yield from _change("edit", path=path, edits=edits))


def _create(path: str, text: str = "") -> Work:
    return (yield from _change("write", path=path, text=_with_line_end(text)))


def _append(path: str, text: str) -> Work:
    result = yield from _use("read", path=path)
    if result.failed:
        yield result.text
        return False
    if _PART.search(result.text):
        yield f"`{path}` is too long for this model."
        return False
    before = _with_line_end(result.text)
    return (yield from _change("write", path=path, text=before + _with_line_end(text)))


def _delete(path: str) -> Work:
    return (yield from _change("delete", path=path))


def _move(source: str, target: str) -> Work:
    return (yield from _change("move", source=source, target=target))


def _run(command: str) -> Work:
    return (yield from _show("execute", command=command))


COMMANDS: tuple[DemoCommand, ...] = (
    DemoCommand(
        name="help",
        description="List these commands",
        example="help",
        run=_help,
    ),
    DemoCommand(
        name="list",
        arguments="[DIRECTORY | PATTERN]",
        description="List a directory, or the files whose path matches a pattern",
        example="list '**/*.py'",
        at_most=1,
        run=_list,
    ),
    DemoCommand(
        name="find",
        arguments="TEXT [PATH]",
        description="Search for text in the files of the project",
        example="find TODO src",
        at_least=1,
        at_most=2,
        run=_find,
    ),
    DemoCommand(
        name="read",
        arguments="FILE [FIRST-LAST]",
        description="Read a file, or some of its lines",
        example="read README.md 1-20",
        at_least=1,
        at_most=2,
        run=_read,
    ),
    DemoCommand(
        name="replace",
        arguments="FILE OLD NEW",
        description="Replace text in a file, wherever it occurs",
        example="replace notes.txt hello 'good morning'",
        changes=True,
        at_least=3,
        at_most=3,
        run=_replace,
    ),
    DemoCommand(
        name="create",
        arguments="FILE [TEXT]",
        description="Create a file",
        example="create notes.txt 'hello'",
        changes=True,
        at_least=1,
        at_most=2,
        run=_create,
    ),
    DemoCommand(
        name="append",
        arguments="FILE TEXT",
        description="Add a line to the end of a file",
        example="append notes.txt 'bye'",
        changes=True,
        at_least=2,
        at_most=2,
        run=_append,
    ),
    DemoCommand(
        name="delete",
        arguments="PATH",
        description="Delete a file or an empty directory",
        example="delete notes.txt",
        changes=True,
        at_least=1,
        at_most=1,
        run=_delete,
    ),
    DemoCommand(
        name="move",
        arguments="SOURCE TARGET",
        description="Move or rename a file or a directory",
        example="move notes.txt docs/notes.txt",
        changes=True,
        at_least=2,
        at_most=2,
        run=_move,
    ),
    DemoCommand(
        name="run",
        arguments="COMMAND",
        description="Run a command; quote it if it contains `;`",
        example="run git status",
        changes=True,
        at_least=1,
        at_most=1,
        run=_run,
    ),
)
_BY_NAME = {command.name: command for command in COMMANDS}


def help_text() -> str:
    """Return the table of commands, and how to use a language model."""
    return f"{_WHAT_IT_IS}\n\n{table()}\n\n{_SYNTAX}\n\n{how_to_get_a_model()}"


def table() -> str:
    """Return the commands as a table in Markdown."""
    rows = ["| Command | What it does | Example |", "|---|---|---|"]
    for command in COMMANDS:
        usage = command.usage.replace("|", "\\|")
        rows.append(f"| `{usage}` | {command.description} | `{command.example}` |")
    return "\n".join(rows)


def parse_prompt(content: Sequence[ContentBlock]) -> list[DemoStep]:
    """Return the commands of a prompt; raise `InvalidPrompt` if one of them is not valid."""
    text = _text_of(content)
    if len(text) > _MAX_CHARACTERS:
        raise InvalidPrompt(f"The prompt has more than {_MAX_CHARACTERS:,} characters.")
    steps = [_parse_step(found.strip()) for found in _STEP.findall(text) if found.strip()]
    if not steps:
        raise InvalidPrompt("The prompt contains no text.")
    return steps


def _parse_step(text: str) -> DemoStep:
    shown = one_line(text, 60)
    try:
        name, *arguments = shlex.split(text)
    except ValueError as error:
        raise InvalidPrompt(f"`{shown}` cannot be parsed: {error}.") from None
    command = _BY_NAME.get(name.lower())
    if command is None:
        near = get_close_matches(name.lower(), _BY_NAME, n=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        raise InvalidPrompt(f"`{shown}` is not a command of the demonstration model.{hint}")
    is_sentence = command.name == "run" and arguments[:1] != [] and arguments[0] in _ARTICLES
    if command.name == "run" and len(arguments) > 1 and not is_sentence:
        arguments = [text.split(maxsplit=1)[1]]  # as typed, quotes included
    if not command.at_least <= len(arguments) <= command.at_most:
        raise InvalidPrompt(f"`{shown}` has the wrong arguments: write `{command.usage}`.")
    return DemoStep(shown, command, tuple(arguments))


def _text_of(content: Sequence[ContentBlock]) -> str:
    """Return the text of a prompt, with the paths of attached files as words of it."""
    parts: list[str] = []
    for part in content:
        match part:
            case str():
                if not (part.startswith(_SUMMARY) and len(content) > 1):
                    parts.append(part)
            case ResourceLink(uri=uri) | EmbeddedResource(uri=uri):
                parts.append(shlex.quote(_path_of(uri)))
            case _:
                raise InvalidPrompt("Images and audio need a language model.")
    return " ".join(parts)


def _path_of(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if parts.scheme != "file":
        return uri
    path = unquote(parts.path)
    return path[1:] if re.match(r"/[A-Za-z]:", path) else path


def _with_line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


class DemoModel(Model):
    """Runs commands. Its memory is the conversation: each answer starts the prompt again.

    The tools used so far are not used twice, their results come from the conversation. So a turn
    continues in the same place after the agent was restarted.
    """

    is_language_model = False
    name = "demo"
    context_size = 1_000_000
    can_summarise = False

    async def answer(self, request: Request) -> AsyncIterator[Piece]:
        """Continue the commands of the last prompt after the last result."""
        content, results = _last_prompt(request.messages)
        # Approval ends plan mode, but the replay must take the same steps.
        planning = results[0].name == "exit_plan" if results else False
        planning = planning or says_plan_mode(request.instructions)
        work = _work(content, planning=planning)
        given = iter(results)
        left = len(results)
        said = False
        step = next(work, None)
        while step is not None:
            match step:
                case str(text):
                    if not left:
                        yield Text(f"\n\n{text}" if said else text)
                        said = True
                    step = next(work, None)
                case Use(name, arguments):
                    result = next(given, None)
                    if result is None:
                        written = msgspec.json.encode(arguments).decode()
                        yield ToolUse(f"use-{len(request.messages)}", name, written)
                        yield Finished(reason="tools")
                        return
                    left -= 1
                    if result.name != name:
                        yield Text("The conversation does not match the prompt: send it again.")
                        break
                    step = _send(work, result)
        yield Finished(reason="end")


def _send(work: Work, result: ToolResult) -> str | Use | None:
    try:
        return work.send(result)
    except StopIteration:
        return None


def _last_prompt(messages: Sequence[Message]) -> tuple[tuple[ContentBlock, ...], list[ToolResult]]:
    """Return the last prompt, and the results of the tools that were used for it."""
    content: tuple[ContentBlock, ...] = ()
    results: list[ToolResult] = []
    for message in messages:
        match message:
            case Prompt(content):
                results.clear()
            case Results(new):
                results += new
            case _:
                pass
    return content, results


def _work(content: Sequence[ContentBlock], *, planning: bool) -> Work:
    """Run the commands of a prompt, several as a plan. None is run if one is not valid.

    An invalid prompt ends the turn with an error, so that a program can detect it. The stop reason
    is not `refusal`, because editors remove a refused prompt from the conversation, together with
    the answer that explains the commands.
    """
    try:
        steps = parse_prompt(content)
    except InvalidPrompt as error:
        yield help_text()
        raise ModelError(str(error)) from error
    if planning and any(step.command.changes for step in steps):
        plan = "\n".join(f"{number}. {step.text}" for number, step in enumerate(steps, 1))
        approval = yield Use("exit_plan", {"plan": plan})
        if approval.failed:
            yield approval.text
            return False
    if len(steps) == 1:
        return (yield from steps[0].run())
    for at, step in enumerate(steps):
        yield _plan(steps, at, "in_progress")
        if not (yield from step.run()):
            yield _plan(steps, at, "pending")
            left = "; ".join(other.text for other in steps[at + 1 :])
            yield f"Stopped at step {at + 1} of {len(steps)}." + (
                f" Not run: {left}." if left else ""
            )
            return False
    yield _plan(steps, len(steps), "completed")
    return True


def _plan(steps: Sequence[DemoStep], now: int, status: str) -> Use:
    """Show the plan; `status` is that of the step `now`."""
    entries = [
        {
            "content": step.text,
            "status": "completed" if at < now else status if at == now else "pending",
        }
        for at, step in enumerate(steps)
    ]
    return Use("plan", {"entries": entries})
