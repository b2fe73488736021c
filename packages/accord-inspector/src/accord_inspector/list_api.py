"""The JSON API of the list of messages, and of recordings: rows, exports, comparisons.

It is private: it may change with every version. A comparison is that of `accord trace diff`; an
export is without secrets.
"""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, cast

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from accord.local.run import kill_process
from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord_inspector.inspection import Inspection
from accord_inspector.judged import Judged
from accord_inspector.live_inspection import AgentInspection
from accord_inspector.messages import Messages, SortedView, View, row_json
from accord_inspector.recording_inspection import FolderInspection
from accord_terminal.conversation import ApiError, body_of, json_response
from accord_trace.exports import http_archive, transcript
from accord_trace.message_index import MessageIndex, MessageRow
from accord_trace.reading import TraceError, trace_files
from accord_trace.records import Header, Record, is_damaged
from accord_trace.redaction import redacted_frame
from accord_trace.search import TextSearch
from accord_trace.summary import summary

# Rows, with what each message says and which rules it breaks

_CHARACTERS = 160
_MAX_BYTES = 64 * 1024  # of a message that is decoded for its row
_MAX_RULES = 5
_MATCH_BYTES = 64 * 1024 * 1024  # that are searched for the excerpts of one request
_BEFORE = 60  # bytes of an excerpt
_AFTER = 160
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.")
_NO_FAULTS: Mapping[int, str] = MappingProxyType({})


def listed(
    messages: Messages,
    rows: Iterable[MessageRow],
    judged: Judged | None,
    faults: Mapping[int, str] = _NO_FAULTS,
    now: Callable[[float], float | None] | None = None,
    text: str = "",
) -> list[dict[str, Any]]:
    """Return rows for the page: `summary` is one line, `rules` are the ids of broken rules.

    `severity` is that of the worst one: error, warning or advice. `fault` is what a fault of the
    inspector did to the message. A request without a response has `waits`: for how many seconds,
    or null if none will come; `now` is the time in the recording at which a message of a time can
    still be answered. Without it, not all messages are known. With the `text` of a filter, `match`
    is where a message has it first: what is before, the text, and what follows.
    """
    found = [_listed(messages, row, judged, faults) for row in rows]
    if text:
        _add_matches(messages, found, TextSearch(text))
    if now is None:
        return found
    for row in found:
        if row["kind"] == "request" and "pair" not in row:
            time = now(row["ts"])
            row["waits"] = None if time is None else round(max(time - row["ts"], 0.0), 1)
    return found


def _add_matches(messages: Messages, rows: list[dict[str, Any]], search: TextSearch) -> None:
    left = _MATCH_BYTES
    for row in rows:
        left -= row["bytes"]
        if left < 0 and row is not rows[0]:
            return
        line = messages.index.line(row["n"])
        place = search.place_in(line)
        if place is not None:
            start, end = place
            parts = (
                line[max(start - _BEFORE, 0) : start],
                line[start:end],
                line[end : end + _AFTER],
            )
            # Characters that are cut at the ends of the excerpt are left out.
            row["match"] = [_readable(part.decode("utf-8", "ignore")) for part in parts]


def _readable(text: str) -> str:
    """Return a part of JSON text with letters and quotes in place of their escapes."""
    return _ESCAPES.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    found = match[0]
    if found.startswith("\\u"):
        return bytes.fromhex(found.replace("\\u", "")).decode("utf-16-be", "replace")
    return found[1] if found[1] in '"\\/' else found


def _listed(
    messages: Messages, row: MessageRow, judged: Judged | None, faults: Mapping[int, str]
) -> dict[str, Any]:
    found = row_json(row)
    if (fault := faults.get(row.number)) is not None:
        found["fault"] = fault
    if row.bytes <= _MAX_BYTES:
        found["summary"] = summary(messages.record(row.number), _CHARACTERS)
    broken = judged.broken(row.number) if judged is not None else []
    if broken:
        found["rules"] = list(dict.fromkeys(one.rule for one in broken))[:_MAX_RULES]
        found["severity"] = broken[0].severity
    return found


# The list


_ROWS = 500  # in one window
_FILTER_S = 0.3  # for a filter, before the rows that are known are returned


def list_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes about messages, recordings and the agent."""
    api = _Api(inspection)
    return (
        Route("/api/inspection", api.inspection),
        Route("/api/recordings", api.recordings),
        Route("/api/messages", api.messages),
        Route("/api/messages/{n:int}", api.message),
        Route("/api/position/{n:int}", api.position),
        Route("/api/agent/restart", api.restart, methods=["POST"]),
    )


class _Api:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._sorted: tuple[tuple[View, str], SortedView] | None = None  # the last one

    async def inspection(self, _request: Request) -> Response:
        return json_response(self._inspection.describe())

    async def recordings(self, request: Request) -> Response:
        """Return what the page lists of the recordings of a folder."""
        if not isinstance(self._inspection, FolderInspection):
            raise ApiError(409, "This is not a folder of recordings")
        pattern = request.query_params.get("name", "")
        return json_response(await self._inspection.recordings(pattern))

    async def messages(self, request: Request) -> Response:
        """Return a window of the list: the rows from a position on, and the counts."""
        params = request.query_params
        recording = params.get("recording", "")
        messages = self._inspection.messages(recording)
        wanted = self._inspection.wanted(params, recording)
        view = messages.view(wanted)
        is_complete = await view.complete(_FILTER_S)
        shown = await self._in_order(messages, view, params)
        first = _number(params.get("from", "0"), "from")
        if first < 0:  # from the end
            first = max(len(view) + first, 0)
        count = min(_number(params.get("count", "100"), "count"), _ROWS)
        judged = self._inspection.judges.known(recording)
        return json_response(
            {
                "total": len(messages),
                "matched": len(view),
                "complete": messages.is_read and is_complete,
                "from": first,
                "rows": listed(
                    messages,
                    shown.rows(first, count),
                    judged,
                    self._inspection.fault_marks,
                    self._inspection.now if messages.is_read else None,
                    wanted.text,
                ),
            }
        )

    async def message(self, request: Request) -> Response:
        """Return one message: its row, the frame as text, and as a JSON value if it is one."""
        messages = self._inspection.messages(request.query_params.get("recording", ""))
        n = cast("int", request.path_params["n"])
        row, record = messages.row(n), messages.record(n)
        frame = record.frame
        try:
            value: Any = lenient_json.loads(frame) if frame else None
        except lenient_json.NotJson:
            value = None
        raw = frame.decode("utf-8", "replace")
        fault = self._inspection.fault_marks.get(n, "")
        answer = {
            "row": row_json(row),
            "raw": raw,
            "value": value,
            "reason": record.reason,
            "fault": fault,
        }
        return Response(lenient_json.dumps(answer), media_type="application/json")

    async def position(self, request: Request) -> Response:
        """Return the position of a message in the list; null if it is not selected."""
        params = request.query_params
        recording = params.get("recording", "")
        messages = self._inspection.messages(recording)
        view = messages.view(self._inspection.wanted(params, recording))
        is_complete = await view.complete(_FILTER_S)
        shown = await self._in_order(messages, view, params)
        position = shown.position(cast("int", request.path_params["n"]))
        return json_response({"position": position, "complete": is_complete})

    async def _in_order(
        self, messages: Messages, view: View, params: QueryParams
    ) -> View | SortedView:
        """Return a view in the order that an address names: `sort=-bytes`."""
        column = params.get("sort", "")
        if not column:
            return view
        if self._sorted is None or self._sorted[0] != (view, column):
            self._sorted = (view, column), SortedView(view, messages.index, column)
        found = self._sorted[1]
        await found.update()
        return found

    async def restart(self, request: Request) -> Response:
        """Start the agent again; `versions` are those of the protocol that it is offered."""
        inspection = self._inspection
        if not isinstance(inspection, AgentInspection):
            raise ApiError(409, "Only an agent that the page runs can be started again")
        versions = (await body_of(request)).get("versions")
        if versions is not None and not isinstance(versions, list):
            raise ApiError(400, "versions: expected a list")
        inspection.restart(cast("Any", versions))
        return json_response(inspection.process())


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ApiError(400, f"{name}: expected a whole number, got {text!r}") from None


# Exports

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


_BYTES = 64 * 1024 * 1024  # of both recordings
_LIMIT_S = 60.0
_SHOWN = 2000  # differences
_SUFFIXES = re.compile(r"(\.[A-Za-z0-9]{1,8}){0,3}$")


def comparison_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes that compare."""
    comparisons = _Comparisons(inspection)
    return (
        Route("/api/comparison", comparisons.of_folder),
        Route("/api/comparison", comparisons.with_file, methods=["POST"]),
    )


class _Comparisons:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._turn = asyncio.Lock()  # one at a time: it needs a processor

    async def of_folder(self, request: Request) -> Response:
        """Compare a recording with another one that is inspected."""
        params = request.query_params
        first, second = params.get("recording", ""), params.get("other", "")
        if not second:
            raise ApiError(400, "other: expected the name of a recording")
        paths = [self._inspection.path_of(name) for name in (first, second)]
        return await self._compared(paths, params.get("strict") == "1", {})

    async def with_file(self, request: Request) -> Response:
        """Compare a recording with one that the page sends: the body is the file."""
        params = request.query_params
        path = self._inspection.path_of(params.get("recording", ""))
        name = params.get("name", "") or "the file"
        with TemporaryDirectory(prefix="accord-compare-") as folder:
            found = _SUFFIXES.search(name)
            copy = Path(folder, f"other{found[0] if found else ''}")
            size = _size(path)
            parts: list[bytes] = []
            async for part in request.stream():
                size += len(part)
                _check(size, name)
                parts.append(part)
            await asyncio.to_thread(copy.write_bytes, b"".join(parts))
            return await self._compared([path, copy], params.get("strict") == "1", {copy: name})

    async def _compared(self, paths: list[Path], strict: bool, names: dict[Path, str]) -> Response:
        _check(sum(map(_size, paths)), "The recordings together")
        command = [sys.executable, "-m", "accord", "trace", "diff", "--json"]
        options = ["--strict"] if strict else []
        async with self._turn:
            process = await asyncio.create_subprocess_exec(
                *command, *options, *(path.absolute() for path in paths), stdout=PIPE, stderr=PIPE
            )
            try:
                async with asyncio.timeout(_LIMIT_S):
                    out, err = await process.communicate()
            except TimeoutError:
                raise ApiError(
                    422, f"They differ too much to compare within {_LIMIT_S:.0f} s: {_ADVICE}"
                ) from None
            finally:
                await kill_process(process)
        said = err.decode("utf-8", "replace").strip()
        for path in paths:
            said = said.replace(str(path.absolute()), names.get(path, path.name))
        return json_response(_result(out, said))


_ADVICE = "use `accord trace diff FIRST SECOND`"


def _result(out: bytes, said: str) -> dict[str, Any]:
    try:
        found = lenient_json.loads(out)
    except lenient_json.NotJson:
        found = None
    items = found.get("differences") if is_object(found) else None
    if not is_array(items):
        raise ApiError(422, said.removeprefix("Error: ") or "The recordings cannot be compared")
    return {"count": len(items), "differences": items[:_SHOWN], "problems": said.splitlines()[:5]}


def _size(path: Path) -> int:
    try:
        return sum(file.stat().st_size for file in trace_files(path))
    except (TraceError, OSError) as error:
        raise ApiError(422, str(error)) from None


def _check(size: int, what: str) -> None:
    if size > _BYTES:
        limit = _BYTES // 1024 // 1024
        raise ApiError(413, f"{what}: more than {limit} MB to compare on the page: {_ADVICE}")
