"""The window: what a client that was built for it tells of what it holds, compared with the rules.

The kit asks with `_accord/session_state` after the updates that matter. What a client does not
report is not judged; a client may be a moment late, so the kit asks again before a rule fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from accord.text.lenient_json import dumps, is_array, is_object
from accord_conformance.harness.raw_connection import NoResponse, RawConnection
from accord_conformance.harness.scenario import NotExercised
from accord_conformance.judges.base import Evidence
from accord_conformance.traffic.message import Request

__all__ = (
    "IS_PRESENT",
    "NO_PROBE",
    "PROBE_METHOD",
    "ContainsInOrder",
    "EqualsOrEmpty",
    "ExpectedState",
    "HasExactly",
    "HasItem",
    "HasLength",
    "IsNot",
    "IsPresent",
    "ReportFinding",
    "StateProbe",
    "expect",
    "expect_or_absent",
    "probe_state",
)

Json: TypeAlias = dict[str, Any]

PROBE_METHOD = "_accord/session_state"
NO_PROBE = f"the client does not answer `{PROBE_METHOD}` (docs/how-to/check-a-client.md)"
_TRIES = 4
_MAX_CHARACTERS = 200  # characters of a value in a report
# By which of its members an entry of each list is found.
_KEYS = {
    "messages": "messageId",
    "toolCalls": "toolCallId",
    "terminals": "terminalId",
    "plans": "planId",
    "compactions": "compactionId",
    "subagents": "sessionId",
    "sessionMessages": "messageId",
    "sessions": "sessionId",
    "statuses": "sessionId",
    "notices": "title",
}
_BACKGROUND = ("toolCallId", "terminalId", "sessionId", "type")


# What is expected, where it is not a certain value. None: there is nothing.


class IsNot(Struct, frozen=True):
    """Anything but these texts."""

    texts: tuple[str, ...]


class ContainsInOrder(Struct, frozen=True):
    """A text with these in it, in this order."""

    texts: tuple[str, ...]


class HasExactly(Struct, frozen=True):
    """An object with these members and no others."""

    value: Json


class HasLength(Struct, frozen=True):
    """A list of so many."""

    count: int


class EqualsOrEmpty(Struct, frozen=True):
    """This text, which is that of what is not there."""

    text: str


class HasItem(Struct, frozen=True):
    """A list of objects, one of which has this text under the key, and none the other."""

    key: str
    there: str
    gone: str


class IsPresent(Struct, frozen=True):
    """Anything that is not nothing, be it an empty object."""


IS_PRESENT = IsPresent()


class ExpectedState(Struct, frozen=True):
    """What a rule says of an entry: of a list (`table`) by its id, or of the session itself ("").

    With `or_gone` it is right as well that there is no such entry.
    """

    rule: str
    table: str
    ident: str
    members: Json
    or_absent: bool = False


def expect(rule: str, table: str, ident: str = "", /, **members: Any) -> ExpectedState:
    """Return what a rule says of an entry."""
    return ExpectedState(rule, table, ident, members)


def expect_or_absent(of: ExpectedState) -> ExpectedState:
    """Return a claim that also holds when there is no such entry."""
    return replace(of, or_absent=True)


class ReportFinding(Protocol):
    """Takes what was found."""

    def __call__(
        self, rule: str, passed: bool, *seen: Evidence, expected: str = "", got: str = ""
    ) -> None: ...


async def probe_state(line: RawConnection, session: str) -> Request | None:
    """Ask what the client holds of a session; None when it does not tell just now.

    Raises `NotExercised` when it never does.
    """
    try:
        call = await line.call(PROBE_METHOD, {"sessionId": session})
    except NoResponse:
        if line.is_closed:
            raise
        raise NotExercised(f"the client does not answer `{PROBE_METHOD}` in time") from None
    if call.code == -32601:
        raise NotExercised(NO_PROBE)
    return call if call.ok and is_object(call.result) else None


class StateProbe:
    """Looks at one session; `told` takes what is found."""

    def __init__(
        self, connection: RawConnection, session: str, report: ReportFinding, pause_s: float
    ) -> None:
        self.connection = connection
        self.session = session
        self._report = report
        self._pause_s = pause_s
        self._reported: set[tuple[str, str]] = set()  # members that were told of
        self._unreported: dict[str, None] = {}  # what is not told of
        self._judged = False

    async def learn(self) -> None:
        """Look, only to see what the client tells of at all."""
        call = await probe_state(self.connection, self.session)
        if call is not None:
            self._remember(call.result)

    async def check(self, sent: Sequence[Evidence], *claims: ExpectedState) -> None:
        """Judge what has come of updates; `sent` are those that show it."""
        open_claims = list(claims)
        for left in reversed(range(_TRIES)):
            call = await probe_state(self.connection, self.session)
            if call is not None:
                self._remember(call.result)
                open_claims = [one for one in open_claims if self._is_open(one, call, sent, left)]
            if not open_claims:
                return
            await self._pause()

    def require_judged(self) -> None:
        """Raise `NotExercised` when nothing could be judged."""
        if not self._judged:
            raise NotExercised(f"the client does not tell of {', '.join(self._unreported)}")

    async def _pause(self) -> None:
        try:
            await self.connection.wait_until(
                lambda: self.connection.is_closed, "end", within_s=self._pause_s
            )
        except NoResponse:
            return

    def _remember(self, shown: Json) -> None:
        for table in ("", *shown):
            for entry in _entries(shown, table):
                for name, value in entry.items():
                    if not _is_nothing(value) or is_object(value):
                        self._reported.add((table, name))

    def _is_open(
        self, one: ExpectedState, call: Request, sent: Sequence[Evidence], left: int
    ) -> bool:
        """Judge a claim; tell whether it is to be looked at again."""
        shown = call.result
        key = _KEYS.get(one.table, "")
        if key and (one.table, key) not in self._reported and one.ident:
            if left and not self._unreported:
                return True  # it may be about to learn of the session itself
            self._unreported[f"`{one.table}`"] = None
            return False
        found = _entry(shown, one.table, one.ident)
        names = [name for name in one.members if self._is_reported(one.table, name, found)]
        for name in one.members.keys() - set(names):
            self._unreported[f"`{one.table}.{name}`" if one.table else f"`{name}`"] = None
        if found is None and (one.or_absent or (names and one.table == "notices")):
            kept, names = True, list(one.members)
        elif not names:
            return False
        else:
            kept = found is not None and all(
                _fits(one.members[name], found.get(name)) for name in names
            )
        if not kept and left:
            return True
        self._judged = True
        where = f"{one.table} {one.ident}".strip() or "the session"
        wanted = {name: _plain(one.members[name]) for name in names}
        got = "no such entry" if found is None else {name: found.get(name) for name in names}
        self._report(
            one.rule,
            kept,
            *sent,
            call,
            expected=f"{where}: {_words(wanted)}",
            got=got if isinstance(got, str) else f"{where}: {_words(got)}",
        )
        return False

    def _is_reported(self, table: str, name: str, found: Json | None) -> bool:
        if (table, name) in self._reported:
            return True
        return found is not None and found.get(name) is not None


def _entries(shown: Json, table: str) -> list[Json]:
    found: Any = shown.get(table) if table else shown
    if is_object(found):
        return [found]
    return [entry for entry in found if is_object(entry)] if is_array(found) else []


def _entry(shown: Json, table: str, ident: str) -> Json | None:
    key = _KEYS.get(table, "")
    entries = _entries(shown, table)
    for entry in entries:
        if not key or (entry.get(key) or "") == ident:
            return entry
    return entries[0] if not ident and len(entries) == 1 else None


def _is_nothing(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _fits(expected: Any, got: Any) -> bool:
    match expected:
        case None:
            return _is_nothing(got)
        case IsNot(texts=texts):
            return _name(got) not in texts
        case ContainsInOrder(texts=texts):
            return _in_order(texts, got)
        case IsPresent():
            return got is not None and got is not False
        case HasExactly(value=value):
            got = got if is_object(got) else {}
            return value.keys() == got.keys() and _fits(value, got)
        case HasLength(count=count):
            return is_array(got) and len(got) == count
        case EqualsOrEmpty(text=text):
            return _is_nothing(got) or _name(got) == text
        case HasItem(key=key, there=there, gone=gone):
            ids = [one.get(key) for one in got if is_object(one)] if is_array(got) else []
            return there in ids and gone not in ids
        case str():
            return _name(got) == expected
        case _ if is_object(expected):
            return is_object(got) and all(_fits(one, got.get(key)) for key, one in expected.items())
        case _ if is_array(expected):
            wanted, given = _merged(expected), _merged(got if is_array(got) else [])
            return len(wanted) == len(given) and all(map(_fits, wanted, given))
        case _:
            return type(got) in (int, float, bool) and bool(got == expected)


def _name(value: Any) -> Any:
    """Return a state, or an item of background work, by its name alone."""
    if is_object(value):
        for key in ("state", *_BACKGROUND):
            if isinstance(value.get(key), str):
                return value[key]
    return value


def _in_order(texts: tuple[str, ...], got: Any) -> bool:
    if not isinstance(got, str):
        return False
    place = 0
    for text in texts:
        place = got.find(text, place)
        if place < 0:
            return False
        place += len(text)
    return True


def _merged(content: list[Any]) -> list[Any]:
    """Return content with texts that follow each other made one, as clients may show them."""
    whole: list[Any] = []
    for block in content:
        text = _text(block)
        before = _text(whole[-1]) if whole else None
        if text is not None and before is not None:
            whole[-1] = {"type": "text", "text": before + text}
        elif text != "":
            whole.append(block)
    return whole


def _text(block: Any) -> str | None:
    if not is_object(block) or block.get("type") != "text":
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def _plain(expected: Any) -> Any:
    match expected:
        case IsNot(texts=texts):
            return f"not {' nor '.join(texts)}"
        case ContainsInOrder(texts=texts):
            return " … ".join(texts)
        case IsPresent():
            return "something"
        case HasExactly(value=value):
            return value
        case HasLength(count=count):
            return f"{count} of them"
        case EqualsOrEmpty(text=text):
            return text
        case HasItem(there=there, gone=gone):
            return f"with {there}, without {gone}"
        case _:
            return expected


def _words(value: Json) -> str:
    text = dumps(value).decode()
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
