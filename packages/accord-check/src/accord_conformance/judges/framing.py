"""Lines, envelopes and ids: the rules of JSON-RPC over stdio for every frame."""

from __future__ import annotations

from typing import Any

from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.traffic.connection_state import id_key
from accord_conformance.traffic.frame import Side, other
from accord_conformance.traffic.message import InvalidFrame, Notification, RawMessage, Request
from accord_conformance.traffic.strict_types import format_value

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
