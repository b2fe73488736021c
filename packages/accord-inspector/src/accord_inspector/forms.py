"""Messages that are sent by hand: the methods, a schema of their params, and params that work.

The suggested params come from the schema and from what the recording shows of the agent: sessions,
modes, ids. At the end is the part of the API for it.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.errors import DecodeError
from accord.schema import json_schema
from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.v1 import METHODS as METHODS_V1
from accord.v2 import METHODS as METHODS_V2
from accord.wire.codec import converter
from accord.wire.protocol import Method
from accord_inspector.inspected_transport import INJECTED
from accord_inspector.inspection import Inspection
from accord_inspector.live_inspection import LiveInspection
from accord_inspector.messages import Messages, spoken_version
from accord_terminal.conversation import ApiError, body_of, json_response
from accord_trace.records import Direction

# Bytes as text that a person writes: `\n`, `\xff`, `\u2028`.

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_NAMED = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def bytes_of_text(text: str, *, escapes: bool) -> bytes:
    r"""Return the UTF-8 bytes of a text, with escapes replaced if they are allowed.

    `\xHH` is one byte, `\uHHHH` one code point, lone surrogates included. Raise `ValueError` for
    an unknown escape.
    """
    if not escapes:
        return text.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode("utf-8", "surrogatepass"))
        end = match.end()
        byte, point, name = match.groups()
        if byte is not None:
            parts.append(bytes.fromhex(byte))
        elif point is not None:
            parts.append(chr(int(point, 16)).encode("utf-8", "surrogatepass"))
        elif name in _NAMED:
            parts.append(_NAMED[name])
        else:
            raise ValueError(
                f"Unknown escape '{match[0]}' at character {match.start() + 1}: "
                r"expected \n, \r, \t, \0, \\, \xHH or \uHHHH"
            )
    parts.append(text[end:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)


# Params that a method accepts, made from its schema and from what is known of the agent.

Node: TypeAlias = dict[str, Any]

_DEPTH = 12  # of nested values
_TEXTS: dict[str, str] = {
    "text": "Hello",
    "title": "A title",
    "name": "example",
    "command": "echo",
    "uri": "file:///example.txt",
    "url": "https://example.com",
    "mimeType": "text/plain",
    "message": "A message",
    "content": "Hello",
    "protocol": "anthropic",
    "version": "1.0.0",
    "method": "tools/list",
    "data": "",
}


class Suggestions(Struct):
    """Values that the agent knows, the newest first, and the directory of its sessions."""

    sessions: list[str] = field(default_factory=lambda: list[str]())
    cwd: str = "/"
    fields: dict[str, list[str]] = field(default_factory=lambda: dict[str, list[str]]())

    def by_field(self) -> dict[str, list[str]]:
        """Return the values for each name of a field."""
        return {"sessionId": self.sessions, "cwd": [self.cwd], **self.fields}


def default_params(name: str, defs: dict[str, Node], version: int, facts: Suggestions) -> Any:
    """Return params with the required fields, and the optional ones that are usual."""
    return _Maker(defs, version, facts).of(defs[name], name, _DEPTH)


class _Maker:
    def __init__(self, defs: dict[str, Node], version: int, facts: Suggestions) -> None:
        self._defs = defs
        self._version = version
        self._facts = facts

    def of(self, node: Node, name: str, depth: int) -> Any:
        """Return a value of a schema, for a field or type of this name."""
        if depth == 0:
            return None
        known = self._known(name)
        if known is not None:
            return known
        if (reference := node.get("$ref")) is not None:
            target = str(reference).removeprefix("#/$defs/")
            return self.of(self._defs[target], name, depth - 1)
        if "properties" not in node and (choices := node.get("anyOf") or node.get("oneOf")):
            return self._first(choices, name, depth)
        kinds = node.get("type")
        match kinds[0] if is_array(kinds) else kinds:
            case "object":
                return self._object(node, depth)
            case "array":
                count = node.get("minItems", 0)
                return [self.of(node["items"], name, depth - 1) for _ in range(count)]
            case "string":
                return self._text(node, name)
            case "integer" | "number":
                return node.get("minimum") or 0
            case "boolean":
                return False
            case None:  # anything
                return {}
            case _:
                return None

    def _first(self, choices: list[Node], name: str, depth: int) -> Any:
        for node in choices:
            if node.get("type") != "null" and "not" not in node:
                return self.of(node, name, depth)
        return None

    def _object(self, node: Node, depth: int) -> dict[str, Any]:
        properties: dict[str, Node] = dict(node.get("properties", {}))
        required: list[str] = list(node.get("required", ()))
        for choices in (node.get("oneOf"), node.get("anyOf")):
            if choices:  # one of several keys
                properties |= choices[0].get("properties", {})
                required += choices[0].get("required", ())
        return {key: self.of(properties[key], key, depth - 1) for key in required}

    def _text(self, node: Node, name: str) -> str:
        if values := node.get("enum"):
            return str(values[0])
        if name in ("path", "cwd"):
            return self._facts.cwd if name == "cwd" else f"{self._facts.cwd.rstrip('/')}/README.md"
        suggested = self._facts.by_field().get(name)
        if suggested:
            return suggested[0]
        if name in _TEXTS:
            return _TEXTS[name]
        return name if name.endswith("Id") or node.get("minLength") else ""

    def _known(self, name: str) -> Any:
        match name:
            case "protocolVersion":
                return self._version
            case "clientInfo" | "info":
                return {"name": "accord-inspect", "version": "1"}
            case "prompt":
                return [{"type": "text", "text": "Hello"}]
            case "mcpServers":
                return []
            case _:
                return None


# Finds open sessions, modes and ids in a recording, for the fields of forms.

_ROWS = 3000  # that are read, from the end
_VALUES = 20  # of a field
_OPENING = frozenset(("session/new", "session/load", "session/resume", "session/fork"))
_CLOSING = frozenset(("session/close", "session/delete"))
_UPDATES = frozenset(("toolCallId", "terminalId", "messageId", "planId"))


def facts_of(inspection: Inspection) -> Suggestions:
    """Return the values that the agent would accept, if its last messages show them."""
    messages = inspection.messages()
    found = _Facts()
    for n in range(len(messages) - 1, max(len(messages) - _ROWS, 0) - 1, -1):
        found.add(messages, n)
    facts = Suggestions(sessions=found.sessions, cwd=found.cwd or str(Path.cwd()))
    facts.fields = found.fields
    return facts


class _Facts:
    def __init__(self) -> None:
        self.sessions: list[str] = []
        self.cwd = ""
        self.fields: dict[str, list[str]] = {}
        self._closed: set[str] = set()

    def add(self, messages: Messages, n: int) -> None:
        """Add a message that came before all others so far."""
        row = messages.row(n)
        if row.kind == "request":
            self._request(messages, n, row.method, row.session)
        elif row.kind == "response" and not row.is_error and row.pair is not None:
            self._response(messages, n, messages.row(row.pair).method)
        elif row.kind == "notification" and row.method == "session/update":
            self._update(messages.record(n).value())

    def _request(self, messages: Messages, n: int, method: str, session: str | None) -> None:
        if method in _CLOSING and session is not None:
            self._closed.add(session)
        elif method in _OPENING:
            self._session(session)
            value = messages.record(n).value()
            cwd = value.get("cwd") if is_object(value) else None
            if isinstance(cwd, str):
                self.cwd = self.cwd or cwd

    def _response(self, messages: Messages, n: int, method: str) -> None:
        if method not in _OPENING and method != "initialize" and method != "terminal/create":
            return
        value = messages.record(n).value()
        if not is_object(value):
            return
        self._session(value.get("sessionId"))
        self._put("terminalId", value.get("terminalId"))
        modes = value.get("modes")
        for mode in _objects(modes.get("availableModes") if is_object(modes) else None):
            self._put("modeId", mode.get("id"))
        for option in _objects(value.get("configOptions")):
            self._put("configId", option.get("configId", option.get("id")))
            for choice in _objects(option.get("options")):
                self._put("value", choice.get("value"))
        for auth in _objects(value.get("authMethods")):
            self._put("methodId", auth.get("id", auth.get("methodId")))

    def _update(self, value: Any) -> None:
        update = value.get("update") if is_object(value) else None
        if is_object(update):
            for name in _UPDATES & update.keys():
                self._put(name, update[name])

    def _session(self, session: Any) -> None:
        if (
            isinstance(session, str)
            and session not in self._closed
            and session not in self.sessions
            and len(self.sessions) < _VALUES
        ):
            self.sessions.append(session)

    def _put(self, name: str, value: Any) -> None:
        values = self.fields.setdefault(name, [])
        if isinstance(value, str) and value not in values and len(values) < _VALUES:
            values.append(value)


def _objects(value: Any) -> Iterable[dict[str, Any]]:
    return [item for item in value if is_object(item)] if is_array(value) else ()


Version: TypeAlias = Literal[1, 2]

_METHODS: dict[int, tuple[Method, ...]] = {1: METHODS_V1, 2: METHODS_V2}
# Of the methods of the protocol and of proxies, the inspected agent may be the other side.
_DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    "agent": ("to_agent",),
    "proxy": ("to_agent",),
    "client": ("to_client",),
    "protocol": ("to_agent", "to_client"),
}


class MethodEntry(Struct, frozen=True):
    """A method in the list of those that can be sent."""

    method: str
    direction: Direction
    kind: Literal["request", "notification"]
    unstable: bool
    summary: str
    gate: str = ""  # the capability that it needs


class Form(Struct):
    """What the page makes a form from: a JSON Schema with its definitions, and params."""

    version: int
    entry: MethodEntry
    type_name: str
    schema: Node
    params: Any
    suggestions: dict[str, list[str]]


class FormProblem(Struct):
    """What is wrong in params: a text and its place, as keys and indexes from the root."""

    text: str
    path: list[str | int]


@cache
def methods(version: Version) -> tuple[MethodEntry, ...]:
    """Return the methods of a version, unstable ones included, in both directions."""
    return tuple(
        _entry(method, direction)
        for method in _METHODS[version]
        for direction in _DIRECTIONS[method.to]
    )


def form_of(version: Version, name: str, direction: Direction, facts: Suggestions) -> Form:
    """Return the form of a method; raise `LookupError` if the version does not define it."""
    method = _find(version, name, direction)
    defs, root = _schema_of(version, method)
    schema: Node = {**defs[root], "$defs": dict(_reachable(root, defs))}
    params = default_params(root, defs, version, facts)
    entry = _entry(method, direction)
    return Form(version, entry, root, schema, params, facts.by_field())


def check_params(
    version: Version, name: str, direction: Direction, params: Any
) -> list[FormProblem]:
    """Return what an implementation that follows the types would reject in params.

    Raise `LookupError` if the version does not define the method.
    """
    method = _find(version, name, direction)
    try:
        converter(method.params)(params)
    except DecodeError as error:
        return [FormProblem(error.message, list(error.path))]
    return []


def _entry(method: Method, direction: Direction) -> MethodEntry:
    summary = inspect.getdoc(method.params) if isinstance(method.params, type) else None
    return MethodEntry(
        method.name,
        direction,
        "request" if method.is_request else "notification",
        method.unstable,
        summary or "",
        method.gate or "",
    )


def _find(version: Version, name: str, direction: Direction) -> Method:
    for method in _METHODS[version]:
        if method.name == name and direction in _DIRECTIONS[method.to]:
            return method
    raise LookupError(f"Version {version} does not define {name!r} in this direction")


@cache
def _definitions(version: Version) -> dict[str, Node]:
    return json_schema(f"v{version}", unstable=True)["$defs"]


def _schema_of(version: Version, method: Method) -> tuple[dict[str, Node], str]:
    """Return all definitions, and the name of that of a method's params."""
    defs = _definitions(version)
    for name, node in defs.items():
        if (
            node.get("x-method") == method.name
            and node.get("x-side") == method.to
            and not name.endswith("Response")
            and (method.is_request or not name.endswith("Request"))
            and (not method.is_request or not name.endswith("Notification"))
        ):
            return defs, name
    raise LookupError(f"There is no definition of the params of {method.name!r}")


def _reachable(root: str, defs: dict[str, Node]) -> Iterator[tuple[str, Node]]:
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name, defs[name]
            waiting += _references(defs[name])


def _references(node: Any) -> Iterator[str]:
    if is_object(node):
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix("#/$defs/")
        for value in node.values():
            yield from _references(value)
    elif is_array(node):
        for value in node:
            yield from _references(value)


Kind: TypeAlias = Literal["request", "notification"]


def form_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes of the view Send."""
    api = _Api(inspection)
    return (
        Route("/api/methods", api.methods),
        Route("/api/form", api.form),
        Route("/api/form/check", api.check, methods=["POST"]),
        Route("/api/send", api.send, methods=["POST"]),
        Route("/api/send/raw", api.send_raw, methods=["POST"]),
        Route("/api/send/from", api.send_from),
        Route("/api/send/forget", api.forget, methods=["POST"]),
    )


class _Api:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._ids = itertools.count(1)

    async def methods(self, request: Request) -> Response:
        """Return the methods of a version, by default of the one that the agent speaks."""
        given = request.query_params.get("version")
        version = _version(given or spoken_version(self._inspection.messages()))
        return json_response({"version": version, "methods": methods(version)})

    async def form(self, request: Request) -> Response:
        """Return the schema of a method's params, and params that work."""
        params = request.query_params
        facts = facts_of(self._inspection)
        try:
            form = form_of(
                _version(params.get("version")),
                params.get("method", ""),
                _direction(params.get("direction")),
                facts,
            )
        except LookupError as error:
            raise ApiError(404, str(error)) from None
        return json_response(form)

    async def check(self, request: Request) -> Response:
        """Return what the types of the protocol reject in params."""
        body = await body_of(request)
        try:
            problems = check_params(
                _version(body.get("version")),
                str(body.get("method")),
                _direction(body.get("direction")),
                body.get("params"),
            )
        except LookupError:
            problems = []  # an extension: nothing is known of its params
        return json_response({"problems": problems})

    async def send(self, request: Request) -> Response:
        """Send a request or a notification; return its number, and the id of a request."""
        body = await body_of(request)
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        number = None
        if _kind(body.get("kind")) == "request":
            number = message["id"] = f"{INJECTED}{next(self._ids)}"
        message["method"] = body.get("method")
        if "params" in body:
            message["params"] = body["params"]
        n = self._agent.inject(_direction(body.get("direction")), [lenient_json.dumps(message)])
        self._agent.add_sent(body)
        return json_response({"n": n, "id": number})

    async def send_raw(self, request: Request) -> Response:
        """Send bytes, given as text; return the number of the first frame."""
        body = await body_of(request)
        raw = body.get("raw")
        if not isinstance(raw, str):
            raise ApiError(400, "raw: expected a text")
        try:
            data = bytes_of_text(raw, escapes=body.get("escapes") is True)
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        direction = _direction(body.get("direction"))
        if body.get("newline", True) is True:
            n = self._agent.inject(direction, data.split(b"\n"))
        elif direction == "to_agent":
            n = self._agent.inject_bytes(data)
        else:
            raise ApiError(400, "Bytes without a newline can be sent to the agent only")
        if n is None and data.strip():
            raise ApiError(409, "The connection was cut: start the agent again")
        self._agent.add_sent(body)
        return json_response({"n": n, "id": _id_in(data)})

    async def send_from(self, request: Request) -> Response:
        """Return a message of the recording as it can be edited and sent."""
        params = request.query_params
        messages = self._inspection.messages(params.get("recording", ""))
        n = params.get("message", "")
        if not n.isdecimal():
            raise ApiError(400, f"message: expected a number, got {n!r}")
        row, record = messages.row(int(n)), messages.record(int(n))
        message: dict[str, Any] = {"direction": record.dir, "version": spoken_version(messages)}
        if row.kind in ("request", "notification"):
            message |= {"method": row.method, "kind": row.kind, "params": record.value()}
        else:
            message |= {"raw": record.frame.decode("utf-8", "backslashreplace")}
        return json_response({"message": message})

    async def forget(self, _request: Request) -> Response:
        """Forget what was sent by hand."""
        self._agent.forget_sent()
        return json_response({})

    @property
    def _agent(self) -> LiveInspection:
        if not isinstance(self._inspection, LiveInspection):
            raise ApiError(409, "Messages can be sent only to an agent that runs")
        return self._inspection


def _version(value: Any) -> Version:
    if str(value) not in ("1", "2"):
        raise ApiError(400, f"version: expected 1 or 2, got {value!r}")
    return cast("Version", int(value))


def _direction(value: Any) -> Direction:
    if value not in ("to_agent", "to_client"):
        raise ApiError(400, f"direction: expected to_agent or to_client, got {value!r}")
    return value


def _kind(value: Any) -> Kind:
    if value not in ("request", "notification"):
        raise ApiError(400, f"kind: expected request or notification, got {value!r}")
    return value


def _id_in(data: bytes) -> str | None:
    """Return the id of the request that was sent, if its response belongs to the page."""
    try:
        value = lenient_json.loads(data)
    except lenient_json.NotJson:
        return None
    found = value.get("id") if lenient_json.is_object(value) and "method" in value else None
    return found if isinstance(found, str) and found.startswith(INJECTED) else None
