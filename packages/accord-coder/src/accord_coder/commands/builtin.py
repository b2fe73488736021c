"""The commands that need no prompt for the model: mode, model, compact, export, permissions.

First the parsing of commands, and what all commands use.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from accord import (
    AudioContent,
    ContentBlock,
    Diff,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    SelectOption,
)
from accord.agent import MessageUpdate, PlanUpdate, ToolCallUpdate, Update
from accord_coder.models.base import Answer, ToolResult, ToolUse
from accord_coder.permissions.decision import require_permission
from accord_coder.permissions.rules import KINDS, Rule, rules_from, rules_to
from accord_coder.tool_results import Access, ToolFailed
from accord_coder.turn import compact as shorten
from accord_coder.turn import run_tools

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.permissions.rules import EffectiveRules
    from accord_coder.session import CoderSession

_COMMAND = re.compile(r"\s*/([A-Za-z][\w-]*)(?:\s+(.*))?\s*", re.DOTALL)


class CommandCall(Struct, frozen=True):
    """A command that the user typed, with its arguments and the attachments of the prompt."""

    name: str
    arguments: str = ""
    attachments: tuple[ContentBlock, ...] = ()


# Returns the prompt for the model; None if the command is complete.
CommandHandler: TypeAlias = Callable[
    [CommandCall, "Turn", "CoderSession"], Awaitable[tuple[ContentBlock, ...] | None]
]


class BuiltinCommand(Struct, frozen=True):
    """A built-in command. `for_model`: what it does is part of the conversation."""

    name: str
    description: str
    run: CommandHandler
    hint: str | None = None
    for_model: bool = False


def parse_command(content: tuple[ContentBlock, ...]) -> CommandCall | None:
    """Return the command of a prompt; None if it has none. A path such as /etc/hosts is text."""
    first = content[0] if content else None
    if not isinstance(first, str):
        return None
    found = _COMMAND.fullmatch(first)
    if found is None:
        return None
    return CommandCall(found[1].lower(), (found[2] or "").strip(), content[1:])


async def use_tool(
    turn: Turn, state: CoderSession, tool: str, /, **arguments: object
) -> ToolResult:
    """Use a tool as the model does: with permission, and as part of the conversation."""
    written = msgspec.json.encode(arguments).decode()
    asked = ToolUse(f"command-{len(state.messages)}", tool, written)
    state.messages.append(Answer(uses=(asked,)))
    results = await run_tools((asked,), turn, state)
    state.messages.append(results)
    return results.results[0]


async def say(turn: Turn, state: CoderSession, text: str) -> None:
    """Send a message that is part of the conversation."""
    await turn.say(text)
    state.messages.append(Answer(text=text))


# The Markdown of `/export`, in parts that can be rendered individually

_MAX_LINES = 40  # of the output of a tool
_MARKS = {"completed": "x", "in_progress": "~", "cancelled": "-"}


def markdown_parts(updates: Iterable[Update], title: str) -> list[str]:
    """Return the messages, tool calls and plans of a session as Markdown."""
    parts = [f"# {title}"]
    for update in updates:
        match update:
            case MessageUpdate("user", _, content):
                parts += ["## User", _text(content)]
            case MessageUpdate("agent", _, content):
                parts += ["## Agent", _text(content)]
            case MessageUpdate("thought", _, content):
                parts.append(_quoted(_text(content)))
            case ToolCallUpdate():
                parts.append(_tool(update))
            case PlanUpdate(_, entries):
                lines = (f"- [{_MARKS.get(e.status, ' ')}] {e.content}" for e in entries)
                parts.append("\n".join(lines))
            case _:
                pass
    return [part for part in parts if part]


def _tool(update: ToolCallUpdate) -> str:
    title = "" if update.title is UNSET else " ".join(update.title.split())
    status = "" if update.status is UNSET else update.status
    parts = [f"**{title}** ({status})"]
    for item in () if update.content is UNSET else update.content:
        match item:
            case str():
                parts.append(_fenced(item))
            case Diff() if status != "completed":
                parts.append(f"Not changed: `{item.path}`.")  # proposed, but not done
            case Diff(patch=str() as patch):
                parts.append(_fenced(patch, "diff"))
            case Diff(path=path):
                parts.append(f"Changed `{path}`.")
            case _:
                pass
    return "\n\n".join(parts)


def _text(content: Iterable[ContentBlock]) -> str:
    found: list[str] = []
    for part in content:
        match part:
            case str():
                found.append(part)
            case ResourceLink(uri=uri, name=name):
                found.append(f"[{name}]({uri})")
            case EmbeddedResource(uri=uri):
                found.append(f"[{uri}]({uri})")
            case ImageContent(mime_type=kind) | AudioContent(mime_type=kind):
                found.append(f"({kind})")
            case _:
                pass
    return "\n\n".join(found).strip()


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced(text: str, language: str = "") -> str:
    lines = text.rstrip("\n").splitlines()
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], f"… {len(lines) - _MAX_LINES} more lines"]
    fence = "```"
    while any(line.lstrip().startswith(fence) for line in lines):
        fence += "`"
    return "\n".join([f"{fence}{language}", *lines, fence])


async def mode(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Show or set the mode."""
    await _show_or_set("mode", asked, turn, state)
    return None


async def model(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Show or set the model."""
    await _show_or_set("model", asked, turn, state)
    return None


async def _show_or_set(option_id: str, asked: CommandCall, turn: Turn, state: CoderSession) -> None:
    session = state.session
    option = next((o for o in session.options if o.id == option_id), None)
    if not isinstance(option, SelectOption):
        await turn.say(f"This session has no option `{option_id}`.")
        return
    wanted = asked.arguments.strip("`")
    if wanted:
        match = [c for c in option.choices if wanted.lower() in (c.value.lower(), c.name.lower())]
        if match:
            await state.hooks.set_option(session, option_id, match[0].value)
            await session.set_option(option_id, match[0].value)
            await turn.say(f"The {option_id} is now `{match[0].value}`.")
            return
        await turn.say(f"Unknown {option_id} `{wanted}`.\n\n")
    lines = [f"The {option_id} is `{option.value}`. Available:", ""]
    lines += [
        f"- `{choice.value}` — {choice.description or choice.name}" for choice in option.choices
    ]
    await turn.say("\n".join([*lines, "", f"Switch with `/{option_id} NAME`."]))


async def compact(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Compact the conversation."""
    model = await state.hooks.session_model(state)
    if not model.is_language_model:
        await turn.say("Nothing to compact: the demonstration model reads only your last prompt.")
        return None
    before = len(state.messages)
    if await shorten(turn, state, model, hint=asked.arguments):
        await turn.say(f"Replaced {before} messages by a summary; {len(state.messages)} are left.")
    else:
        await turn.say("Nothing to compact.")
    return None


async def export(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Write the conversation to a file."""
    session = state.session
    if not await session.history():
        await turn.say("Nothing to export: this session is not stored.")
        return None
    name = asked.arguments.strip("`\"'") or f"{session.id[:16]}.md"
    path = str(Path(session.cwd, name))
    title = session.title or "A session with Accord"
    parts = markdown_parts(await turn.history(), title)
    if name.lower().endswith((".html", ".htm")):
        from accord.text.markdown_html import page_of

        text = page_of(title, parts)
    else:
        text = "\n\n".join(parts) + "\n"
    async with turn.tool(f"Export to {name}", kind="edit", locations=[path]) as call:
        try:
            if not await state.files.is_reachable(path):
                raise ToolFailed(f"{name} is outside the session's directories.")
            old = await state.files.load_for_change(path, previews=False)
            if old is None:
                await call.add_diff(path, None, text)
            else:
                await call.add_diff(path, old.raw, old.raw_of(text))
            await require_permission(Access("edit", (path,)), call, state)
            await state.files.store(path, old, text)
        except ToolFailed as error:
            await call.fail(str(error))
            return None
        except OSError as error:
            await call.fail(f"Cannot write the file: {error.strerror or error}")
            return None
    await turn.say(f"The conversation is in `{name}`.")
    return None


_USAGE = f"""\
- `/permissions allow KIND PATTERN`, `/permissions reject KIND PATTERN` add a rule
- `/permissions remove NUMBER` removes a rule
- `/permissions trust` accepts the rules of others that allow something

A KIND is {", ".join(f"`{kind}`" for kind in KINDS[:-1])} or `{KINDS[-1]}`: `edit src/**`, \
`execute git status *`, `fetch docs.python.org`, `mcp github/search_*`."""


async def permissions(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Change the rules if requested, and show them."""
    verb, _, rest = asked.arguments.partition(" ")
    rest = rest.strip()
    match verb:
        case "":
            pass
        case "allow" | "reject":
            await turn.say(await _add(verb, rest, state))
        case "remove":
            await turn.say(await _remove(rest, state))
        case "trust" if not rest:
            count = await asyncio.to_thread(state.rules.trust_all)
            await turn.say(f"Accepted {count} rules.\n\n" if count else "There were none.\n\n")
        case _:
            await turn.say(f"Unknown arguments `{asked.arguments}`.\n\n{_USAGE}")
            return None
    known = await asyncio.to_thread(state.rules.read)
    await turn.say(_format_rules(known, state))
    return None


async def _add(effect: str, rest: str, state: CoderSession) -> str:
    kind, _, pattern = rest.partition(" ")
    pattern = pattern.strip().strip("`")
    if kind not in KINDS or not pattern:
        return f"A rule needs a kind and a pattern.\n\n{_USAGE}\n\n"
    rule = Rule("allow" if effect == "allow" else "reject", kind, pattern)
    try:
        rules_from(rules_to([rule]))
    except ValueError as exc:
        return f"The rule was not added: {exc}\n\n"
    problem = await asyncio.to_thread(state.rules.add, rule)
    if problem is not None:
        return f"The rule applies until the session ends; it could not be saved: {problem}\n\n"
    return f"Added: `{effect} {kind} {pattern}`\n\n"


async def _remove(number: str, state: CoderSession) -> str:
    known = await asyncio.to_thread(state.rules.read)
    rules = (*known.rules, *known.untrusted)
    if not number.isdecimal() or not 1 <= int(number) <= len(rules):
        return f"Unknown rule {number}.\n\n" if number else f"{_USAGE}\n\n"
    rule = rules[int(number) - 1]
    try:
        await asyncio.to_thread(state.rules.remove, rule)
    except (OSError, ValueError) as exc:
        return f"The rule could not be removed: {exc}\n\n"
    return f"Removed: `{rule}`\n\n"


def _format_rules(known: EffectiveRules, state: CoderSession) -> str:
    lines = [f"Mode: `{state.mode}`. Rules of this project, in `.accord/permissions.toml`:", ""]
    if known.error is not None:
        lines.append(f"The file cannot be used, so nothing is allowed by it: {known.error}")
    elif not known.rules and not known.untrusted:
        lines.append("There are none.")
    for number, rule in enumerate((*known.rules, *known.untrusted), 1):
        mark = " (not accepted by you: it does not apply)" if rule in known.untrusted else ""
        lines.append(f"{number}. {rule.effect} `{rule.kind} {rule.pattern}`{mark}")
    return "\n".join([*lines, "", _USAGE])
