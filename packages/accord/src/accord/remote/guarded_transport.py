"""A transport whose frames are checked before the agent receives them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from msgspec import Struct

from accord.connection.limits import FloodLog
from accord.errors import InternalError, InvalidRequest, ParseError, RequestError
from accord.text.lenient_json import dumps, is_object
from accord.transports.base import Frame, NullReceiver, Receiver, Transport

log: logging.Logger = logging.getLogger("accord.remote")


class FrameGuard:
    """Decides about the frames of one connection. By default all pass."""

    def concerns(self, frame: Frame) -> bool:
        """Return whether `refusal` has to see a frame of the client; this must be fast."""
        return False

    async def refusal(self, message: dict[str, Any]) -> RequestError | None:
        """Return why the agent does not receive a message of the client, None if it does."""
        return None

    def outgoing(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return what the client receives instead of these frames of the agent."""
        return frames


class _Refused(Struct, frozen=True):
    """A frame over the size limit, in its place among the frames."""

    limit: int
    head: bytes


class _End(Struct, frozen=True):
    """The end of input, in its place among the frames."""

    error: Exception | None


_Item: TypeAlias = Frame | _Refused | _End


class GuardedTransport(Transport):
    """Passes frames between another transport and its receiver if guards permit it.

    A request that a guard refuses is answered with its error; anything else that it refuses is
    dropped. Frames keep their order: while one is checked, later ones wait and reading pauses.
    """

    def __init__(self, inner: Transport, guards: Sequence[FrameGuard]) -> None:
        self._log = FloodLog(log)
        self.frame_bytes: int = inner.frame_bytes
        self._inner = inner
        self._guards = guards
        self._receiver: Receiver = NullReceiver()
        self._waiting: deque[_Item] = deque()
        self._checking: asyncio.Task[None] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        await self._inner.start(self)

    def write(self, frames: Sequence[Frame]) -> None:
        for guard in self._guards:
            frames = guard.outgoing(frames)
        self._inner.write(frames)

    @property
    def congested(self) -> bool:
        return self._inner.congested

    def pause_reading(self) -> None:
        self._may_read.clear()
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._may_read.set()
        if self._checking is None:
            self._inner.resume_reading()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        await self._inner.aclose()

    async def exit_error(self) -> Exception | None:
        return await self._inner.exit_error()

    # The receiver of the inner transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        if self._checking is None and not any(map(self._is_concerned, frames)):
            self._receiver.frames_received(frames)
        else:
            self._add(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        if self._checking is None:
            self._receiver.frame_refused(limit, head)
        else:
            self._add([_Refused(limit, head)])

    def eof_received(self, error: Exception | None) -> None:
        if self._checking is None:
            self._receiver.eof_received(error)
        else:
            self._add([_End(error)])

    def writable(self) -> None:
        self._receiver.writable()

    # Checks.

    def _is_concerned(self, frame: Frame) -> bool:
        if not frame.isascii() and not _is_utf8(frame):
            return True  # decoders differ about it
        return any(guard.concerns(frame) for guard in self._guards)

    def _add(self, items: Sequence[_Item]) -> None:
        self._waiting += items
        if self._checking is None:
            self._inner.pause_reading()
            self._checking = asyncio.create_task(self._check_all(), name="accord check frames")

    async def _check_all(self) -> None:
        while self._waiting:
            item = self._waiting.popleft()
            match item:
                case _Refused(limit, head):
                    self._receiver.frame_refused(limit, head)
                case _End(error):
                    self._receiver.eof_received(error)
                case frame:
                    if not self._is_concerned(frame) or await self._passes(frame):
                        await self._may_read.wait()
                        self._receiver.frames_received([frame])
        self._checking = None
        if self._may_read.is_set():
            self._inner.resume_reading()

    async def _passes(self, frame: Frame) -> bool:
        """Return whether the agent receives a frame; answer a request that it does not."""
        request_id: Any = None
        try:
            message = unambiguous_json(frame)
            if not is_object(message):
                raise InvalidRequest("Expected one JSON object")
            request_id = message.get("id")
            for guard in self._guards:
                if guard.concerns(frame) and (error := await guard.refusal(message)) is not None:
                    raise error
        except RequestError as error:
            text = "! a message of the client was refused with %d"
            self._log.log(logging.INFO, text, error.code, kind=error.code)
            if request_id is not None or isinstance(error, ParseError | InvalidRequest):
                self._answer(request_id, error)
            return False
        except Exception as exc:  # noqa: BLE001  # a defect: nothing unchecked may pass
            self._log.exception("! a message of the client could not be checked", exc=exc)
            self._answer(request_id, InternalError())
            return False
        return True

    def _answer(self, request_id: Any, error: RequestError) -> None:
        body: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        shown = request_id if type(request_id) in (int, str) else None
        self._inner.write([dumps({"jsonrpc": "2.0", "id": shown, "error": body})])


def _is_utf8(frame: Frame) -> bool:
    try:
        frame.decode()
    except UnicodeDecodeError:
        return False
    return True


def unambiguous_json(text: Frame) -> Any:
    """Return the value of a JSON text that all decoders read alike.

    Raise `ParseError` for other text, and `InvalidRequest` for an object with two equal keys: of
    these, one decoder keeps the first, and another one the last.
    """
    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        raise ParseError("The message is not JSON that can be checked") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidRequest("An object of the message has two equal keys")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
