"""The background process of a session: `python -m accord_terminal.sessions.owner.program RECORD`.

It writes one line to stdout when the session can be used, or why it cannot; then it detaches.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from accord import roles
from accord.client.connect import ConnectedAgent, connect
from accord.client.session import ClientSession
from accord.errors import AccordError, AuthRequired, RequestError
from accord.remote.sockets import open_unix, remove_unix
from accord.transports.process import LastLines, ProcessTransport, argv_of, process
from accord.transports.stdio import PipeTransport
from accord.types.mcp import McpServer
from accord_terminal.sessions.journal import Entry, Journal, Started
from accord_terminal.sessions.owner.owner import Owner
from accord_terminal.sessions.owner.roles import OwnerRoleV1, OwnerRoleV2
from accord_terminal.sessions.owner.state import AgentFrames
from accord_terminal.sessions.owners import STARTS, STOP, compile_types
from accord_terminal.sessions.records import (
    Lock,
    OwnerError,
    Record,
    Restored,
    SessionsError,
    Store,
    now,
    refusal,
    socket_path,
)
from accord_terminal.toolkit.options import limited_command
from accord_terminal.toolkit.session_setup import (
    McpFileError,
    apply_session_options,
    mode_option_id,
    option_values,
    read_mcp_file,
    restore_session_options,
)

# Accepts the clients of this user on the socket of a session.

log: logging.Logger = logging.getLogger("accord.sessions")

_MOST_CLIENTS = 200  # at once


async def serve_clients(
    owner: Owner, listening: socket.socket, waiting: Iterable[socket.socket] = ()
) -> None:
    """Serve those who wait and every client that connects, until cancelled."""
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    free = asyncio.Semaphore(_MOST_CLIENTS)
    async with asyncio.TaskGroup() as group:
        for connection in waiting:
            await free.acquire()
            serving = group.create_task(
                _serve_client(owner, connection.detach()), name="accord client"
            )
            serving.add_done_callback(lambda _: free.release())
        while True:
            await free.acquire()
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as exc:  # for example too many open files
                log.warning("! a client was not accepted: %s", exc)
                free.release()
                await asyncio.sleep(0.1)
                continue
            serving = group.create_task(
                _serve_client(owner, connection.detach()), name="accord client"
            )
            serving.add_done_callback(lambda _: free.release())


async def _serve_client(owner: Owner, fd: int) -> None:
    version_1, version_2 = OwnerRoleV1(owner), OwnerRoleV2(owner)
    try:
        os.write(fd, b"\n")  # an empty frame: the client knows that a living process has accepted
    except OSError:  # it has left
        os.close(fd)
        return
    try:
        await roles.serve(PipeTransport(fd, fd), version_1, version_2)
    except (AccordError, OSError):
        log.debug("= a client has left", exc_info=True)
    except Exception:
        log.exception("! a client is dropped")  # the others are not affected
    finally:
        for role in (version_1, version_2):
            if role.has_joined:
                await owner.leave(role.client)


# While the agent of an owner starts: who waits for it, and what ends the start.

_STDOUT = 1  # a pipe to the program that has started the owner
_MOST_WAITING = 200


class Starting:
    """Cancels a task, which starts the agent, when the owner has to stop (R-NAMED-03).

    Clients that connect wait for the agent. The start ends when the last of them has left, too.
    """

    def __init__(self, owner: Owner, path: Path, task: asyncio.Task[Any]) -> None:
        self.listening: socket.socket = open_unix(path)
        self.is_stopped = False
        self._owner = owner
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._waiting: set[socket.socket] = set()
        self._has_starter = True
        self._has_ended = False
        self.listening.setblocking(False)
        owner.end_reason.add_done_callback(self._stop)
        self._loop.add_reader(self.listening, self._accept)
        with suppress(OSError):  # not a pipe: it is not known whether the starter waits
            self._loop.add_reader(_STDOUT, self._starter_left)

    def end(self) -> list[socket.socket]:
        """Return the clients that wait, whom the owner serves now."""
        if self._has_ended:
            return []
        self._has_ended = True
        self._owner.end_reason.remove_done_callback(self._stop)
        self._loop.remove_reader(self.listening)
        self._loop.remove_reader(_STDOUT)
        for connection in self._waiting:
            self._loop.remove_reader(connection)
        waiting, self._waiting = self._waiting, set()
        return [*waiting]

    def close(self) -> None:
        """Drop the clients that wait, and end listening."""
        for connection in self.end():
            connection.close()
        if self.listening.fileno() >= 0:
            remove_unix(self.listening)
            self.listening.close()

    def _stop(self, _: asyncio.Future[str]) -> None:
        self.is_stopped = True
        self._task.cancel()

    def _accept(self) -> None:
        try:
            connection, _ = self.listening.accept()
        except BlockingIOError:
            return
        except OSError as exc:  # for example too many open files
            log.warning("! no more clients are accepted until the agent has started: %s", exc)
            self._loop.remove_reader(self.listening)
            return
        connection.setblocking(False)
        self._waiting.add(connection)
        self._loop.add_reader(connection, self._heard, connection)
        if len(self._waiting) == _MOST_WAITING:
            self._loop.remove_reader(self.listening)
        with suppress(OSError):  # it has left
            connection.send(STARTS)

    def _heard(self, connection: socket.socket) -> None:
        try:
            said = connection.recv(len(STOP))
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if said == STOP:
            with suppress(SessionsError):  # its record was deleted
                self._owner.close_session()
            self._owner.stop("the session was closed")
        self._loop.remove_reader(connection)
        self._waiting.discard(connection)
        connection.close()
        self._watch_waiting()

    def _starter_left(self) -> None:
        self._loop.remove_reader(_STDOUT)
        self._has_starter = False
        self._watch_waiting()

    def _watch_waiting(self) -> None:
        if not self._waiting and not self._has_starter:
            self._owner.stop("no command waited for its agent any more")


_LOCK_TRIES = 10  # others look at the lock for a moment
_LOCK_PAUSE_S = 0.02
_START_S = 120.0  # the agent may have to be downloaded
_STOP_TIMES_S = (0.0, 0.5, 1.0)  # of an agent that has not started: it has nothing to save


def main(arguments: list[str]) -> int:
    """Own a session until it is closed, or unused; return the exit status."""
    os.umask(0o077)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    (record_id,) = arguments
    path = socket_path(record_id)
    lock = _take(path.with_suffix(".lock"))
    if lock is None:
        _report({"state": "taken"})
        return 0
    try:
        return asyncio.run(_own(Store(), record_id, path))
    except AuthRequired as exc:
        error = refusal(Store().read(record_id), exc.text)
        _report({"state": "failed", "error": error, "login": True})
        return 1
    except (AccordError, OSError, TimeoutError) as exc:
        output = LastLines.of(exc)
        lines = {"stderr": output.stderr, "stdout": output.stdout}
        _report({"state": "failed", "error": _text(exc), **lines})
        return 1
    finally:
        lock.release()


def _take(path: Path) -> Lock | None:
    for _ in range(_LOCK_TRIES):
        lock = Lock.take(path)
        if lock is not None:
            return lock
        time.sleep(_LOCK_PAUSE_S)
    return None


def _report(message: dict[str, Any]) -> None:
    """Tell the starter; afterwards stdout is not read."""
    with suppress(OSError):
        os.write(1, msgspec.json.encode(message) + b"\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _text(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"The agent did not respond to `initialize` within {_START_S:.0f} seconds"
    return str(error)


def _command(record: Record) -> list[str]:
    """Return the command of the agent, in a chain that keeps it within the session's budget."""
    return argv_of(limited_command(record.argv, record.budget, record.unmetered, account=record.id))


async def _own(store: Store, record_id: str, path: Path) -> int:
    record = store.read(record_id)
    journal = Journal(store.journal_path(record_id))
    owner = Owner(record, store, journal)
    owner.frames = AgentFrames(
        owner.receive_update, owner.receive_message_id, owner.receive_steered
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, owner.stop, f"it received {signal.Signals(number).name}")
    task = asyncio.current_task()
    assert task is not None
    starting: Starting | None = None
    agents: list[ProcessTransport] = []
    make = process(*_command(record), cwd=record.cwd, env=record.env, on_stderr=_log_stderr)

    def new_agent() -> ProcessTransport:
        agents.append(make())
        owner.transport = agents[-1]
        return agents[-1]

    def hurry(_: object) -> None:
        for one in agents:
            one.stop_times_s = _STOP_TIMES_S

    try:
        starting = Starting(owner, path, task)
        owner.end_reason.add_done_callback(hurry)
        async with connect(
            new_agent,
            permissions=owner.questions.decide,
            terminals=record.terminals,
            on_elicit_form=owner.questions.ask_form,
            on_elicit_url=owner.questions.ask_url,
            observers=(owner.frames.observe,),
            versions=(1, 2) if record.protocol is None else (record.protocol,),
            initialize_timeout_s=_START_S,
        ) as agent:
            owner.agent = agent
            owner.protocol = agent.version
            loop.call_soon(compile_types, agent.version)  # while the agent opens the session
            owner.session, restored, not_set = await _open_session(agent, record, journal)
            owner.end_reason.remove_done_callback(hurry)
            waiting = starting.end()
            owner.record = store.change(
                record_id,
                protocol=agent.version,
                agent_session=owner.session.id,
                agent_info=f"{agent.info.name} {agent.info.version}",
                restored=restored,
                values=option_values(owner.session.transcript.options) | not_set,
                mode_option=mode_option_id(owner.session, record.mode_option),
                owner=os.getpid(),
                used_at=now(),
            )
            owner.has_started(restored, {})
            owner.requeue()
            await _serve_session(owner, starting.listening, waiting)
    except (AccordError, TimeoutError) as exc:
        if agents:
            agents[-1].last_lines().add_to(exc)
        raise
    except asyncio.CancelledError:
        if starting is None or not starting.is_stopped:
            raise
        task.uncancel()
        if record.agent_session is None and record.imported_from is None:
            store.delete(record_id)  # it was never opened
        reason = owner.end_reason.result()
        raise OwnerError(f"The agent was stopped before it had started: {reason}") from None
    finally:
        if starting is not None:
            starting.close()
        if owner.end_reason.done():
            with suppress(SessionsError):
                store.change(
                    record_id, owner=None, last_exit=owner.end_reason.result(), used_at=now()
                )
        journal.close()
    return 0


async def _serve_session(
    owner: Owner, listening: socket.socket, waiting: list[socket.socket]
) -> None:
    """Serve clients until there is a reason to leave; then end their prompts."""
    running = asyncio.create_task(owner.run_prompts(), name="accord prompts")
    watching = asyncio.create_task(_watch_agent(owner), name="accord agent watch")
    serving = asyncio.create_task(serve_clients(owner, listening, waiting), name="accord clients")
    _report({"state": "ready"})
    try:
        done, _ = await asyncio.wait(
            [owner.end_reason, running, watching, serving], return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            if task is not owner.end_reason and (error := task.exception()) is not None:
                log.error("! the owner fails: %s", error, exc_info=error)
                owner.stop(_text(error))
        owner.stop("the agent has ended")
        remove_unix(listening)
        listening.close()
        await owner.finish()
    finally:
        for task in (running, watching, serving):
            task.cancel()
        await asyncio.wait([running, watching, serving])


async def _watch_agent(owner: Owner) -> None:
    """Return when the agent has ended; its running turn fails first."""
    await owner.agent.remote.connection.wait_ended()
    running = owner.queue.running
    if running is not None:
        await asyncio.wait([running.ended], timeout=1.0)


async def _open_session(
    agent: ConnectedAgent, record: Record, journal: Journal
) -> tuple[ClientSession, Restored, dict[str, str | bool]]:
    """Open a new session, or load or resume that of the last owner (R-NAMED-05).

    Return it, how it was opened, and the values of options that could not be set again.
    """
    servers = _mcp_servers(record)
    if record.agent_session is None and record.fork_of is not None:
        if not agent.supports("fork_session"):
            raise SessionsError("The agent cannot fork sessions")
        try:
            forked = await agent.fork_session(
                record.fork_of, record.cwd, mcp_servers=servers, meta=record.meta
            )
        except AuthRequired:
            raise
        except RequestError as exc:
            raise SessionsError(f"The agent did not fork its session: {exc}") from None
        return forked, "forked", await _restore_options(forked, record)
    if record.agent_session is not None:
        methods: tuple[tuple[str, Restored], ...] = (
            ("resume_session", "resumed"),
            ("load_session", "loaded"),
        )
        for method, restored in methods:
            if not agent.supports(method):
                continue
            try:
                session = await agent.load_session(
                    record.agent_session,
                    record.cwd,
                    mcp_servers=servers,
                    meta=record.meta,
                    replay=False,
                )
            except AuthRequired:
                raise
            except RequestError as exc:
                log.warning("! the agent cannot restore its session: %s", exc)
                break
            return session, restored, await _restore_options(session, record)
    session = await agent.new_session(record.cwd, mcp_servers=servers, meta=record.meta)
    try:
        await apply_session_options(
            session, model=record.model, mode=record.mode, options=record.options
        )
    except click.ClickException as exc:
        raise SessionsError(exc.format_message()) from None
    not_set = await _restore_options(session, record)
    return session, "lost" if _has_prompts(journal) else "new", not_set


async def _restore_options(session: ClientSession, record: Record) -> dict[str, str | bool]:
    """Set the options to the values that they had at the last owner; return those not set.

    Raises `SessionsError` if the mode cannot be set: the agent could do more than the user knows.
    """
    done = await restore_session_options(session, record.values, record.mode_option)
    for failure in done.failed:
        log.warning("! an option is not as before: %s", failure)
    if done.lost_mode:
        raise SessionsError(
            f"The agent does not restore the mode of the session. {done.lost_mode}. "
            "`accord session new` creates another session"
        )
    return done.not_set


def _has_prompts(journal: Journal) -> bool:
    """Return whether the agent has worked in this session before."""
    seq = 0
    while entries := journal.after(seq, 1000):
        if any(_is_start(entry) for entry in entries):
            return True
        seq = entries[-1].seq
    return False


def _is_start(entry: Entry) -> bool:
    return isinstance(entry, Started)


def _mcp_servers(record: Record) -> tuple[McpServer, ...]:
    try:
        return tuple(one for file in record.mcp_files for one in read_mcp_file(Path(file)))
    except McpFileError as exc:
        raise SessionsError(str(exc)) from None


def _log_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    if os.fork() != 0:
        os._exit(0)  # so that no program has to wait for the owner
    sys.exit(main(sys.argv[1:]))
