"""Inspections of a running agent: what they share, and the one whose client is the page.

They share the recording, stderr and the state of the process. If a program is not a working agent,
`trouble_of` tells in plain words what is wrong and what to do.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from accord.client.connect import ConnectedAgent, ConnectOptions, connect
from accord.client.permissions import Policy
from accord.errors import AccordError, ConnectionLost, RequestError
from accord.text.secrets import LinesRedactor, redacted_argv
from accord.transports.base import Transport
from accord.transports.process import ProcessTransport
from accord.transports.process_group import exit_text
from accord.transports.registry import is_url
from accord.version import ProtocolVersion
from accord_inspector.faults import Faults, suspender
from accord_inspector.inspected_transport import InspectedTransport, StrangeLines
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import json_words
from accord_terminal.conversation import ApiError
from accord_trace.reading import TraceError
from accord_trace.recording import Recording
from accord_trace.records import Direction

SLOW_S = 5.0  # for `initialize`; later, the page says that the program has not responded
_SHOWN_LINES = 8
_SHOWN_CHARACTERS = 200

_ARGUMENTS = (
    "Check the command: many programs are an agent only with an argument such as acp or --acp."
)
_ADDRESS = "Check the address, and that the agent is reachable there."
_STDOUT = (
    "An agent writes only messages to stdout: JSON objects, one on each line. Its log goes to "
    "stderr."
)
_AGAIN = "Correct the cause, then press “Start again”."


class Seen(Struct, frozen=True, kw_only=True):
    """What is known of the program; `state` is that of `LiveInspection`.

    `why` is how it ended or failed, `seconds` how long ago it was started. A remote agent is not a
    program of this machine.
    """

    state: str
    why: str
    seconds: float
    is_program: bool
    is_restartable: bool
    lines: StrangeLines
    stderr: Sequence[str]


def why_ended(error: BaseException | None, name: str, *, is_connected: bool) -> str:
    """Return in a sentence how an agent ended, or why it cannot be used."""
    if isinstance(error, TimeoutError):
        return f"{name} did not respond to initialize in time, and was stopped"
    if isinstance(error, RequestError):
        return f"{name} refused initialize: {error}"
    text = "" if error is None else json_words(str(error) or type(error).__name__)
    if not isinstance(error, ConnectionLost) or is_connected:
        return text
    if error.exit_status is not None:
        last = (error.stderr or "").strip().rpartition("\n")[2].strip()[:_SHOWN_CHARACTERS]
        text = f"{name} {exit_text(error.exit_status)} before it responded to initialize"
        return f"{text}: {last}" if last else text
    if error.stderr is not None:
        return f"{name} closed its stdout before it responded to initialize, and was stopped"
    return text.replace("The peer", name)


def trouble_of(seen: Seen) -> dict[str, Any] | None:
    """Return what the page shows of a problem; None while nothing is wrong.

    It has a `text` and one about the `lines` that are not messages, which may be empty, the
    `advice`, and the last lines of `stderr`.
    """
    is_over = seen.state in ("ended", "failed")
    text = ""
    advice: list[str] = []
    if seen.lines.echoes and seen.state != "running":
        text = "the program sends back what it receives, so it is not an agent"
    elif is_over:
        text = seen.why
    elif seen.state == "starting" and seen.seconds >= SLOW_S:
        text = "it has not responded to initialize yet"
        advice.append("It may need longer to start, wait for something, or not be an agent.")
    if not text and not seen.lines.count:
        return None
    if seen.state in ("starting", "failed"):
        advice.append(_ARGUMENTS if seen.is_program else _ADDRESS)
    if seen.lines.count:
        advice.append(_STDOUT)
    if is_over and seen.is_restartable:
        advice.append(_AGAIN)
    stderr = [line for line in seen.stderr if line.strip()][-_SHOWN_LINES:]
    lines = _lines_text(seen.lines) if seen.lines.count else ""
    return {"text": text, "lines": lines, "advice": advice, "stderr": stderr}


def _lines_text(lines: StrangeLines) -> str:
    if lines.count == 1:
        return f"The program writes a line to stdout that is not a message: “{lines.first}”"
    count = f"{lines.count:,}".replace(",", " ")
    shown = f", of which the timeline shows {lines.recorded}"
    shown = shown if lines.recorded < lines.count else ""
    return (
        f"The program writes lines to stdout that are not messages: “{lines.first}” … "
        f"({count} lines{shown})"
    )


_STDERR_LINES = 2000  # that are kept
_LINE_CHARACTERS = 4000
_SENT = 50  # messages sent by hand that are kept


class LiveInspection(Inspection):
    """An agent that runs, and its client; both are recorded.

    `state` is `starting`, `running`, `ended` or `failed`; `problem` says why it is one of the last
    two. `faults` act on what passes in each direction; `inject` sends by hand. `numbers` are those
    of the rows of the recording. Without `output`, the recording is in a folder of mode 0700, which
    is removed at the end. Raise `OSError` if it cannot be written.
    """

    can_restart: bool = False

    def __init__(
        self, *, command: Sequence[str], title: str, output: Path | None, redact: bool
    ) -> None:
        self.state: str = "starting"
        self.problem: str = ""
        self.faults: Faults = Faults(lambda: self.hub.changed("faults"))
        self.numbers: Iterator[int] = itertools.count()
        self.strange_lines: StrangeLines = StrangeLines()
        self.stderr: deque[dict[str, Any]] = deque(maxlen=_STDERR_LINES)
        self.sent: list[dict[str, Any]] = []  # by hand, the newest first
        self.pid: int | None = None
        self.command: list[str] = list(command)
        self.exit_status_of_agent: int | None = None
        self.started_at: float = 0.0  # seconds since 1970
        self._title = title
        self._began = 0.0  # the time in the recording of the newest start
        self._folder: TemporaryDirectory[str] | None = None
        if output is None:
            self._folder = TemporaryDirectory(prefix="accord-inspect-")
            output = Path(self._folder.name, "live.acp.jsonl")
        try:
            self.recording: Recording = Recording(output, redact=redact, argv=command)
        except OSError as error:
            raise TraceError(f"Cannot write {output}: {error.strerror}") from None
        self.is_redacted: bool = redact
        self._stderr_lines = LinesRedactor()
        super().__init__()
        self.hub.provide("process", self.process)
        self.hub.provide("stderr", lambda: list(self.stderr))
        self.hub.provide("faults", self.faults.state)
        self.hub.provide("sent", lambda: self.sent)

    async def __aexit__(self, *error: Any) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            self.recording.close()
            if self._folder is not None:
                self._folder.cleanup()

    @property
    def title(self) -> str:
        return self._title

    @property
    def is_live(self) -> bool:
        return True

    @property
    def fault_marks(self) -> Mapping[int, str]:
        return self.faults.marks

    def path_of(self, recording: str) -> Path:
        if recording not in ("", self.recording.path.name):
            raise ApiError(404, f"Unknown recording {recording!r}")
        return self.recording.path

    def process(self) -> dict[str, Any]:
        """Return the state of the agent, for the page."""
        return {
            "state": self.state,
            "problem": self.problem,
            "pid": self.pid,
            "exitStatus": self.exit_status_of_agent,
            "startedAt": self.started_at,
            "restartable": self.can_restart,
            "trouble": self._trouble(),
        }

    def _trouble(self) -> dict[str, Any] | None:
        return trouble_of(
            Seen(
                state=self.state,
                why=self.problem,
                seconds=self.recording.now() - self._began,
                is_program=not is_url(self.command[0]),
                is_restartable=self.can_restart,
                lines=self.strange_lines,
                stderr=[item["text"] for item in self.stderr if item["at"] >= self._began],
            )
        )

    def now(self, since: float) -> float | None:
        is_open = self.state in ("starting", "running") and since >= self._began
        return self.recording.now() if is_open else None

    def describe(self) -> dict[str, Any]:
        file = None if self._folder is not None else os.fspath(self.recording.path.absolute())
        return {
            **super().describe(),
            "command": redacted_argv(self.command),
            "file": file,
            "redacted": self.is_redacted,
        }

    @abstractmethod
    def inject(self, direction: Direction, frames: Sequence[bytes]) -> int | None:
        """Send frames by hand, and return the number of the first one in the recording.

        Raise `ApiError` if the agent does not run.
        """

    @abstractmethod
    def inject_bytes(self, data: bytes) -> int | None:
        """Send bytes to the agent by hand, without a line end; return their number.

        Raise `ApiError` if the agent is not connected over a pipe.
        """

    def begin(self) -> None:
        """Note that the agent is being started."""
        self.started_at = time.time()
        self._began = self.recording.now()
        self.exit_status_of_agent = None
        self.strange_lines = StrangeLines()
        self._stderr_lines = LinesRedactor()
        self.set_state("starting")
        asyncio.get_running_loop().call_later(SLOW_S + 0.1, self.hub.changed, "process")

    @property
    def _name(self) -> str:
        """The agent in sentences: the name of its program, or its address."""
        word = self.command[0]
        return word if is_url(word) else Path(word).name

    def add_sent(self, message: dict[str, Any]) -> None:
        """Keep what was sent by hand, for all pages, until the inspection ends."""
        self.sent = [message, *(one for one in self.sent if one != message)][:_SENT]
        self.hub.changed("sent")

    def forget_sent(self) -> None:
        """Forget what was sent by hand."""
        self.sent = []
        self.hub.changed("sent")

    def set_state(self, state: str, problem: str = "") -> None:
        """Show another state on the page."""
        self.state, self.problem = state, problem
        self.hub.changed("process")

    def set_ended(self, error: BaseException | None, state: str) -> None:
        """Show why the agent has ended or could not be used."""
        if isinstance(error, ConnectionLost):
            self.exit_status_of_agent = error.exit_status
        self.set_state(state, why_ended(error, self._name, is_connected=state == "ended"))

    def add_stderr(self, line: str) -> None:
        """Show a line that the agent wrote to stderr, without secrets unless they are kept."""
        if self.is_redacted:
            line = self._stderr_lines.redacted(line)
        item = {"at": round(self.recording.now(), 3), "text": line[:_LINE_CHARACTERS]}
        self.stderr.append(item)
        self.hub.push("stderr", item)


class AgentOutput(NamedTuple):
    """What receives the lines of an agent that are not messages."""

    on_stderr: Callable[[str], None]
    on_noise: Callable[[str], None]


# Makes the transport to the agent, for each start.
AgentStarter: TypeAlias = Callable[[AgentOutput], Awaitable[Transport]]


class ClientSide(Protocol):
    """What the page does as a client of the agent."""

    @property
    def permissions(self) -> Policy:
        """What decides permission requests."""
        ...

    def options(self) -> ConnectOptions:
        """Return the options of the next connection."""
        ...

    def connected(self, agent: ConnectedAgent) -> None:
        """Use a connection that was opened."""
        ...

    def disconnected(self) -> None:
        """Stop using the connection."""
        ...


class AgentInspection(LiveInspection):
    """Runs an agent and is its client.

    The agent can be started again, also with other versions of the protocol. `client` is what the
    page does with the connection, `agent` the connection while it is open.
    """

    kind = "agent"
    can_restart = True

    def __init__(
        self,
        start: AgentStarter,
        *,
        command: Sequence[str],
        title: str,
        output: Path | None = None,
        redact: bool = True,
    ) -> None:
        self.agent: ConnectedAgent | None = None
        self.client: ClientSide | None = None
        self.versions: tuple[ProtocolVersion, ...] = (1, 2)
        self._start = start
        self._transport: InspectedTransport | None = None
        self._restart = asyncio.Event()
        self._starts = 0
        super().__init__(command=command, title=title, output=output, redact=redact)

    def process(self) -> dict[str, Any]:
        return {
            **super().process(),
            "starts": self._starts,
            "versions": list(self.versions),
            "version": None if self.agent is None else self.agent.version,
        }

    async def start(self) -> None:
        """Start the agent, and start it again whenever this is requested."""
        self.client = self.conversations.live_client(Path.cwd(), self.command)
        self.spawn(self._run())

    def restart(self, versions: Iterable[ProtocolVersion] | None = None) -> None:
        """Stop the agent if it runs, and start it again; `versions` are those that it is offered.

        Raise `ApiError` for other versions than 1 and 2.
        """
        if versions is not None:
            chosen = tuple(sorted(set(versions)))
            if not chosen or not set(chosen) <= {1, 2}:
                raise ApiError(400, f"versions: expected 1, 2 or both, got {list(chosen)}")
            self.versions = chosen
        self._restart.set()

    def inject(self, direction: Direction, frames: Sequence[bytes]) -> int | None:
        return self._connected().inject(direction, frames)

    def inject_bytes(self, data: bytes) -> int | None:
        try:
            return self._connected().inject_bytes(data)
        except TypeError as error:
            raise ApiError(409, str(error)) from None

    def _connected(self) -> InspectedTransport:
        if self._transport is None:
            raise ApiError(409, "The agent is not running: start it again")
        return self._transport

    async def _run(self) -> None:
        while True:
            self._restart.clear()
            self._starts += 1
            self.begin()
            try:
                await self._run_once()
            except (AccordError, TimeoutError, OSError) as error:
                self.set_ended(error, "failed")
            finally:
                self.agent = self._transport = None
                self.hub.changed("capabilities")
            await self._restart.wait()

    async def _run_once(self) -> None:
        """Run the agent until it ends or is to be started again, also while it is starting."""
        connected = asyncio.create_task(self._connect(), name="accord inspected agent")
        restart = asyncio.create_task(self._restart.wait(), name="accord start again")
        try:
            await asyncio.wait((connected, restart), return_when=asyncio.FIRST_COMPLETED)
        finally:
            restart.cancel()
            connected.cancel()
            await asyncio.wait((connected, restart))
        if not connected.cancelled():
            connected.result()

    def set_ended(self, error: BaseException | None, state: str) -> None:
        super().set_ended(error, state)
        if self.problem:  # the person at the terminal may not look at the page
            sys.stderr.write(f"accord inspect: {self.problem}\n")

    async def _connect(self) -> None:
        client = self.client
        options = ConnectOptions() if client is None else client.options()
        options["versions"] = self.versions
        permissions = None if client is None else client.permissions
        async with connect(self._open, permissions=permissions, **options) as agent:
            self.agent = agent
            self.set_state("running")
            self.hub.changed("capabilities")
            if self.client is not None:
                self.client.connected(agent)
            try:
                self.set_ended(await agent.remote.connection.wait_ended(), "ended")
            finally:
                self.agent = None
                if self.client is not None:
                    self.client.disconnected()

    async def _open(self) -> Transport:
        hop = self.recording.hop()
        inner = await self._start(AgentOutput(self.add_stderr, self._add_noise))
        self._transport = InspectedTransport(
            inner,
            hop,
            self.faults,
            self.numbers,
            written=self.messages().written,
            lines=self.strange_lines,
            strange=lambda: self.hub.changed("process"),
        )
        self.faults.suspend = None
        if isinstance(inner, ProcessTransport):
            inner.spawn()
            self.pid = inner.pid
            if inner.pid is not None:
                self.faults.suspend = suspender(inner.pid)
        self.hub.changed("process")
        return self._transport

    def _add_noise(self, line: str) -> None:
        if self._transport is not None:
            self._transport.noise(line)
