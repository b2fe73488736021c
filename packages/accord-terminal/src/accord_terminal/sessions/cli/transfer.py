"""`accord session export` and `import`: a session as Markdown, HTML or JSON, and back.

Sessions of acpx can be imported, too.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from accord.client.events import ToolCall, UserText
from accord.client.transcript import (
    Message,
    TerminalTranscript,
    Transcript,
    calls_left_open,
    markdown_of,
)
from accord.text import lenient_json
from accord.text.excerpt import one_line as escaped_line
from accord.text.excerpt import visible
from accord.text.markdown_html import page_of
from accord.text.secrets import redacted_argv, redacted_json, redacted_text
from accord.types.session import Cost
from accord.types.tool_calls import TerminalView
from accord_terminal.sessions.acpx import archive_session, record_files, stored_session
from accord_terminal.sessions.cli.options import agent_option, cwd_option, json_option, name_option
from accord_terminal.sessions.journal import (
    Answered,
    Asked,
    Ended,
    Entry,
    Journal,
    JournalReader,
    Queued,
    Started,
    Steered,
    Updated,
)
from accord_terminal.sessions.owner.translate import Translator
from accord_terminal.sessions.records import (
    FAILED,
    LookupFailed,
    Record,
    Store,
    StoreError,
    check_name,
    existing_session,
    locked,
    named_agent,
)
from accord_terminal.toolkit.text import one_line, printable
from accord_terminal.toolkit.tool_rows import agent_text, plain, quoted, tool_call_parts

# The turns of a session, read from its journal: prompts, answers, tool calls, times, cost.


class Turn(Struct, kw_only=True):
    """One prompt and what the agent did; `items` are those of `accord.Transcript`."""

    id: str
    prompt: str
    by: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    stop_reason: str | None = None
    error: str | None = None
    items: list[Any] = []
    plans: list[Any] = []
    terminals: dict[str, TerminalTranscript] = {}  # those of the session so far, by id
    decisions: list[tuple[str, str, str]] = []  # what was asked, the answer, by whom
    cost: Cost | None = None  # of the session after the turn


def turns_of(entries: Iterable[Entry], version: int) -> Iterator[Turn]:
    """Yield the turns of a journal in order; `version` is that of the agent."""
    queued: dict[str, Queued] = {}
    asked: dict[str, Asked] = {}
    turn: Turn | None = None
    translator = Translator(version, forgets=False)
    for entry in entries:
        match entry:
            case Queued(prompt=str() as prompt_id):
                queued[prompt_id] = entry
            case Started(prompt=str() as prompt_id):
                text = _text_of(entry)
                turn = Turn(id=prompt_id, prompt=text, by=entry.by, started_at=entry.at)
                cost = translator.transcript
                translator.transcript = Transcript()
                translator.transcript.usage = cost.usage
            case Updated(session=None):
                translator.events(entry.update)
            case Steered() if version == 1:  # agents of version 2 echo what was said
                text = UserText(_text_of(entry), f"steered {entry.seq}")
                translator.transcript.apply(text)
            case Asked():
                asked[entry.request] = entry
            case Answered() if turn is not None and entry.request in asked:
                question = asked[entry.request]
                turn.decisions.append(
                    (f"{question.what}: {question.title}", entry.answer, entry.by)
                )
            case Ended():
                if turn is not None and turn.id == entry.prompt:
                    for call in calls_left_open(translator.transcript, version):
                        translator.transcript.apply(call)
                    yield _ended(turn, entry, translator.transcript)
                    turn = None
            case _:
                pass
    if turn is not None:
        yield _ended(turn, None, translator.transcript)


def _ended(turn: Turn, ended: Ended | None, transcript: Transcript) -> Turn:
    turn.items = [*transcript.items]
    turn.terminals = {**transcript.terminals}
    turn.plans = [*transcript.plans.values()]
    if transcript.usage is not None:
        turn.cost = transcript.usage.cost
    if ended is not None:
        turn.ended_at, turn.stop_reason, turn.error = ended.at, ended.stop_reason, ended.error
    return turn


def _text_of(entry: Started | Steered) -> str:
    blocks: Any = msgspec.json.decode(entry.content)
    return "\n".join(str(block.get("text") or block.get("uri") or "") for block in blocks)


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
    heading = escaped_line(record.title or record.name or record.id)
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
        yield f"## {plain(escaped_line(' '.join(turn.prompt.split()), 100))}"
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
        yield escaped_line(f"{question}: {answer}, by {by}")


def _end(turn: Turn) -> str:
    if turn.error is not None:
        return escaped_line(f"failed: {turn.error}")
    return escaped_line(f"{turn.stop_reason or 'not ended'}, {turn.ended_at or turn.started_at}")


_FORMS = {".md": "markdown", ".html": "html", ".htm": "html", ".json": "json"}


@click.command("export")
@name_option
@agent_option
@cwd_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html", "json"]),
    help="Format [default: by the name of the file, else markdown].",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a file that only you can read [default: standard output].",
)
def export_command(
    name: str | None, agent: str | None, cwd: Path, form: str | None, output: Path | None
) -> int:
    """Write a session as Markdown, HTML or JSON. `accord session import` reads the JSON."""
    store = Store()
    record = existing_session(store, name, cwd, agent)
    entries = [*JournalReader(store.journal_path(record.id)).new_entries()]
    suffix = "" if output is None else output.suffix.lower()
    data = exported(record, entries, form or _FORMS.get(suffix, "markdown"))
    if output is None:
        sys.stdout.buffer.write(data)
        return 0
    try:
        _write_private(output, data)
    except OSError as exc:
        raise StoreError(f"Cannot write {output}: {exc.strerror}") from None
    return 0


def _write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user can read, also one that existed; warn if another owns it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            try:
                os.fchmod(file.fileno(), 0o600)
            except PermissionError:
                click.echo(
                    f"accord session export: {one_line(str(path))} belongs to another user: "
                    "others may be able to read it",
                    err=True,
                )
            file.truncate(0)
        file.write(data)


_decode_entry = msgspec.json.Decoder(Entry).decode


@click.command("import")
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("-s", "--session", "name", metavar="NAME", help="Name of the imported session.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of the imported session [default: the recorded one].",
)
@json_option
def import_command(path: Path | None, name: str | None, cwd: Path | None, as_json: bool) -> int:
    """Import sessions of acpx, or a file of `accord session export --format json`.

    PATH is the folder of acpx [default: ~/.acpx], one of its records or archives, or an export. A
    session that was imported before is skipped. If an open session has the same agent, directory
    and name, the imported one is stored as closed. Look at the printed agent: it is the command
    that the next prompt starts.
    """
    check_name(name)
    store = Store()
    source = path or Path.home() / ".acpx"
    if not source.exists():
        raise StoreError(f"There is no folder {source}")
    files = record_files(source)
    skipped = 0
    rows: list[dict[str, Any]] = []
    lines: list[str] = []  # shown when the lock is free: the reader of stdout may be slow
    errors: list[str] = []
    with locked(store.folder / "import.lock"):  # of two imports, one skips what the other stores
        known = {record.imported_from for record in store}
        for file in files:
            try:
                session = _session(file, is_named=source.is_file())
                if session is None:
                    continue
                record, entries = session
                if record.imported_from in known:
                    skipped += 1
                    lines.append(f"skipped {one_line(record.label)}: it was imported before")
                    continue
                if name is not None:
                    record.name = name
                if cwd is not None:
                    record.cwd = str(cwd.resolve())
                _save(store, record, entries)
            except StoreError as exc:
                errors.append(str(exc))
                continue
            known.add(record.imported_from)
            rows.append(_row(record))
            lines.append(_line(record))
    if not (rows or skipped or errors):
        raise StoreError(f"Expected records of acpx or an export of a session in {source}")
    for line in () if as_json else lines:
        click.echo(line)
    for error in errors:
        click.echo(f"accord session import: {one_line(error)}", err=True)
    if as_json:
        click.echo(json.dumps({"imported": rows, "skipped": skipped}, ensure_ascii=False))
    return FAILED if errors else 0


def _row(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "state": "closed" if record.closed else "open",
        "cwd": record.cwd,
        "agent": record.argv,
    }


def _line(record: Record) -> str:
    state = "closed" if record.closed else "open"
    where, agent = one_line(record.cwd), one_line(shlex.join(record.argv))
    return f"imported {one_line(record.label)} ({record.id}), {state}, in {where}, agent {agent}"


def _save(store: Store, record: Record, entries: list[Entry]) -> None:
    try:
        _write_journal(store, record, entries)
        if not record.closed:
            _, is_new = store.find_or_create(record)
            if is_new:
                return
            record.closed = True
        store.write(record)
    except StoreError:
        with suppress(StoreError):
            store.delete(record.id)
        raise


def _write_journal(store: Store, record: Record, entries: list[Entry]) -> None:
    journal = Journal(store.journal_path(record.id))
    try:
        for entry in entries:
            journal.append(entry)
        journal.sync()
    finally:
        journal.close()


def _session(file: Path, *, is_named: bool) -> tuple[Record, list[Entry]] | None:
    """Return the session in a file; only a file that the user names can be an export."""
    found = _exported(file) if is_named else None
    return stored_session(file) if found is None else found


def _exported(file: Path) -> tuple[Record, list[Entry]] | None:
    try:
        data = file.read_bytes()
        value = lenient_json.loads(data)
    except (OSError, lenient_json.NotJson) as exc:
        raise StoreError(f"Cannot read {file}: {exc}") from None
    if not lenient_json.is_object(value):
        return None
    if value.get("schema") != SCHEMA:
        return archive_session(value, str(file))
    try:
        archive = msgspec.json.decode(data, type=Archive)
        entries = [_decode_entry(entry) for entry in archive.entries]
    except msgspec.MsgspecError as exc:
        raise StoreError(f"The export {file} is invalid: {exc}") from None
    record = archive.record
    record.imported_from = f"accord:{record.id}"
    record.id, record.owner, record.restored = Store.new_id(), None, None
    record.env = _environment(record)
    return record, entries


def _environment(record: Record) -> dict[str, str | None]:
    """Return what the settings have for the agent: an export has no environment."""
    try:
        agent = named_agent(record.agent)
    except LookupFailed:
        return {}
    return dict(agent.entry.env) if agent.argv == record.argv else {}
