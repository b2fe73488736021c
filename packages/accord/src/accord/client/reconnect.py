"""Establishes a lost connection again, and continues the sessions of the client (R-WS-17).

This works above the connection, in terms of sessions and their transcripts, and not as a transport
that replays messages: only a transcript can tell what of a replay is new, because a replay merges
texts, gives tool calls in their last state, and may use other message ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from accord.client.agent_adapter import AgentAdapter
from accord.client.connection_gate import ConnectionGate
from accord.client.event_stream import SessionEventStream
from accord.client.events import CommandsChanged, OptionsChanged, StateChanged
from accord.client.handlers import ClientHandlers
from accord.client.missed_events import missed_events
from accord.connection.connection import Connection
from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionClosed,
    ConnectionLost,
    ConnectionRefused,
    NotOffered,
    ProtocolError,
    RequestError,
    TransportError,
    TurnInterrupted,
    UnsupportedVersion,
)
from accord.roles.remote import Remote
from accord.transports.registry import ConnectionChange, Reconnect, Waits

log: logging.Logger = logging.getLogger("accord.client.reconnect")

_AT_ONCE = 8  # sessions that are opened at the same time
_WORKING = ("running", "requires_action")


class Reconnector:
    """Watches the connection of a client; opens another one, and its sessions on it."""

    def __init__(
        self,
        settings: Reconnect,
        adapter: AgentAdapter,
        handlers: ClientHandlers,
        connect: Callable[[], AbstractAsyncContextManager[Remote]],
        timeout_s: float,
    ) -> None:
        self._settings = settings
        self._adapter = adapter
        self._gate = adapter.remote.connection = ConnectionGate(adapter.remote.connection)
        self._handlers = handlers
        self._connect = connect
        self._waits = Waits(settings, asyncio.get_running_loop().time)
        self._timeout_s = timeout_s  # for `initialize`, and for opening the sessions

    async def run(self) -> None:
        """Reconnect until the attempts are used up; then end all sessions."""
        first = self._gate.connection
        try:
            loss = await _loss_of(first)
            await first.aclose()
            while True:
                loss = await self._reconnect(loss)
        except TransportError as error:
            self._end(error)
        except Exception as error:  # calls would wait indefinitely
            log.exception("! reconnecting failed")
            self._end(ConnectionLost(f"Reconnecting failed: {error!r}"))
        except asyncio.CancelledError:
            self._gate.fail(ConnectionClosed("The connection was closed"))
            raise

    def _end(self, error: TransportError) -> None:
        self._gate.fail(error)
        self._handlers.end(error)
        self._report(ConnectionChange(state="lost", error=error))

    async def _reconnect(self, loss: TransportError) -> TransportError:
        """Establish the connection again; return how it was lost then."""
        self._gate.shut()
        self._waits.lost()
        # Sessions that are opened from now on use the next connection.
        sessions = {
            session_id: self._handlers.event_streams[session_id]
            for session_id in self._handlers.session_setups
        }
        await self._handlers.aclose()
        last: Exception = loss
        for attempt in range(1, self._settings.attempts + 1):
            wait_s = self._waits.next()
            self._report(
                ConnectionChange(state="reconnecting", error=last, attempt=attempt, wait_s=wait_s)
            )
            await asyncio.sleep(wait_s)
            try:
                async with self._connect() as remote:
                    async with asyncio.timeout(self._timeout_s):
                        await self._continue(sessions, remote, loss)
                    self._waits.connected()
                    self._report(ConnectionChange(state="connected", attempt=attempt))
                    return await _loss_of(remote.connection)
            except UnsupportedVersion as error:
                raise ConnectionLost(f"{loss}; the agent cannot be used again: {error}") from error
            except (AccordError, TimeoutError) as error:
                if isinstance(error, ConnectionRefused) and error.is_final:
                    raise ConnectionLost(f"{loss}; {error}") from error
                last = error
        count = self._settings.attempts
        raise ConnectionLost(
            f"{loss}; the connection could not be established again in {count} attempts, "
            f"the last one failed: {str(last) or type(last).__name__}"
        )

    async def _continue(
        self, sessions: dict[str, SessionEventStream], remote: Remote, loss: TransportError
    ) -> None:
        handlers, connection = self._handlers, remote.connection
        connection.flow.reads_others = handlers.reads_others
        for stream in handlers.event_streams.values():
            stream.move(connection.flow.backlogs)
        self._gate.interrupted.clear()
        adapter = self._adapter.on(remote)
        free = asyncio.Semaphore(_AT_ONCE)

        async def continue_session(session_id: str, stream: SessionEventStream) -> None:
            async with free:
                if handlers.event_streams.get(session_id) is not stream:
                    del sessions[session_id]  # closed, or loaded again
                    return
                try:
                    try:
                        await self._open_again(stream, adapter, loss)
                    except AuthRequired:
                        if not await self._gate.log_in_again(connection):
                            raise
                        await self._open_again(stream, adapter, loss)
                except (RequestError, ProtocolError) as error:
                    del sessions[session_id]
                    self._give_up(stream, loss, error)

        opening = [continue_session(*each) for each in sessions.items()]
        for failed in await asyncio.gather(*opening, return_exceptions=True):
            if failed is not None:
                raise failed
        self._adapter.remote.adopt(remote)
        self._gate.open(connection)

    def _give_up(
        self, stream: SessionEventStream, loss: TransportError, error: AccordError
    ) -> None:
        """End a session that the agent does not open again."""
        log.warning("! a session could not be continued: %s", error)
        stream.end(ConnectionLost(f"{loss}; the session could not be opened again: {error}"))
        self._handlers.drop_session(stream.session_id)

    async def _open_again(
        self, stream: SessionEventStream, adapter: AgentAdapter, loss: TransportError
    ) -> None:
        """Load or resume a session, and publish what was missed."""
        handlers, session_id = self._handlers, stream.session_id
        replays = adapter.supports("load_session")
        if not replays and not adapter.supports("resume_session"):
            raise NotOffered("session/load", "session/load or session/resume")
        turn_start = stream.turn_starts[-1] if stream.turn_starts else 0
        in_history: bool | None = None
        state: StateChanged | None = None

        def opened(_response: object) -> None:
            nonlocal in_history, state
            for each, replayed in handlers.end_replay(replay):
                missed = missed_events(each.transcript, replayed, turn_start)
                for event in missed.events:
                    each.publish(event)
                if each is stream:
                    in_history, state = missed.has_prompt, replayed.state
            if state is not None:
                self._settle(stream, state, _interrupted(loss, in_history, state))

        replay = handlers.begin_replay(session_id, adapter.events_from_update)
        try:
            result = await adapter.load_session(
                session_id, handlers.session_setups[session_id], replay=replays, opened=opened
            )
        finally:
            handlers.end_replay(replay)
        transcript = stream.transcript
        if result.options is not None and result.options != transcript.options:
            stream.publish(OptionsChanged(result.options))
        if result.commands is not None and result.commands != transcript.commands:
            stream.publish(CommandsChanged(result.commands))
        if state is None:
            if stream.on_event is not None and adapter.supports("session_status"):
                state = (await adapter.session_status(session_id)).state
            self._settle(stream, state, _interrupted(loss, in_history, state))

    def _settle(
        self, stream: SessionEventStream, state: StateChanged | None, error: TurnInterrupted
    ) -> None:
        """Apply the state of a session; end its turn unless the agent still works on it.

        A version 2 turn ends in order if the state has its stop reason. A version 1 turn ends when
        its prompt fails.
        """
        self._gate.interrupted[stream.session_id] = error
        if stream.on_event is not None:  # a version 2 turn
            if state is not None and (state.state != "idle" or state.stop_reason is not None):
                stream.publish(state)
            was_sent = stream.session_id not in self._gate.unsent_prompts
            if stream.on_disconnect is not None and was_sent and not error.agent_works:
                stream.on_disconnect(error)
        if state is not None and state != stream.transcript.state:
            stream.publish(state)

    def _report(self, change: ConnectionChange) -> None:
        log.info("= connection: %s", change)
        if self._settings.on_change is None:
            return
        try:
            self._settings.on_change(change)
        except Exception:
            log.exception("! on_change failed")


def _interrupted(
    loss: TransportError, in_history: bool | None, state: StateChanged | None
) -> TurnInterrupted:
    works: bool | None = None
    if state is not None and state.state in ("idle", *_WORKING):
        works = state.state in _WORKING
    return TurnInterrupted(str(loss), in_history=in_history, agent_works=works)


async def _loss_of(connection: Connection) -> TransportError:
    return await connection.wait_ended() or ConnectionLost("The connection has ended")
