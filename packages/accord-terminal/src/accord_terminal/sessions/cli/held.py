"""Lets `accord ask` talk to a persistent session: `-s NAME`, and `accord session prompt`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError, convert
from msgspec.structs import replace

from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionClosed,
    ConnectionLost,
    RequestCancelled,
    RequestError,
)
from accord.transports.base import Transport, TransportFactory
from accord.transports.pipes import PipeTransport
from accord.transports.process_output import LastLines
from accord_terminal.ask.options import CANCELLED, AskOptions
from accord_terminal.ask.views import write_stderr
from accord_terminal.sessions.cli.others_answers import OthersAnswers
from accord_terminal.sessions.cli.waiting import shows_wait
from accord_terminal.sessions.errors import FAILED, LoginRequired, OwnerError, SessionsError
from accord_terminal.sessions.login import login_words, offer_login
from accord_terminal.sessions.named import CALL, find_or_create, lost_text
from accord_terminal.sessions.owners import reach_owner
from accord_terminal.sessions.records import Record, Store

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.handlers import Extension


_OUTPUT_S = 2.0  # for the owner to report the end of a failed turn


class _OwnerTransport(PipeTransport):
    """Talks to the owner; the error of a turn gets what the agent wrote.

    In version 1 the data of the error has it. In version 2 the error is the agent's own update,
    and the entry with the end of the turn follows.
    """

    def __init__(self, connected: socket.socket, protocol: int | None) -> None:
        fd = connected.detach()
        super().__init__(fd, fd)
        self._waits = protocol == 2
        self._has_started = False
        self._has_ended = asyncio.Event()
        self._written = LastLines()

    def receive_entry(self, entry: Mapping[str, Any]) -> None:
        """Take notice of an entry of the journal."""
        match entry.get("kind"):
            case "started":
                self._has_started = True
                self._has_ended.clear()
                self._written = LastLines()
            case "ended":
                self._written = LastLines(tuple(entry.get("stderr", ())))
                self._has_ended.set()
            case _:
                pass

    async def explain(self, error: BaseException) -> None:
        if not self._has_started or not isinstance(error, RequestError):
            return
        if self._waits:
            with suppress(TimeoutError):
                async with asyncio.timeout(_OUTPUT_S):
                    await self._has_ended.wait()
        written = self._written
        if not self._waits:
            with suppress(ValidationError):  # the error has other data
                written = convert(error.data, LastLines)
        if LastLines.of(error) != written:  # an error can be explained twice
            written.add_to(error)


class Held:
    """A persistent session as `accord ask` uses it; see `HeldSession`."""

    def __init__(
        self,
        name: str | None,
        cwd: Path,
        agent: str | None,
        *,
        create: bool,
        attached: bool = False,
    ) -> None:
        self._name = name
        self._cwd = cwd
        self._agent = agent
        self._create = create
        self._attached = attached
        self._interactive = False  # a user can be asked
        self._record: Record | None = None
        self._transport: _OwnerTransport | None = None
        self._options: AskOptions | None = None

    async def reach(self, options: AskOptions) -> tuple[AskOptions, TransportFactory]:
        """Find or start the owner of the session."""
        store = Store()
        record = find_or_create(store, self._name, self._cwd, self._agent, create=self._create)
        self._record = record
        async with shows_wait(record, options.program, quiet=options.quiet):
            reached = await reach_owner(record, store)
            opened = self._transport = _OwnerTransport(reached, store.read(record.id).protocol)
        self._record = record = store.read(record.id)
        self._options = replace(
            options,
            argv=(record.agent,),
            protocol=record.protocol,
            session_id=record.id,
            cwd=Path(record.cwd),
        )

        def transport() -> Transport:
            return opened

        return self._options, transport

    def extensions(self, show: Callable[[str], None]) -> Mapping[str, Extension]:
        """Serve the entries of the journal: what others have answered is shown."""

        def shown(line: str) -> None:
            (show if self._interactive else self._warn)(line)

        answers = OthersAnswers(self._own_name, shown)

        def entry(params: Mapping[str, Any]) -> None:
            assert self._transport is not None
            self._transport.receive_entry(params["entry"])
            answers(params)

        return {f"{CALL}entry": entry}

    def _own_name(self) -> str:
        assert self._options is not None
        return self._options.program

    async def connected(self, agent: ConnectedAgent, interactive: bool) -> None:
        """Say what this client wants, and report what the user has to know."""
        assert self._options is not None
        self._interactive = interactive
        options = self._options
        settings: dict[str, Any] = {
            "name": self._own_name(),
            "follows": "own",
            "decides": interactive,
            "attached": self._attached,
            "entries": True,
        }
        if options.yes or options.allow_rules or options.deny_rules:
            settings["approvals"] = {
                "allow": options.allow_rules,
                "deny": options.deny_rules,
                "yes": options.yes,
            }
        status = await agent.call_extension(f"{CALL}client", settings)
        if status["contextLost"]:
            self._warn("the agent could not restore the conversation: its context is new")
        if before := len(status["queue"]):
            self._warn(f"waiting for {before} prompt{'s' if before > 1 else ''} of this session")

    def _warn(self, message: str) -> None:
        assert self._options is not None
        if not self._options.quiet:
            write_stderr([f"{self._options.program}: {message}"])

    def explain(self, error: AccordError | OSError) -> AccordError | OSError:
        """Say that the owner has ended, if that is why the connection has, or needs a login."""
        if isinstance(error, AuthRequired):
            return LoginRequired(error.text)
        if self._record is not None and isinstance(error, ConnectionLost | ConnectionClosed):
            return OwnerError(lost_text(self._record))
        return error

    def offers_login(self, error: AccordError | OSError) -> bool:
        """Log in to the agent, if that is what is missing and the user wants to."""
        if self._record is None or not isinstance(error, LoginRequired):
            return False
        return offer_login(error, login_words(self._record), self._record.cwd)

    def exit_status(self, error: AccordError | OSError) -> int:
        """Return the exit status for an error."""
        if isinstance(error, RequestCancelled):
            return CANCELLED  # the prompt was withdrawn from the queue
        return error.status if isinstance(error, SessionsError) else FAILED


def held_session(name: str, cwd: Path, agent: str | None) -> Held:
    """Return the session of `accord ask -s NAME`, which is created if there is none."""
    return Held(name, cwd, agent, create=True)
