"""The messages of the list as a file in another format, without secrets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from accord.text import lenient_json
from accord.text.lenient_json import is_object
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError
from accord_trace.http_archive import http_archive
from accord_trace.message_index import MessageIndex
from accord_trace.reading import TraceError
from accord_trace.records import Header, Record, is_damaged
from accord_trace.redaction import redacted_frame
from accord_trace.transcript import transcript

_FILTER_S = 0.3
_PAUSE_S = 0.05
_PAUSES = 6000
_PART_BYTES = 64 * 1024


class _Format(Struct, frozen=True):
    suffix: str
    media_type: str
    parts: Callable[[_Selected, str], Iterator[bytes]]


class _Selected:
    """A recording of which only some messages are read, without secrets."""

    def __init__(self, index: MessageIndex, numbers: Sequence[int]) -> None:
        self.header: Header = index.header
        self._index = index
        self._numbers = numbers

    def __iter__(self) -> Iterator[Record]:
        for number in self._numbers:
            record = self._index.record(number)
            if not is_damaged(record):
                yield _without_secrets(record)


def export_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the route that exports."""

    async def export(request: Request) -> Response:
        """Return the listed messages as a file, with the other message of each pair."""
        params = request.query_params
        form = _FORMATS.get(params.get("format", ""))
        if form is None:
            got = params.get("format", "")
            raise ApiError(400, f"format: expected one of: {', '.join(_FORMATS)}, got {got!r}")
        recording = params.get("recording", "")
        messages = inspection.messages(recording)
        view = messages.view(inspection.wanted(params, recording))
        for _ in range(_PAUSES):
            if await view.complete(_FILTER_S) and messages.is_read:
                break
            await asyncio.sleep(_PAUSE_S)  # the recording is still being read
        index = messages.index
        numbers = view.numbers()
        if len(numbers) < len(index):
            pairs = (index.row(number).pair for number in numbers)
            numbers = sorted({*numbers, *(pair for pair in pairs if pair is not None)})
        parts = form.parts(_Selected(index, numbers), messages.path.name)
        try:
            first = next(parts, b"")
        except TraceError as error:
            raise ApiError(422, str(error)) from None
        name = re.sub(r"[^\w.-]", "_", messages.path.name, flags=re.ASCII)
        name = f"{name.removesuffix('.jsonl').removesuffix('.acp')}.{form.suffix}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(
            _collected(first, parts), media_type=form.media_type, headers=headers
        )

    return (Route("/api/export", export),)


def _har(selected: _Selected, _title: str) -> Iterator[bytes]:
    return http_archive(selected)


def _markdown(selected: _Selected, title: str) -> Iterator[bytes]:
    return (part.encode("utf-8", "replace") for part in transcript(selected, title))


_FORMATS = {
    "har": _Format("har", "application/json", _har),
    "md": _Format("md", "text/markdown; charset=utf-8", _markdown),
}


def _collected(first: bytes, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield larger parts: each is sent by itself."""
    found = [first]
    size = len(first)
    for part in parts:
        found.append(part)
        size += len(part)
        if size >= _PART_BYTES:
            yield b"".join(found)
            found, size = [], 0
    yield b"".join(found)


def _without_secrets(record: Record) -> Record:
    frame = redacted_frame(record.frame)
    if frame is None:
        return record
    if record.type == "invalid":
        return replace(record, raw=frame.decode("utf-8", "surrogateescape"), redacted=True)
    value = lenient_json.loads(frame)
    if not is_object(value):
        return record
    params, payload = value.get("params"), value.get("error" if record.is_error else "result")
    return replace(
        record,
        raw=UNSET,
        redacted=True,
        params=UNSET if record.params is UNSET else Raw(lenient_json.dumps(params)),
        payload=UNSET if record.payload is UNSET else Raw(lenient_json.dumps(payload)),
    )
