"""The options of one run of `accord ask`, how some are read, and its exit statuses.

Also the interface of a session that another process holds (`accord ask -s NAME`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.handlers import Extension
    from accord.client.limits import Limits
    from accord.errors import AccordError
    from accord.transports.base import TransportFactory
    from accord.types.mcp import McpServer
    from accord.types.session import StopReason
    from accord.version import ProtocolVersion

# Status 2 is a usage error.
FAILED, STOPPED_EARLY, REFUSED, CANCELLED = 1, 3, 4, 130
EXIT_STATUSES: dict[StopReason, int] = {
    "end_turn": 0,
    "error": FAILED,
    "max_tokens": STOPPED_EARLY,
    "max_turn_requests": STOPPED_EARLY,
    "refusal": REFUSED,
    "cancelled": CANCELLED,
}


class Statuses(Struct, frozen=True, kw_only=True):
    """The exit statuses that differ between commands."""

    timeout: int = STOPPED_EARLY
    rejected: int = STOPPED_EARLY  # a permission request, without asking the user
    stopped_early: int = STOPPED_EARLY  # by a limit of the model
    refused: int = REFUSED


_DEFAULT = Statuses()


class AskOptions(Struct, frozen=True, kw_only=True):
    """The command line of `accord ask`, combined with the settings file."""

    prompt: str
    argv: tuple[str, ...]  # the command that starts the agent, or the URL of a remote one
    token: str | None = None  # for a remote agent
    cwd: Path
    files: tuple[Path, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None])  # of the agent
    protocol: ProtocolVersion | None = None  # None: the newest version that the agent speaks
    allow_rules: tuple[str, ...] = ()
    deny_rules: tuple[str, ...] = ()
    yes: bool = False
    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()  # as ID=VALUE
    mcp_servers: tuple[McpServer, ...] = ()
    meta: dict[str, Any] | None = None  # sent as `_meta` when the session is opened
    limits: Limits | None = None  # of --budget
    retries: int = 0  # of a prompt that fails before the agent has done anything
    steer: bool = False  # read lines while the turn runs
    timeout_s: float | None = None  # of the turn
    terminals: bool = False
    as_json: bool = False
    quiet: bool = False
    thoughts: bool = False
    verbose: bool = False
    continue_latest: bool = False
    session_id: str | None = None
    program: str = "accord ask"  # for messages
    statuses: Statuses = _DEFAULT


def exit_status(stop_reason: StopReason | None, statuses: Statuses = _DEFAULT) -> int:
    """Return the exit status for a stop reason. An unknown reason counts as an early stop."""
    status = EXIT_STATUSES.get(stop_reason or "error", STOPPED_EARLY)
    if status == STOPPED_EARLY:
        return statuses.stopped_early
    return statuses.refused if status == REFUSED else status


def read_prompt(
    words: Sequence[str], source: str | None, *, may_be_empty: bool = False, what: str = "PROMPT"
) -> str:
    """Return a prompt: the words and the file `source`, or standard input if either is `-`.

    Raises `click.UsageError`, which names it `what`, if the file cannot be read, or if the prompt
    is empty.
    """
    if source is not None and source != "-":
        try:
            text = Path(source).read_text("utf-8")
        except OSError as exc:
            raise click.UsageError(f"--file: {source}: {exc.strerror}") from None
        except UnicodeDecodeError:
            raise click.UsageError(f"--file: {source} is not UTF-8") from None
        text = "\n\n".join(filter(None, (" ".join(words), text)))
    elif source == "-" or tuple(words) in ((), ("-",)):
        is_named = source == "-" or tuple(words) == ("-",)
        if sys.stdin is None or (sys.stdin.isatty() and not is_named):
            raise click.UsageError(f"Expected a {what}; give `-` to read it from standard input")
        data = sys.stdin.buffer.read()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise click.UsageError(
                f"Expected a prompt in UTF-8 on standard input: {error}"
            ) from None
        if source == "-":
            text = "\n\n".join(filter(None, (" ".join(words), text)))
    else:
        text = " ".join(words)
    if not text.strip() and not may_be_empty:
        raise click.UsageError(f"Expected a {what}, got an empty one")
    return text


def _read_meta(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise click.BadParameter(f"Expected a JSON object, got {value!r}: {error}") from None


def meta_option(function: Any) -> Any:
    """Add --meta."""
    return click.option(
        "--meta",
        metavar="JSON",
        callback=_read_meta,
        help="Object to send as `_meta` when the session is opened, for the agent's extensions.",
    )(function)


def retries_option(function: Any) -> Any:
    """Add --retries."""
    return click.option(
        "--retries",
        metavar="N",
        type=click.IntRange(min=0),
        default=0,
        help="Repeat a prompt up to N times if it fails with an internal error before the agent "
        "has done anything [default: 0].",
    )(function)


# The interface of a session that another process holds; other packages implement it.


class HeldSession(Protocol):
    """A session that stays open when `accord ask` has ended."""

    async def reach(self, options: AskOptions) -> tuple[AskOptions, TransportFactory]:
        """Find or start the process that holds the session; return what talks to it."""
        ...

    def extensions(self, show: Callable[[str], None]) -> Mapping[str, Extension]:
        """Return the methods to serve; `show` gets lines about what others have answered."""
        ...

    async def connected(self, agent: ConnectedAgent, interactive: bool) -> None:
        """Called after `initialize`, with whether a user can be asked."""
        ...

    def explain(self, error: AccordError | OSError) -> AccordError | OSError:
        """Return the error to report for one that has ended the run."""
        ...

    def offers_login(self, error: AccordError | OSError) -> bool:
        """Log in to the agent, if that is what is missing and the user at the terminal wants to."""
        ...

    def exit_status(self, error: AccordError | OSError) -> int:
        """Return the exit status for an error."""
        ...
