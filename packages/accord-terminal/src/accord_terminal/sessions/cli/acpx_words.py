"""Reads command lines of acpx: a script writes `accord session` instead of `acpx`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

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
