"""`accord ask`: one turn with an agent, shown to people or told to programs."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import click

from accord.client.connect import ConnectedAgent, connect
from accord.client.events import Decision, Event, PermissionRequest
from accord.client.permissions import Policy, allow, ask_one_at_a_time, remember
from accord.client.session import ClientSession
from accord.client.turn import ClientTurn
from accord.errors import AccordError, AuthRequired, NotOffered
from accord.model.content import Content, Image, Link, Resource
from accord.model.session import StopReason

__all__ = ("STATUSES", "Screen", "command", "status_of")

MOST_FILE_BYTES = 256 * 1024  # of a file that goes into the prompt; larger ones are linked
QUIT_S = 1.0  # for the agent to end the turn once the user has asked twice

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

    @property
    def ask(self) -> Callable[[PermissionRequest], Awaitable[Decision | None]] | None:
        """Asks the user; None when nobody is there."""
        ...

    def begin(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """The session is open."""
        ...

    def show(self, event: Event) -> None:
        """Something happened."""
        ...

    def end(self, turn: ClientTurn) -> None:
        """The turn is over."""
        ...

    def close(self) -> None:
        """Leave everything tidy, whatever happened."""
        ...


@click.command()
@click.argument("prompt")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--agent", metavar="COMMAND", help="The agent to start; else the bundled one.")
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
    help="Allow what matches, as `edit`, `edit:src/*` or `execute:pytest*`; may be repeated.",
)
@click.option("--yes", is_flag=True, help="Allow everything that the agent asks for.")
@click.option("--json", "as_json", is_flag=True, help="Write events as JSON lines.")
@click.option("--continue", "goes_on", is_flag=True, help="Go on with the latest session here.")
@click.option("--session", "session_id", metavar="ID", help="Go on with this session.")
def command(
    prompt: str,
    files: tuple[Path, ...],
    agent: str | None,
    cwd: Path,
    rules: tuple[str, ...],
    yes: bool,
    as_json: bool,
    goes_on: bool,
    session_id: str | None,
) -> int:
    """Ask an agent, and show what it does and says.

    FILES go with the prompt. What the agent asks permission for is decided by --allow and --yes,
    else asked at the terminal, else refused. Ctrl-C cancels the turn, a second one quits.

    The exit status is 0 when the agent came to an end, 1 when it failed, 3 when it stopped short,
    4 when it refused, 130 when the turn was cancelled.
    """
    if goes_on and session_id is not None:
        raise click.UsageError("--continue and --session exclude each other")
    screen = _screen(as_json=as_json)
    policies: list[Policy] = [allow("*")] if yes else [allow(*rules)]
    if screen.ask is not None:
        policies.append(remember(ask_one_at_a_time(screen.ask)))
    words = agent if agent is not None else [sys.executable, "-m", "accord", "agent"]

    logins: list[str] = []

    async def run() -> int:
        async with connect(words, permissions=policies) as connected:
            logins.extend(f"{method.id} ({method.name})" for method in connected.auth_methods)
            session = await _open(connected, cwd, session_id, goes_on=goes_on)
            screen.begin(connected, session)
            turn = session.prompt(prompt, *_attached(connected, files), cancel_timeout_s=QUIT_S)
            with _Interrupts(turn):
                async with turn:
                    async for event in turn:
                        screen.show(event)
            screen.end(turn)
            return status_of(turn.stop_reason)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        return CANCELLED
    except AuthRequired as exc:
        ways = f", by {' or '.join(logins)}" if logins else ""
        return _failed(f"{exc.message}: log in to the agent first{ways}")
    except (AccordError, TimeoutError) as exc:
        return _failed(str(exc) or type(exc).__name__)
    finally:
        screen.close()


def status_of(stop_reason: StopReason | None) -> int:
    """Return the exit status for a stop reason; one of the agent's own is a stop, too."""
    return STATUSES.get(stop_reason or "error", SHORT)


def _failed(why: str) -> int:
    click.echo(f"accord ask: {why}", err=True)
    return FAILED


def _screen(*, as_json: bool) -> Screen:
    if as_json:
        from accord.cli.lines import Lines

        return Lines()
    from accord.cli.render import Rendered

    return Rendered()


async def _open(
    agent: ConnectedAgent, cwd: Path, session_id: str | None, *, goes_on: bool
) -> ClientSession:
    if goes_on:
        try:
            known = [listing async for listing in agent.list_sessions(cwd)]
        except NotOffered:
            raise click.UsageError("The agent does not keep sessions") from None
        if not known:
            raise click.UsageError("There is no session to go on with in this directory")
        session_id = max(known, key=lambda listing: listing.updated_at or "").id
    if session_id is None:
        return await agent.new_session(cwd)
    try:
        return await agent.load_session(session_id, cwd, replay=False)
    except NotOffered:
        raise click.UsageError("The agent does not keep sessions") from None


def _attached(agent: ConnectedAgent, files: Iterable[Path]) -> list[Content]:
    return [_content(agent, path.absolute()) for path in files]


def _content(agent: ConnectedAgent, path: Path) -> Content:
    mime_type = mimetypes.guess_type(path.name)[0]
    size = path.stat().st_size
    link = Link(path.as_uri(), path.name, mime_type=mime_type, size=size)
    if size > MOST_FILE_BYTES:
        return link
    if mime_type is not None and mime_type.startswith("image/"):
        if not agent.takes("image"):
            return link
        return Image(path.read_bytes(), mime_type, path.as_uri())
    if not agent.takes("resource"):
        return link
    try:
        return Resource(path.as_uri(), path.read_text("utf-8"), mime_type)
    except UnicodeDecodeError:
        return link


class _Interrupts:
    """While entered: the first Ctrl-C cancels the turn, the second the task."""

    def __init__(self, turn: ClientTurn) -> None:
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelling: asyncio.Task[None] | None = None
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._interrupted)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        if self._cancelling is not None:
            self._cancelling.cancel()

    def _interrupted(self, _number: int, _frame: object) -> None:
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._cancelling is None:
            self._cancelling = self._loop.create_task(self._cancel(), name="accord cancel")
        elif self._task is not None:
            self._task.cancel()

    async def _cancel(self) -> None:
        with contextlib.suppress(AccordError):  # the turn tells of it
            await self._turn.cancel()
