"""Runs `accord ask`: starts the agent, runs the turn, and returns the exit status.

What talks to the agent is in `conversation`, which is imported while the agent starts.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from typing import TYPE_CHECKING, TextIO

from accord.errors import AccordError
from accord.local.run import run_program
from accord.program import drop_output, is_full
from accord.transports.base import TransportFactory
from accord.transports.process import LastLines, ProcessTransport, process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord_terminal.ask.cancellation import Interrupts
from accord_terminal.ask.options import CANCELLED, FAILED, AskOptions, HeldSession
from accord_terminal.ask.views import LazyView, describe_failure, failure_lines, write_stderr
from accord_terminal.toolkit.login import TerminalLoginChosen, login_failure, run_terminal_login

if TYPE_CHECKING:
    from accord.transports.registry import ConnectionChange


INITIALIZE_S = 120.0  # the agent may have to be downloaded before it starts
STOP_TIMES_S = (1.0, 1.0, 2.0)  # to exit after EOF, after SIGTERM and after SIGKILL
MAX_STDERR_CHARACTERS = 2000  # of a line that is shown
QUIT_TIMES_S = (0.1, 0.2, 0.2)  # the same after the user has quit


class AskProgram:
    """One run of `accord ask`."""

    def __init__(self, options: AskOptions, held: HeldSession | None = None) -> None:
        self._given = self._options = options
        self._held = held
        self._interactive = not (options.as_json or options.quiet) and _has_terminal()
        self._view = LazyView(options)
        self._transports: list[ProcessTransport] = []  # those of the agent's processes
        self._auth_methods: list[str] = []  # for the message that login is required
        self._remote: TransportFactory | None = None
        if held is None and is_url(options.argv[0]):
            self._remote = transport_for_url(
                options.argv[0], RemoteOptions(token=options.token, ends_when_cut=True)
            )

    def run(self) -> int:
        """Run the turn; return the exit status."""
        if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
            reconfigure(errors="replace")  # its encoding may lack characters
        try:
            return run_program(self._run())
        except asyncio.CancelledError:
            return CANCELLED
        except (AccordError, OSError) as error:
            if self._held is None:
                return self._fail(error)
            error = self._held.explain(error)
            if self._interactive and self._held.offers_login(error):
                return AskProgram(self._given, self._held).run()
            self._fail(error)
            return self._held.exit_status(error)
        finally:
            self._view.close()

    async def _run(self) -> int:
        try:
            return await self._run_agent()
        except TerminalLoginChosen as login:
            self._view.close()
            status = await run_terminal_login(self._options.argv, self._options.env, login.method)
            if status != 0:  # R-AUTH-17: a login that fails is reported
                raise AccordError(login_failure(login.method, status)) from None
            return await self._run_agent()  # R-AUTH-18: the agent is started again
        finally:
            self._view.close()  # before a signal ends the program

    def _new_transport(self) -> ProcessTransport:
        options = self._options
        make = process(
            *options.argv,
            env=options.env,
            on_stderr=self._show_stderr,
            stop_times_s=STOP_TIMES_S,
        )
        self._transports.append(make())
        return self._transports[-1]

    def _show_stderr(self, line: str) -> None:
        if line.strip():
            self._view.show_stderr(line[:MAX_STDERR_CHARACTERS])

    async def _run_agent(self) -> int:
        if self._held is not None:
            with Interrupts(self._view, lambda: None) as interrupts:
                self._options, transport = await self._held.reach(self._options)
                return await self._converse(transport, interrupts)
        if self._remote is not None:
            with Interrupts(self._view, lambda: None) as interrupts:
                return await self._converse(self._remote, interrupts)
        return await self._run_process()

    async def _run_process(self) -> int:
        """Start the agent's process, then import what talks to it, while the agent starts too."""
        first = self._new_transport()
        started = [first]

        def connection_transport() -> ProcessTransport:
            """Return the started process, and for a further connection a new one."""
            return started.pop() if started else self._new_transport()

        def shorten_stop() -> None:
            for transport in self._transports:
                transport.stop_times_s = QUIT_TIMES_S

        with Interrupts(self._view, shorten_stop) as interrupts:
            try:
                first.spawn()
                return await self._converse(connection_transport, interrupts)
            finally:
                await first.aclose()

    async def _converse(self, new_transport: TransportFactory, interrupts: Interrupts) -> int:
        from accord_terminal.ask.conversation import Conversation

        attach = None
        if self._options.files:
            from accord_terminal.toolkit.session_setup import attached_content

            attach = attached_content
        reconnect = None
        if self._remote is not None:
            from accord.transports.registry import Reconnect

            reconnect = Reconnect(on_change=self._show_connection)
        held = self._held
        conversation = Conversation(
            self._options,
            self._view,
            interrupts,
            interactive=self._interactive,
            is_local=self._remote is None and held is None,
            auth_methods=self._auth_methods,
            initialize_timeout_s=INITIALIZE_S,
            reconnect=reconnect,
            attach=attach,
            on_connected=None if held is None else held.connected,
            extensions=None if held is None else held.extensions(self._view.show_answered),
        )
        return await conversation.run(new_transport)

    def _show_connection(self, change: ConnectionChange) -> None:
        """Report that the connection was lost, or established again; the end is an error."""
        if change.state == "connected":
            self._view.get().show_warning("connected again")
        elif change.attempt == 1:
            self._view.get().show_warning(f"{change.error}; connecting again")

    def _fail(self, error: AccordError | OSError) -> int:
        """Report a failure, with the last output of the agent; return the exit status."""
        failure = describe_failure(error, self._options.argv[0], self._auth_methods, INITIALIZE_S)
        if failure is not None:
            self._view.get().close()
            self._view.get().show_error(failure.message, failure.code)
            output = LastLines.of(error)
            if self._transports:
                output = self._transports[-1].last_lines()
            write_stderr(failure_lines(failure, output, self._options.program))
        elif isinstance(error, OSError) and error.errno != errno.EPIPE:
            what = "cannot write the output: " if is_full(error) else ""
            write_stderr([f"{self._options.program}: {what}{error.strerror}"])
            if what:
                drop_output()
        else:  # the reader of stdout has closed the pipe
            raise error
        return FAILED


def _has_terminal() -> bool:
    """Return whether a user at a terminal can see and answer questions."""

    def is_terminal(stream: TextIO | None) -> bool:
        return stream is not None and stream.isatty()  # None: closed before the program started

    return is_terminal(sys.stdin) and (is_terminal(sys.stdout) or is_terminal(sys.stderr))
