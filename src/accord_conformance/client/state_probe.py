"""The window: what a client that was built for it tells of what it holds, compared with the rules.

The kit asks with `_accord/shown`, behind the updates that matter. What a client does not tell is
not judged; a client may be a moment behind, so it is asked again before anything is broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from accord.text.lenient_json import dumps, is_array, is_object
from accord_conformance.harness.raw_connection import Line, Silence
from accord_conformance.harness.scenario import NotExercised
from accord_conformance.judges.base import Seen
from accord_conformance.traffic.message import Call

__all__ = (
    "GIVEN",
    "NO_WINDOW",
    "SHOWN",
    "Claim",
    "Exactly",
    "Given",
    "Has",
    "Listed",
    "Many",
    "Not",
    "OrNothing",
    "Told",
    "Window",
    "claim",
    "looked",
    "or_gone",
)

Json: TypeAlias = dict[str, Any]

SHOWN = "_accord/shown"
NO_WINDOW = f"the client does not answer `{SHOWN}` (docs/how-to/check-a-client.md)"
_TRIES = 4
_MOST = 200  # characters of a value in a report
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


class Not(Struct, frozen=True):
    """Anything but these texts."""

    texts: tuple[str, ...]


class Has(Struct, frozen=True):
    """A text with these in it, in this order."""

    texts: tuple[str, ...]


class Exactly(Struct, frozen=True):
    """An object with these members and no others."""

    value: Json


class Many(Struct, frozen=True):
    """A list of so many."""

    count: int


class OrNothing(Struct, frozen=True):
    """This text, which is that of what is not there."""

    text: str


class Listed(Struct, frozen=True):
    """A list of objects, one of which has this text under the key, and none the other."""

    key: str
    there: str
    gone: str


class Given(Struct, frozen=True):
    """Anything that is not nothing, be it an empty object."""


GIVEN = Given()


class Claim(Struct, frozen=True):
    """What a rule says of an entry: of a list (`table`) by its id, or of the session itself ("").

    With `or_gone` it is right as well that there is no such entry.
    """

    rule: str
    table: str
    ident: str
    members: Json
    or_gone: bool = False


def claim(rule: str, table: str, ident: str = "", /, **members: Any) -> Claim:
    """Return what a rule says of an entry."""
    return Claim(rule, table, ident, members)


def or_gone(of: Claim) -> Claim:
    """Return a claim that also holds when there is no such entry."""
    return replace(of, or_gone=True)


class Told(Protocol):
    """Takes what was found."""

    def __call__(
        self, rule: str, kept: bool, *seen: Seen, expected: str = "", got: str = ""
    ) -> None: ...


async def looked(line: Line, session: str) -> Call | None:
    """Ask what the client holds of a session; None when it does not tell just now.

    Raises `NotExercised` when it never does.
    """
    try:
        call = await line.call(SHOWN, {"sessionId": session})
    except Silence:
        if line.hung_up:
            raise
        raise NotExercised(f"the client does not answer `{SHOWN}` in time") from None
    if call.code == -32601:
        raise NotExercised(NO_WINDOW)
    return call if call.ok and is_object(call.result) else None


class Window:
    """Looks at one session; `told` takes what is found."""

    def __init__(self, line: Line, session: str, told: Told, pause_s: float) -> None:
        self.line = line
        self.session = session
        self._told = told
        self._pause_s = pause_s
        self._known: set[tuple[str, str]] = set()  # members that were told of
        self._silent: dict[str, None] = {}  # what is not told of
        self._judged = False

    async def learn(self) -> None:
        """Look, only to see what the client tells of at all."""
        call = await looked(self.line, self.session)
        if call is not None:
            self._remember(call.result)

    async def claims(self, sent: Sequence[Seen], *claims: Claim) -> None:
        """Judge what has come of updates; `sent` are those that show it."""
        open_claims = list(claims)
        for left in reversed(range(_TRIES)):
            call = await looked(self.line, self.session)
            if call is not None:
                self._remember(call.result)
                open_claims = [one for one in open_claims if self._is_open(one, call, sent, left)]
            if not open_claims:
                return
            await self._pause()

    def over(self) -> None:
        """Raise `NotExercised` when nothing could be judged."""
        if not self._judged:
            raise NotExercised(f"the client does not tell of {', '.join(self._silent)}")

    async def _pause(self) -> None:
        try:
            await self.line.until(lambda: self.line.hung_up, "end", within_s=self._pause_s)
        except Silence:
            return

    def _remember(self, shown: Json) -> None:
        for table in ("", *shown):
            for entry in _entries(shown, table):
                for name, value in entry.items():
                    if not _is_nothing(value) or is_object(value):
                        self._known.add((table, name))

    def _is_open(self, one: Claim, call: Call, sent: Sequence[Seen], left: int) -> bool:
        """Judge a claim; tell whether it is to be looked at again."""
        shown = call.result
        key = _KEYS.get(one.table, "")
        if key and (one.table, key) not in self._known and one.ident:
            if left and not self._silent:
                return True  # it may be about to learn of the session itself
            self._silent[f"`{one.table}`"] = None
            return False
        found = _entry(shown, one.table, one.ident)
        names = [name for name in one.members if self._tells(one.table, name, found)]
        for name in one.members.keys() - set(names):
            self._silent[f"`{one.table}.{name}`" if one.table else f"`{name}`"] = None
        if found is None and (one.or_gone or (names and one.table == "notices")):
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
        self._told(
            one.rule,
            kept,
            *sent,
            call,
            expected=f"{where}: {_words(wanted)}",
            got=got if isinstance(got, str) else f"{where}: {_words(got)}",
        )
        return False

    def _tells(self, table: str, name: str, found: Json | None) -> bool:
        if (table, name) in self._known:
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
        case Not(texts=texts):
            return _name(got) not in texts
        case Has(texts=texts):
            return _in_order(texts, got)
        case Given():
            return got is not None and got is not False
        case Exactly(value=value):
            got = got if is_object(got) else {}
            return value.keys() == got.keys() and _fits(value, got)
        case Many(count=count):
            return is_array(got) and len(got) == count
        case OrNothing(text=text):
            return _is_nothing(got) or _name(got) == text
        case Listed(key=key, there=there, gone=gone):
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
        case Not(texts=texts):
            return f"not {' nor '.join(texts)}"
        case Has(texts=texts):
            return " … ".join(texts)
        case Given():
            return "something"
        case Exactly(value=value):
            return value
        case Many(count=count):
            return f"{count} of them"
        case OrNothing(text=text):
            return text
        case Listed(there=there, gone=gone):
            return f"with {there}, without {gone}"
        case _:
            return expected


def _words(value: Json) -> str:
    text = dumps(value).decode()
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
