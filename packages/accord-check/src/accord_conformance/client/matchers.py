"""Matchers: what a value in the state of a client must be.

A member of an expected state is a matcher or a plain value. `matcher` makes a matcher of a plain
value: None means an empty value, an object means one that has at least these members, and a list
means equal contents, in which adjacent texts are one text.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from accord.text.lenient_json import is_array, is_object

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
