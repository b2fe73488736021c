"""What inspections of a running agent share: the recording, stderr, the state of the process."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accord.errors import ConnectionLost
from accord.text.secrets import LinesRedactor, redacted_argv
from accord.transports.registry import is_url
from accord_inspector.agent_trouble import SLOW_S, Seen, trouble_of, why_ended
from accord_inspector.faults import Faults
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError
from accord_inspector.strange_lines import StrangeLines
from accord_trace.reading import TraceError
from accord_trace.recording import Recording
from accord_trace.records import Direction

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
