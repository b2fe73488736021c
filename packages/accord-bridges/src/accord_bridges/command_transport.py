"""An agent's process in a place where only commands can be run, such as a container.

The sandboxes of evaluators run a command and return its output; they have no pipes to a process.
`CommandTransport` starts the agent there with a named pipe as its stdin and files for its output,
and sends and reads messages with further commands. The place needs a POSIX shell and `base64`,
`mkfifo` and `mktemp`, which BusyBox has, too.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from accord.errors import ConnectionClosed, ConnectionLost, TransportError
from accord.transports.base import FRAME_BYTES, HIGH_BYTES, Frame, Receiver, Transport

__all__ = ("CommandResult", "CommandTransport", "Runner")

# The shell may limit an argument to 128 KiB, and a sandbox the output of a command.
_WRITE_BYTES = 60_000
_READ_BYTES = 512 * 1024
_WAIT_S = 10  # how long one command waits for output
_WRITE_S = 3  # and for a full pipe
_STDERR_BYTES = 4_000
_ABANDONED_S = 60

_START = """\
set -e
d=$(mktemp -d "${{TMPDIR:-/tmp}}/accord-XXXXXX")
mkfifo "$d/in"; : >"$d/out"; : >"$d/err"; : >"$d/alive"
{cd}
$(command -v setsid || true) sh -c '
    d=$1; most=$2; shift 2; exec 3<>"$d/in"
    "$@" 3>&- <"$d/in" >>"$d/out" 2>>"$d/err" &
    p=$!; echo $p >"$d/pid"; echo $$ >"$d/shell"
    (
        exec 3>&-; i=0
        while [ $i -lt "$most" ]; do
            i=$((i+1)); sleep 1
            [ -d "$d" ] || exit
            if [ -e "$d/alive" ]; then rm -f "$d/alive"; i=0; fi
        done
        [ -e "$d/exit" ] || {{ kill -TERM $p; sleep 2; kill -KILL $p; }}
        [ -e "$d/writer" ] && kill -KILL "$(cat "$d/writer")"
        rm -rf "$d"; kill -KILL "-$$"
    ) &
    wait $p; echo $? >"$d/code"; mv "$d/code" "$d/exit"
' sh "$d" {abandoned} {argv} </dev/null >/dev/null 2>&1 &
echo "$d"
"""
# The agent is kept as long as scripts come that make this file.
_ALIVE = """: >{folder}/alive"""
_READ = """\
d={folder}; s=; i=0
while :; do
    : >"$d/alive"
    if [ -e "$d/exit" ]; then s=$(cat "$d/exit"); break; fi
    [ "$(wc -c <"$d/out")" -gt {offset} ] && break
    [ $i -ge {count} ] && break
    i=$((i+1)); sleep 0.05 2>/dev/null || {{ sleep 1; i=$((i+19)); }}
done
echo "${{s:-running}}"
tail -c +{start} "$d/out" | head -c {limit} | base64
"""
# An agent that does not read blocks the pipe: a process of its own writes, for any time.
_WRITE = """\
d={folder}; printf %s {data} | base64 -d >"$d/part" || exit
{{
    cat "$d/part" 1<>"$d/in" & echo $! >"$d/writer"
    wait $!; rm -f "$d/part" "$d/writer"
}} </dev/null >/dev/null 2>&1 &
"""
_WRITTEN = """\
d={folder}; i=0
while [ -e "$d/part" ]; do
    : >"$d/alive"
    [ $i -ge {count} ] && {{ echo busy; exit; }}
    i=$((i+1)); [ $i -lt 5 ] && sleep 0.005 2>/dev/null && continue
    sleep 0.05 2>/dev/null || {{ sleep 1; i=$((i+19)); }}
done
"""
# The shell holds the pipe open: without it, the agent reads the end of its input.
_STOP = """\
d={folder}; p=$(cat "$d/pid"); s=$(cat "$d/shell"); i=0
gone() {{
    while kill -0 "$p" 2>/dev/null; do
        [ $i -ge $1 ] && return 1
        i=$((i+1)); sleep 0.1 2>/dev/null || sleep 1
    done
}}
kill -KILL "$s" 2>/dev/null
[ -e "$d/writer" ] && kill -KILL "$(cat "$d/writer")" 2>/dev/null
gone 50 || {{ kill -TERM "-$s" || kill -TERM "$p"; }} 2>/dev/null
gone 70
{{ kill -KILL "-$s" || kill -KILL "$p"; }} 2>/dev/null
rm -rf "$d"
"""


class CommandResult(NamedTuple):
    """The end of a command: its exit status and what it wrote."""

    status: int
    stdout: str
    stderr: str


# Runs a script of the shell with more environment variables, in bounded time.
Runner: TypeAlias = Callable[[str, Mapping[str, str]], Awaitable[CommandResult]]


class CommandTransport(Transport):
    """Carries messages to an agent that `run` can start, by commands.

    `run` is called with a script of the shell and with environment variables, and returns what the
    script wrote; no script takes longer than about ten seconds. `argv` and `env` are the agent's,
    `cwd` is the directory in which it is started. Closing the transport ends its input;
    an agent that stays gets SIGTERM after five seconds, and SIGKILL after two more. If no script
    comes for `abandoned_s` seconds, because this program was killed, the agent ends itself there.
    """

    def __init__(
        self,
        run: Runner,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        frame_bytes: int = FRAME_BYTES,
        abandoned_s: int = _ABANDONED_S,
    ) -> None:
        self.frame_bytes = frame_bytes
        self._abandoned_s = abandoned_s
        self._run = run
        self._argv = list(argv)
        self._cwd = cwd
        self._env = dict(env or {})
        self.folder: str | None = None  # there, of the pipe and the files, quoted
        self._receiver: Receiver | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._unsent = bytearray()
        self._congested = False
        self._more = asyncio.Event()  # there is something to send
        self._reading = asyncio.Event()
        self._reading.set()
        self._sent = asyncio.Event()
        self._sent.set()
        self._lost: ConnectionLost | None = None
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        if self._is_closed:
            raise ConnectionClosed("The transport was closed")
        cd = "" if self._cwd is None else f"cd {shlex.quote(self._cwd)}"
        argv = shlex.join(self._argv)
        script = _START.format(cd=cd, argv=argv, abandoned=self._abandoned_s)
        started = await self._command(script, self._env)
        self.folder = shlex.quote(started.stdout.strip())
        self._receiver = receiver
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._send())]

    def write(self, frames: Sequence[Frame]) -> None:
        if self._receiver is None or self._lost is not None:
            return
        for frame in frames:
            self._unsent += frame + b"\n"
        if len(self._unsent) > HIGH_BYTES:
            self._congested = True
        self._sent.clear()
        self._more.set()

    @property
    def congested(self) -> bool:
        return self._congested

    def pause_reading(self) -> None:
        self._reading.clear()

    def resume_reading(self) -> None:
        self._reading.set()

    async def aclose(self) -> None:
        self._is_closed = True
        self._receiver = None
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if not self._tasks:  # it was not started
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await self._sent.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        with contextlib.suppress(TransportError):  # the place may be gone already
            await self._command(_STOP.format(folder=self.folder), check=False)

    async def exit_error(self) -> Exception | None:
        return self._lost

    async def _command(
        self, script: str, env: Mapping[str, str] | None = None, *, check: bool = True
    ) -> CommandResult:
        """Run a script; raise `TransportError` if it fails."""
        try:
            result = await self._run(script, env or {})
        except Exception as error:  # whatever a sandbox raises
            raise TransportError(f"{self._argv[0]} is out of reach: {error}") from error
        if check and result.status != 0:
            said = result.stderr.strip() or result.stdout.strip() or f"status {result.status}"
            raise TransportError(f"Cannot reach {self._argv[0]} in the sandbox: {said[-500:]}")
        return result

    async def _read(self) -> None:
        offset, line, status = 0, bytearray(), "running"
        try:
            while True:
                await self._wanted()
                script = _READ.format(
                    folder=self.folder,
                    offset=offset,
                    start=offset + 1,
                    limit=_READ_BYTES,
                    count=_WAIT_S * 20,
                )
                status, _, encoded = (await self._command(script)).stdout.partition("\n")
                data = base64.b64decode(encoded)
                offset += len(data)
                *frames, rest = data.split(b"\n")
                if frames:
                    frames[0] = bytes(line) + frames[0]
                    line.clear()
                line += rest
                self._deliver(frames)
                if not data and status != "running":
                    break
            self._end(await self._explained(status))
        except TransportError as error:
            self._end(ConnectionLost(str(error)))

    async def _wanted(self) -> None:
        """Wait until reading goes on, and keep the agent meanwhile."""
        while not self._reading.is_set():
            try:
                async with asyncio.timeout(min(_WAIT_S, self._abandoned_s / 3)):
                    await self._reading.wait()
            except TimeoutError:
                await self._command(_ALIVE.format(folder=self.folder))

    def _deliver(self, frames: Sequence[bytes]) -> None:
        if self._receiver is None:
            return
        for frame in frames:
            if len(frame) > self.frame_bytes:
                self._receiver.frame_refused(self.frame_bytes, frame[:1000])
        # Other lines are noise of the agent, as on a pipe.
        fitting = [f for f in frames if f[:1] == b"{" and len(f) <= self.frame_bytes]
        if fitting:
            self._receiver.frames_received(fitting)

    async def _explained(self, status: str) -> ConnectionLost:
        script = f"tail -c {_STDERR_BYTES} {self.folder}/err"
        stderr = (await self._command(script, check=False)).stdout.strip()
        message = f"{self._argv[0]} ended with status {status}"
        if stderr:
            message += f": {stderr.splitlines()[-1][:200]}"
        code = int(status) if status.isdigit() else None
        return ConnectionLost(message, exit_status=code, stderr=stderr)

    def _end(self, lost: ConnectionLost) -> None:
        if self._lost is not None:
            return
        self._lost = lost
        self._sent.set()
        self._congested = False
        if self._receiver is not None:
            self._receiver.eof_received(lost)

    async def _send(self) -> None:
        while self._lost is None:
            await self._more.wait()
            self._more.clear()
            while self._unsent and self._lost is None:
                part = bytes(self._unsent[:_WRITE_BYTES])
                del self._unsent[:_WRITE_BYTES]
                try:
                    await self._write(part)
                except TransportError as error:
                    # What the agent has written, and how it ended, is read first.
                    await asyncio.wait(self._tasks[:1], timeout=_WAIT_S + 2)
                    if self._lost is None:
                        self._end(ConnectionLost(str(error)))
                    return
            self._sent.set()
            if self._congested:
                self._congested = False
                if self._receiver is not None:
                    self._receiver.writable()

    async def _write(self, part: bytes) -> None:
        """Write to the agent; return when it has read so much that the rest is in the pipe."""
        data, folder = base64.b64encode(part).decode(), self.folder
        written = _WRITTEN.format(folder=folder, count=_WRITE_S * 20)
        script = _WRITE.format(data=data, folder=folder) + written
        while (await self._command(script)).stdout.strip() and self._lost is None:
            script = written
