"""Judges of messages as such: lines, envelopes, ids, wire types, cancellation of requests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any

from accord import v1, v2
from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.v1.early_spellings import LEGACY_METHODS
from accord.wire import describe as shapes
from accord.wire.describe import Object, Shape, describe
from accord.wire.protocol import Method
from accord_conformance.judges.base import Evidence, Judge
from accord_conformance.judges.fields import field_rule_ids, rule_for_problem, rules_for_keys
from accord_conformance.judges.handshake import OTHER_KEYS, is_of_other_version
from accord_conformance.traffic.connection_state import id_key, methods
from accord_conformance.traffic.message import (
    InvalidFrame,
    Notification,
    RawMessage,
    Request,
    Side,
    TypeProblem,
    VisitedKey,
    find_problems,
    format_value,
    other,
)

# Lines, envelopes and ids: the rules of JSON-RPC over stdio for every frame.

_INT64 = range(-(2**63), 2**63)
_INT32 = range(-(2**31), 2**31)


class Framing(Judge):
    """R-GEN-03 to -06 and -13, R-STDIO, R-BATCH-12, R-ERR-01, R-REQCAN-05."""

    rules = (
        "R-GEN-03",
        "R-GEN-04",
        "R-GEN-05",
        "R-GEN-06",
        "R-GEN-13",
        "R-GEN-14",
        "R-STDIO-03",
        "R-STDIO-04",
        "R-STDIO-05",
        "R-STDIO-08",
        "R-BATCH-10",
        "R-BATCH-12",
        "R-ERR-01",
        "R-ERR-03",
        "R-REQCAN-05",
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._answered: dict[Side, dict[Any, Request]] = {"agent": {}, "client": {}}
        self._faulty: set[Side] = (
            set()
        )  # sent a message that the other side may not have understood
        self._from_the_start = True
        # Invalid frames of a side that get an error without an id: the rule, and the required code.
        self._owed: dict[Side, list[tuple[str, int, InvalidFrame]]] = {"agent": [], "client": []}
        # Ids of invalid messages: JSON-RPC allows the error to have that id.
        self._misused: dict[Side, set[Any]] = {"agent": set(), "client": set()}
        self._in_batches: dict[Side, dict[str, InvalidFrame]] = {"agent": {}, "client": {}}

    def on_invalid_frame(self, broken: InvalidFrame) -> None:
        sender = broken.frame.sender
        self._faulty.add(sender)
        text = broken.frame.text.strip()
        if broken.why == "batch":
            self._owed[sender].append(("R-BATCH-10", -32600, broken))
            for entry in lenient_json.loads(text):
                if is_object(entry) and "method" in entry and "id" in entry:
                    self._in_batches[sender][repr(entry["id"])] = broken
            self.judge(
                "R-BATCH-12", False, broken, expected="a single message", got="an array", by=sender
            )
        elif broken.why == "JSON that is not a message" and text[:1] == b"{":
            self._owed[sender].append(("R-ERR-03", -32600, broken))
            fields = lenient_json.loads(text)
            if "id" in fields:
                self._misused[sender].add(id_key(fields["id"]))
            self._noise(broken)
        elif broken.why == "not UTF-8" or (broken.why == "not JSON" and text[:1] in b"{["):
            self.judge(
                "R-STDIO-03",
                False,
                broken,
                expected="one line of UTF-8 JSON",
                got=f"a line that is {broken.why}",
                by=sender,
            )
            if broken.why == "not JSON":
                self._owed[sender].append(("R-ERR-03", -32700, broken))
        else:
            self._noise(broken)

    def _noise(self, broken: InvalidFrame) -> None:
        rule = "R-STDIO-04" if broken.frame.sender == "agent" else "R-STDIO-05"
        self.judge(
            rule,
            False,
            broken,
            expected="only messages of the protocol",
            got="a line that is not a message",
        )

    def on_message(self, raw: RawMessage) -> None:
        sender, fields = raw.frame.sender, raw.fields
        if len(self.state.frames) == 1 and raw.is_response:
            self._from_the_start = False  # its request was not recorded
        self.judge("R-STDIO-03", True, by=sender)
        self.judge("R-BATCH-12", True, by=sender)
        self.judge("R-STDIO-04" if sender == "agent" else "R-STDIO-05", True)
        version = fields.get("jsonrpc")
        ok = version == "2.0"
        self.judge(
            "R-GEN-03",
            ok,
            raw,
            expected='`jsonrpc` is "2.0"',
            got=format_value(version) if "jsonrpc" in fields else "no `jsonrpc`",
            by=sender,
        )
        both = "method" in fields and not fields.keys().isdisjoint(("result", "error"))
        self.judge(
            "R-STDIO-08",
            not both,
            raw,
            expected="a request, a notification or a response",
            got="`method` together with `result` or `error`",
            by=sender,
        )
        if not ok or both:
            self._faulty.add(sender)
        if raw.is_response:
            self._envelope(raw)

    def _envelope(self, raw: RawMessage) -> None:
        fields, sender = raw.fields, raw.frame.sender
        error = fields.get("error")
        has_result = _has_result(fields)
        if has_result and error is not None:
            got = "both"
        elif "result" not in fields and error is None:
            got = "neither"
        elif error is not None and not _is_error(error):
            got = format_value(error)
        else:
            got = ""
        self.judge(
            "R-GEN-04",
            not got,
            raw,
            expected="either `result` or `error`, which has an integer `code` and a `message`",
            got=got,
            by=sender,
        )
        if error is not None and not got and is_object(error):
            code = error["code"]
            self.judge(
                "R-ERR-01",
                code in _INT32,
                raw,
                expected="a 32-bit error code",
                got=format_value(code),
                by=sender,
            )

    def on_request(self, call: Request) -> None:
        sender = call.sender
        ok = _is_id(call.id) and not (call.id is None and self.state.version == 2)
        if call.id is None and self.state.version is None:
            ok = True  # v1 allows it, and no version is agreed yet
        self.judge(
            "R-GEN-06",
            ok,
            call,
            expected="a string or a 64-bit integer as id",
            got=format_value(call.id),
            by=sender,
        )
        earlier = self.state.find_request(sender, call.id)
        self.judge(
            "R-GEN-13",
            earlier is None,
            earlier,
            call,
            expected="an id that no pending request of this side has",
            got=format_value(call.id),
            by=sender,
        )
        if not ok or earlier is not None:
            self._faulty.add(sender)

    def on_response(self, call: Request) -> None:
        replier = other(call.sender)
        self.judge("R-GEN-06", True, by=replier)
        if call.cancelled is not None:
            self.judge("R-REQCAN-05", True, by=replier)
        if self.state.version == 2 and (call.id is None or not _is_id(call.id)):
            self.judge(
                "R-GEN-14",
                call.id is None and call.code == -32600,
                call,
                expected="-32600 with a null id",
                got="a result" if call.ok else format_value(call.code),
                by=replier,
            )
        self._answered[call.sender][id_key(call.id)] = call

    def on_unmatched_response(self, raw: RawMessage) -> None:
        replier = raw.frame.sender
        asker = other(replier)
        if raw.fields.get("id") is None:
            self._nameless(raw, asker)
            return
        if batch := self._in_batches[asker].get(repr(raw.fields["id"])):
            self.judge(
                "R-BATCH-10",
                False,
                batch,
                raw,
                expected="one -32600 with a null id, and no entry processed",
                got="a response to an entry",
                by=replier,
            )
            return
        ident = raw.fields["id"]
        earlier = self._answered[asker].get(id_key(ident))
        if earlier is not None:
            rule = "R-REQCAN-05" if earlier.cancelled is not None else "R-GEN-06"
            self.judge(
                rule,
                False,
                earlier,
                raw,
                expected=f"exactly one response to request {format_value(ident)}",
                got="a second one: no request with this id is pending",
                by=replier,
            )
            return
        if id_key(ident) in self._misused[asker] and "error" in raw.fields:
            return
        alike = [
            call for call in self.state.open_requests[asker].values() if str(call.id) == str(ident)
        ]
        if alike or self._from_the_start:
            expected = format_value(alike[0].id) if alike else "the id of a pending request"
            self.judge(
                "R-GEN-06",
                False,
                *alike[:1],
                raw,
                expected=expected,
                got=format_value(ident),
                by=replier,
            )

    def _nameless(self, raw: RawMessage, asker: Side) -> None:
        """Judge a response without an id: for an invalid frame, or wrongly for a notification."""
        owed, error = self._owed[asker], raw.fields.get("error")
        code = error.get("code") if is_object(error) else None
        if owed:
            item = next((item for item in owed if item[1] == code), owed[0])
            owed.remove(item)
            self.judge(
                item[0],
                item[1] == code,
                item[2],
                raw,
                expected=f"{item[1]} with a null id",
                got=format_value(code),
                by=raw.frame.sender,
            )
            return
        if (
            self._faulty.isdisjoint({asker})
            and self.state.notification_counts[asker]
            and self._from_the_start
        ):
            self.judge(
                "R-GEN-05",
                False,
                raw,
                expected="no response to a notification",
                got="a response with a null id, although every received message was valid",
                by=raw.frame.sender,
            )

    def on_notification(self, note: Notification) -> None:
        self.judge("R-GEN-05", True, by=other(note.sender))


@tolerates("null-beside-result")
def _has_result(fields: dict[str, Any]) -> bool:
    """Return whether a response has a result; null next to an error does not count."""
    is_error = fields.get("error") is not None
    return "result" in fields and not (fields["result"] is None and is_error)


def _is_id(ident: Any) -> bool:
    if isinstance(ident, str) or ident is None:
        return True
    return isinstance(ident, int) and not isinstance(ident, bool) and ident in _INT64


def _is_error(error: Any) -> bool:
    if not is_object(error):
        return False
    code = error.get("code")
    whole = isinstance(code, int) and not isinstance(code, bool)
    return whole and isinstance(error.get("message"), str)


# The keys of the protocol, in all types of both versions, stable or unstable.


@cache
def protocol_keys() -> frozenset[str]:
    """Return the keys of all types of the protocol."""
    known: set[str] = set()
    seen: set[Object] = set()
    for method in (*methods(1), *methods(2)):
        for part in (method.params, method.result):
            known.update(_keys(_shape(part), seen))
    return frozenset(known)


def _shape(part: Any) -> Shape:
    return () if part is None else describe(part)


def _keys(shape: Shape, seen: set[Object]) -> Iterator[str]:
    for kind in shape:
        match kind:
            case Object() if kind not in seen:
                seen.add(kind)
                yield from kind.fields
                for field in kind.fields.values():
                    yield from _keys(field.shape, seen)
            case shapes.List(item) | shapes.Mapping(item):
                yield from _keys(item, seen)
            case _:
                pass


# Compares every message with the wire types of the agreed version.

# The rules that methods break in a version that does not have them, by the version and the
# beginning of their names; R-INIT-09 is for the others.
_version_rules = {
    (2, "fs/"): "R-FS-08",
    (2, "terminal/"): "R-TERM-13",
    (2, "session/set_mode"): "R-MODE-06",
}
# Keys of early drafts, which some programs still send for old peers, in addition to the new keys.
_EARLY_KEYS = tolerates("set-model")({"models"})
# A client for both versions sends the keys of both.
_EITHER_VERSION = {"clientInfo", "clientCapabilities", "info", "capabilities"}


class WireTypes(Judge):
    """Fields, their types and values; methods of the other version."""

    rules = ("R-INIT-08", "R-INIT-09", "R-GEN-10", "R-MOA-09")

    @classmethod
    def judged_rules(cls) -> Collection[str]:
        return {*cls.rules, *field_rule_ids(), *_version_rules.values()}

    def on_request(self, call: Request) -> None:
        if call.method == "initialize":
            self._ask(call)
        elif self.state.version is not None and self._known(call.method, call.sender, call):
            self._value(call.method, "params", call.params, self.state.version, call.sender, call)

    def _ask(self, call: Request) -> None:
        """Judge the params of `initialize` by the version that they request."""
        version = call.params.get("protocolVersion") if is_object(call.params) else None
        if isinstance(version, int) and version > 2:
            return  # the shape of a future version is unknown
        self._value("initialize", "params", call.params, 2 if version == 2 else 1, "client", call)

    def on_notification(self, note: Notification) -> None:
        if self.state.version is not None and self._known(note.method, note.sender, note):
            self._value(note.method, "note", note.params, self.state.version, note.sender, note)

    def on_response(self, call: Request) -> None:
        replier = other(call.sender)
        if not call.ok:
            return
        if call.method == "initialize":
            if is_object(call.result) and not is_of_other_version(call.result):
                says = call.result.get("protocolVersion")
                version = 2 if says == 2 or (says != 1 and "info" in call.result) else 1
                self._value("initialize", "result", call.result, version, replier, call)
            return
        if self.state.version is None:
            return
        method = _method(call.method, "result", self.state.version)
        if method is None:
            return
        if call.result is None:
            if _may_be_null(method):
                self.judge("R-GEN-10", False, call, expected="an object", got="null", by=replier)
                return
        elif call.result == {}:
            self.judge("R-GEN-10", True, by=replier)
        self._value(call.method, "result", call.result, self.state.version, replier, call)

    def _known(self, method: str, sender: Side, seen: Evidence) -> bool:
        """Judge the method; return whether its params can be judged."""
        version = self.state.version
        assert version is not None
        if method.startswith(("_", "$/")) and method != "$/cancel_request":
            return False
        if _method(method, None, version) is not None:
            self.judge("R-INIT-09", True, by=sender)
            expected = _sent_otherwise(method, version, sender, isinstance(seen, Request))
            rule = "R-MOA-09" if expected and method == "mcp/message" else "R-INIT-08"
            self.judge(rule, not expected, seen, expected=expected, got=method, by=sender)
            return not expected
        if method in LEGACY_METHODS:
            return False
        rule, expected = "R-INIT-08", f"a method of version {version}, or one that begins with `_`"
        if _method(method, None, 3 - version) is not None:
            named = (
                rule
                for (without, head), rule in _version_rules.items()
                if without == version and method.startswith(head)
            )
            rule = next(named, "R-INIT-09")
            expected = f"a method of version {version}"
        self.judge(rule, False, seen, expected=expected, got=method, by=sender)
        return False

    def _value(
        self, method: str, part: str, value: Any, version: int, sender: Side, seen: Evidence
    ) -> None:
        found = _method(method, part, version)
        if found is None or not self.is_judged(sender):
            return
        visits: set[VisitedKey] = set()
        tp = found.result if part == "result" else found.params
        broken: set[str] = set()
        for problem in find_problems(tp, value, visits):
            if _is_forgiven(problem, value, version):
                continue
            rule = rule_for_problem(problem, version)
            if rule == "":
                continue
            rule = rule or "R-INIT-08"
            broken.add(rule)
            got = "nothing" if problem.what == "missing" else format_value(problem.got)
            expected = f"{problem.expected} at {problem.path} of {method}"
            if rule == "R-INIT-08":
                expected += f", as defined by version {version}"
            # A key that the protocol has elsewhere, stable or not, is not a custom key.
            known = rule == "R-GEN-12" and problem.key in protocol_keys()
            # Nor does the text forbid these keys where the schema does not have them.
            known |= problem.what == "extra" and rule in _NOT_FORBIDDEN
            self.judge(
                rule,
                False,
                seen,
                expected=expected,
                got=got,
                by=sender,
                authority="derived" if known else None,
            )
        for rule in ({"R-INIT-08"} | rules_for_keys(visits, version)) - broken:
            self.judge(rule, True, by=sender)


# Rules about a `type` that a type of version 1 does not have, but a type of version 2 does.
_NOT_FORBIDDEN = ("R-CMD-05", "R-CONF-09", "R-MCP-04")


def add_version_rules(rules: Mapping[tuple[int, str], str]) -> None:
    """Add the rules that methods of an extension break in a version that does not have them."""
    _version_rules.update(rules)


@tolerates("null-result")
def _may_be_null(method: Method) -> bool:
    """Return whether a method's result has no required member, so that null reads as empty."""
    return not find_problems(method.result, {})


def _sent_otherwise(name: str, version: int, sender: Side, is_request: bool) -> str:
    """Return how a method has to be sent, or an empty text if it was sent like that."""
    found = [method for method in methods(version) if method.name == name]
    kinds = [method for method in found if method.is_request is is_request]
    if not kinds:
        return f"a {'notification' if is_request else 'request'}"
    if all(method.to == sender for method in kinds):
        return f"a method that the {sender} handles and the {other(sender)} sends"
    return ""


def _is_forgiven(problem: TypeProblem, value: Any, version: int) -> bool:
    if problem.what == "variant" and problem.got == "env_var":
        return True  # reported by R-AUTH-24
    if problem.what != "extra":
        return False
    if problem.key in _EARLY_KEYS and problem.path.count(".") == 1 and version == 1:
        return True
    if (
        problem.owner in (v1.InitializeRequest, v2.InitializeRequest)
        and problem.key in _EITHER_VERSION
    ):
        return True
    if (
        problem.owner in (v1.InitializeResponse, v2.InitializeResponse)
        and problem.key in OTHER_KEYS[version]
    ):
        return True  # reported by R-INIT-12
    # An auth method of an unknown type is read as one without a type, with any members.
    is_method = problem.owner in (v1.AuthMethodAgent, v2.AuthMethodAgent)
    return is_method and _has_type(value, problem.path)


def _has_type(value: Any, path: str) -> bool:
    """Return whether the auth method at a path has a type."""
    methods = value.get("authMethods") if is_object(value) else None
    index = path.partition("[")[2].partition("]")[0]
    if not is_array(methods) or not index.isdigit():
        return False
    method = methods[int(index)]
    return is_object(method) and "type" in method


@cache
def _method(name: str, part: str | None, version: int) -> Method | None:
    """Return a method by its name: the request or the notification, if there are both."""
    for method in methods(version):
        fits = part is None or (part == "note") is not method.is_request
        if method.name == name and fits and not name.startswith("proxy/"):
            return method
    return None


# Cancellation of requests: `$/cancel_request`.


class RequestCancellation(Judge):
    """R-REQCAN."""

    rules = ("R-REQCAN-02",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ids: dict[Side, set[str]] = {"agent": set(), "client": set()}

    def on_request(self, call: Request) -> None:
        self._ids[call.sender].add(repr(call.id))

    def on_notification(self, note: Notification) -> None:
        if note.method != "$/cancel_request" or not is_object(note.params):
            return
        ident = note.params.get("requestId")
        self.judge(
            "R-REQCAN-02",
            repr(ident) in self._ids[note.sender] or not self.state.requests,
            note,
            expected="the id of a request of the same sender",
            got=format_value(ident),
            by=note.sender,
        )
