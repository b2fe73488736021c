"""Statistics of a recording: methods, turns, tool calls, tokens and cost; also as an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any

from msgspec import UNSET, Struct, field

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord_trace.records import Pairing, Record
from accord_trace.summary import counted, duration, size, update_of

_TOKENS = ("input", "output", "thought", "cachedRead", "cachedWrite", "total")
_DONE = frozenset(("completed", "failed", "cancelled"))


class Latencies(Struct):
    """Times of responses, in seconds."""

    count: int = 0
    median_s: float = 0.0
    p95_s: float = 0.0
    max_s: float = 0.0


class MethodStats(Struct):
    """The messages of one method; `bytes` are those of requests, responses and notifications."""

    method: str
    direction: str
    count: int = 0
    errors: int = 0
    unanswered: int = 0
    bytes: int = 0
    latency: Latencies | None = None


class TurnStats(Struct):
    """One turn; times are in seconds, `start_s` since the start of the recording.

    `seconds` and `stop_reason` are None for a turn without an end. `tokens` has the counts that
    the agent has reported for it.
    """

    session: str | None
    start_s: float
    seconds: float | None = None
    first_update_s: float | None = None
    stop_reason: str | None = None
    updates: int = 0
    tool_calls: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict[str, int]())


class ToolCallStats(Struct):
    """One tool call; `seconds` is the time to its last status."""

    session: str | None
    id: str
    title: str = ""
    kind: str = ""
    status: str = ""
    start_s: float = 0.0
    seconds: float | None = None


class ContextPoint(Struct):
    """A usage update: used and total tokens of the context window, and the cost so far."""

    session: str | None
    ts: float
    used: int
    size: int
    cost: float | None = None
    currency: str = ""


class Stats(Struct):
    """What a recording contains; of a chain of proxies only what the client sees."""

    messages: int = 0
    invalid: int = 0
    seconds: float = 0.0
    bytes_to_agent: int = 0
    bytes_to_client: int = 0
    sessions: list[str] = []
    methods: list[MethodStats] = []
    turns: list[TurnStats] = []
    tool_calls: list[ToolCallStats] = []
    context: list[ContextPoint] = []
    tokens: dict[str, int] = {}
    costs: dict[str, float] = {}  # by currency, the last of each session added up


def stats_of(records: Iterable[Record]) -> Stats:
    """Return the statistics of a recording, read once."""
    counter = StatsCounter()
    for record in records:
        counter.add(record)
    return counter.result()


class StatsCounter:
    """Counts records that are added in order; `result` may be read at any time."""

    def __init__(self) -> None:
        self._stats = Stats(sessions=[], methods=[], turns=[], tool_calls=[], context=[])
        self._pairing = Pairing()
        self._methods: dict[tuple[str, str], MethodStats] = {}
        self._times: dict[tuple[str, str], list[float]] = {}
        self._turns: dict[tuple[str, str | None], TurnStats] = {}  # the running ones
        self._calls: dict[tuple[str | None, str], ToolCallStats] = {}
        self._versions: dict[str, int] = {}
        self._costs: dict[str | None, tuple[str, float]] = {}
        self._sessions: dict[str, None] = {}
        self._only_client: bool | None = None

    def add(self, record: Record) -> None:
        """Count the next record."""
        is_clients = "Client" in (record.sender, record.receiver)
        if self._only_client is None:
            self._only_client = is_clients
        if (self._only_client and not is_clients) or record.type == "end":
            return
        stats = self._stats
        stats.messages += 1
        stats.seconds = max(stats.seconds, record.ts)
        if record.dir == "to_agent":
            stats.bytes_to_agent += record.bytes
        else:
            stats.bytes_to_client += record.bytes
        if record.session is not None:
            self._sessions[record.session] = None
        if record.type == "invalid":
            stats.invalid += 1
        elif record.type == "response":
            self._response(record)
        else:
            self._call(record)

    def result(self) -> Stats:
        """Return the statistics of what was added so far."""
        stats = self._stats
        for method in self._methods.values():
            method.unanswered = 0
        for request in self._pairing.unanswered:
            self._methods[_key(request)].unanswered += 1
        for key, method in self._methods.items():
            if times := self._times.get(key):
                method.latency = _latencies(times)
        stats.methods = sorted(self._methods.values(), key=lambda one: -one.count)
        stats.tool_calls = list(self._calls.values())
        stats.sessions = list(self._sessions)
        stats.tokens = {}
        for turn in stats.turns:
            for name, count in turn.tokens.items():
                stats.tokens[name] = stats.tokens.get(name, 0) + count
        stats.costs = {}
        for currency, amount in self._costs.values():
            stats.costs[currency] = stats.costs.get(currency, 0.0) + amount
        return stats

    def _call(self, record: Record) -> None:
        self._pairing.add(record)
        key = _key(record)
        method = self._methods.get(key)
        if method is None:
            method = self._methods[key] = MethodStats(key[0], key[1])
        method.count += 1
        method.bytes += record.bytes
        if record.method == "session/prompt" and record.type == "request":
            turn = TurnStats(record.session, record.ts)
            self._turns[record.conn, record.session] = turn
            self._stats.turns.append(turn)
        elif record.method == "session/update":
            self._update(record)

    def _response(self, record: Record) -> None:
        answered = self._pairing.add(record)
        if answered is None:
            return
        key = _key(answered.request)
        method = self._methods[key]
        method.bytes += record.bytes
        method.errors += record.is_error
        self._times.setdefault(key, []).append(answered.seconds)
        value = record.value()
        if not is_object(value):
            return
        if answered.method == "initialize":
            version = value.get("protocolVersion")
            if isinstance(version, int):
                self._versions[record.conn] = version
        elif answered.method == "session/prompt":
            is_v2 = self._versions.get(record.conn, 1) >= 2
            if record.is_error or not is_v2:
                reason = "error" if record.is_error else value.get("stopReason")
                self._end_turn(record, answered.request.session, reason, value.get("usage"))

    def _update(self, record: Record) -> None:
        update = update_of(record)
        turn = self._turns.get((record.conn, record.session))
        if turn is not None:
            turn.updates += 1
            if turn.first_update_s is None:
                turn.first_update_s = record.ts - turn.start_s
        if update is None:
            return
        match update.get("sessionUpdate"):
            case "tool_call" | "tool_call_update":
                self._tool_call(record, update, turn)
            case "usage_update":
                self._usage(record, update)
            case "state_update" if update.get("state") == "idle":
                reason = update.get("stopReason")
                if turn is not None and reason is not None:
                    self._end_turn(record, record.session, reason, update.get("usage"))
            case _:
                pass

    def _end_turn(self, record: Record, session: str | None, reason: Any, usage: Any) -> None:
        turn = self._turns.pop((record.conn, session), None)
        if turn is None:
            return
        turn.seconds = record.ts - turn.start_s
        turn.stop_reason = reason if isinstance(reason, str) else None
        if is_object(usage):
            for name in _TOKENS:
                count = usage.get(f"{name}Tokens")
                if isinstance(count, int) and not isinstance(count, bool):
                    turn.tokens[name] = count

    def _tool_call(self, record: Record, update: dict[str, Any], turn: TurnStats | None) -> None:
        name = update.get("toolCallId")
        if not isinstance(name, str):
            return
        call = self._calls.get((record.session, name))
        if call is None:
            call = ToolCallStats(record.session, name, start_s=record.ts)
            self._calls[record.session, name] = call
            if turn is not None:
                turn.tool_calls += 1
        for key in ("title", "kind", "status"):
            value = update.get(key)
            if isinstance(value, str):
                setattr(call, key, value)
        if call.status in _DONE and call.seconds is None:
            call.seconds = record.ts - call.start_s

    def _usage(self, record: Record, update: dict[str, Any]) -> None:
        used, size = update.get("used"), update.get("size")
        if not isinstance(used, int) or not isinstance(size, int):
            return
        point = ContextPoint(record.session, record.ts, used, size)
        cost = update.get("cost")
        if is_object(cost) and isinstance(cost.get("amount"), int | float):
            point.cost = float(cost["amount"])
            point.currency = str(cost.get("currency", ""))
            self._costs[record.session] = (point.currency, point.cost)
        self._stats.context.append(point)


def _key(record: Record) -> tuple[str, str]:
    return ("" if record.method is UNSET else record.method, record.dir)


def _latencies(times: list[float]) -> Latencies:
    times.sort()
    last = len(times) - 1
    return Latencies(
        len(times), times[len(times) // 2], times[min(last, round(0.95 * last))], times[last]
    )


# Statistics as one self-contained HTML page with charts; nothing is loaded from elsewhere.

_STYLE = """
:root { color-scheme: light dark; --bar: #4069c4; --other: #b26a00 }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
.wide { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #8884 }
td { vertical-align: top }
th:first-child, td:first-child { padding-left: 0; min-width: 8rem; overflow-wrap: anywhere }
td + td, th { white-space: nowrap }
.number { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 1rem 0 }
svg { display: block; width: 100%; height: 8rem; background: #8881 }
figcaption { font-size: .875rem }
.bar { fill: var(--bar) } .other { fill: var(--other) }
@media (max-width: 30rem) {
  table { font-size: .8125rem }
  th, td { padding-left: .3rem; padding-right: .3rem }
}
.line { fill: none; stroke: var(--bar); stroke-width: 2; vector-effect: non-scaling-stroke }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_WIDTH, _HEIGHT = 800, 100  # of charts, in their own units: they fill the width of the page
_MAX_BARS = 400


def stats_page(stats: Stats, title: str) -> str:
    """Return the page; all texts of agents are escaped."""
    return "\n".join(_parts(stats, _text(title)))


def _parts(stats: Stats, title: str) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
    yield (
        f"<p>{counted(stats.messages, 'message')} in {duration(stats.seconds)}, "
        f"{counted(len(stats.sessions), 'session')}, {counted(len(stats.turns), 'turn')}; "
        f"{size(stats.bytes_to_agent)} to the agent, {size(stats.bytes_to_client)} to the client"
        "</p>"
    )
    ended = [turn for turn in stats.turns if turn.seconds is not None]
    if ended:
        yield "<h2>Turns</h2>"
        failed = [turn.stop_reason == "error" for turn in ended]
        times = [turn.seconds or 0.0 for turn in ended]
        yield _bars("Time of each turn", times, duration, failed)
        waits = [turn.first_update_s or 0.0 for turn in ended]
        yield _bars("Time to the first update of each turn", waits, duration)
        tokens = [float(turn.tokens.get("total", sum(turn.tokens.values()))) for turn in ended]
        if any(tokens):
            yield _bars("Tokens of each turn", tokens, _count)
    if stats.context:
        yield "<h2>Context</h2>"
        yield _context(stats.context)
    yield "<h2>Methods</h2>" + _table(
        ("Method", "To", "Count", "Errors", "Bytes", "Median", "95 %", "Max"),
        [
            (
                one.method,
                "agent" if one.direction == "to_agent" else "client",
                str(one.count),
                str(one.errors),
                size(one.bytes),
                *(
                    ("", "", "")
                    if one.latency is None
                    else map(duration, (one.latency.median_s, one.latency.p95_s, one.latency.max_s))
                ),
            )
            for one in stats.methods
        ],
        texts=2,
    )
    if stats.tool_calls:
        yield "<h2>Tool calls</h2>" + _table(
            ("Tool call", "Kind", "Status", "Time"),
            [
                (
                    call.title or call.id,
                    call.kind,
                    call.status,
                    "" if call.seconds is None else duration(call.seconds),
                )
                for call in stats.tool_calls
            ],
            texts=3,
        )
    totals = [f"{count:,} {_text(name)} tokens" for name, count in stats.tokens.items()]
    totals += [f"{amount:.4g} {_text(currency)}" for currency, amount in stats.costs.items()]
    if totals:
        yield f"<h2>Tokens and cost</h2><p>{', '.join(totals)}</p>"
    yield "</body></html>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> str:
    """Return a table; the first columns have texts, the others numbers."""

    def cells(kind: str, row: Sequence[str]) -> str:
        starts = [
            f"<{kind}>" if at < texts else f'<{kind} class="number">' for at in range(len(row))
        ]
        pairs = zip(starts, row, strict=True)
        return "".join(f"{start}{_text(cell)}</{kind}>" for start, cell in pairs)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', names)}</tr></thead>"
    return f'<div class="wide" tabindex="0"><table>{head}<tbody>{body}</tbody></table></div>'


def _bars(
    title: str, values: list[float], shown: Callable[[float], str], failed: Sequence[bool] = ()
) -> str:
    count, group = len(values), -(-len(values) // _MAX_BARS)
    # Of many values, the largest of each group is drawn.
    groups = [range(at, min(at + group, count)) for at in range(0, count, group)]
    top = max(values) or 1.0
    step = _WIDTH / len(groups)
    bars: list[str] = []
    for number, members in enumerate(groups):
        value = max(values[at] for at in members)
        height = _HEIGHT * value / top
        has_failed = any(failed[members.start : members.stop])
        bars.append(
            f'<rect class="{"other" if has_failed else "bar"}" x="{number * step:.1f}" '
            f'y="{_HEIGHT - height:.1f}" width="{max(step * 0.8, 1):.1f}" height="{height:.1f}">'
            f"<title>{members.start + 1}: {_text(shown(value))}"
            f"{', error' if has_failed else ''}</title></rect>"
        )
    errors = "; orange: an error" if any(failed) else ""
    about = f"{title}, from 1 to {count:,}; the longest bar is {shown(top)}{errors}"
    return _chart(about, "".join(bars))


def _context(points: list[ContextPoint]) -> str:
    group = -(-len(points) // _MAX_BARS)
    points = points[::group] + points[-1:]
    first, last = points[0].ts, max(points[-1].ts, points[0].ts + 0.001)
    most, window = max(point.used for point in points), max(point.size for point in points)
    top = max(most, window, 1)
    path = " ".join(
        f"{_WIDTH * (point.ts - first) / (last - first):.1f},"
        f"{_HEIGHT - _HEIGHT * point.used / top:.1f}"
        for point in points
    )
    share = f" of {window:,} ({100 * most / window:.0f} %)" if window else ""
    times = f"from {duration(first)} to {duration(last)}"
    about = f"Used tokens of the context window {times}: at most {most:,}{share}"
    return _chart(about, f'<polyline class="line" points="{path}"/>')


def _chart(about: str, drawn: str) -> str:
    label = _text(about)
    return (
        f'<figure><figcaption>{label}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{label}">{drawn}</svg></figure>'
    )


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _text(text: str) -> str:
    return escape(one_line(text, 200))
