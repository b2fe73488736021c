"""A session as Markdown, HTML or JSON; the JSON can be imported again."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from accord.client.events import ToolCall
from accord.client.markdown import markdown_of
from accord.client.message import Message
from accord.text.excerpt import one_line, visible
from accord.types.tool_calls import Diff
from accord_sessions.entries import Entry
from accord_sessions.records import Record
from accord_sessions.turns import Turn, turns_of

__all__ = ("SCHEMA", "Archive", "exported")

SCHEMA = "accord.session.export.v1"

_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 14px/1.45 ui-monospace, monospace }
.prompt { border-left: 4px solid #36c; padding-left: 1rem; font-weight: 600 }
.thought, .end { color: #666 }
.call { background: #8881; padding: .4rem .8rem; border-radius: 4px; margin: .3rem 0 }
ins { color: #080; text-decoration: none } del { color: #b00; text-decoration: none }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } }
"""


class Archive(Struct, kw_only=True):
    """A session with its journal."""

    schema: Literal["accord.session.export.v1"] = SCHEMA
    record: Record
    entries: list[Raw]


def exported(record: Record, entries: Sequence[Entry], form: str) -> bytes:
    """Return a session in a form: `markdown`, `html` or `json`."""
    if form == "json":
        record = replace(record, env={})  # it may have secrets
        raw = [Raw(msgspec.json.encode(entry)) for entry in entries]
        return msgspec.json.encode(Archive(record=record, entries=raw)) + b"\n"
    turns = [*turns_of(entries, record.protocol or 1)]
    parts = _markdown(record, turns) if form == "markdown" else _html(record, turns)
    return "".join(parts).encode("utf-8", "backslashreplace")


def _heading(record: Record) -> str:
    return one_line(record.title or record.name or record.id)


def _facts(record: Record) -> Iterator[str]:
    yield f"Agent: {one_line(record.agent_info or record.agent)}"
    yield f"Directory: {one_line(record.cwd)}"
    yield f"Created: {record.created_at}"


def _markdown(record: Record, turns: Iterable[Turn]) -> Iterator[str]:
    yield f"# {_heading(record)}\n\n"
    for fact in _facts(record):
        yield f"- {fact}\n"
    for turn in turns:
        yield f"\n## {one_line(turn.prompt, 100)}\n\n"
        if "\n" in turn.prompt:
            yield "".join(f"> {line}\n" for line in visible(turn.prompt).splitlines()) + "\n"
        text = markdown_of(_of_agent(turn), turn.plans)
        if text:
            yield f"{visible(text)}\n\n"
        for line in _decisions(turn):
            yield f"- {line}\n"
        yield f"*{_end(turn)}*\n"


def _html(record: Record, turns: Iterable[Turn]) -> Iterator[str]:
    title = _escaped(_heading(record))
    yield f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
    yield '<meta name="viewport" content="width=device-width">\n'
    yield f"<style>\n{_STYLE}</style>\n<h1>{title}</h1>\n<ul>\n"
    for fact in _facts(record):
        yield f"<li>{_escaped(fact)}</li>\n"
    yield "</ul>\n"
    for turn in turns:
        yield f'<section>\n<pre class="prompt">{_escaped(turn.prompt)}</pre>\n'
        for item in _of_agent(turn):
            yield from _html_item(item)
        for plan in turn.plans:
            yield f"<pre>{_escaped(markdown_of((), (plan,)))}</pre>\n"
        for line in _decisions(turn):
            yield f'<div class="call">{_escaped(line)}</div>\n'
        yield f'<p class="end">{_escaped(_end(turn))}</p>\n</section>\n'
    yield "</html>\n"


def _html_item(item: object) -> Iterator[str]:
    match item:
        case Message(role="agent"):
            yield f"<pre>{_escaped(item.text)}</pre>\n"
        case Message():
            yield f'<pre class="thought">{_escaped(item.text)}</pre>\n'
        case ToolCall():
            yield f'<div class="call">{_escaped(one_line(item.title))} [{_escaped(item.status)}]'
            for content in item.content:
                if isinstance(content, Diff):
                    yield from _html_diff(content)
            yield "</div>\n"
        case _:
            pass


def _html_diff(diff: Diff) -> Iterator[str]:
    yield f"<pre>{_escaped(diff.path)}\n"
    for line in (diff.old or "").splitlines():
        yield f"<del>-{_escaped(line)}</del>\n"
    for line in (diff.new or "").splitlines():
        yield f"<ins>+{_escaped(line)}</ins>\n"
    yield "</pre>"


def _of_agent(turn: Turn) -> list[Any]:
    return [item for item in turn.items if not (isinstance(item, Message) and item.role == "user")]


def _decisions(turn: Turn) -> Iterator[str]:
    for question, answer, by in turn.decisions:
        yield one_line(f"{question}: {answer}, by {by}")


def _end(turn: Turn) -> str:
    if turn.error is not None:
        return one_line(f"failed: {turn.error}")
    return one_line(f"{turn.stop_reason or 'not ended'}, {turn.ended_at or turn.started_at}")


def _escaped(text: str) -> str:
    return html.escape(visible(text))
