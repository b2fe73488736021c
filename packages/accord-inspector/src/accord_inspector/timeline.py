"""The JSON API of the timeline: names, broken rules, explanations, copies, and the waterfall.

A copy is a message as JSON, as a Python program, or as a shell command that repeats it. What other
programs sent is only ever data in them: every text is quoted, and characters that a terminal would
obey or that reorder text are written as escapes. The waterfall has the requests of a recording by
session and turn, with the time that each took.
"""

from __future__ import annotations

import json
import pprint
import re
import shlex
import unicodedata
from array import array
from ast import literal_eval
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord import v1, v2
from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.text.redact import MASK
from accord.transports.registry import is_url
from accord.types.steering import STEERING
from accord.wire.protocol import Method
from accord_inspector.explain import explain, rule_text
from accord_inspector.inspection import Inspection
from accord_inspector.judged import BrokenRule
from accord_inspector.messages import Messages, View
from accord_terminal.conversation import ApiError, json_response
from accord_trace.message_index import MessageRow
from accord_trace.records import Record
from accord_trace.selection import Filter

# Copies

_WIDTH = 96
_ARGUMENT_BYTES = 100_000  # Linux takes 131,072 in one argument
_WAIT_S = 5  # until the agent's stdin is closed
_NAME = re.compile(r"[\w$/.*-]{1,80}", re.ASCII)
# Their session is the one that they name; other requests need one that is open.
_OPENING = frozenset(("load_session", "resume_session", "fork_session", "delete_session"))


class Origin(Struct, frozen=True):
    """Where a message comes from.

    `command` starts the agent, or is its URL; `initialize` is the frame that opened its connection.
    """

    number: int  # from 1
    command: Sequence[str] = ()
    version: int | None = None
    initialize: bytes = b""


class Copies(Struct, frozen=True):
    """The message in three languages; empty if it cannot be written in one."""

    json: str
    python: str
    shell: str


def copies(record: Record, origin: Origin) -> Copies:
    """Return a message for the clipboard.

    A request or a notification for the agent is repeated; of any other message, Python gets the
    value, and the shell prints the frame.
    """
    frame = record.frame
    try:
        value: Any = lenient_json.loads(frame)
    except lenient_json.NotJson:
        data = frame.decode("utf-8", "replace")
        return Copies("", f"FRAME = {frame!r}\n", _printf_bytes(frame) if data else "")
    text = _json(value)
    is_repeatable = record.dir == "to_agent" and record.type in ("request", "notification")
    if not is_repeatable or not is_object(value) or not origin.command:
        return Copies(text, f"MESSAGE = {_literal(value)}\n", _printf(value))
    return Copies(text, _python(value, origin), _shell(value, origin))


# JSON


def _json(value: Any, indent: int | None = 2) -> str:
    """Return JSON text; characters that are not printable are escaped, letters are not."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(c if c == "\n" or _is_shown(c) else _json_escape(c) for c in text)


def _is_shown(character: str) -> bool:
    return character.isprintable() and unicodedata.category(character) not in ("Cf", "Cs", "Co")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


# Python


def _literal(value: Any) -> str:
    """Return a Python expression for a JSON value."""
    try:
        text = pprint.pformat(value, width=_WIDTH, sort_dicts=False)
        if literal_eval(text) == value:
            return text
    except (ValueError, RecursionError, MemoryError):
        pass  # such as 1e999, or very deep
    return f"json.loads({lenient_json.dumps(value).decode('ascii', 'backslashreplace')!r})"


def _python(message: dict[str, Any], origin: Origin) -> str:
    name = message.get("method")
    params: Any = message.get("params") or {}
    text = _prompt_text(message)
    agent = origin.command[0] if is_url(origin.command[0]) else list(origin.command)
    head = f"AGENT = {_literal(agent)}\n"
    if text is not None:
        return (
            f"{_docstring(message, origin)}\nimport accord\n\n{head}PROMPT = {_literal(text)}\n\n"
            f"print(accord.ask(AGENT, PROMPT))\n"
        )
    method = _method(name, origin.version)
    if method is None and not (isinstance(name, str) and name.startswith("_")):
        return f"MESSAGE = {_literal(message)}\n"  # the protocol does not define it
    if method is not None and method.call == "initialize":
        calls = ["print(agent.remote.initialized)"]
        return _program(message, origin, head, calls)
    body = f"{head}PARAMS = {_literal(params)}\n"
    if method is None:
        verb = "call" if "id" in message else "notify"
        calls = [f"print(await agent.{verb}_extension({name!r}, PARAMS))"]
        return _program(message, origin, body, calls)
    calls: list[str] = []
    if is_object(params) and "sessionId" in params and method.call not in _OPENING:
        calls += ["session = await agent.new_session()", 'PARAMS["sessionId"] = session.id']
    if method.call == "set_session_config_option":  # its params have no class of their own
        calls[1:] = ['await session.set_option(PARAMS["configId"], PARAMS["value"])']
        return _program(message, origin, body, [*calls, "print(session.transcript.options)"])
    kind = f"v{origin.version}.{method.params.__name__}"
    calls.append(f"params = msgspec.convert(PARAMS, {kind})")
    calls.append(f"print(await agent.remote.{method.call}(params))")
    return _program(message, origin, body, calls, f"v{origin.version}")


def _program(
    message: dict[str, Any], origin: Origin, body: str, calls: Sequence[str], types: str = ""
) -> str:
    imports = ["import asyncio", "import json"] if "json.loads(" in body else ["import asyncio"]
    imports += ["", "import accord"]
    if types:
        imports += [f"from accord import {types}", "import msgspec"]
    versions = f", versions=[{origin.version}]" if origin.version else ""
    lines = "".join(f"        {call}\n" for call in calls)
    return (
        f"{_docstring(message, origin)}\n" + "\n".join(imports) + f"\n\n{body}\n\n"
        f"async def main() -> None:\n    async with accord.connect(AGENT{versions}) as agent:\n"
        f"{lines}\n\nasyncio.run(main())\n"
    )


def _docstring(message: dict[str, Any], origin: Origin) -> str:
    return f'"""Repeats message {origin.number}{_named(message)}.{_redacted(message)}"""\n'


def _named(message: dict[str, Any]) -> str:
    name = message.get("method")
    return f": {name}" if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _redacted(message: dict[str, Any]) -> str:
    return f" Replace {MASK}: the recording has no secrets." if _has_mask(message) else ""


def _has_mask(value: Any) -> bool:
    return MASK.encode() in lenient_json.dumps(value)


def _method(name: Any, version: int | None) -> Method | None:
    table = {1: v1.METHODS, 2: v2.METHODS}.get(version or 0, ())
    return next((one for one in table if one.name == name and one.to == "agent"), None)


def _prompt_text(message: dict[str, Any]) -> str | None:
    """Return the text of a prompt that is only text; None for another message."""
    params = message.get("params")
    if message.get("method") != "session/prompt" or not is_object(params):
        return None
    blocks = params.get("prompt")
    if not is_array(blocks) or not blocks:
        return None
    texts = [block.get("text") for block in blocks if is_object(block)]
    if len(texts) != len(blocks) or not all(isinstance(text, str) for text in texts):
        return None
    text = "\n".join(map(str, texts))
    return text if text.strip() and "\0" not in text else None


# Shell


def _shell(message: dict[str, Any], origin: Origin) -> str:
    text = _prompt_text(message)
    protocol = f" --protocol {origin.version}" if origin.version else ""
    command = origin.command[0] if is_url(origin.command[0]) else shlex.join(origin.command)
    note = f"# Replace {MASK}: the recording has no secrets.\n" if _has_mask(message) else ""
    if text is not None:
        ask = f"accord ask{protocol} --agent {_quoted(command)}"
        if text == "-" or len(text.encode("utf-8", "replace")) > _ARGUMENT_BYTES:
            return f"{note}printf '%s' {_quoted(text)} | {ask} -\n"
        return f"{note}{ask} -- {_quoted(text)}\n"
    words = " ".join(map(_quoted, origin.command))
    if is_url(origin.command[0]):
        words = f"accord bridge {_quoted(origin.command[0])}"
    frames = [message]
    if origin.initialize and message.get("method") != "initialize":
        frames.insert(0, lenient_json.loads(origin.initialize))
    params = message.get("params")
    if is_object(params) and "sessionId" in params:
        note += (
            "# The session of the recording has to exist: replace its id by that of another one.\n"
        )
    quoted = " \\\n  ".join(_quoted(_json(frame, None)) for frame in frames)
    return f"{note}{{ printf '%s\\n' {quoted}; sleep {_WAIT_S}; }} | {words}\n"


def _printf(value: Any) -> str:
    return f"printf '%s\\n' {_quoted(_json(value, None))}\n"


def _printf_bytes(frame: bytes) -> str:
    """Return a command that prints bytes that are not a message."""
    text = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"\\'%" else f"\\{byte:03o}" for byte in frame
    ).replace("\\045", "%%")
    return f"printf '{text}\\n'\n"


def _quoted(text: str) -> str:
    """Return one word of a shell; with characters that are not printable, one of bash or zsh."""
    if all(c == "\n" or _is_shown(c) for c in text):
        return shlex.quote(text)
    return "$'" + "".join(map(_dollar, text)) + "'"


def _dollar(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character == "\n":
        return "\\n"
    if _is_shown(character):
        return character
    data = character.encode("utf-8", "replace")
    return "".join(f"\\{byte:03o}" for byte in data)


# Names, broken rules, explanations

_FILTER_S = 0.3
_MAX_NAMES = 500

_encode = msgspec.json.Encoder(enc_hook=str).encode


def timeline_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes of the timeline."""
    api = _Api(inspection)
    return (
        Route("/api/names", api.names),
        Route("/api/rules", api.rules),
        Route("/api/next/{n:int}", api.next),
        Route("/api/explanation/{n:int}", api.explanation),
        Route("/api/copies/{n:int}", api.copies),
    )


class _Api:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        # By recording: how many names there are, and the names. To count them takes time.
        self._names: dict[Messages, tuple[tuple[int, int], dict[str, list[str]]]] = {}

    async def names(self, request: Request) -> Response:
        """Return the names of components, methods and sessions; those with most messages first."""
        messages = self._messages(request)
        index = messages.index
        known = (len(index.columns.method_names), len(index.columns.session_names))
        names = self._names.get(messages)
        if names is None or names[0] != known:
            found = {"methods": index.methods(), "sessions": index.sessions()}
            by_count = {
                kind: sorted(filter(None, counts), key=lambda name: (-counts[name], name))
                for kind, counts in found.items()
            }
            names = self._names[messages] = (
                known,
                {kind: of[:_MAX_NAMES] for kind, of in by_count.items()},
            )
        return _encoded({"components": index.components(), **names[1]})

    async def rules(self, request: Request) -> Response:
        """Return the broken rules, and how many messages were judged."""
        messages = self._messages(request)
        judged = self._inspection.judges.of(_recording(request))
        rules = [
            {"id": rule, "count": count, "text": rule_text(rule)}
            for rule, count in judged.counts.most_common()
        ]
        return _encoded(
            {
                "judged": judged.judged,
                "total": len(messages),
                "finished": judged.is_finished or messages.grows,
                "found": judged.counts.total(),
                "problem": judged.problem,
                "rules": rules,
            }
        )

    async def next(self, request: Request) -> Response:
        """Return the number of the next selected message from a number on; null without one."""
        messages = self._messages(request)
        view = messages.view(self._inspection.wanted(request.query_params, _recording(request)))
        await view.complete(_FILTER_S)
        position = view.position_from(cast("int", request.path_params["n"]))
        return _encoded({"n": None if position is None else view.number(position)})

    async def explanation(self, request: Request) -> Response:
        """Return what the fields of a message mean, and the rules that it breaks."""
        messages = self._messages(request)
        n = cast("int", request.path_params["n"])
        row, record = messages.row(n), messages.record(n)
        version = await _version_at(messages, n)
        found = explain(
            row.kind, row.method, _value(record), version=version, direction=row.direction
        )
        broken = self._inspection.judges.of(_recording(request)).broken(n)
        return _encoded(
            {
                **msgspec.to_builtins(found),
                "broken": [_broken(one, version) for one in broken],
                "total": len(messages),
                "canSend": self._inspection.is_live and row.kind in ("request", "notification"),
            }
        )

    async def copies(self, request: Request) -> Response:
        """Return a message as JSON, as a Python program, and as a shell command."""
        messages = self._messages(request)
        n = cast("int", request.path_params["n"])
        row, record = messages.row(n), messages.record(n)
        first = messages.view(Filter(methods=("initialize",), kinds=("request",)))
        await first.complete(_FILTER_S)
        earlier = [one.number for one in first.rows(0, len(first)) if one.conn == row.conn]
        command = self._inspection.describe().get("command") or messages.index.header.argv
        origin = Origin(
            number=n + 1,
            command=command,
            version=await _version_at(messages, n),
            initialize=messages.record(earlier[0]).frame if earlier and earlier[0] <= n else b"",
        )
        return _encoded(copies(record, origin))

    def _messages(self, request: Request) -> Messages:
        return self._inspection.messages(_recording(request))


def _recording(request: Request) -> str:
    return request.query_params.get("recording", "")


def _encoded(value: Any) -> Response:
    return Response(_encode(value), media_type="application/json")


def _broken(one: BrokenRule, version: int | None) -> dict[str, Any]:
    text = rule_text(one.rule, version)
    return {**msgspec.to_builtins(one), "text": msgspec.to_builtins(text)}


def _value(record: Record) -> Any:
    if record.type == "end":
        return None
    try:
        return lenient_json.loads(record.frame)
    except lenient_json.NotJson:
        return None


async def _version_at(messages: Messages, n: int) -> int | None:
    """Return the version that the connection of a message had agreed on; None if it is unknown."""
    conn = messages.row(n).conn
    view = messages.view(Filter(methods=("initialize",), kinds=("response",)))
    await view.complete(_FILTER_S)
    version: int | None = None
    for row in view.rows(0, len(view)):
        if row.number > n and version is not None:
            break
        if row.conn == conn:
            found = _agreed(messages.record(row.number))
            version = found if found is not None else version
    return version


def _agreed(record: Record) -> int | None:
    if record.is_error or record.payload is UNSET:
        return None
    value = record.value()
    version = value.get("protocolVersion") if is_object(value) else None
    return version if version in (1, 2) else None


_ROWS = 500  # in one window
_TURN = "session/prompt"


class _Group(Struct):
    """The requests of one session, in order; `depths` is 1, or 2 within a turn."""

    session: str | None
    numbers: array[int] = field(default_factory=lambda: array("I"))
    depths: array[int] = field(default_factory=lambda: array("B"))
    prompt: int | None = None  # the newest one

    def add(self, row: MessageRow, prompt_end: int | None) -> None:
        if row.method == _TURN and row.direction == "to_agent":
            self.prompt = row.number
            depth = 1
        else:
            # Agents ask during turns; in version 2, the response to a prompt comes at once.
            is_inside = (
                row.direction == "to_client"
                or row.method == STEERING
                or prompt_end is None
                or prompt_end > row.number
            )
            depth = 2 if self.prompt is not None and is_inside else 1
        self.numbers.append(row.number)
        self.depths.append(depth)


class Waterfall:
    """A list with a heading for each session, and its requests below it.

    Requests without a session come first. `update` adds those that have come since.
    """

    def __init__(self, messages: Messages, view: View) -> None:
        self._index = messages.index
        self._view = view
        self._seen = 0
        self._groups: dict[str | None, _Group] = {}

    def __len__(self) -> int:
        return self._seen + len(self._groups)

    @property
    def requests(self) -> int:
        """The number of requests."""
        return self._seen

    def update(self) -> None:
        """Add the requests that were read since the last call."""
        for number in self._view.numbers()[self._seen :]:
            row = self._index.row(number)
            group = self._groups.setdefault(row.session, _Group(row.session))
            prompt = group.prompt
            group.add(row, None if prompt is None else self._index.row(prompt).pair)
            self._seen += 1

    def rows(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        """Yield a window of the list, as the page shows it."""
        at = 0
        groups = sorted(self._groups.values(), key=lambda group: group.session is not None)
        for group in groups:
            size = 1 + len(group.numbers)
            if at + size > first and at < first + count:
                for place in range(max(first - at, 0), min(first + count - at, size)):
                    yield self._heading(group) if place == 0 else self._row(group, place - 1)
            at += size

    def _heading(self, group: _Group) -> dict[str, Any]:
        return {
            "group": group.session or "",
            "count": len(group.numbers),
            "ts": self._index.row(group.numbers[0]).ts,
            "end": max(map(self._end, group.numbers)),
        }

    def _end(self, number: int) -> float:
        columns = self._index.columns
        pair = self._index.row(number).pair
        return columns.times[-1 if pair is None else pair]

    def _row(self, group: _Group, place: int) -> dict[str, Any]:
        row = self._index.row(group.numbers[place])
        return {
            "n": row.number,
            "ts": row.ts,
            "seconds": row.latency_s,
            "method": row.method,
            "dir": row.direction,
            "from": row.sender,
            "depth": group.depths[place],
            "error": row.pair is not None and self._index.row(row.pair).is_error,
        }


def waterfall_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the route of the waterfall."""
    known: dict[View, Waterfall] = {}

    async def waterfall(request: Request) -> Response:
        """Return a window of the list, and the time from the first message to the last."""
        params = request.query_params
        try:
            first, count = int(params.get("from", "0")), int(params.get("count", "100"))
        except ValueError:
            raise ApiError(400, "from, count: expected whole numbers") from None
        messages = inspection.messages(params.get("recording", ""))
        sessions = tuple(filter(None, params.getlist("session")))
        view = messages.view(Filter(kinds=("request",), sessions=sessions))
        is_complete = await view.complete(_FILTER_S)
        found = known.pop(view, None) or Waterfall(messages, view)
        known.clear()  # the one that is shown is kept
        known[view] = found
        found.update()
        times = messages.index.columns.times
        return json_response(
            {
                "total": len(found),
                "requests": found.requests,
                "complete": is_complete and messages.is_read,
                "start": times[0] if times else 0.0,
                "end": times[-1] if times else 0.0,
                "rows": list(found.rows(max(first, 0), min(max(count, 0), _ROWS))),
            }
        )

    return (Route("/api/waterfall", waterfall),)
