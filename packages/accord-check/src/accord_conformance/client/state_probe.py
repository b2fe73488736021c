"""The state probe: compares the state that a client reports with what the rules require.

The kit asks for it with `_accord/session_state`, an extension request, after the updates that
matter. A value that a client does not report is not judged. A client may be a moment late, so the
kit asks again before a rule fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from accord.text.lenient_json import dumps, is_array, is_object
from accord_conformance.harness import NoResponse, NotExercised, RawConnection
from accord_conformance.judges.base import Evidence
from accord_conformance.traffic.message import Request

# Matchers: what a value in the state of a client must be.
#
# A member of an expected state is a matcher or a plain value. `matcher` makes a matcher of a plain
# value: None means an empty value, an object means one that has at least these members, and a list
# means equal contents, in which adjacent texts are one text.

Json: TypeAlias = dict[str, Any]

# The keys by which a state, or an item of background work, is named.
_NAMES = ("state", "toolCallId", "terminalId", "sessionId", "type")


@runtime_checkable
class Matcher(Protocol):
    """What a value must be."""

    def fits(self, value: Any) -> bool:
        """Return whether a JSON value of a client is right."""
        ...

    def describe(self) -> Any:
        """Return what is expected, as JSON for a report."""
        ...


class IsNot(Struct, frozen=True):
    """Any value except these texts."""

    texts: tuple[str, ...]

    def fits(self, value: Any) -> bool:
        return _name(value) not in self.texts

    def describe(self) -> str:
        return f"not {' nor '.join(self.texts)}"


class ContainsInOrder(Struct, frozen=True):
    """A text that contains these texts, in this order."""

    texts: tuple[str, ...]

    def fits(self, value: Any) -> bool:
        if not isinstance(value, str):
            return False
        place = 0
        for text in self.texts:
            place = value.find(text, place)
            if place < 0:
                return False
            place += len(text)
        return True

    def describe(self) -> str:
        return " … ".join(self.texts)


class HasExactly(Struct, frozen=True):
    """An object with these members and no others."""

    value: Json

    def fits(self, value: Any) -> bool:
        members = value if is_object(value) else {}
        return self.value.keys() == members.keys() and matcher(self.value).fits(members)

    def describe(self) -> Any:
        return matcher(self.value).describe()


class HasLength(Struct, frozen=True):
    """A list with this number of items."""

    count: int

    def fits(self, value: Any) -> bool:
        return is_array(value) and len(value) == self.count

    def describe(self) -> str:
        return f"{self.count} of them"


class EqualsOrEmpty(Struct, frozen=True):
    """This text, or an empty value; the text is the protocol's default."""

    text: str

    def fits(self, value: Any) -> bool:
        return is_empty(value) or _name(value) == self.text

    def describe(self) -> str:
        return self.text


class HasItem(Struct, frozen=True):
    """A list of objects: one has the text `there` under the key, and none has `gone`."""

    key: str
    there: str
    gone: str

    def fits(self, value: Any) -> bool:
        ids = [one.get(self.key) for one in value if is_object(one)] if is_array(value) else []
        return self.there in ids and self.gone not in ids

    def describe(self) -> str:
        return f"with {self.there}, without {self.gone}"


class IsPresent(Struct, frozen=True):
    """Any value except null and false; an empty object is present."""

    def fits(self, value: Any) -> bool:
        return value is not None and value is not False

    def describe(self) -> str:
        return "something"


IS_PRESENT = IsPresent()


class _IsEmpty(Struct, frozen=True):
    def fits(self, value: Any) -> bool:
        return is_empty(value)

    def describe(self) -> None:
        return None


class _Text(Struct, frozen=True):
    text: str

    def fits(self, value: Any) -> bool:
        return _name(value) == self.text

    def describe(self) -> str:
        return self.text


class _Number(Struct, frozen=True):
    number: float | bool

    def fits(self, value: Any) -> bool:
        return type(value) in (int, float, bool) and bool(value == self.number)

    def describe(self) -> float | bool:
        return self.number


class _Members(Struct, frozen=True):
    """An object with at least these members."""

    members: dict[str, Matcher]

    def fits(self, value: Any) -> bool:
        return is_object(value) and all(
            one.fits(value.get(key)) for key, one in self.members.items()
        )

    def describe(self) -> Json:
        return {key: one.describe() for key, one in self.members.items()}


class _Contents(Struct, frozen=True):
    """A list whose items fit, one by one."""

    items: list[Any]

    def fits(self, value: Any) -> bool:
        wanted, given = _merged(self.items), _merged(value if is_array(value) else [])
        return len(wanted) == len(given) and all(
            matcher(one).fits(item) for one, item in zip(wanted, given, strict=True)
        )

    def describe(self) -> list[Any]:
        return [matcher(one).describe() for one in self.items]


def matcher(expected: Any) -> Matcher:
    """Return a matcher for a plain value; a matcher is returned as it is."""
    match expected:
        case None:
            return _IsEmpty()
        case Matcher():
            return expected
        case str():
            return _Text(expected)
        case _ if is_object(expected):
            return _Members({key: matcher(one) for key, one in expected.items()})
        case _ if is_array(expected):
            return _Contents(expected)
        case _:
            return _Number(expected)


def is_empty(value: Any) -> bool:
    """Return whether a value says nothing: null, or empty."""
    return value is None or value == "" or value == [] or value == {}


def _name(value: Any) -> Any:
    """Return the name of a state or of an item of background work; other values unchanged."""
    if is_object(value):
        for key in _NAMES:
            if isinstance(value.get(key), str):
                return value[key]
    return value


def _merged(content: list[Any]) -> list[Any]:
    """Return content with adjacent texts merged, as clients may show them."""
    whole: list[Any] = []
    for block in content:
        text = _text(block)
        previous = _text(whole[-1]) if whole else None
        if text is not None and previous is not None:
            whole[-1] = {"type": "text", "text": previous + text}
        elif text != "":
            whole.append(block)
    return whole


def _text(block: Any) -> str | None:
    if not is_object(block) or block.get("type") != "text":
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


# The probe.

PROBE_METHOD = "_accord/session_state"
NO_PROBE = f"the client does not support `{PROBE_METHOD}` (docs/how-to/check-a-client.md)"
_TRIES = 4
_MAX_CHARACTERS = 200  # of a value in a report
# The key by which an entry of each list is found.
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


class ExpectedState(Struct, frozen=True):
    """What a rule requires of an entry of a list (`table`), or of the session itself ("").

    With `or_absent`, the entry may also be missing.
    """

    rule: str
    table: str
    ident: str
    members: dict[str, Matcher]
    or_absent: bool = False

    @property
    def where(self) -> str:
        """The entry as reports name it."""
        return f"{self.table} {self.ident}".strip() or "the session"


def expect(rule: str, table: str, ident: str = "", /, **members: Any) -> ExpectedState:
    """Return what a rule requires of an entry; members are matchers or plain values."""
    return ExpectedState(
        rule, table, ident, {name: matcher(value) for name, value in members.items()}
    )


def expect_or_absent(expected: ExpectedState) -> ExpectedState:
    """Return an expectation that a missing entry meets too."""
    return replace(expected, or_absent=True)


class ReportFinding(Protocol):
    """Adds a finding to the report."""

    def __call__(
        self, rule: str, passed: bool, *seen: Evidence, expected: str = "", got: str = ""
    ) -> None: ...


async def probe_state(connection: RawConnection, session: str) -> Request | None:
    """Ask a client for the state of a session; return None if it has none at the moment.

    Raise `NotExercised` if the client does not support this.
    """
    try:
        call = await connection.call(PROBE_METHOD, {"sessionId": session})
    except NoResponse:
        if connection.is_closed:
            raise
        raise NotExercised(f"the client does not answer `{PROBE_METHOD}` in time") from None
    if call.code == -32601:
        raise NotExercised(NO_PROBE)
    return call if call.ok and is_object(call.result) else None


class StateProbe:
    """Compares the state of one session; adds findings by `report`."""

    def __init__(
        self, connection: RawConnection, session: str, report: ReportFinding, pause_s: float
    ) -> None:
        self.connection = connection
        self.session = session
        self._report = report
        self._pause_s = pause_s
        self._reported: set[tuple[str, str]] = set()  # tables and members
        self._unreported: dict[str, None] = {}  # an ordered set
        self._judged = False

    async def learn(self) -> None:
        """Ask once, to learn which members the client reports."""
        call = await probe_state(self.connection, self.session)
        if call is not None:
            self._remember(call.result)

    async def check(self, sent: Sequence[Evidence], *expected: ExpectedState) -> None:
        """Judge what the client holds after updates; `sent` are these updates."""
        unsettled = list(expected)
        for tries_left in reversed(range(_TRIES)):
            call = await probe_state(self.connection, self.session)
            if call is not None:
                self._remember(call.result)
                unsettled = [
                    one for one in unsettled if not self._settle(one, call, sent, tries_left)
                ]
            if not unsettled:
                return
            await self._pause()

    def require_judged(self) -> None:
        """Raise `NotExercised` if nothing could be judged."""
        if not self._judged:
            raise NotExercised(f"the client does not report {', '.join(self._unreported)}")

    async def _pause(self) -> None:
        try:
            await self.connection.wait_until(
                lambda: self.connection.is_closed, "end", within_s=self._pause_s
            )
        except NoResponse:
            return

    def _remember(self, state: Json) -> None:
        for table in ("", *state):
            for entry in _entries(state, table):
                for name, value in entry.items():
                    if not is_empty(value) or is_object(value):
                        self._reported.add((table, name))

    def _settle(
        self, expected: ExpectedState, call: Request, sent: Sequence[Evidence], tries_left: int
    ) -> bool:
        """Judge an expectation; return False if the client has to be asked again."""
        table, members = expected.table, expected.members
        key = _KEYS.get(table, "")
        if key and (table, key) not in self._reported and expected.ident:
            if tries_left and not self._unreported:
                return False  # the client may not know the session yet
            self._unreported[f"`{table}`"] = None
            return True
        entry = _entry(call.result, table, expected.ident)
        names = [name for name in members if self._is_reported(table, name, entry)]
        for name in members.keys() - set(names):
            self._unreported[f"`{table}.{name}`" if table else f"`{name}`"] = None
        if entry is None and (expected.or_absent or (names and table == "notices")):
            passed, names = True, list(members)
        elif not names:
            return True
        else:
            passed = entry is not None and all(
                members[name].fits(entry.get(name)) for name in names
            )
        if not passed and tries_left:
            return False
        self._judged = True
        self._report(
            expected.rule,
            passed,
            *sent,
            call,
            expected=_words(expected.where, {name: members[name].describe() for name in names}),
            got="no such entry"
            if entry is None
            else _words(expected.where, {name: entry.get(name) for name in names}),
        )
        return True

    def _is_reported(self, table: str, name: str, entry: Json | None) -> bool:
        if (table, name) in self._reported:
            return True
        return entry is not None and entry.get(name) is not None


def _entries(state: Json, table: str) -> list[Json]:
    value: Any = state.get(table) if table else state
    if is_object(value):
        return [value]
    return [entry for entry in value if is_object(entry)] if is_array(value) else []


def _entry(state: Json, table: str, ident: str) -> Json | None:
    key = _KEYS.get(table, "")
    entries = _entries(state, table)
    for entry in entries:
        if not key or (entry.get(key) or "") == ident:
            return entry
    return entries[0] if not ident and len(entries) == 1 else None


def _words(where: str, value: Json) -> str:
    text = dumps(value).decode()
    return f"{where}: {text if len(text) <= _MAX_CHARACTERS else f'{text[:_MAX_CHARACTERS]}…'}"
