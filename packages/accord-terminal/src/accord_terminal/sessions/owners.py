"""Reaches the process that owns a session, or starts one; many may try at once (R-NAMED-03)."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from accord.transports.base import Transport
from accord.transports.process import LastLines
from accord.transports.stdio import PipeTransport
from accord_terminal.sessions.records import (
    LoginRequired,
    OwnerError,
    OwnerStarts,
    Record,
    Store,
    has_owner,
    socket_path,
)

# Who is at the other end of a Unix socket (R-NAMED-06).

_PEER = struct.Struct("3i")  # pid, uid, gid


def is_own_user(connection: socket.socket) -> bool:
    """Return whether the peer is a process of this user; elsewhere the folder's mode protects."""
    if sys.platform != "linux":
        return True
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _pid, uid, _gid = _PEER.unpack(peer)
    return uid == os.geteuid()


def compile_types(version: int) -> None:
    """Compile what decodes the messages of a turn: 20 ms that its first one would take longer."""
    from accord import v1, v2
    from accord.roles.remote import result_decoder
    from accord.wire.codec import decoder

    types: Any = v1 if version == 1 else v2
    decode = decoder(v1.SessionNotification if version == 1 else v2.UpdateSessionNotification)
    if version == 2:
        for state in ("running", "idle"):  # each is compiled when it is decoded
            update = {"sessionUpdate": "state_update", "state": state}
            decode(msgspec.json.encode({"sessionId": "", "update": update}))
    decoder(types.PromptRequest)
    result_decoder(types.PromptResponse)


STARTS, _READY = b" ", b"\n"  # what an owner says to those who connect; for ACP both are blank
STOP = b"stop\n"  # what an owner hears that still starts

_START_S = 150.0  # for the agent to start: it may have to be downloaded
_PAUSES_S = (0.01, 0.02, 0.05, 0.1)  # between tries while another process starts the owner
_FOUND_S = 10.0  # for an owner to listen, or to end
_CONNECT_S = 10.0  # for an owner that is busy, or stopped


class _Report(Struct):
    state: str
    error: str = ""
    login: bool = False  # the agent needs one
    stderr: tuple[str, ...] = ()  # the last lines that the agent wrote
    stdout: tuple[str, ...] = ()


async def transport_to(record: Record, store: Store) -> Transport:
    """Connect to the owner of a session; start it if there is none."""
    opened = await reach_owner(record, store)
    fd = opened.detach()
    return PipeTransport(fd, fd)


async def reach_owner(record: Record, store: Store) -> socket.socket:
    """Return a socket to the owner, which is started if there is none.

    Raises `OwnerError` if it cannot be started or does not accept the connection, or if the
    session is closed during the call.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _START_S  # a clock that does not jump
    tries = 0
    while loop.time() < until:
        opened = await open_socket(record.id, waits=True)
        if opened is not None:
            return opened
        if not has_owner(record.id):
            if not store.record_path(record.id).exists() or (
                store.read(record.id).closed and not record.closed
            ):
                raise OwnerError(f"The session {record.label} was closed")
            await _start(record, store)
            continue
        await asyncio.sleep(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
        tries += 1
    raise OwnerError(
        f"The owner of the session {record.label} does not accept connections: see "
        f"{store.log_path(record.id)}"
    )


async def running_owner(record: Record) -> socket.socket | None:
    """Return a socket to the owner, or None if there is none.

    Raises `OwnerStarts` if its agent is starting, and `OwnerError` if it does not respond.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _FOUND_S
    while has_owner(record.id):
        opened = await open_socket(record.id)
        if opened is not None:
            return opened
        if loop.time() > until:
            raise OwnerError("The owner of the session does not respond: is it stopped?")
        await asyncio.sleep(_PAUSES_S[-1])  # it begins, or it ends
    return None


async def end_start(record_id: str) -> None:
    """Close a session whose agent is starting: the owner ends."""
    opened = await _connect(record_id)
    if opened is None:
        return
    with opened, suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(opened, STOP)
        async with asyncio.timeout(_CONNECT_S):
            while await asyncio.get_running_loop().sock_recv(opened, 64):
                pass  # until it has heard it


async def open_socket(record_id: str, *, waits: bool = False) -> socket.socket | None:
    """Connect to an owner; None if no process listens, also if a socket file was left (R-NAMED-02).

    The owner sends an empty frame when it accepts: a connection to a process that is being killed
    succeeds, and ends.
    Raises `OwnerError` if the process that listens belongs to another user, and `OwnerStarts` if
    its agent is starting, unless this `waits` for it.
    """
    opened = await _connect(record_id)
    if opened is None:
        return None
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_START_S if waits else _CONNECT_S):
            said = await loop.sock_recv(opened, 1)
            if said == STARTS and waits:
                said = await loop.sock_recv(opened, 1)
    except TimeoutError:
        opened.close()
        raise OwnerError("The owner of the session does not respond: is it stopped?") from None
    except OSError:
        said = b""
    except BaseException:
        opened.close()
        raise
    if said == _READY:
        return opened
    opened.close()
    if said == STARTS:
        raise OwnerStarts("The agent of the session is starting")
    return None


async def _connect(record_id: str) -> socket.socket | None:
    path = socket_path(record_id)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.setblocking(False)
    try:
        async with asyncio.timeout(_CONNECT_S):
            await asyncio.get_running_loop().sock_connect(opened, os.fspath(path))
    except (ConnectionRefusedError, FileNotFoundError, ConnectionResetError):
        opened.close()
        return None
    except TimeoutError:
        opened.close()
        raise OwnerError("The owner of the session does not respond: is it stopped?") from None
    except OSError as exc:
        opened.close()
        raise OwnerError(f"Cannot connect to {path}: {exc.strerror}") from None
    if not is_own_user(opened):
        opened.close()
        raise OwnerError(f"Another user's process listens at {path}")
    return opened


async def _start(record: Record, store: Store) -> None:
    """Start an owner and wait until it can be used, or another process is the owner."""
    log = store.log_path(record.id)
    process = _spawn(record.id, log)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_S):
            line = await _first_line(process.stdout.fileno())
    except TimeoutError:
        raise OwnerError(f"The owner did not start within {_START_S:.0f} seconds") from None
    finally:
        process.stdout.close()
        # It ends at once: the owner itself is its child. Waiting must not be cancelled.
        threading.Thread(target=process.wait, daemon=True).start()
    try:
        report = msgspec.json.decode(line, type=_Report)
    except msgspec.MsgspecError:
        raise OwnerError(f"The owner has ended before it could be used: see {log}") from None
    if report.state == "failed":
        error = (LoginRequired if report.login else OwnerError)(report.error)
        LastLines(report.stderr, report.stdout).add_to(error)
        raise error


def _spawn(record_id: str, log: Path) -> subprocess.Popen[bytes]:
    """Start the program of an owner, which goes into the background by itself."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        stderr = os.open(log, flags, 0o600)
    except OSError as exc:
        raise OwnerError(f"Cannot write {log}: {exc.strerror}") from None
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "accord_terminal.sessions.owner.program", record_id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd="/",
            start_new_session=True,  # it survives the terminal
        )
    except OSError as exc:
        raise OwnerError(f"Cannot start {sys.executable}: {exc.strerror}") from None
    finally:
        os.close(stderr)


async def _first_line(fd: int) -> bytes:
    """Read what a starting owner writes, up to the end of the line or of the process."""
    loop = asyncio.get_running_loop()
    os.set_blocking(fd, False)
    data = bytearray()
    done: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        try:
            part = os.read(fd, 65536)
        except BlockingIOError:
            return
        data.extend(part)
        if (not part or b"\n" in part) and not done.done():
            done.set_result(None)

    loop.add_reader(fd, readable)
    try:
        await done
    finally:
        loop.remove_reader(fd)
    return bytes(data)
