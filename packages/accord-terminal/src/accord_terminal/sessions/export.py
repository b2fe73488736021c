"""A session as Markdown, HTML or JSON; the JSON can be imported again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from accord.client.events import ToolCall
from accord.client.markdown import markdown_of
from accord.client.message import Message
from accord.text.excerpt import one_line, visible
from accord.text.markdown_html import page_of
from accord.text.secrets import redacted_argv, redacted_json, redacted_text
from accord.types.tool_calls import TerminalView
from accord_terminal.sessions.entries import Entry
from accord_terminal.sessions.records import Record
from accord_terminal.sessions.turns import Turn, turns_of
from accord_terminal.toolkit.conversation_markdown import agent_text, plain, quoted, tool_call_parts
from accord_terminal.toolkit.safe_text import printable

SCHEMA = "accord.session.export.v1"


class Archive(Struct, kw_only=True):
    """A session with its journal."""

    schema: Literal["accord.session.export.v1"] = SCHEMA
    record: Record
    entries: list[Raw]


def exported(record: Record, entries: Sequence[Entry], form: str) -> bytes:
    """Return a session in a form: `markdown`, `html` or `json`."""
    record = replace(
        record,
        env={},  # it may have secrets
        agent=redacted_text(record.agent),
        argv=tuple(redacted_argv(record.argv)),
        meta=redacted_json(record.meta),
        extra=redacted_json(record.extra),
        last_exit=None if record.last_exit is None else redacted_text(record.last_exit),
    )
    if form == "json":
        raw = [Raw(msgspec.json.encode(entry)) for entry in entries]
        return msgspec.json.encode(Archive(record=record, entries=raw)) + b"\n"
    heading = one_line(record.title or record.name or record.id)
    parts = [f"# {plain(heading)}", *_parts(record, turns_of(entries, record.protocol or 1))]
    text = "\n\n".join(parts) + "\n" if form == "markdown" else page_of(heading, parts)
    return text.encode("utf-8", "backslashreplace")


def _parts(record: Record, turns: Iterable[Turn]) -> Iterator[str]:
    facts = (
        f"Agent: {plain(record.agent_info or record.agent)}",
        f"Directory: {plain(record.cwd)}",
        f"Created: {record.created_at}",
    )
    yield "\n".join(f"- {fact}" for fact in facts)
    for turn in turns:
        yield f"## {plain(one_line(' '.join(turn.prompt.split()), 100))}"
        if "\n" in turn.prompt.strip() or len(turn.prompt) > 100:
            yield "\n".join(f"> {plain(line)}  " for line in turn.prompt.splitlines())
        for item in turn.items:
            yield from _item(item, record.cwd, turn)
        if turn.plans:
            yield markdown_of((), turn.plans)
        if decisions := [*_decisions(turn)]:
            yield "\n".join(f"- {plain(line)}" for line in decisions)
        yield f"*{plain(_end(turn))}*"


def _item(item: object, cwd: str, turn: Turn) -> Iterator[str]:
    match item:
        case Message(role="user"):
            pass
        case Message(role="agent"):
            if item.text.strip():
                yield agent_text(item.text)
        case Message():
            if item.text.strip():
                yield quoted(f"*Thought:* {printable(item.text).strip()}")
        case ToolCall():
            ids = [part.terminal_id for part in item.content if isinstance(part, TerminalView)]
            terminals = [turn.terminals[each] for each in ids if each in turn.terminals]
            yield from tool_call_parts(item, cwd, terminals)
        case _:
            yield from filter(None, [visible(markdown_of((item,), ()))])


def _decisions(turn: Turn) -> Iterator[str]:
    for question, answer, by in turn.decisions:
        yield one_line(f"{question}: {answer}, by {by}")


def _end(turn: Turn) -> str:
    if turn.error is not None:
        return one_line(f"failed: {turn.error}")
    return one_line(f"{turn.stop_reason or 'not ended'}, {turn.ended_at or turn.started_at}")
