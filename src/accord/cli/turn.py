"""Runs one turn with an agent for `accord ask`: starts it, opens a session, returns a status."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from accord.cli.agent_output import AgentOutput
from accord.cli.attachments import attached_content
from accord.cli.deadline import Deadline
from accord.cli.interrupts import Interrupts
from accord.cli.login import TerminalLoginChosen, log_in, run_terminal_login
from accord.cli.rejected_permissions import rejected_lines
from accord.cli.screen import LazyView
from accord.cli.session_setup import apply_session_options, open_session
from accord.cli.stderr_lines import write_stderr
from accord.errors import AccordError, AuthRequired, RequestError, StartError
from accord.transports.process import ProcessTransport, process

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.events import PermissionRequest
    from accord.client.permissions import Policy
    from accord.types.mcp import McpServer
    from accord.types.session import StopReason
    from accord.version import ProtocolVersion

# The agent's process starts first; what it does not need is imported while it starts, too.

__all__ = ("EXIT_STATUSES", "AskOptions", "exit_status", "run")

INITIALIZE_S = 120.0  # for the agent to start: it may have to be downloaded first
QUIT_S = 0.2  # for the agent to end the turn once the user has asked twice
STOP_TIMES_S = (1.0, 1.0, 2.0)  # to leave, to obey SIGTERM, to be gone after SIGKILL
QUIT_TIMES_S = (0.1, 0.2, 0.2)  # the same, for a user who does not want to wait

# What the exit status says of the turn; 2 is a wrong command line.
FAILED, SHORT, REFUSED, CANCELLED = 1, 3, 4, 130
EXIT_STATUSES: dict[StopReason, int] = {
    "end_turn": 0,
    "error": FAILED,
    "max_tokens": SHORT,
    "max_turn_requests": SHORT,
    "refusal": REFUSED,
    "cancelled": CANCELLED,
}


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """What the command line asks for."""

    prompt: str
    words: Sequence[str]  # the command line of the agent
    cwd: Path
    files: tuple[Path, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None])  # of the agent
    protocol: ProtocolVersion | None = None  # None: the newest that the agent speaks
    rules: tuple[str, ...] = ()  # of --allow
    denied: tuple[str, ...] = ()  # rules of --deny
    yes: bool = False
    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()  # as ID=VALUE
    mcp_servers: tuple[McpServer, ...] = ()
    timeout_s: float | None = None  # for the turn
    terminals: bool = False
    as_json: bool = False
    quiet: bool = False
    thoughts: bool = False
    verbose: bool = False
    goes_on: bool = False  # --continue
    session_id: str | None = None


def run(asked: AskOptions) -> int:
    """Run the turn; return the exit status."""
    words = asked.words
    screen = LazyView(
        as_json=asked.as_json,
        quiet=asked.quiet,
        thoughts=asked.thoughts,
        verbose=asked.verbose,
    )
    heard = AgentOutput(screen.show_stderr)
    logins: list[str] = []
    unasked: list[PermissionRequest] = []
    there = not (asked.as_json or asked.quiet) and _has_terminal()

    async def converse(ways: Callable[[], ProcessTransport], interrupts: Interrupts) -> int:
        from accord.client.connect import connect

        # The screen is imported once `initialize` is on its way.
        asyncio.get_running_loop().call_later(0, screen.show_starting, words[0])
        async with connect(
            ways,
            permissions=_policies(asked, screen if there else None, unasked),
            # Forms and pages are offered only if the user can be asked.
            on_elicit_form=screen.ask_form if there else None,
            on_elicit_url=screen.ask_url if there else None,
            terminals=asked.terminals,
            terminal_login=there,
            versions=(1, 2) if asked.protocol is None else (asked.protocol,),
            initialize_timeout_s=INITIALIZE_S,
        ) as agent:
            logins.extend(f"{method.id} ({method.name})" for method in agent.auth_methods)
            try:
                return await take_turn(agent, interrupts)
            except AuthRequired as refused:
                if not there:
                    raise
                await log_in(agent, refused, screen.ask_form)
            return await take_turn(agent, interrupts)  # R-AUTH-12

    async def take_turn(agent: ConnectedAgent, interrupts: Interrupts) -> int:
        session = await open_session(
            agent,
            asked.cwd,
            session_id=asked.session_id,
            latest=asked.goes_on,
            mcp_servers=asked.mcp_servers,
        )
        await apply_session_options(
            session, model=asked.model, mode=asked.mode, options=asked.options
        )
        screen.get().session_opened(agent, session)
        contents = [
            *([asked.prompt] if asked.prompt else []),
            *attached_content(agent, asked.files),
        ]
        turn = session.prompt(*contents, cancel_timeout_s=QUIT_S)
        show = screen.get().show_event
        interrupts.turn = turn
        with Deadline(turn, asked.timeout_s) as deadline:
            async with turn:
                async for event in turn:
                    show(event)
        screen.get().turn_ended(turn)
        write_stderr(rejected_lines(unasked, _why_not_asked(asked)))
        if deadline.has_expired and turn.stop_reason == "cancelled":
            write_stderr([f"accord ask: cancelled after {asked.timeout_s:g} s (--timeout)"])
            return SHORT
        status = exit_status(turn.stop_reason)
        return SHORT if unasked and status == 0 else status

    from accord.local.run import run_program as run_to_end

    async def main() -> int:
        try:
            return await _with_agent(asked, heard, screen, converse)
        except TerminalLoginChosen as login:
            screen.close()
            status = await run_terminal_login(words, asked.env, login.method)
            if status != 0:  # R-AUTH-17
                raise AccordError(f"{login}, and ended with status {status}") from None
            return await _with_agent(asked, heard, screen, converse)  # R-AUTH-18
        finally:
            screen.close()  # before a signal ends this

    def failed(why: str, code: int | None = None) -> int:
        from accord.cli.safe_text import printable

        screen.get().close()
        screen.get().show_error(why, code)
        write_stderr([f"accord ask: {printable(why)}", *heard.failure_lines(why)])
        return FAILED

    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="replace")  # what it has no characters for
    try:
        return run_to_end(main())
    except asyncio.CancelledError:
        return CANCELLED
    except AuthRequired as exc:
        ways = f", by {' or '.join(logins)}" if logins else ""
        return failed(f"{exc.text}: log in to the agent first{ways}", exc.code)
    except RequestError as exc:
        return failed(str(exc), exc.code)
    except AccordError as exc:
        status = failed(str(exc))
        if isinstance(exc, StartError):
            write_stderr(["`accord agents` lists the agents that have a name."])
        return status
    except TimeoutError:
        return failed(f"{words[0]} did not answer `initialize` within {INITIALIZE_S:.0f} seconds")
    except OSError as exc:
        if exc.errno == errno.EPIPE:  # the reader has closed the pipe
            raise
        write_stderr([f"accord ask: {exc.strerror}"])
        return FAILED
    finally:
        screen.close()


def exit_status(stop_reason: StopReason | None) -> int:
    """Return the exit status for a stop reason; one of the agent's own is a stop, too."""
    return EXIT_STATUSES.get(stop_reason or "error", SHORT)


async def _with_agent(
    asked: AskOptions,
    heard: AgentOutput,
    screen: LazyView,
    converse: Callable[[Callable[[], ProcessTransport], Interrupts], Coroutine[Any, Any, int]],
) -> int:
    """Start the agent's process, and then do all else."""
    make = process(
        *asked.words,
        env=asked.env,
        on_stderr=heard.add_stderr,
        on_noise=heard.add_noise,
        stop_times_s=STOP_TIMES_S,
    )
    made = [make()]
    first = made[0]
    ready = [first]

    def way() -> ProcessTransport:
        if ready:
            return ready.pop()
        made.append(make())
        return made[-1]

    def quicken() -> None:
        for transport in made:
            transport.stop_times_s = QUIT_TIMES_S

    with Interrupts(screen, quicken) as interrupts:
        try:
            first.spawn()
            return await converse(way, interrupts)
        finally:
            await first.aclose()


def _has_terminal() -> bool:
    """Return whether a user at a terminal sees and answers questions."""

    def is_seen(stream: TextIO | None) -> bool:
        return stream is not None and stream.isatty()  # None: it was closed before we began

    return is_seen(sys.stdin) and (is_seen(sys.stdout) or is_seen(sys.stderr))


def _why_not_asked(asked: AskOptions) -> str:
    if asked.as_json or asked.quiet:
        return f"with {'--json' if asked.as_json else '--quiet'} no one is asked"
    return "no terminal is available to ask at"


def _policies(
    asked: AskOptions, screen: LazyView | None, unasked: list[PermissionRequest]
) -> list[Policy]:
    """Return what decides: the rules, then the user, if there is a screen to ask at.

    What the user allows always is for the agent to remember: its option says for what it holds.
    """
    from accord.client.permissions import allow, deny

    allowed = ("*",) if asked.yes else asked.rules
    policies: list[Policy] = [deny(*asked.denied), allow(*allowed)]
    # A question is shown by one at a time, so nothing more is needed here.
    policies.append(
        unasked.append if screen is None else lambda one: screen.get().ask_permission(one)
    )
    return policies
