"""JSON-RPC over lines for the independent pair: the standard library only, nothing of Accord."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Json = Any
LONGEST = 32 * 1024 * 1024
VARY = set(os.environ.get("VARY", "").split(","))  # variants that the rules allow
BREAK = {os.environ.get("BREAK", "")}  # what the agent does against the rules
LATER = object()  # a handler that sends its own response
GONE = object()  # the caller no longer waits

PARSE, INVALID, NO_METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
LOGIN, NOT_FOUND, VERSION, CANCELLED = -32000, -32002, -32022, -32800


class Refused(Exception):
    """An error that is sent to the other side or received from it."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.code = code


class Withdrawn(Exception):
    """The request is no longer awaited, because the work was cancelled."""


def _no_constant(text: str) -> Json:
    raise ValueError(f"{text} is no JSON")


class Peer:
    """One connection: reads lines, answers requests, waits for responses."""

    def __init__(
        self,
        read_line: Callable[[int], bytes],
        write: Callable[[bytes], int],
        request: Callable[[Json, str, dict[str, Json]], Json],
        note: Callable[[str, dict[str, Json]], None],
    ) -> None:
        self.version = 0
        self._read_line = read_line
        self._write = write
        self._request = request
        self._note = note
        self._writing = threading.Lock()
        self._asked = 0
        self._waiting: dict[Json, queue.SimpleQueue[Json]] = {}
        self._closed = False
        self._kept = b""  # to be written with the next message
        self._keeps = False

    # --- out ---

    def write(self, data: bytes) -> None:
        """Write raw bytes; a missing reader is not an error."""
        with self._writing:
            self._kept += data
            if self._keeps:
                return
            data, self._kept = self._kept, b""
            try:
                while data:
                    data = data[self._write(data) :]
            except OSError:
                self._closed = True

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send all messages of this block with one write."""
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False
            self.write(b"")

    def send(self, message: dict[str, Json]) -> None:
        message = {"jsonrpc": "2.0", **message}
        if "spaces" in VARY:
            message = dict(reversed(message.items()))
            self.write(json.dumps(message, ensure_ascii=False).encode() + b" \r\n\n")
        else:
            self.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def note(self, method: str, params: Json) -> None:
        self.send({"method": method, "params": params})

    def answer(self, request_id: Json, result: Json) -> None:
        self.send({"id": request_id, "result": result})

    def refuse(self, request_id: Json, refused: Refused) -> None:
        self.send({"id": request_id, "error": refused.error})

    def ask(self, method: str, params: Json) -> tuple[Json, queue.SimpleQueue[Json]]:
        """Send a request; `wait` for its response."""
        answers: queue.SimpleQueue[Json] = queue.SimpleQueue()
        with self._writing:
            self._asked += 1
            request_id: Json = f"mine/{self._asked}" if "words-as-ids" in VARY else self._asked
            self._waiting[request_id] = answers
        if self._closed:
            answers.put(GONE)
        self.send({"id": request_id, "method": method, "params": params})
        return request_id, answers

    def wait(self, answers: queue.SimpleQueue[Json], seconds: float = 60) -> Json:
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise Refused(INTERNAL, "No answer in time") from None
        if answer is GONE:
            raise Withdrawn
        if isinstance(answer, Refused):
            raise answer
        return answer

    def call(self, method: str, params: Json, seconds: float = 60) -> Json:
        return self.wait(self.ask(method, params)[1], seconds)

    # --- in ---

    def run(self) -> None:
        """Read until the other side disconnects."""
        while line := self._read_line(LONGEST + 1):
            if len(line) > LONGEST:
                break
            if line.strip():
                self._line(line)
        self._closed = True
        for answers in list(self._waiting.values()):
            answers.put(GONE)

    def _line(self, line: bytes) -> None:
        try:
            message = json.loads(line.decode("utf-8", "replace"), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            self.refuse(None, Refused(PARSE, "Not JSON"))
            return
        if not isinstance(message, dict):
            self.refuse(None, Refused(INVALID, "Not one message"))
        elif "method" in message:
            self._called(message)
        elif "result" in message or "error" in message:
            self._answered(message)
        elif "id" not in message:
            self.refuse(None, Refused(INVALID, "Neither a request nor an answer"))

    def _called(self, message: dict[str, Json]) -> None:
        method, request_id = message["method"], message.get("id")
        usable = isinstance(request_id, str) or (
            type(request_id) is int and -(2**63) <= request_id < 2**63
        )
        usable = usable or (request_id is None and self.version == 1)
        broken = message.get("jsonrpc") != "2.0" or not isinstance(method, str)
        if broken or ("id" in message and not usable):
            self.refuse(None, Refused(INVALID, "Not a valid request"))
            return
        params = {} if message.get("params") is None else message["params"]
        if "id" not in message:
            if isinstance(params, dict):
                # A malformed notification is dropped.
                with suppress(Refused, TypeError, ValueError, KeyError):
                    self._note(method, params)
            return
        try:
            if not isinstance(params, dict):
                raise Refused(PARAMS, "Expected an object as params")
            result = self._request(request_id, method, params)
        except Refused as refused:
            self.refuse(request_id, refused)
        except (TypeError, ValueError, KeyError, OSError, RuntimeError):
            self.refuse(request_id, Refused(INTERNAL, "Internal error"))
        else:
            if result is not LATER:
                self.answer(request_id, result)

    def _answered(self, message: dict[str, Json]) -> None:
        request_id = message.get("id")
        if type(request_id) not in (int, str):
            return
        answers = self._waiting.pop(request_id, None)
        if answers is None:
            return
        error = message.get("error")
        if error is None and "result" in message:
            answers.put(message["result"])
        elif isinstance(error, dict) and type(error.get("code")) is int:
            answers.put(Refused(error["code"], str(error.get("message")), error.get("data")))
        else:
            answers.put(Refused(INTERNAL, "Malformed answer"))
