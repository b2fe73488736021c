"""`accord ask`: one turn with an agent, shown to people or told to programs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, get_args

import click

from accord.cli.attach import attached
from accord.errors import AccordError, AuthRequired, NotOffered, RequestError, ResourceNotFound
from accord.transports.process import ProcessTransport, argv_of, process

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.dialect import SessionListing
    from accord.client.elicitation import Form, Values, WebPage
    from accord.client.events import Decision, Event, PermissionRequest
    from accord.client.permissions import Policy
    from accord.client.session import ClientSession
    from accord.client.turn import ClientTurn
    from accord.model.session import StopReason

# The agent's process starts first; what it does not need is imported while it starts, too.

__all__ = ("STATUSES", "Screen", "command", "status_of")

INITIALIZE_S = 120.0  # for the agent to start: it may have to be downloaded first
QUIT_S = 1.0  # for the agent to end the turn once the user has asked twice
STOP_TIMES_S = (1.0, 1.0, 2.0)  # to leave, to obey SIGTERM, to be gone after SIGKILL
MOST_LAST_WORDS = 5  # lines of what the agent wrote where no client reads

# What the exit status says of the turn; 2 is a wrong command line.
FAILED, SHORT, REFUSED, CANCELLED = 1, 3, 4, 130
STATUSES: dict[StopReason, int] = {
    "end_turn": 0,
    "error": FAILED,
    "max_tokens": SHORT,
    "max_turn_requests": SHORT,
    "refusal": REFUSED,
    "cancelled": CANCELLED,
}


class Screen(Protocol):
    """Where a turn is shown."""

    def wait(self, name: str) -> None:
        """The agent of this name is starting."""
        ...

    def begin(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """The session is open."""
        ...

    async def ask(self, request: PermissionRequest) -> Decision | None:
        """Let the user decide."""
        ...

    async def fill_in(self, form: Form) -> Values | None:
        """Let the user fill in a form; None when they decline."""
        ...

    async def visit(self, page: WebPage) -> bool:
        """Let the user open a page, or not."""
        ...

    def decline(self) -> bool:
        """Decline what the user is asked just now; tell whether there was something."""
        ...

    def show(self, event: Event) -> None:
        """Something happened."""
        ...

    def end(self, turn: ClientTurn) -> None:
        """The turn is over."""
        ...

    def fail(self, message: str, code: int | None) -> None:
        """It came to no end."""
        ...

    def close(self) -> None:
        """Leave everything tidy, whatever happened."""
        ...


def _words(_context: click.Context, _option: click.Parameter, value: str | None) -> list[str]:
    if value is None:
        return [sys.executable, "-m", "accord", "agent"]
    try:
        return argv_of(value)
    except ValueError as exc:
        raise click.BadParameter(f"Expected a command line, got {value!r}: {exc}") from None


def _rules(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if not value:
        return value
    from accord.model.tools import ToolKind

    known, _ = get_args(ToolKind)
    for rule in value:
        kind = rule.partition(":")[0]
        if kind not in ("*", *get_args(known)) and not kind.startswith("_"):
            raise click.BadParameter(
                f"Expected a kind of tool call, got {kind!r} in {rule!r}: it is one of "
                f"{', '.join(get_args(known))}, or * for all"
            )
    return value


@click.command()
@click.argument("prompt")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--agent",
    "words",
    metavar="COMMAND",
    callback=_words,
    help="The agent to start; else the bundled one.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The directory that the session works in.",
)
@click.option(
    "--allow",
    "rules",
    metavar="RULE",
    multiple=True,
    callback=_rules,
    help="Allow what matches, as `edit`, `edit:src/*` or `execute:pytest*`; may be repeated.",
)
@click.option("--yes", is_flag=True, help="Allow everything that the agent asks for.")
@click.option(
    "--terminals",
    is_flag=True,
    help="Run commands for an agent of version 1 on this machine, as editors do.",
)
@click.option("--json", "as_json", is_flag=True, help="Write events as JSON lines.")
@click.option("--continue", "goes_on", is_flag=True, help="Go on with the latest session here.")
@click.option("--session", "session_id", metavar="ID", help="Go on with this session.")
def command(
    prompt: str,
    files: tuple[Path, ...],
    words: list[str],
    cwd: Path,
    rules: tuple[str, ...],
    yes: bool,
    terminals: bool,
    as_json: bool,
    goes_on: bool,
    session_id: str | None,
) -> int:
    """Ask an agent, and show what it does and says.

    FILES go with the prompt. What the agent asks permission for is decided by --allow and --yes,
    else asked at the terminal, else refused. What else it asks the user, in forms, is asked at
    the terminal alone. Ctrl-C cancels the turn, or declines a form; a second one quits.

    The exit status is 0 when the agent came to an end, 1 when it failed, 2 when the command line
    is wrong, 3 when the agent stopped short, 4 when it refused, 130 when the turn was cancelled.
    """
    if goes_on and session_id is not None:
        raise click.UsageError("--continue and --session exclude each other")
    if not prompt and not files:
        raise click.UsageError("Expected something to ask, got an empty PROMPT")

    cwd = cwd.absolute()
    screen = _LateScreen(as_json=as_json)
    heard = _Heard()
    logins: list[str] = []

    async def converse(ways: Callable[[], ProcessTransport]) -> int:
        from accord.client.connect import connect

        # The screen is imported once `initialize` is on its way.
        asyncio.get_running_loop().call_later(0, screen.wait, words[0])
        there = not as_json and _somebody()
        async with connect(
            ways,
            permissions=_policies(rules, screen, yes=yes, there=there),
            # Whoever cannot be asked is not offered to be.
            on_form=screen.fill_in if there else None,
            on_url=screen.visit if there else None,
            terminals=terminals,
            initialize_timeout_s=INITIALIZE_S,
        ) as agent:
            logins.extend(f"{method.id} ({method.name})" for method in agent.auth_methods)
            session = await _open(agent, cwd, session_id, goes_on=goes_on)
            screen.get().begin(agent, session)
            contents = [*([prompt] if prompt else []), *attached(agent, files)]
            turn = session.prompt(*contents, cancel_timeout_s=QUIT_S)
            show = screen.get().show
            with _Interrupts(turn, screen.get().decline):
                async with turn:
                    async for event in turn:
                        show(event)
            screen.get().end(turn)
            return status_of(turn.stop_reason)

    from accord.agent.running import run as run_to_end

    async def main() -> int:
        try:
            return await _with_agent(words, heard, converse)
        finally:
            screen.close()  # before a signal ends this

    def failed(why: str, code: int | None = None) -> int:
        from accord.cli.shown import printable

        screen.get().close()
        screen.get().fail(why, code)
        click.echo(f"accord ask: {printable(why)}", err=True)
        for line in heard.last_words(why):
            click.echo(line, err=True)
        return FAILED

    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="replace")  # what it has no characters for
    try:
        return run_to_end(main())
    except asyncio.CancelledError:
        return CANCELLED
    except AuthRequired as exc:
        ways = f", by {' or '.join(logins)}" if logins else ""
        return failed(f"{exc.message}: log in to the agent first{ways}", exc.code)
    except RequestError as exc:
        return failed(str(exc), exc.code)
    except AccordError as exc:
        return failed(str(exc))
    except TimeoutError:
        return failed(f"{words[0]} did not answer `initialize` within {INITIALIZE_S:.0f} seconds")
    except OSError as exc:
        if exc.errno == errno.EPIPE:  # whoever reads has enough
            raise
        click.echo(f"accord ask: {exc.strerror}", err=True)
        return FAILED
    finally:
        screen.close()


def status_of(stop_reason: StopReason | None) -> int:
    """Return the exit status for a stop reason; one of the agent's own is a stop, too."""
    return STATUSES.get(stop_reason or "error", SHORT)


async def _with_agent(
    words: Sequence[str], heard: _Heard, converse: Callable[[Callable[[], ProcessTransport]], Any]
) -> int:
    """Start the agent's process, and then do all else."""
    make = process(*words, on_stderr=heard.stderr, on_noise=heard.noise, stop_times_s=STOP_TIMES_S)
    first = make()
    ready = [first]
    try:
        first.spawn()
        return await converse(lambda: ready.pop() if ready else make())
    finally:
        await first.aclose()


class _LateScreen:
    """The screen, which is imported when it is first needed."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._made: Screen | None = None

    def get(self) -> Screen:
        if self._made is None:
            if self._as_json:
                from accord.cli.lines import Lines

                self._made = Lines()
            else:
                from accord.cli.render import Rendered

                self._made = Rendered()
        return self._made

    def wait(self, name: str) -> None:
        self.get().wait(name)

    async def fill_in(self, form: Form) -> Values | None:
        return await self.get().fill_in(form)

    async def visit(self, page: WebPage) -> bool:
        return await self.get().visit(page)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


class _Heard:
    """What the agent wrote where no client reads; shown when it fails."""

    def __init__(self) -> None:
        self._stderr: list[str] = []
        self._noise: list[str] = []

    def stderr(self, line: str) -> None:
        if line.strip():
            self._stderr = [*self._stderr[1 - MOST_LAST_WORDS :], line]

    def noise(self, line: str) -> None:
        if len(self._noise) < MOST_LAST_WORDS:
            self._noise.append(line)

    def last_words(self, why: str) -> list[str]:
        """Return what helps to understand, besides what is said already."""
        from accord.cli.shown import printable

        lines: list[str] = []
        if self._noise:
            lines.append("  on its stdout, which is for JSON alone:")
            lines += (f"    {printable(line)}" for line in self._noise)
        if self._stderr and not (len(self._stderr) == 1 and self._stderr[0].strip() in why):
            lines.append("  on its stderr, at last:")
            lines += (f"    {printable(line)}" for line in self._stderr)
        return lines


def _somebody() -> bool:
    """Tell whether somebody sits at a terminal who sees and answers questions."""

    def is_seen(stream: TextIO | None) -> bool:
        return stream is not None and stream.isatty()  # None: it was closed before we began

    return is_seen(sys.stdin) and (is_seen(sys.stdout) or is_seen(sys.stderr))


def _policies(
    rules: tuple[str, ...], screen: _LateScreen, *, yes: bool, there: bool
) -> list[Policy]:
    from accord.client.permissions import allow, ask_one_at_a_time, remember

    policies: list[Policy] = [allow("*")] if yes else [allow(*rules)]
    if there:
        policies.append(remember(ask_one_at_a_time(lambda request: screen.get().ask(request))))
    return policies


async def _open(
    agent: ConnectedAgent, cwd: Path, session_id: str | None, *, goes_on: bool
) -> ClientSession:
    if goes_on:
        try:
            known = [listing async for listing in agent.list_sessions(cwd)]
        except NotOffered:
            raise click.UsageError("The agent does not keep sessions") from None
        if not known:
            raise click.UsageError(f"There is no session to go on with in {cwd}")
        session_id = max(known, key=_changed_at).id
    if session_id is None:
        return await agent.new_session(cwd)
    try:
        return await agent.load_session(session_id, cwd, replay=False)
    except NotOffered:
        raise click.UsageError("The agent does not keep sessions") from None
    except ResourceNotFound as exc:
        raise ResourceNotFound(f"The agent has no session {session_id!r}") from exc


def _changed_at(listing: SessionListing) -> float:
    """Return when a session last changed; one that does not say so is the oldest."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(listing.updated_at or "")
    except ValueError:
        return float("-inf")
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


class _Interrupts:
    """While entered: the first Ctrl-C cancels the turn, the second the task.

    One that declines what the user is asked does neither.
    """

    def __init__(self, turn: ClientTurn, decline: Callable[[], bool]) -> None:
        self._turn = turn
        self._decline = decline
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelling: asyncio.Task[None] | None = None
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        try:
            # It wakes the loop, too: a handler alone is not run while the loop waits for others.
            self._loop.add_signal_handler(signal.SIGINT, self._stop)
        except NotImplementedError:  # by loops of Windows
            signal.signal(signal.SIGINT, self._interrupted)

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(NotImplementedError):
            self._loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, self._before)
        if self._cancelling is not None:
            self._cancelling.cancel()

    def _interrupted(self, _number: int, _frame: object) -> None:
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._decline():
            return
        if self._cancelling is None:
            self._cancelling = self._loop.create_task(self._cancel(), name="accord cancel")
        elif self._task is not None:
            self._task.cancel()

    async def _cancel(self) -> None:
        with contextlib.suppress(AccordError):  # the turn tells of it
            await self._turn.cancel()
