"""Compares two recordings for the page, as `accord trace diff` does: it does the work."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError, json_response
from accord_trace.reading import TraceError, trace_files

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
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
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
