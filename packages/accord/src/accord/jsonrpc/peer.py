"""JSON-RPC 2.0 without I/O: frames in, events out, frames to send.

Receiving never raises: invalid messages get an error response here, and all others become events.
Sending raises only the exceptions of the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.errors import FrameTooLarge, InvalidRequest, ParseError, RequestError
from accord.jsonrpc.message import (
    CancelRequest,
    Event,
    Message,
    RequestId,
    Response,
    UnexpectedMessage,
    read_head,
)
from accord.text import lenient_json
from accord.text.excerpt import excerpt

ABSENT = UNSET  # params that are omitted

CANCEL_REQUEST: str = "$/cancel_request"
_MAX_FORGOTTEN = 10_000
_INT64 = range(-(2**63), 2**63)

_decode_message = msgspec.json.Decoder(Message).decode
_encode_plain = msgspec.json.Encoder().encode


class _Error(Struct):
    code: int
    message: str
    data: Any = None


class _CancelParams(Struct):
    request_id: int | str | None = msgspec.field(name="requestId")


_decode_error = msgspec.json.Decoder(_Error).decode
_decode_cancel = msgspec.json.Decoder(_CancelParams).decode


class Peer:
    """One side of a JSON-RPC connection.

    Pass received frames to `receive`, call `request`, `notify` and `respond`, and write the frames
    that `frames_to_send` returns. `encode` turns params and results into JSON text; `encode_into`
    appends the JSON text to another, for large values.
    """

    def __init__(
        self,
        encode: Callable[[Any], bytes] = lenient_json.dumps,
        encode_into: Callable[[Any, bytearray], None] | None = None,
        *,
        frame_bytes: int | None = None,
    ) -> None:
        self.null_ids = True  # v1 allows them, v2 does not (R-GEN-06)
        # Params, results and errors are the bytes received, also those that msgspec rejects.
        self.keeps_text = False
        # of responses made by `receive` and `reject`; the caller resets it
        self.rejected_bytes: int = 0
        self.frame_bytes: int = _INT64.stop if frame_bytes is None else frame_bytes
        self._encode = encode
        self._encode_into = encode_into or self._append
        self._next_id = 0
        self._calls: dict[RequestId, Any] = {}
        self._unanswered: set[RequestId] = set()
        self._forgotten: dict[RequestId, None] = {}  # in the order in which they were abandoned
        self.frames: list[bytes | bytearray] = []  # to send; see `take_frames`
        self._heads: dict[str, bytes] = {}

    # Sending.

    def request(self, method: str, params: Any, call: Any) -> RequestId:
        """Send a request; its `Response` will carry `call`."""
        request_id = self._next_id
        frame = bytearray(b'{"jsonrpc":"2.0","id":%d,"method":' % request_id)
        frame += _encode_plain(method)
        if params is not ABSENT:
            frame += b',"params":'
            self._encode_into(params, frame)
        frame += b"}"
        if len(frame) > self.frame_bytes:
            raise FrameTooLarge(method, len(frame), self.frame_bytes)
        self._next_id = request_id + 1
        self._calls[request_id] = call
        self.frames.append(frame)
        return request_id

    def notify(self, method: str, params: Any) -> int:
        """Send a notification; return the size of the frame in bytes."""
        if params is ABSENT:
            frame = b'{"jsonrpc":"2.0","method":%b}' % _encode_plain(method)
        else:
            head = self._heads.get(method) or self._head(method)
            frame = head + self._encode(params) + b"}"
        if len(frame) > self.frame_bytes:
            raise FrameTooLarge(method, len(frame), self.frame_bytes)
        self.frames.append(frame)
        return len(frame)

    def _head(self, method: str) -> bytes:
        head = b'{"jsonrpc":"2.0","method":%b,"params":' % _encode_plain(method)
        if not method.startswith("_"):  # the protocol has few methods; extensions may have many
            self._heads[method] = head
        return head

    def respond(self, request_id: RequestId, result: Any) -> int:
        """Send the result of a request, once; return the size of the frame in bytes."""
        if request_id not in self._unanswered:
            return 0
        frame = bytearray(b'{"jsonrpc":"2.0","id":%b,"result":' % _id_text(request_id))
        self._encode_into(result, frame)
        frame += b"}"
        return self._close(request_id, frame)

    def fail(self, request_id: RequestId, error: RequestError) -> int:
        """Send the error of a request, once; return the size of the frame in bytes."""
        if request_id not in self._unanswered:
            return 0
        return self._close(request_id, self._error(request_id, error))

    def fail_raw(self, request_id: RequestId, error: Raw) -> int:
        """Send the error of a request as this JSON text, once; return the size of the frame."""
        if request_id not in self._unanswered:
            return 0
        frame = bytearray(b'{"jsonrpc":"2.0","id":%b,"error":' % _id_text(request_id))
        frame += error
        frame += b"}"
        return self._close(request_id, frame)

    def _close(self, request_id: RequestId, frame: bytes | bytearray) -> int:
        if len(frame) > self.frame_bytes:
            raise FrameTooLarge("", len(frame), self.frame_bytes)
        self._unanswered.discard(request_id)
        self.frames.append(frame)
        return len(frame)

    def cancel(self, request_id: RequestId) -> None:
        """Cancel a request of this side that has no response yet (R-REQCAN-02)."""
        if request_id in self._calls:
            self.notify(CANCEL_REQUEST, {"requestId": request_id})

    def forget(self, request_id: RequestId) -> None:
        """Stop waiting for a response; a late one is dropped silently (R-REQCAN-12)."""
        if self._calls.pop(request_id, None) is not None:
            self._forgotten[request_id] = None
            if len(self._forgotten) > _MAX_FORGOTTEN:
                del self._forgotten[next(iter(self._forgotten))]

    def _append(self, value: Any, text: bytearray) -> None:
        text += self._encode(value)

    def frames_to_send(self) -> list[bytes | bytearray]:
        """Return the frames to write, in order."""
        frames, self.frames = self.frames, []
        return frames

    # Receiving.

    def receive(self, frames: Iterable[bytes | bytearray]) -> list[Event]:
        """Return the events of received frames; each frame is one JSON text."""
        events: list[Event] = []
        for frame in frames:
            try:
                message = _decode_message(frame)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                odd = self._decode_irregular(frame)
                if type(odd) is not Message:
                    if odd is not None:
                        events.append(odd)
                    continue
                message = odd
            if message.method is UNSET:
                if (event := self._answer(message)) is not None:
                    events.append(event)
            elif message.id is not UNSET:
                if self._accept(message.id):
                    events.append(message)
            elif message.method != CANCEL_REQUEST:
                events.append(message)
            elif (cancel := self.cancelled_by(message.params)) is not None:
                events.append(cancel)
        return events

    def receive_eof(self) -> list[Any]:
        """Return the calls that get no response any more; the peer's requests still may."""
        lost, self._calls = list(self._calls.values()), {}
        return lost

    def calls(self) -> list[tuple[RequestId, Any]]:
        """Return the pending requests of this side."""
        return list(self._calls.items())

    @property
    def unanswered(self) -> int:
        """The number of the peer's requests that have no response yet."""
        return len(self._unanswered)

    def reject(self, error: RequestError, request_id: RequestId = None) -> None:
        """Respond to a message that is not handled; the id is null if it is unknown."""
        frame = self._error(request_id, error)
        self.frames.append(frame)
        self.rejected_bytes += len(frame)

    def refuse(self, error: RequestError, head: bytes) -> Response | None:
        """Respond to an oversized frame, which begins like this.

        If it is a response, return it as one that fails its call.
        """
        message = read_head(head)
        if message.kind == "response" and message.id in self._calls:
            fault = f"the response is too large: {error.message}"
            return Response(self._calls.pop(message.id), fault=fault)
        known = message.kind == "request" and _is_id(message.id)
        self.reject(error, message.id if known and message.id not in self._unanswered else None)
        return None

    def _accept(self, request_id: RequestId) -> bool:
        if request_id is None and not self.null_ids:
            self.reject(InvalidRequest("The id of a request must not be null"))
            return False
        if request_id in self._unanswered:
            # A response with this id would belong to the earlier request (R-GEN-13).
            self.reject(InvalidRequest("The id is that of a request still unanswered"))
            return False
        self._unanswered.add(request_id)
        return True

    def _answer(self, message: Message) -> Event | None:
        if message.id is UNSET:
            if message.result is UNSET and message.error is UNSET:
                self.reject(InvalidRequest("A message has a method, a result or an error"))
                return None
            return UnexpectedMessage("answers without an id")
        if message.id not in self._calls:
            if message.id in self._forgotten:
                del self._forgotten[message.id]
                return UnexpectedMessage("answers a request given up")
            if message.id is None and message.error is not UNSET:
                # The peer could not read a message and does not know its id (R-ERR-03).
                return UnexpectedMessage("the peer could not read one of our messages", level=30)
            return self._unmatched(message.id)
        call = self._calls.pop(message.id)
        if message.error is not UNSET and bytes(message.error) != b"null":
            return self._failure(call, message.error)
        if message.result is UNSET:
            return Response(call, code=-32603, message="The answer has neither result nor error")
        return Response(call, result=message.result)

    def _unmatched(self, request_id: Any) -> Response | UnexpectedMessage:
        """Fail the call whose id a response has in another JSON type (R-GEN-06)."""
        meant = _meant(request_id)
        if meant is None or meant not in self._calls:
            return UnexpectedMessage("a response that matches no request", level=30)
        shown = excerpt(_id_text(request_id).decode("ascii"), 50)
        fault = f"the response has the id {shown}, the request has {meant}"
        return Response(self._calls.pop(meant), fault=fault)

    def _failure(self, call: Any, text: Raw) -> Response:
        try:
            error = _decode_error(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._decode_error_leniently(call, text)
        return Response(call, code=error.code, message=error.message, data=error.data, error=text)

    def _decode_error_leniently(self, call: Any, text: Raw) -> Response:
        """Read the usable parts of a malformed error object (R-ERR-02, R-ERR-04)."""
        try:
            raw = lenient_json.loads(bytes(text))
        except lenient_json.NotJson:
            raw = None
        parts = raw if lenient_json.is_object(raw) else {}
        code, message = lenient_json.whole(parts.get("code")), parts.get("message")
        if type(code) is int and type(message) is str:
            return Response(call, code=code, message=message, data=parts.get("data"), error=text)
        return Response(call, code=-32603, message="Malformed error object", data=raw, error=text)

    def cancelled_by(self, params: Raw | msgspec.UnsetType) -> CancelRequest | None:
        """Return what the params of `$/cancel_request` cancel; None if nothing is pending."""
        try:
            request_id = _decode_cancel(params).request_id  # type: ignore[arg-type]  # UNSET: caught
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
            request_id = self._decode_irregular_id(params)
            if request_id is None:
                return None
        return CancelRequest(request_id) if request_id in self._unanswered else None

    def _decode_irregular_id(self, params: Raw | msgspec.UnsetType) -> int | None:
        """Return the id in params; a number such as 1.0 counts as an integer, as in JavaScript."""
        if params is UNSET:
            return None
        try:
            raw = lenient_json.loads(bytes(params))
        except lenient_json.NotJson:
            return None
        request_id = (
            lenient_json.whole(raw.get("requestId")) if lenient_json.is_object(raw) else None
        )
        return request_id if type(request_id) is int else None

    def _decode_irregular(
        self, frame: bytes | bytearray
    ) -> Message | Response | UnexpectedMessage | None:
        """Decode a frame that the message decoder rejects, or respond to it."""
        if not frame or frame.isspace():
            return None
        try:
            value, has_large = lenient_json.loads_marking(frame)
            large_id = (
                has_large
                and lenient_json.is_object(value)
                and isinstance(value.get("id"), lenient_json.NumberText)
            )
            if has_large:
                value = lenient_json.loads(frame)
        except lenient_json.NotJson as exc:
            self.reject(ParseError(f"Parse error: {exc}"))
            return None
        if lenient_json.is_array(value):
            # Both versions refuse batches as a whole (R-BATCH-10).
            self.reject(InvalidRequest("JSON-RPC batches are not supported"))
            return None
        if not lenient_json.is_object(value):
            self.reject(InvalidRequest("A message is an object"))
            return None
        fields = value
        if large_id:
            fields["id"] = None  # it is a number, not a string with the same text
            if "method" in fields:
                self.reject(InvalidRequest("The id is a number that is too large"))
                return None
        if "method" not in fields and not fields.keys().isdisjoint(("id", "result", "error")):
            return self._decode_irregular_response(frame, fields)
        if problem := _invalid(fields):
            self.reject(InvalidRequest(problem))  # R-ERR-03: with a null id
            return None
        # A valid message with unusual content: lone surrogates, invalid UTF-8.
        return Message(
            jsonrpc="2.0",
            id=fields.get("id", UNSET),
            method=fields["method"],
            params=self._member(frame, fields, "params"),
        )

    def _member(
        self, frame: bytes | bytearray, fields: dict[str, Any], name: str
    ) -> Raw | msgspec.UnsetType:
        """Return the text of a member: as received if `keeps_text`, else as msgspec needs it."""
        if name not in fields:
            return UNSET
        if self.keeps_text and (text := lenient_json.member_texts(frame).get(name)) is not None:
            return Raw(text)
        return Raw(lenient_json.dumps(fields[name]))

    def _decode_irregular_response(
        self, frame: bytes | bytearray, fields: dict[str, Any]
    ) -> Response | UnexpectedMessage | Message:
        request_id = fields.get("id")
        if type(request_id) not in (int, str) or request_id not in self._calls:
            return self._unmatched(request_id)
        if fields.get("jsonrpc") != "2.0":
            call = self._calls.pop(request_id)
            return Response(call, code=-32603, message="The answer is not JSON-RPC 2.0")
        return Message(
            jsonrpc="2.0",
            id=request_id,
            result=self._member(frame, fields, "result"),
            error=self._member(frame, fields, "error"),
        )

    def _error(self, request_id: RequestId, error: RequestError) -> bytes:
        body: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (
            _id_text(request_id),
            self._encode(body),
        )


def _id_text(request_id: RequestId) -> bytes:
    # A string may contain a lone surrogate.
    return b"%d" % request_id if type(request_id) is int else lenient_json.dumps(request_id)


def _meant(request_id: Any) -> int | None:
    """Return the request id with the same text as a response's id of another type."""
    if type(request_id) is float and request_id.is_integer():
        return int(request_id)
    if type(request_id) is str and len(request_id) < 20:
        try:
            number = int(request_id)
        except ValueError:
            return None
        return number if str(number) == request_id else None
    return None


def _is_id(request_id: Any) -> bool:
    return type(request_id) is str or (type(request_id) is int and request_id in _INT64)


def _invalid(fields: dict[str, Any]) -> str | None:
    """Return why the object is neither a valid request nor a valid notification."""
    if fields.get("jsonrpc") != "2.0":
        return 'A message carries "jsonrpc": "2.0"'
    if type(fields.get("method")) is not str:
        return "The method of a message is a string"
    request_id = fields.get("id")
    if type(request_id) is int and request_id not in _INT64:
        return "The id of a request is a string or a 64-bit integer"
    if type(request_id) not in (int, str, type(None)):
        return "The id of a request is a string or a 64-bit integer"
    return None
