"""JSON-RPC 2.0 messages as decoded, the lines that carry them, and the start of oversized ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

RequestId: TypeAlias = int | str | None


class Message(Struct, gc=False):
    """One envelope; `params`, `result` and `error` stay undecoded.

    With a method and an id it is a request, without the id a notification.
    """

    jsonrpc: Literal["2.0"]
    id: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Response(Struct):
    """The response to a request of this side; `call` is the object passed to `Peer.request`."""

    call: Any
    result: Raw | None = None
    code: int = 0
    message: str | None = None  # None: the request succeeded
    data: Any = None
    error: Raw | None = None  # the error object as received
    fault: str | None = None  # why the response is invalid; then its other fields do not count


class CancelRequest(Struct):
    """The peer cancels one of its requests that has no response yet."""

    id: RequestId


class UnexpectedMessage(Struct):
    """A message that is neither a request nor a response to one. It gets no response.

    `level` is the level of `logging` to log it with.
    """

    reason: str
    level: int = 10


Event: TypeAlias = Message | Response | CancelRequest | UnexpectedMessage


# The beginning of a frame that exceeds the size limit.

HEAD_BYTES = 4096  # kept of an oversized frame


class Head(Struct, frozen=True):
    """The known parts of a message; `id` is `UNSET` if it is unknown."""

    kind: Literal["request", "response", "unknown"]
    id: Any = UNSET


def read_head(text: bytes) -> Head:
    """Return the kind and id of the message that begins like this."""
    keys: set[str] = set()
    found: dict[str, Any] = {}
    with suppress(ValueError, IndexError, RecursionError):  # at the end of the text
        _read(text.decode("utf-8", "replace"), keys, found)
    request_id = found.get("id", UNSET)
    if type(request_id) not in (int, str):
        request_id = UNSET
    if "method" in keys or "params" in keys:
        return Head("request", request_id)
    if "result" in keys or "error" in keys:
        return Head("response", request_id)
    return Head("unknown", request_id)


def _read(text: str, keys: set[str], found: dict[str, Any]) -> None:
    """Collect the keys of the outermost object, and its complete values."""
    import json  # slow to import, and frames this large are rare

    decode = json.JSONDecoder().raw_decode
    at = _skip(text, 0, "{")
    while True:
        key, at = decode(text, _skip(text, at))
        keys.add(key)
        value, at = decode(text, _skip(text, _skip(text, at, ":")))
        after = _skip(text, at)  # a number may be cut at the end of the text
        if text[after] not in ",}":
            return
        found[key] = value
        at = after + 1


def _skip(text: str, at: int, expected: str = "") -> int:
    """Return the position after white space and the expected character."""
    while text[at] in " \t\r\n":
        at += 1
    if expected:
        if text[at] != expected:
            raise ValueError(text[at])
        at += 1
    return at


class LineReader:
    """Splits a byte stream into lines of at most `limit` bytes.

    The bytes of a longer line are dropped; its beginning is added to `refused` as soon as the limit
    is exceeded. Blank lines and carriage returns are white space to the JSON decoder.
    """

    def __init__(self, limit: int) -> None:
        self.refused: list[bytes] = []  # the caller removes its items
        self._limit = limit
        self._partial_line = bytearray()  # of an incomplete line
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """Return the lines that are complete now."""
        lines: list[bytes | bytearray] = []
        if self._partial_line or self._skipping:
            end = data.find(b"\n")
            self._hold(data if end < 0 else data[:end])
            if end < 0:
                return lines
            if not self._skipping:
                # Returned as it is, because copying a large line takes time.
                lines.append(self._partial_line)
                self._partial_line = bytearray()
            self._skipping = False
            data = data[end + 1 :]
        whole = data.split(b"\n")
        if rest := whole.pop():
            self._hold(rest)
        if len(data) > self._limit:
            self.refused += [line[:HEAD_BYTES] for line in whole if len(line) > self._limit]
            whole = [line for line in whole if len(line) <= self._limit]
        lines += whole
        return lines

    def finish(self) -> list[bytes | bytearray]:
        """Return the last line if it has no newline (R-STDIO-11)."""
        last, self._partial_line = self._partial_line, bytearray()
        return [last] if last else []

    def _hold(self, data: bytes) -> None:
        if self._skipping:
            return
        if len(self._partial_line) + len(data) > self._limit:
            head = self._partial_line[:HEAD_BYTES]
            head += data[: HEAD_BYTES - len(head)]
            self.refused.append(bytes(head))
            self._partial_line = bytearray()
            self._skipping = True
        else:
            self._partial_line += data
