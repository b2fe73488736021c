"""A recording as spans of OpenTelemetry, by its conventions for generative AI.

A session is a trace, a turn a span `invoke_agent`, a tool call a span `execute_tool` in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, field

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.types.steering import STEERING, outcome_of
from accord.version import __version__
from accord_trace.reading import Trace
from accord_trace.records import Answered, Pairing, Record
from accord_trace.summary import update_of

Attribute: TypeAlias = str | int | float | bool | list[str]

_OPENING = frozenset(("session/new", "session/load", "session/resume", "session/fork"))
_DONE = frozenset(("completed", "failed", "cancelled"))
_CHUNKS = frozenset(("agent_message_chunk", "agent_message"))
_EVENTS = frozenset(("plan", "plan_update", "current_mode_update", "config_option_update"))
_TOKENS = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cachedReadTokens": "gen_ai.usage.cache_read.input_tokens",
    "cachedWriteTokens": "gen_ai.usage.cache_creation.input_tokens",
    "thoughtTokens": "gen_ai.usage.reasoning.output_tokens",
}


class Event(Struct):
    """What happened at one time in a span."""

    name: str
    ts: float
    attributes: dict[str, Attribute] = field(default_factory=lambda: dict[str, Attribute]())


class Span(Struct):
    """A span; times are in seconds since the start of the recording, ids are hexadecimal.

    `error` is the description of an error, empty if the operation had none. `link` is the
    `traceparent` that a prompt named.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: float
    end: float
    is_client: bool = False  # the kind; other spans are internal
    attributes: dict[str, Attribute] = field(default_factory=lambda: dict[str, Attribute]())
    events: list[Event] = field(default_factory=lambda: list[Event]())
    error: str = ""
    link: str = ""


def spans_of(records: Iterable[Record], name: str, *, content: bool = False) -> Iterator[Span]:
    """Yield the spans of a recording, each when it has ended; of a chain what the client sees.

    `name` distinguishes recordings: ids are made from it, and are the same every time. Prompts,
    messages, titles, inputs and outputs of tools, paths and texts of errors are attributes only if
    `content` is set. Requests of the agent, such as those for a permission, are spans of their
    method. What is open at the end of the recording has `acp.incomplete`.
    """
    return _Spans(name, content).spans(records)


class _Turn(Struct):
    span: Span
    calls: dict[str, Span] = {}
    texts: list[str] = []
    prompt: list[str] = []


class _Session(Struct):
    root: Span
    turn: _Turn | None = None
    calls: dict[str, Span] = {}  # of all turns, that are open


class _Spans:
    def __init__(self, name: str, content: bool) -> None:
        self._name = name
        self._content = content
        self._pairing = Pairing()
        self._sessions: dict[str, _Session] = {}
        self._agents: dict[str, dict[str, Attribute]] = {}  # by connection
        self._versions: dict[str, int] = {}
        self._requests: dict[tuple[str, str, str, bytes], Span] = {}  # that wait
        self._only_client: bool | None = None
        self._count = 0

    def spans(self, records: Iterable[Record]) -> Iterator[Span]:
        for record in records:
            is_clients = "Client" in (record.sender, record.receiver)
            if self._only_client is None:
                self._only_client = is_clients
            if is_clients or not self._only_client:
                yield from self._record(record)
        for request in self._pairing.unanswered:
            span = self._requests.pop(_key(request), None)
            if span is not None and request.method != "session/prompt":
                span.end = self._sessions[request.session or ""].root.end
                yield _incomplete(span)
        for session in self._sessions.values():
            if session.turn is not None:
                yield from self._end_turn(session, session.root.end, incomplete=True)
            for call in session.calls.values():
                yield _incomplete(call)
            yield session.root

    def _record(self, record: Record) -> Iterator[Span]:
        answered = self._pairing.add(record)
        if answered is not None:
            yield from self._response(record, answered)
        session = self._session_of(record)
        if session is None:
            return
        session.root.end = max(session.root.end, record.ts)
        if record.type == "request":
            yield from self._request(record, session)
        elif record.method == "session/update":
            yield from self._update(record, session)
        elif record.type == "notification":
            self._event(session, record.ts, str(record.method))

    def _session_of(self, record: Record, start: float | None = None) -> _Session | None:
        if record.session is None:
            return None
        session = self._sessions.get(record.session)
        if session is None:
            trace_id = _id(16, self._name, record.session)
            begin = record.ts if start is None else start
            root = Span(trace_id, _id(8, trace_id), "", "session", begin, record.ts)
            root.attributes = {
                "gen_ai.conversation.id": record.session,
                **self._agents.get(record.conn, {}),
            }
            session = self._sessions[record.session] = _Session(root)
        return session

    def _span(self, session: _Session, parent: Span, name: str, ts: float) -> Span:
        self._count += 1
        number = _id(8, session.root.trace_id, str(self._count))
        span = Span(session.root.trace_id, number, parent.span_id, name, ts, ts)
        span.attributes["gen_ai.conversation.id"] = session.root.attributes[
            "gen_ai.conversation.id"
        ]
        return span

    def _request(self, record: Record, session: _Session) -> Iterator[Span]:
        params = record.value()
        if record.method == "session/prompt":
            yield from self._end_turn(session, record.ts, incomplete=True)
            self._requests[_key(record)] = self._start_turn(record, session, params)
            return
        parent = session.root
        if record.method == STEERING and session.turn is not None:
            parent = session.turn.span
        if record.dir == "to_client" and session.turn is not None:
            parent = session.turn.span
            call = params.get("toolCall") if is_object(params) else None
            number = call.get("toolCallId") if is_object(call) else None
            if isinstance(number, str) and number in session.calls:
                parent = session.calls[number]
        span = self._span(session, parent, str(record.method), record.ts)
        span.is_client = record.dir == "to_agent"
        span.attributes["acp.method"] = str(record.method)
        if self._content and is_object(params) and isinstance(params.get("path"), str):
            span.attributes["acp.path"] = params["path"]
        self._requests[_key(record)] = span

    def _response(self, record: Record, answered: Answered) -> Iterator[Span]:
        value = record.value()
        if answered.method == "initialize" and is_object(value):
            self._initialized(record, value)
        if answered.method in _OPENING and answered.request.session is None:
            session = self._session_of(record, answered.request.ts)
            if session is not None:  # the request had no session: that is in the response
                span = self._span(session, session.root, answered.method, answered.request.ts)
                span.is_client, span.end = True, record.ts
                span.attributes["acp.method"] = answered.method
                yield span
            return
        span = self._requests.pop(_key(answered.request), None)
        session = self._sessions.get(answered.request.session or "")
        if span is None or session is None:
            return
        if answered.method == "session/prompt":
            is_v2 = self._versions.get(record.conn, 1) >= 2
            if session.turn is not None and session.turn.span is span:
                if record.is_error:
                    self._failed(span, value)
                if record.is_error or not is_v2:
                    yield from self._end_turn(session, record.ts, value)
            return
        span.end = record.ts
        if record.is_error:
            self._failed(span, value)
        elif answered.method == STEERING and (outcome := outcome_of(value)) is not None:
            span.attributes["acp.steering.outcome"] = outcome
        elif is_object(value) and is_object(value.get("outcome")):
            outcome = value["outcome"]
            span.attributes["acp.permission.outcome"] = str(outcome.get("outcome"))
            if isinstance(outcome.get("optionId"), str):
                span.attributes["acp.permission.option"] = outcome["optionId"]
        yield span

    def _initialized(self, record: Record, value: dict[str, Any]) -> None:
        version, info = value.get("protocolVersion"), value.get("agentInfo", value.get("info"))
        if isinstance(version, int):
            self._versions[record.conn] = version
        agent: dict[str, Attribute] = {"acp.protocol.version": self._versions.get(record.conn, 1)}
        if is_object(info):
            for key in ("name", "version"):
                if isinstance(info.get(key), str):
                    agent[f"gen_ai.agent.{key}"] = info[key]
        self._agents[record.conn] = agent

    def _start_turn(self, record: Record, session: _Session, params: Any) -> Span:
        agent = self._agents.get(record.conn, {})
        name = agent.get("gen_ai.agent.name", "")
        span = self._span(session, session.root, f"invoke_agent {name}".strip(), record.ts)
        span.is_client = True
        span.attributes |= {"gen_ai.operation.name": "invoke_agent", **agent}
        span.attributes["gen_ai.provider.name"] = name or "_OTHER"  # that of the model is unknown
        meta = params.get("_meta") if is_object(params) else None
        if is_object(meta) and isinstance(meta.get("traceparent"), str):
            span.link = meta["traceparent"]
        turn = _Turn(span, {}, [], [])
        if self._content and is_object(params):
            turn.prompt = _texts(params.get("prompt"))
        session.turn = turn
        return span

    def _end_turn(
        self, session: _Session, ts: float, value: Any = None, *, incomplete: bool = False
    ) -> Iterator[Span]:
        turn, session.turn = session.turn, None
        if turn is None:
            return
        span = turn.span
        span.end = ts
        attributes = span.attributes
        reason = value.get("stopReason") if is_object(value) else None
        if isinstance(reason, str):
            attributes["gen_ai.response.finish_reasons"] = [reason]
        usage = value.get("usage") if is_object(value) else None
        if is_object(usage):
            counts = ((name, usage.get(key)) for key, name in _TOKENS.items())
            attributes |= {name: count for name, count in counts if type(count) is int}
        if self._content:
            attributes["gen_ai.input.messages"] = _messages("user", turn.prompt)
            attributes["gen_ai.output.messages"] = _messages(
                "assistant", ["".join(turn.texts)], str(reason or "error")
            )
        for number, call in turn.calls.items():
            if session.calls.pop(number, None) is not None:
                call.end = ts
                yield _incomplete(call)
        yield _incomplete(span) if incomplete else span

    def _update(self, record: Record, session: _Session) -> Iterator[Span]:
        update = update_of(record)
        if update is None:
            return
        turn = session.turn
        if turn is not None:
            turn.span.attributes.setdefault(
                "gen_ai.response.time_to_first_chunk", record.ts - turn.span.start
            )
        kind = update.get("sessionUpdate")
        match kind:
            case "tool_call" | "tool_call_update":
                yield from self._tool_call(record, session, update)
            case "usage_update":
                _usage((session.root if turn is None else turn.span).attributes, update)
            case "state_update" if update.get("state") == "idle":
                if turn is not None and update.get("stopReason") is not None:
                    yield from self._end_turn(session, record.ts, update)
            case _ if kind in _CHUNKS:
                if turn is not None and self._content:
                    content = update.get("content")
                    turn.texts += _texts(content if is_array(content) else [content])
            case _ if kind in _EVENTS:
                self._event(session, record.ts, str(kind))
            case _:
                pass

    def _tool_call(
        self, record: Record, session: _Session, update: dict[str, Any]
    ) -> Iterator[Span]:
        number = update.get("toolCallId")
        if not isinstance(number, str):
            return
        span = session.calls.get(number)
        if span is None:
            if update.get("sessionUpdate") == "tool_call_update" and "title" not in update:
                return  # after its end
            parent = session.root if session.turn is None else session.turn.span
            span = self._span(session, parent, "execute_tool", record.ts)
            span.attributes["gen_ai.operation.name"] = "execute_tool"
            span.attributes["gen_ai.tool.call.id"] = number
            session.calls[number] = span
            if session.turn is not None:
                session.turn.calls[number] = span
        span.end = record.ts
        attributes = span.attributes
        for key, name in (("kind", "acp.tool.kind"), ("status", "acp.tool.status")):
            if isinstance(update.get(key), str):
                attributes[name] = update[key]
        tool = update.get("name")
        if isinstance(tool, str) or "gen_ai.tool.name" not in attributes:
            kind = attributes.get("acp.tool.kind", "other")
            attributes["gen_ai.tool.name"] = tool if isinstance(tool, str) else kind
            span.name = f"execute_tool {attributes['gen_ai.tool.name']}"
        if self._content:
            for key, name in (
                ("title", "acp.tool.title"),
                ("rawInput", "gen_ai.tool.call.arguments"),
                ("rawOutput", "gen_ai.tool.call.result"),
            ):
                if update.get(key) is not None:
                    attributes[name] = _text(update[key])
        if attributes.get("acp.tool.status") in _DONE:
            if attributes["acp.tool.status"] == "failed":
                span.error = attributes["error.type"] = "failed"
            del session.calls[number]
            yield span

    def _event(self, session: _Session, ts: float, name: str) -> None:
        span = session.root if session.turn is None else session.turn.span
        span.events.append(Event(name, ts))

    def _failed(self, span: Span, error: Any) -> None:
        code = error.get("code") if is_object(error) else None
        span.attributes["error.type"] = str(code)
        span.error = f"error {code}"
        if self._content and is_object(error):
            span.error = f"{code} {error.get('message')}"


def _key(request: Record) -> tuple[str, str, str, bytes]:
    number = b"" if request.id is UNSET else bytes(request.id)
    return request.conn, request.sender, request.receiver, number


def _usage(attributes: dict[str, Attribute], update: dict[str, Any]) -> None:
    for key in ("used", "size"):
        if isinstance(update.get(key), int):
            attributes[f"acp.context.{key}"] = update[key]
    cost = update.get("cost")
    if is_object(cost) and isinstance(cost.get("amount"), int | float):
        attributes["acp.cost.amount"] = float(cost["amount"])
        attributes["acp.cost.currency"] = str(cost.get("currency", ""))


def _incomplete(span: Span) -> Span:
    span.attributes["acp.incomplete"] = True
    return span


def _messages(role: str, texts: list[str], reason: str = "") -> str:
    message: dict[str, Any] = {
        "role": role,
        "parts": [{"type": "text", "content": text} for text in texts if text],
    }
    if reason:
        message["finish_reason"] = reason
    return _text([message])


def _texts(blocks: Any) -> list[str]:
    found = [block for block in blocks if is_object(block)] if is_array(blocks) else []
    return [block["text"] for block in found if isinstance(block.get("text"), str)]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return lenient_json.dumps(value).decode("utf-8", "replace")


def _id(size: int, *parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=size).hexdigest()


# Spans as JSON of OTLP, the protocol of OpenTelemetry.

SCOPE = "accord_trace"
TRACEPARENT: re.Pattern[str] = re.compile(
    r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})"
)
_BATCH = 500  # spans in a line
_INTERNAL, _CLIENT, _ERROR = 1, 3, 2


def trace_spans(trace: Trace, *, content: bool = False) -> tuple[float, Iterator[Span]]:
    """Return the time of second 0, in seconds since 1970, and the spans; see `spans_of`.

    A recording without a time began when its file was changed last. Raise `TraceError`.
    """
    records = iter(trace)
    first = next(records, None)
    try:
        start = datetime.fromisoformat(trace.header.t).timestamp()
    except ValueError:
        start = trace.files[0].stat().st_mtime
    name = f"{trace.header.t} {trace.header.program} {trace.name}"
    return start, spans_of(_chain(first, records), name, content=content)


def otlp_lines(trace: Trace, *, content: bool = False) -> Iterator[bytes]:
    """Yield lines of OTLP's JSON, each with up to 500 spans, as collectors read them."""
    start, spans = trace_spans(trace, content=content)
    batch: list[dict[str, Any]] = []
    for span in spans:
        batch.append(_span(span, start))
        if len(batch) == _BATCH:
            yield _line(batch)
            batch = []
    if batch:
        yield _line(batch)


def resource_attributes() -> dict[str, Attribute]:
    """Return what the spans have in common."""
    return {"service.name": "accord", "service.version": __version__}


def nanoseconds(start: float, ts: float) -> int:
    """Return the time of second `ts` in nanoseconds since 1970."""
    return round(start * 1e6) * 1000 + round(ts * 1e6) * 1000


def _chain(first: Any, rest: Iterable[Any]) -> Iterator[Any]:
    if first is not None:
        yield first
        yield from rest


def _line(spans: list[dict[str, Any]]) -> bytes:
    scope = {"scope": {"name": SCOPE, "version": __version__}, "spans": spans}
    resource = {"attributes": _attributes(resource_attributes())}
    value = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
    return msgspec.json.encode(value) + b"\n"


def _span(span: Span, start: float) -> dict[str, Any]:
    value: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": _clean(span.name),
        "kind": _CLIENT if span.is_client else _INTERNAL,
        "startTimeUnixNano": str(nanoseconds(start, span.start)),
        "endTimeUnixNano": str(nanoseconds(start, span.end)),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        value["parentSpanId"] = span.parent_id
    if span.events:
        value["events"] = [_event(event, start) for event in span.events]
    if (found := TRACEPARENT.fullmatch(span.link)) is not None:
        value["links"] = [{"traceId": found[1], "spanId": found[2]}]
    if span.error:
        value["status"] = {"code": _ERROR, "message": _clean(span.error)}
    return value


def _event(event: Event, start: float) -> dict[str, Any]:
    return {
        "name": _clean(event.name),
        "timeUnixNano": str(nanoseconds(start, event.ts)),
        "attributes": _attributes(event.attributes),
    }


def _attributes(values: dict[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Attribute) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": _clean(value)}
        case _:
            return {"arrayValue": {"values": [_value(item) for item in value]}}


def _clean(text: str) -> str:
    """Return a text without lone surrogates."""
    return text.encode("utf-8", "replace").decode()
