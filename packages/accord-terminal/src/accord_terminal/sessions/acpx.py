"""What acpx users bring along: command lines, and the store of their sessions (R-NAMED-07).

A script writes `accord session` instead of `acpx`. The store has records, their streams of
messages, and archives; `accord session import` reads it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Raw, Struct, field

from accord.text import lenient_json
from accord_terminal.sessions.journal import Ended, Entry, Queued, Started, Updated
from accord_terminal.sessions.records import Record, Store, StoreError

# Reads command lines of acpx: a script writes `accord session` instead of `acpx`.

_PAGE = "the page `Come from acpx`"
_DEFAULT_AGENT = "codex"  # that of acpx
_ONLY_ACPX = frozenset({"exec", "sessions", "set-mode", "status"})
_COMMANDS = _ONLY_ACPX | {"cancel", "prompt", "set"}
_NOT_HERE = frozenset({"compare", "config", "flow"})
_NO_CONFIG = (
    "`config` of acpx does not exist: the settings are in the file that `accord agents` names; "
    f"see {_PAGE}"
)
_NO_FLOW = (
    "`flow` of acpx does not exist: write a script of `accord session prompt` commands, "
    f"or a program with `accord.connect`; see {_PAGE}"
)
_SESSIONS = {"read": "history"} | {
    name: name
    for name in (
        *("close", "ensure", "export", "history", "import", "list", "new", "prune", "show"),
        "watch",
    )
}

# Options with a value, and without one.
_VALUES = {
    "-f": "--file",
    "-o": "--output",
    "-s": "--session",
    "--name": "--session",
    "--limit": "--tail",
    "--mcp-config": "--mcp",
    "--prompt-retries": "--retries",
} | {
    name: name
    for name in (
        *("--agent", "--auth-policy", "--before", "--cursor", "--cwd", "--file", "--format"),
        *("--model", "--non-interactive-permissions", "--older-than", "--output", "--session"),
        *("--tail", "--timeout", "--ttl"),
        *("--allowed-tools", "--append-system-prompt", "--max-turns", "--system-prompt"),
    )
}
_FLAGS = frozenset(
    {"--approve-all", "--approve-reads", "--deny-all", "--dry-run", "--no-wait", "--verbose"}
    | {"--json-strict", "--local", "--no-fs", "--no-terminal"}
)
_APPROVALS = {
    "--approve-all": ("--yes",),
    "--approve-reads": ("--allow", "read", "--allow", "search"),
    "--deny-all": ("--deny", "*"),
}
_FORMATS = {"text": (), "json": ("--json",), "quiet": ("--quiet",)}
_BEHAVIOUR = {"--auth-policy": "fail", "--non-interactive-permissions": "deny"}

# The options of acpx that a command of Accord has; others concern other commands of acpx.
_WHERE = ("--cwd", "--session")
_TURN = ("--model", "--timeout", "--retries")
_OPENING = ("--model", "--mcp", "--meta")
_TAKEN: Mapping[str, Sequence[str]] = {
    "prompt": (*_WHERE, *_TURN, "--file", "--no-wait"),
    "exec": ("--cwd", *_TURN, "--file", "--mcp", "--meta", "--verbose"),
    "new": (*_WHERE, *_OPENING, "--ttl"),
    "ensure": (*_WHERE, *_OPENING, "--ttl"),
    "watch": (*_WHERE, "--cursor"),
    "history": (*_WHERE, "--tail"),
    "export": (*_WHERE, "--output"),
    "import": _WHERE,
    "list": (),
    "prune": ("--older-than", "--before", "--dry-run"),
}
# Without these, a command of Accord would do something else than that of acpx.
_NEEDED = frozenset(
    {"--before", "--cursor", "--dry-run", "--file", "--mcp", "--no-wait", "--older-than"}
    | {"--output", "--session", "--tail"}
)
_NO_AGENT = frozenset({"import", "list"})
_NO_JSON = frozenset({"export"})


class _Line(Struct):
    """What a command line of acpx says."""

    positional: list[str]
    given: dict[str, str | None]


def is_of_acpx(words: Sequence[str], agents: Collection[str]) -> bool:
    """Return whether words that begin with no command of `accord session` are of acpx."""
    first, *others = words
    if first.startswith("-"):
        return first.partition("=")[0] in _VALUES.keys() | _FLAGS
    known = _ONLY_ACPX | _NOT_HERE
    return first in known or first in agents or others[:1] in [[name] for name in _COMMANDS]


def words_of_acpx(words: Sequence[str]) -> list[str]:
    """Return the words for `accord session`; `exec` is that of `accord ask`.

    Raises `click.UsageError` for what Accord does not have.
    """
    line = _read(words)
    agent = line.given.pop("--agent", None)
    positional = line.positional
    if agent is None and positional and positional[0] not in _COMMANDS | _NOT_HERE:
        agent = positional.pop(0)
    name = positional.pop(0) if positional and positional[0] in _COMMANDS | _NOT_HERE else "prompt"
    match name:
        case "sessions":
            name = _SESSIONS.get(found := positional.pop(0) if positional else "list", "")
            if not name:
                raise click.UsageError(f"acpx has no command `sessions {found}`; see {_PAGE}")
            if name not in ("import", "list", "prune") and positional:
                line.given.setdefault("--session", positional.pop(0))
        case "status":
            name = "show"
        case "exec" if positional:  # `accord ask` takes the words after the first one as files
            positional = [" ".join(positional)]
        case "compare":
            raise click.UsageError(
                "`compare` of acpx is `accord compare PROMPT --agent A --agent B`"
            )
        case "config":
            raise click.UsageError(_NO_CONFIG)
        case "flow":
            raise click.UsageError(_NO_FLOW)
        case "set-mode":
            name, positional = "set", ["mode", *positional]
        case _:
            pass
    if (meta := _meta(line.given)) is not None:
        line.given["--meta"] = msgspec.json.encode(meta).decode()
    chosen = _options(name, line.given)
    if agent is None and name in ("ensure", "exec", "new"):
        agent = _DEFAULT_AGENT
    if agent is not None and name == "prune":
        raise click.UsageError(
            f"`sessions prune` deletes closed sessions of all agents, got {agent}; see {_PAGE}"
        )
    if agent is not None and name not in _NO_AGENT:
        chosen = ["--agent", agent, *chosen]
    return [name, *chosen, *(["--", *positional] if positional else [])]


def _read(words: Sequence[str]) -> _Line:
    line = _Line([], {})
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            line.positional += left
            break
        if not word.startswith("-") or word == "-":
            line.positional.append(word)
            continue
        option, has_value, value = word.partition("=")
        if option in _FLAGS and not has_value:
            line.given[option] = None
        elif option in _VALUES and (has_value or left):
            line.given[_VALUES[option]] = value if has_value else left.pop(0)
        elif option in _VALUES:
            raise click.UsageError(f"Option {option} requires a value")
        else:
            raise click.UsageError(f"`accord session` has no option {option} of acpx; see {_PAGE}")
    return line


def _meta(given: dict[str, str | None]) -> dict[str, Any] | None:
    """Take the options that acpx sends as `_meta` of the session; only Claude's adapter reads it.

    Raises `click.UsageError` for an invalid value.
    """
    claude: dict[str, Any] = {}
    meta: dict[str, Any] = {}
    if (tools := given.pop("--allowed-tools", None)) is not None:
        claude["allowedTools"] = (
            [tool.strip() for tool in tools.split(",")] if tools.strip() else []
        )
        if "" in claude["allowedTools"]:
            raise click.UsageError(
                f"--allowed-tools: expected names separated by commas, got {tools!r}"
            )
    if (turns := given.pop("--max-turns", None)) is not None:
        if not (turns.isascii() and turns.isdigit() and int(turns) > 0):
            raise click.UsageError(f"--max-turns: expected a number above 0, got {turns!r}")
        claude["maxTurns"] = int(turns)
    if claude:
        meta["claudeCode"] = {"options": claude}
    prompts = {
        option: value
        for option in ("--system-prompt", "--append-system-prompt")
        if (value := given.pop(option, None)) is not None
    }
    if len(prompts) > 1:
        raise click.UsageError(f"{' and '.join(prompts)} exclude each other")
    for option, text in prompts.items():
        if not text.strip():
            raise click.UsageError(f"{option}: expected a text, got an empty one")
        meta["systemPrompt"] = text if option == "--system-prompt" else {"append": text}
    return meta or None


def _options(name: str, given: Mapping[str, str | None]) -> list[str]:
    """Return the options of Accord for those of acpx."""
    taken = _TAKEN.get(name, _WHERE)
    found: list[str] = []
    for option, value in given.items():
        if option in _BEHAVIOUR and value != _BEHAVIOUR[option]:
            raise click.UsageError(f"{option} {value} is not available; see {_PAGE}")
        if option in taken:
            short = "-s" if option == "--session" else option
            found += [short] if value is None else [short, value]
        elif option in _NEEDED:
            raise click.UsageError(f"`{name}` has no option {option}; see {_PAGE}")
    approvals = [rules for flag, rules in _APPROVALS.items() if flag in given]
    if len(approvals) > 1:
        raise click.UsageError(f"{', '.join(_APPROVALS)} exclude each other")
    if name in ("prompt", "exec"):
        found += approvals[0] if approvals else _APPROVALS["--approve-reads"]
    form = given.get("--format") or "text"
    if form not in _FORMATS:
        raise click.UsageError(f"--format: expected {', '.join(_FORMATS)}, got {form}")
    if name in ("prompt", "exec") or (form == "json" and name not in _NO_JSON):
        found += _FORMATS[form]
    if name == "export":
        found += ["--format", "json"]
    if name == "list":
        found.append("--all")
    return found


SCHEMA = "acpx.session.v1"
_BY = "acpx"
_TEXT_CHARACTERS = 200


class _AcpxRecord(Struct):
    """What Accord uses of a record; the rest is kept as it is."""

    acpx_record_id: str
    agent_command: str
    cwd: str
    created_at: str
    last_used_at: str
    acp_session_id: str | None = None
    agent_argv: list[str] | None = None
    name: str | None = None
    closed: bool = False
    protocol_version: int | None = None
    title: str | None = None
    messages: list[Any] = field(default_factory=list[Any])


def record_files(path: Path) -> list[Path]:
    """Return the records in `~/.acpx`, in its folder of sessions, or a single one."""
    if path.is_file():
        return [path]
    folder = path / "sessions" if (path / "sessions").is_dir() else path
    return sorted(folder.glob("*.json"))


def stored_session(file: Path) -> tuple[Record, list[Entry]] | None:
    """Return a session of the store; None if the file is not a record of acpx."""
    try:
        value = lenient_json.loads(file.read_bytes())
    except (OSError, lenient_json.NotJson) as exc:
        raise StoreError(f"Cannot read {file}: {exc}") from None
    if not lenient_json.is_object(value) or value.get("schema") != SCHEMA:
        return None
    return _session(value, _frames(file), str(file))


def archive_session(value: dict[str, Any], where: str) -> tuple[Record, list[Entry]] | None:
    """Return the session of an archive of `acpx sessions export`; None for another file."""
    session: Any = value.get("session")
    history: Any = value.get("history")
    if value.get("exported_by") != _BY or not lenient_json.is_object(session):
        return None
    state: Any = session.get("state")
    if not lenient_json.is_object(state) or not lenient_json.is_array(history):
        return None
    return _session(state, (each for each in history if lenient_json.is_object(each)), where)


def _session(
    value: dict[str, Any], frames: Iterable[dict[str, Any]], where: str
) -> tuple[Record, list[Entry]]:
    try:
        found = msgspec.convert(value, _AcpxRecord)
        argv = tuple(found.agent_argv or shlex.split(found.agent_command))
    except (msgspec.ValidationError, ValueError) as exc:
        raise StoreError(f"The record of acpx in {where} is invalid: {exc}") from None
    if not argv:
        raise StoreError(f"The record of acpx in {where} has no agent")
    entries = [*_entries(frames, found.last_used_at)]
    entries = entries or [*_entries_of_messages(found)]
    extra = {key: kept for key, kept in value.items() if key not in ("messages", "schema")}
    record = Record(
        id=Store.new_id(),
        name=found.name,
        cwd=found.cwd,
        agent=found.agent_command,
        argv=argv,
        created_at=found.created_at,
        used_at=found.last_used_at,
        closed=found.closed,
        protocol=1 if found.protocol_version != 2 else 2,
        agent_session=found.acp_session_id,
        title=found.title,
        imported_from=f"acpx:{found.acpx_record_id}",
        extra=extra,
    )
    return record, entries


def _frames(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the messages of all segments, the oldest first."""
    for segment in _segments(file):
        with segment.open("rb") as lines:
            for line in lines:
                try:
                    value = lenient_json.loads(line)
                except lenient_json.NotJson:
                    continue  # cut off by a crash
                if lenient_json.is_object(value) and "jsonrpc" in value:
                    yield value


def _segments(file: Path) -> list[Path]:
    """Return the current stream and the rotated ones, of which higher numbers are older."""

    def age(path: Path) -> int:
        found = re.search(r"\.stream\.(\d+)\.ndjson$", path.name)
        return 0 if found is None else int(found[1])

    return sorted(file.parent.glob(f"{file.stem}.stream*.ndjson"), key=age, reverse=True)


def _entries(frames: Iterable[dict[str, Any]], at: str) -> Iterator[Entry]:
    """Yield the turns; what is outside of them, such as a replay, is not repeated."""
    running: dict[Any, str] = {}  # prompt ids by request id
    prompt: str | None = None
    count = 0
    for frame in frames:
        params: Any = frame.get("params")
        if frame.get("method") == "session/prompt" and lenient_json.is_object(params):
            count += 1
            prompt = f"acpx-{count}"
            running[str(frame.get("id"))] = prompt
            yield from _begin(prompt, params.get("prompt") or [], at)
        elif frame.get("method") == "session/update" and lenient_json.is_object(params):
            if prompt is not None and "update" in params:
                update = Raw(lenient_json.dumps(params["update"]))
                yield Updated(prompt=prompt, at=at, update=update)
        elif "method" not in frame and (ended := running.pop(str(frame.get("id")), None)):
            prompt = None
            yield _end(ended, frame, at)
    if prompt is not None:
        yield Ended(prompt=prompt, at=at, stop_reason="error", error="The turn was not recorded")


def _begin(prompt: str, blocks: list[Any], at: str) -> Iterator[Entry]:
    content = Raw(lenient_json.dumps(blocks))
    texts = (block.get("text", "") for block in blocks if lenient_json.is_object(block))
    text = " ".join(" ".join(texts).split())[:_TEXT_CHARACTERS]
    yield Queued(prompt=prompt, at=at, content=content, text=text, by=_BY)
    yield Started(prompt=prompt, at=at, content=content, by=_BY)


def _end(prompt: str, frame: dict[str, Any], at: str) -> Ended:
    error: Any = frame.get("error")
    if lenient_json.is_object(error):
        message, code = str(error.get("message")), error.get("code")
        code = code if isinstance(code, int) else None
        return Ended(prompt=prompt, at=at, stop_reason="error", error=message, code=code)
    result: Any = frame.get("result")
    reason = result.get("stopReason") if lenient_json.is_object(result) else None
    return Ended(prompt=prompt, at=at, stop_reason=str(reason or "end_turn"))


def _entries_of_messages(found: _AcpxRecord) -> Iterator[Entry]:
    """Yield the turns of a record whose stream was pruned: only their texts."""
    prompt: str | None = None
    at = found.last_used_at
    for count, message in enumerate(found.messages, 1):
        if not lenient_json.is_object(message):
            continue
        if "User" in message:
            if prompt is not None:
                yield Ended(prompt=prompt, at=at, stop_reason="end_turn")
            prompt = f"acpx-{count}"
            blocks = [{"type": "text", "text": text} for text in _texts(message["User"])]
            yield from _begin(prompt, blocks, at)
        elif "Agent" in message and prompt is not None:
            for text in _texts(message["Agent"]):
                update = {
                    "sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": text},
                }
                yield Updated(prompt=prompt, at=at, update=Raw(lenient_json.dumps(update)))
    if prompt is not None:
        yield Ended(prompt=prompt, at=at, stop_reason="end_turn")


def _texts(message: Any) -> Iterator[str]:
    content: Any = message.get("content") if lenient_json.is_object(message) else None
    for part in content if lenient_json.is_array(content) else ():
        if lenient_json.is_object(part) and isinstance(text := part.get("Text"), str):
            yield text
