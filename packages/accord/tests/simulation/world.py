"""The state of a run: sent and received pieces, failures, and the trace."""

from __future__ import annotations

import hashlib
import logging
import random
import re
import traceback
from collections import Counter
from typing import Any

from msgspec import Struct

from accord.errors import FrameTooLarge, TransportError
from accord.transports.base import FRAME_BYTES
from simulation.loop import SimulatedLoop
from simulation.program import Program

__all__ = ("PLANNED_CODE", "Branch", "Failure", "Piece", "Planned", "World", "labels_in")

_LABEL = re.compile(r"\[b(\d+)\.(\d+)\]")


def labels_in(text: str) -> list[tuple[int, int]]:
    """Return the labels of the pieces in a text, in order: branch and number."""
    if "[b" not in text:
        return []
    return [(int(branch), int(number)) for branch, number in _LABEL.findall(text)]


PLANNED_CODE = -32077  # of the errors that the program makes the agent raise


class Planned(Exception):
    """A planned mistake of the program: its traceback in the log is expected."""


class Failure(Struct, frozen=True):
    """A failure found by an oracle; `kind` is short, and equal for equal mistakes."""

    kind: str
    detail: str = ""


class Piece(Struct):
    """Something that the agent shows, with a unique label."""

    kept: bool  # in the transcript
    state: str = "sending"  # then "sent", or "unknown" if it might have arrived


class Branch:
    """Pieces that one coroutine of the agent shows one after the other."""

    def __init__(self, number: int, session_id: str, turn: int, *, in_turn: bool) -> None:
        self.number = number
        self.session_id = session_id
        self.turn = turn
        self.in_turn = in_turn  # all pieces are shown before the turn ends
        self.pieces: list[Piece] = []

    def next(self, *, kept: bool) -> tuple[Piece, str]:
        """Return a new piece and its label."""
        self.pieces.append(Piece(kept))
        return self.pieces[-1], f"[b{self.number}.{len(self.pieces) - 1}]"


class World:
    """The state of one run."""

    def __init__(self, program: Program, loop: SimulatedLoop) -> None:
        self.program = program
        self.loop = loop
        self.chance = random.Random(f"world {program.seed}")
        self.failures: list[Failure] = []
        self.branches: list[Branch] = []
        self.turns: list[Any] = []  # the prompts, by number
        self.interrupted: set[int] = set()  # turns whose handler was cancelled
        self.loaded: set[str] = set()  # sessions that were loaded while they were open
        self.may_be_cancelled: set[str] = set()  # cancelled sessions
        self.mistaken: set[int] = set()  # turns that fail as planned by the program
        self.busy = 0  # running turns and background work of the agent
        self.clients: list[Any] = []
        self.closed: set[str] = set()  # closed sessions, and sessions opened elsewhere
        self.cut: set[int] = set()  # clients whose connection ended unexpectedly, or was left
        self.lenient = program.store is not None and program.store.fails_one_in > 0
        self.small_frames = any(
            client.network.frame_bytes < FRAME_BYTES for client in program.clients
        )
        self.counts: Counter[str] = Counter()
        self._digest = hashlib.sha256()

    def fail(self, kind: str, detail: str = "") -> None:
        """Record a failure of an oracle."""
        self.failures.append(Failure(kind, detail))
        self.trace("failure", kind)

    def trace(self, *what: object) -> None:
        """Add a line to the trace."""
        self._digest.update(f"{self.loop.now!r} {what!r}\n".encode())

    @property
    def trace_hash(self) -> str:
        return self._digest.hexdigest()[:32]

    def branch(self, session_id: str, turn: int, *, in_turn: bool = True) -> Branch:
        """Return a new branch of a session; an empty id means a subagent's."""
        branch = Branch(len(self.branches), session_id, turn, in_turn=in_turn)
        self.branches.append(branch)
        return branch

    def session_of(self, actor: int) -> Any:
        """Return the session of an actor of any client, or None."""
        actors = [each for client in self.clients for each in client.actors]
        return actors[actor % len(actors)].session


class LogOracle(logging.Handler):
    """Reports errors and warnings in Accord's log, unless the program planned them."""

    # Logged for deliberate actions of the programs.
    EXPECTED = (
        "did not end a cancelled turn",  # stubborn turns
        "does not stop when cancelled",  # as above
        "the request is rejected",
        "the transport did not close in time",
        "refused a frame of more than",
        "more than a frame may have",
        "the peer could not read one of our messages",  # a rejected frame, at its sender
    )

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        expected: tuple[type[BaseException], ...] = ()
        if self._world.lenient:
            expected += (OSError,)  # of the store
        if self._world.cut:
            expected += (TransportError,)  # in a group with others
        if self._world.small_frames:
            expected += (FrameTooLarge,)
        if _planned(error, expected) or any(text in message for text in self.EXPECTED):
            return
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        kind = re.sub(r"(session|terminal|tool|message)-[0-9a-f]+|'[^']*'|\d+", "…", message)[:90]
        if error is not None:
            kind = f"{kind} {type(error).__name__}"
        self._world.fail(f"log: {kind}", f"{message}\n{trace}")


def _planned(error: BaseException | None, expected: tuple[type[BaseException], ...]) -> bool:
    while error is not None:
        if isinstance(error, (Planned, *expected)) or getattr(error, "code", None) == PLANNED_CODE:
            return True
        if isinstance(error, BaseExceptionGroup):
            return all(_planned(each, expected) for each in error.exceptions)
        error = error.__cause__ or error.__context__
    return False
