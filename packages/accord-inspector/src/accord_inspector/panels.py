"""The panels: capabilities, process, statistics, and the switches of faults.

Each part makes what one panel shows; the routes of the API are at the end.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from time import perf_counter
from typing import Any, Literal, cast

import msgspec
import psutil
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.schema import json_schema
from accord.text.lenient_json import is_array, is_object
from accord.text.redact import MASK
from accord.text.secrets import redacted_argv
from accord.types.steering import STEERING, is_advertised
from accord.v1 import METHODS as METHODS_V1
from accord.v2 import METHODS as METHODS_V2
from accord_inspector.faults import Fault, Faults
from accord_inspector.inspection import Inspection
from accord_inspector.live_inspection import LiveInspection
from accord_inspector.messages import Messages, last_initialize
from accord_terminal.conversation import ApiError, body_of, json_response
from accord_trace.records import Record
from accord_trace.stats import StatsCounter

# Capabilities: what both sides offered in `initialize`, out of all that the protocol defines.

Side = Literal["client", "agent"]

_METHODS = {"v1": METHODS_V1, "v2": METHODS_V2}
_DEPTH = 8
_WORD = re.compile(r"_([a-z])")


class CapabilityRow(Struct):
    """One capability: its path of keys, whether it is offered, and what it means.

    `known` is False for one that the version does not define; `value` is what was sent, None if
    nothing was.
    """

    path: str
    offered: bool
    known: bool
    meaning: str
    methods: list[str]
    value: Any = None


class SidePanel(Struct):
    """One side of `initialize`: who it is, the version it named, and its capabilities."""

    side: str
    version: Any
    info: Any
    auth_methods: list[Any]
    rows: list[CapabilityRow]


def capability_panel(side: Side, sent: dict[str, Any], version: int) -> SidePanel:
    """Return what a side has sent: the client its request's params, the agent its result.

    `version` is that of the connection, whose capabilities are listed.
    """
    name = "v2" if version >= 2 else "v1"
    offered = sent.get("capabilities", sent.get(f"{side}Capabilities"))
    found = offered if is_object(offered) else {}
    type_name = "AgentCapabilities" if side == "agent" else "ClientCapabilities"
    auth_methods = sent.get("authMethods")
    rows = list(_rows(name, type_name, found, side, _DEPTH))
    if side == "agent":
        rows.append(_steering_row(sent.get("_meta")))
    return SidePanel(
        side,
        sent.get("protocolVersion"),
        sent.get("info", sent.get(f"{side}Info")),
        auth_methods if is_array(auth_methods) else [],
        rows,
    )


def _steering_row(meta: Any) -> CapabilityRow:
    """Return the row of an extension that agents advertise beside their capabilities."""
    meaning = "The agent takes messages while it works (an extension)."
    value = meta.get("steering") if is_object(meta) else None
    offered = is_advertised(meta)
    return CapabilityRow("_meta.steering", offered, True, meaning, [STEERING], value)


def _rows(
    version: str, type_name: str, offered: dict[str, Any], prefix: str, depth: int
) -> Iterator[CapabilityRow]:
    """Yield the rows of an object of capabilities; paths are without the side."""
    defs = _definitions(version)
    properties: dict[str, Any] = defs[type_name].get("properties", {})
    for key, node in properties.items():
        if key == "_meta":
            continue
        value = offered.get(key)
        path = f"{prefix}.{key}"
        inner = _type_of(node)
        described = defs.get(inner, {})
        meaning = described.get("description") or defs[type_name].get("description", "")
        is_group = set(described.get("properties", {})) - {"_meta"} != set()
        yield CapabilityRow(
            path.partition(".")[2],
            value is not None and value is not False,
            True,
            meaning,
            _methods(version).get(path, []),
            None if is_object(value) and is_group else value,
        )
        if is_group and depth:
            yield from _rows(version, inner, value if is_object(value) else {}, path, depth - 1)
    for key, value in offered.items():
        if key not in properties or (key == "_meta" and value):
            path = f"{prefix}.{key}".partition(".")[2]
            meaning = "Implementation-specific data" if key == "_meta" else ""
            is_offered = value is not None and value is not False
            yield CapabilityRow(path, is_offered, key == "_meta", meaning, [], value)


def _type_of(node: dict[str, Any]) -> str:
    """Return the name of the type of a field that may be null; "" if it has none."""
    for choice in (node, *node.get("anyOf", ())):
        reference = choice.get("$ref")
        if reference is not None:
            return str(reference).removeprefix("#/$defs/")
    return ""


@cache
def _definitions(version: str) -> dict[str, dict[str, Any]]:
    return json_schema(version, unstable=True)["$defs"]


@cache
def _methods(version: str) -> dict[str, list[str]]:
    """Return the methods that need a capability, by its path."""
    found: dict[str, list[str]] = {}
    for method in _METHODS[version]:
        if method.gate is not None:
            path = _WORD.sub(lambda match: match[1].upper(), method.gate)
            names = found.setdefault(path, [])
            if method.name not in names:
                names.append(method.name)
    return found


# Process: memory and processor time of the agent's processes, and their environment.

_SAMPLES = 900  # kept: 15 minutes at one per second
# Variables whose values are shown: places and languages, which are not secret.
_SHOWN = frozenset(
    ("PATH", "HOME", "PWD", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "USER", "LOGNAME")
)


class Sample(Struct):
    """A measurement: seconds since the start, resident bytes, and per cent of one processor."""

    at: float
    memory: int
    cpu: float
    processes: int


def redacted_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the names, and the values of those that are never secrets."""
    return {
        name: value if name in _SHOWN or name.startswith("LC_") else MASK
        for name, value in sorted(environment.items())
    }


class ResourceMeter:
    """Measures a process with all those that it started; `samples` are the latest."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self.environment: dict[str, str] = {}
        self._processes: dict[int, psutil.Process] = {}
        self._pid: int | None = None

    def watch(self, pid: int) -> None:
        """Measure this process from now on."""
        self._pid = pid
        self._processes.clear()
        self.environment = {}

    def measure(self, at: float) -> Sample | None:
        """Take a sample; None if the process does not run."""
        if self._pid is None:
            return None
        try:
            root = self._processes.get(self._pid) or psutil.Process(self._pid)
            if root.status() == psutil.STATUS_ZOMBIE:
                return None
            if not self.environment:
                self.environment = redacted_environment(root.environ())
            running = [root, *root.children(recursive=True)]
        except psutil.Error:
            return None
        known = self._processes
        # The same objects again: processor time is counted since their last call.
        self._processes = {one.pid: known.get(one.pid, one) for one in running}
        memory, cpu, count = 0, 0.0, 0
        for process in self._processes.values():
            try:
                with process.oneshot():
                    memory += process.memory_info().rss
                    cpu += process.cpu_percent()
                    count += 1
            except psutil.Error:
                continue
        sample = Sample(at, memory, round(cpu, 1), count)
        self.samples.append(sample)
        return sample


# Statistics, counted in short parts while the recording grows

_LISTED = 1000  # turns, tool calls and points of the context, the latest
_BUCKETS = 240
_PART_S = 0.02  # for which is counted before others run


class UpdateRate:
    """Updates per second over time, in at most 240 equal spans."""

    def __init__(self) -> None:
        self.span_s: float = 0.25
        self.counts: list[int] = []

    def add(self, ts: float) -> None:
        """Count an update at a second of the recording."""
        place = int(max(ts, 0.0) / self.span_s)
        while place >= _BUCKETS:
            if len(self.counts) % 2:
                self.counts.append(0)
            pairs = zip(self.counts[::2], self.counts[1::2], strict=True)
            self.counts = [first + second for first, second in pairs]
            self.span_s *= 2
            place = int(max(ts, 0.0) / self.span_s)
        while place >= len(self.counts):
            self.counts.append(0)
        self.counts[place] += 1

    def points(self) -> list[tuple[float, float]]:
        """Return the start of each span, and the updates per second in it."""
        return [
            (round(place * self.span_s, 3), round(count / self.span_s, 3))
            for place, count in enumerate(self.counts)
        ]


class RunningStatistics:
    """Counts the records of a recording; `record` returns one by its number."""

    def __init__(self, record: Callable[[int], Record], length: Callable[[], int]) -> None:
        self.read: int = 0  # records that were counted
        self._record = record
        self._length = length
        self._counter = StatsCounter()
        self._rate = UpdateRate()

    @property
    def is_complete(self) -> bool:
        """Whether all records are counted."""
        return self.read >= self._length()

    def advance(self, limit_s: float) -> bool:
        """Count more records for a limited time; return whether all are counted."""
        end = perf_counter() + limit_s
        for n in range(self.read, self._length()):
            record = self._record(n)
            self._counter.add(record)
            if record.method == "session/update" and record.type == "notification":
                self._rate.add(record.ts)
            self.read = n + 1
            if not n % 16 and perf_counter() >= end:
                break
        return self.is_complete

    async def complete(self, limit_s: float) -> None:
        """Count more records for a limited time, while others run, too."""
        end = perf_counter() + limit_s
        while not self.advance(_PART_S):
            if perf_counter() >= end:
                break
            await asyncio.sleep(0)

    def result(self) -> dict[str, Any]:
        """Return the statistics so far; of long lists the end."""
        stats = self._counter.result()
        value: dict[str, Any] = msgspec.to_builtins(stats)
        for name in ("turns", "tool_calls", "context"):
            value[f"{name}_count"] = len(value[name])
            value[name] = value[name][-_LISTED:]
        return {
            **value,
            "rate": self._rate.points(),
            "read": self.read,
            "total": self._length(),
            "complete": self.is_complete,
        }


# Routes

_MEASURE_S = 1.0  # between two samples
_COUNT_S = 0.3  # for the statistics of one request


def panel_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes of the panels; the process is measured from now on."""
    api = _PanelsApi(inspection)
    return (
        Route("/api/capabilities", api.capabilities),
        Route("/api/process", api.process),
        Route("/api/statistics", api.statistics),
    )


class _PanelsApi:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._statistics: dict[Messages, RunningStatistics] = {}
        self._meter = ResourceMeter()
        if isinstance(inspection, LiveInspection):
            inspection.spawn(self._measure(inspection))

    async def capabilities(self, request: Request) -> Response:
        """Return what both sides sent in the last `initialize`."""
        messages = self._inspection.messages(request.query_params.get("recording", ""))
        n = last_initialize(messages)
        sides: list[dict[str, Any]] = []
        if n is not None:
            row = messages.row(n)
            sent = messages.record(n).value()
            received = None if row.pair is None else messages.record(row.pair).value()
            version = sent.get("protocolVersion") if is_object(sent) else None
            if is_object(received):
                version = received.get("protocolVersion")
            chosen = version if isinstance(version, int) else 1
            if is_object(sent):
                sides.append({**_panel("client", sent, chosen), "n": n})
            if is_object(received):
                sides.append({**_panel("agent", received, chosen), "n": row.pair})
        return json_response({"sides": sides})

    async def process(self, _request: Request) -> Response:
        """Return the state of the agent's process, what was measured, and its stderr."""
        inspection = self._inspection
        if not isinstance(inspection, LiveInspection):
            raise ApiError(409, "A recording has no process")
        return json_response(
            {
                **inspection.process(),
                "command": redacted_argv(inspection.command),
                "environment": self._meter.environment,
                "samples": list(self._meter.samples),
                "stderr": list(inspection.stderr),
            }
        )

    async def statistics(self, request: Request) -> Response:
        """Return the statistics, of what could be counted in a short time."""
        messages = self._inspection.messages(request.query_params.get("recording", ""))
        statistics = self._statistics.get(messages)
        if statistics is None:
            statistics = RunningStatistics(messages.record, lambda: len(messages))
            self._statistics[messages] = statistics
        await statistics.complete(_COUNT_S)
        return json_response(statistics.result())

    async def _measure(self, inspection: LiveInspection) -> None:
        """Measure the process while it runs."""
        watched: int | None = None
        while True:
            if inspection.pid is not None and inspection.pid != watched:
                watched = inspection.pid
                self._meter.watch(watched)
            sample = await asyncio.to_thread(
                self._meter.measure, round(inspection.recording.now(), 3)
            )
            if sample is not None:
                inspection.hub.push("resources", sample)
            await asyncio.sleep(_MEASURE_S)


def _panel(side: Any, sent: dict[str, Any], version: int) -> dict[str, Any]:
    return msgspec.to_builtins(capability_panel(side, sent, version), enc_hook=str)


def fault_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes of the view Faults; each returns the state of all faults."""
    api = _FaultsApi(inspection)
    return (
        Route("/api/faults", api.show, methods=["GET"]),
        Route("/api/faults", api.add, methods=["POST"]),
        Route("/api/faults/off", api.all_off, methods=["POST"]),
        Route("/api/faults/{id:int}/{action}", api.act, methods=["POST"]),
    )


class _FaultsApi:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    async def show(self, _request: Request) -> Response:
        return json_response(self._faults.state())

    async def add(self, request: Request) -> Response:
        try:
            fault = msgspec.convert(await body_of(request), Fault)
            self._faults.add(fault)
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        return json_response(self._faults.state())

    async def all_off(self, _request: Request) -> Response:
        self._faults.all_off()
        return json_response(self._faults.state())

    async def act(self, request: Request) -> Response:
        number = cast("int", request.path_params["id"])
        try:
            match request.path_params["action"]:
                case "on":
                    self._faults.switch(number, on=True)
                case "off":
                    self._faults.switch(number, on=False)
                case "remove":
                    self._faults.remove(number)
                case action:
                    raise ApiError(404, f"Unknown action {action!r}")
        except LookupError as error:
            raise ApiError(404, str(error)) from None
        return json_response(self._faults.state())

    @property
    def _faults(self) -> Faults:
        if not isinstance(self._inspection, LiveInspection):
            raise ApiError(409, "Faults need an agent that runs")
        return self._inspection.faults
