"""Talks to a started agent: connects, logs in, opens the session, and runs the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.client.connect import ConnectedAgent, connect
from accord.client.events import (
    CommandsChanged,
    ContentChunk,
    Event,
    MessageReplaced,
    ModeChanged,
    OptionsChanged,
    PermissionRequest,
    StateChanged,
    TitleChanged,
    UpdatedAtChanged,
    UsageChanged,
    UserText,
)
from accord.client.permissions import Policy, allow, deny
from accord.errors import AuthRequired, InternalError, ParseError
from accord.text.excerpt import one_line
from accord_terminal.ask.cancellation import Deadline, Interrupts
from accord_terminal.ask.options import AskOptions, exit_status
from accord_terminal.ask.views import LazyView, write_stderr
from accord_terminal.toolkit.login import log_in
from accord_terminal.toolkit.session_setup import apply_session_options, open_session

if TYPE_CHECKING:
    from accord.client.handlers import Extension
    from accord.client.turn import ClientTurn
    from accord.transports.base import TransportFactory
    from accord.transports.registry import Reconnect
    from accord.types.content import ContentBlock


LONGEST_PAUSE_S = 10  # before a prompt is repeated
QUIT_S = 0.2  # for the agent to end the turn after the user has quit


class Conversation:
    """The conversation of one run of `accord ask` with the agent."""

    def __init__(
        self,
        options: AskOptions,
        view: LazyView,
        interrupts: Interrupts,
        *,
        interactive: bool,
        is_local: bool,
        auth_methods: list[str],
        initialize_timeout_s: float,
        reconnect: Reconnect | None,
        attach: Callable[[ConnectedAgent, Iterable[Path]], Iterable[ContentBlock]] | None,
        on_connected: Callable[[ConnectedAgent, bool], Awaitable[None]] | None = None,
        extensions: Mapping[str, Extension] | None = None,
    ) -> None:
        self._options = options
        self._view = view
        self._interrupts = interrupts
        self._interactive = interactive
        self._is_local = is_local  # the agent's command can be run to log in
        self._auth_methods = auth_methods  # filled in when the agent is connected
        self._initialize_timeout_s = initialize_timeout_s
        self._reconnect = reconnect  # None if the agent is a process of this machine
        self._attach = attach  # None if there are no files
        self._on_connected = on_connected  # called with whether a user can be asked
        self._extensions = extensions  # of a session that another process holds
        self._rejected: list[PermissionRequest] = []  # because the user could not be asked

    async def run(self, new_transport: TransportFactory) -> int:
        """Connect to the agent and run the turn; return the exit status."""
        options, view = self._options, self._view
        # The view is imported while the agent handles `initialize`.
        asyncio.get_running_loop().call_later(0, view.show_starting, options.argv[0])
        async with connect(
            new_transport,
            permissions=self._policies(),
            # Without a terminal these capabilities are not advertised.
            on_elicit_form=view.ask_form if self._interactive else None,
            on_elicit_url=view.ask_url if self._interactive else None,
            terminals=options.terminals,
            terminal_login=self._interactive and self._is_local,
            versions=(1, 2) if options.protocol is None else (options.protocol,),
            initialize_timeout_s=self._initialize_timeout_s,
            reconnect=self._reconnect or False,
            extensions=self._extensions,
            **self._limits(),
        ) as agent:
            self._auth_methods[:] = [f"{each.id} ({each.name})" for each in agent.auth_methods]
            if self._on_connected is not None:
                await self._on_connected(agent, self._interactive)
            try:
                return await self._run_turn(agent)
            except AuthRequired as refused:
                if not self._interactive:
                    raise
                await log_in(agent, refused, view.ask_form)
            return await self._run_turn(agent)  # R-AUTH-12: repeat what failed before the login

    async def _run_turn(self, agent: ConnectedAgent) -> int:
        options = self._options
        session = await open_session(
            agent,
            options.cwd,
            session_id=options.session_id,
            latest=options.continue_latest,
            mcp_servers=options.mcp_servers,
            meta=options.meta,
        )
        await apply_session_options(
            session, model=options.model, mode=options.mode, options=options.options
        )
        self._view.session_opened(agent, session)
        contents = [
            *([options.prompt] if options.prompt else []),
            *(() if self._attach is None else self._attach(agent, options.files)),
        ]
        attempt = 0
        while True:
            turn = session.prompt(*contents, cancel_timeout_s=QUIT_S)
            deadline = Deadline(turn, options.timeout_s)
            if await self._shown(turn, deadline, may_fail=attempt < options.retries):
                break
            await self._pause(turn, attempt, options.retries)
            attempt += 1
        self._view.get().turn_ended(turn)
        self._view.show_rejected(self._rejected)
        if turn.limit is not None:
            write_stderr([f"{options.program}: {turn.limit}", f"This turn has used {turn.spent}"])
            return options.statuses.stopped_early
        if turn.spent is not None and not options.quiet:
            write_stderr([f"{options.program}: this turn has used {turn.spent}"])
        if deadline.has_expired and turn.stop_reason == "cancelled":
            after = f"cancelled after {options.timeout_s:g} s (--timeout)"
            write_stderr([f"{options.program}: {after}"])
            return options.statuses.timeout
        status = exit_status(turn.stop_reason, options.statuses)
        if turn.stop_reason == "cancelled" and not self._interrupts.has_cancelled:
            status = 0 if self._rejected else status  # agents end a turn so after a rejection
        return options.statuses.rejected if self._rejected and status == 0 else status

    async def _shown(self, turn: ClientTurn, deadline: Deadline, *, may_fail: bool) -> bool:
        """Run a turn and show its events; return False if it has to be repeated.

        Only a turn that fails with an error of the agent, before the agent has sent anything of
        its own, can be repeated without doing something twice.
        """
        show_event = self._view.get().show_event
        self._interrupts.turn = turn
        is_untouched = True
        try:
            with deadline:
                async with turn, self._steering(turn):
                    async for event in turn:
                        is_untouched = is_untouched and _is_harmless(event)
                        show_event(event)
        except (InternalError, ParseError):
            if not (may_fail and is_untouched):
                raise
            return False
        return True

    def _steering(self, turn: ClientTurn) -> AbstractAsyncContextManager[object]:
        """Return what reads lines for the turn, if the user wants that."""
        if not self._options.steer:
            return nullcontext()
        from accord_terminal.ask.steering import SteeringLines

        return SteeringLines(turn, self._view)

    async def _pause(self, turn: ClientTurn, attempt: int, retries: int) -> None:
        """Wait before the next attempt; Ctrl-C quits."""
        self._interrupts.turn = None
        pause_s = min(2**attempt, LONGEST_PAUSE_S)
        which = f"in {pause_s} s ({attempt + 1} of {retries})"
        error = one_line(str(turn.error), 200)
        self._view.get().show_warning(f"{error}; repeating the prompt {which}")
        await asyncio.sleep(pause_s)

    def _limits(self) -> dict[str, Any]:
        if self._options.limits is None:
            return {}
        from accord_terminal.toolkit.options import limited_connection

        return limited_connection(self._options.limits)

    def _policies(self) -> list[Policy]:
        """Return the policies: the rules of the command line, then the user, if interactive.

        An "always" answer is the agent's to remember: its option defines what it covers.
        """
        rules = ("*",) if self._options.yes else self._options.allow_rules
        ask_user = self._view.ask_permission if self._interactive else self._rejected.append
        decided: list[Policy] = []
        if self._options.limits is not None:
            from accord_terminal.toolkit.options import limit_policies

            decided = limit_policies(self._options.limits)
        return [
            *decided,
            deny(*self._options.deny_rules),
            allow(*rules),
            ask_user,
        ]


def _is_harmless(event: Event) -> bool:
    """Return whether an event is neither output nor work of the agent."""
    match event:
        case UserText() | StateChanged() | ContentChunk(role="user") | MessageReplaced(role="user"):
            return True
        case CommandsChanged() | ModeChanged() | OptionsChanged():
            return True
        case TitleChanged() | UpdatedAtChanged() | UsageChanged():
            return True
        case _:
            return False
