"""Frames, the messages in them, and reading a message strictly.

`parse_frame` makes a request, a response, a notification or an invalid frame of the bytes, and
`find_problems` names all differences between a JSON value and its wire type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from accord.text import lenient_json
from accord.text.excerpt import excerpt
from accord.text.lenient_json import dumps, is_array, is_object
from accord.wire.describe import (
    Anything,
    Boolean,
    Field,
    Integer,
    Kind,
    List,
    Mapping,
    Null,
    Number,
    Object,
    Shape,
    Text,
    describe,
)

# A frame: the input of the observer.

# A proxy and its conductor are sides, too; they are judged by scenarios of their own.
Side: TypeAlias = Literal["agent", "client", "proxy", "conductor"]
# What carries the frames.
Medium: TypeAlias = Literal["stdio", "websocket", "http"]


class Frame(Struct, frozen=True):
    """One JSON text (on stdio: one line) as its sender wrote it; `number` counts from 1."""

    number: int
    time: float  # in seconds, from any start
    sender: Side
    text: bytes


_OTHER: dict[Side, Side] = {
    "agent": "client",
    "client": "agent",
    "proxy": "conductor",
    "conductor": "proxy",
}


def other(side: Side) -> Side:
    """Return the other side."""
    return _OTHER[side]


# Messages.

Json: TypeAlias = dict[str, Any]


class InvalidFrame(Struct, frozen=True):
    """A frame that is not a message; `why` is the reason."""

    frame: Frame
    why: Literal["not JSON", "not UTF-8", "batch", "JSON that is not a message"]


class RawMessage(Struct, frozen=True):
    """A frame that is an object with a method, a result or an error."""

    frame: Frame
    fields: Json

    @property
    def is_response(self) -> bool:
        return "method" not in self.fields


class Notification(Struct):
    """A notification; `params` are `{}` where it has none."""

    frame: Frame
    sender: Side
    method: str
    params: Any

    @property
    def session_id(self) -> str | None:
        """The session that it names."""
        return _session_id(self.params)


class Request(Struct, eq=False):
    """A request and its response; `cancelled` is the frame of a `$/cancel_request` for it."""

    frame: Frame
    sender: Side
    id: Any
    method: str
    params: Any
    version: int | None = None  # the agreed version when it was sent
    cancelled: Frame | None = None
    response: Response | None = None

    @property
    def session_id(self) -> str | None:
        """The session that it names."""
        return _session_id(self.params)

    @property
    def ok(self) -> bool:
        """Whether it was answered with a result."""
        return self.response is not None and self.response.error is None

    @property
    def result(self) -> Any:
        """The result; None if it has not arrived."""
        return (
            None if self.response is None or self.response.result is UNSET else self.response.result
        )

    @property
    def code(self) -> Any:
        """The code of the error, if it was answered with one."""
        error = self.response and self.response.error
        return error.get("code") if is_object(error) else None

    @property
    def outcome(self) -> str:
        """How it was answered, in words."""
        if self.response is None:
            return "no response"
        return "a result" if self.ok else f"error {self.code}"


class Response(Struct, frozen=True):
    """The response to a request; `error` is unchecked."""

    frame: Frame
    result: Any | UnsetType
    error: Any = None


def parse_frame(frame: Frame) -> RawMessage | InvalidFrame | None:
    """Parse a frame; return None if it is blank."""
    text = frame.text.strip()
    if not text:
        return None
    try:
        text.decode()
    except UnicodeDecodeError:
        return InvalidFrame(frame, "not UTF-8")
    try:
        value = lenient_json.loads(text)
    except lenient_json.NotJson:
        return InvalidFrame(frame, "not JSON")
    if is_array(value):
        return InvalidFrame(frame, "batch")
    if not is_object(value) or value.keys().isdisjoint(("method", "result", "error")):
        return InvalidFrame(frame, "JSON that is not a message")
    if not isinstance(value.get("method", ""), str):
        return InvalidFrame(frame, "JSON that is not a message")
    return RawMessage(frame, value)


def _session_id(params: Any) -> str | None:
    found = params.get("sessionId") if is_object(params) else None
    return found if isinstance(found, str) else None


# Strict reading: all differences between a JSON value and its wire type.
#
# The wire types tolerate what the schema tells readers to tolerate; a sender has to be exact.

ProblemKind: TypeAlias = Literal[
    "missing", "extra", "type", "value", "custom", "variant", "bounds", "keys"
]


# A member of a wire type, by its key in JSON.
Member: TypeAlias = tuple[Any, str]


class TypeProblem(Struct, frozen=True, kw_only=True):
    """A difference at one place.

    `what`: a key is missing or unknown (extra), a value has a wrong type or is not allowed, an open
    enum has an unknown value (custom), a union has an unknown variant, a number or list exceeds its
    bounds, or keys exclude each other. `owner` and `key` are the
    wire type and the key, `within` the members above them, the innermost last. `known` has the keys
    or values that would have been right.
    """

    what: ProblemKind
    path: str
    owner: Any
    key: str
    expected: str
    got: Any
    within: tuple[Member, ...] = ()
    known: frozenset[str] = frozenset()


class VisitedKey(NamedTuple):
    """A key of a wire type that a value had, or had to have; an empty key is the object itself.

    `owner` is a class, or the type of a message that is a union. A variant of a union that the
    protocol does not know has the owner of the union. `within` has the members above the key.
    """

    owner: Any
    key: str
    within: tuple[Member, ...]


def find_problems(tp: Any, value: Any, visits: set[VisitedKey] | None = None) -> list[TypeProblem]:
    """Return all differences between a JSON value and a wire type.

    All visited keys are added to `visits`.
    """
    place = _Place("$", owner_of(tp), "", set() if visits is None else visits)
    return list(_any_of(describe(tp), value, place))


def owner_of(tp: Any) -> Any:
    """Return the wire type that rules name: the one that a type of an extension extends."""
    return getattr(tp, "__extends__", tp)


def format_value(value: Any) -> str:
    """Return a JSON value for a report."""
    return excerpt(dumps(value).decode("utf-8", "replace"))


_KEY = 100  # characters of a key in a path


class _Place(Struct, frozen=True):
    path: str
    owner: Any
    key: str
    visits: set[VisitedKey]
    within: tuple[Member, ...] = ()

    def at(self, path: str, key: str, owner: Any = None) -> _Place:
        """Return the place of a member of the value here."""
        within = (*self.within, (self.owner, self.key)) if self.key else self.within
        here = self.owner if owner is None else owner
        return _Place(self.path + path, here, key, self.visits, within)

    def item(self, index: int) -> _Place:
        """Return the place of an item of the list here."""
        path = f"{self.path}[{index}]"
        return _Place(path, self.owner, self.key, self.visits, self.within)

    def visit(self) -> None:
        self.visits.add(VisitedKey(self.owner, self.key, self.within))

    def problem(
        self, what: ProblemKind, expected: str, got: Any, known: frozenset[str] = frozenset()
    ) -> TypeProblem:
        return TypeProblem(
            what=what,
            path=self.path,
            owner=self.owner,
            key=self.key,
            expected=expected,
            got=got,
            within=self.within,
            known=known,
        )


def _any_of(shape: Shape, value: Any, place: _Place) -> Iterator[TypeProblem]:
    """Judge a value by the alternative that fits best."""
    if Anything() in shape:
        return
    objects = [kind for kind in shape if isinstance(kind, Object)]
    if is_object(value) and objects:
        yield from _one_object(objects, value, place)
        return
    fitting = [kind for kind in shape if _has_type(kind, value)]
    if not fitting:
        names = dict.fromkeys(_name(kind) for kind in shape)
        yield place.problem("type", " or ".join(names), value)
        return
    found = [list(_one(kind, value, place)) for kind in fitting]
    yield from min(found, key=len)


def _one(kind: Kind, value: Any, place: _Place) -> Iterator[TypeProblem]:
    match kind:
        case Integer(low, high) | Number(low, high):
            if (low is not None and value < low) or (high is not None and value > high):
                yield place.problem("bounds", f"a number from {low} to {high}", value)
        case Text(values, is_open, least):
            if values is not None and value not in values:
                names = ", ".join(sorted(values))
                if is_open:
                    yield place.problem("custom", f"{names}, or a name with `_`", value, values)
                else:
                    yield place.problem("value", f"one of {names}", value, values)
            elif len(value) < least:
                yield place.problem("bounds", f"at least {least} characters", value)
        case List(item, least):
            if len(value) < least:
                yield place.problem("bounds", f"at least {least} items", value)
            for index, entry in enumerate(value):
                yield from _any_of(item, entry, place.item(index))
        case Mapping(item):
            for key, entry in value.items():
                yield from _any_of(item, entry, place.at(f".{excerpt(key, _KEY)}", key))
        case _:
            return


def _one_object(kinds: list[Object], value: dict[str, Any], place: _Place) -> Iterator[TypeProblem]:
    tagged = [kind for kind in kinds if kind.tags and not kind.rest]
    exact = [kind for kind in tagged if all(value.get(key) == tag for key, tag in kind.tags)]
    if exact:
        yield from _members(exact[0], value, place)
        return
    # A state update may have a known first tag and an unknown second one.
    rests = [
        kind
        for kind in kinds
        if kind.rest
        and isinstance(value.get(kind.rest.tag_field), str)
        and value[kind.rest.tag_field] not in kind.rest.known
        and all(value.get(key) == tag for key, tag in kind.tags)
    ]
    if rests:
        rest = rests[-1].rest
        assert rest is not None
        inner = place.at(f".{rest.tag_field}", rest.tag_field)
        tag = value[rest.tag_field]
        yield inner.problem("variant", _variants(rest.known), tag, rest.known)
        yield from _members(rests[-1], value, place, any_key=True)
        return
    plain = [kind for kind in kinds if not kind.tags and not kind.rest]
    if plain:
        found = [list(_members(kind, value, place)) for kind in plain]
        yield from min(found, key=len)
        return
    yield from _no_variant(tagged, value, place)


def _no_variant(kinds: list[Object], value: dict[str, Any], place: _Place) -> Iterator[TypeProblem]:
    """Report the tag that is missing or unknown."""
    fields = list(dict.fromkeys(key for kind in kinds for key, _ in sorted(kind.tags)))
    for key in fields:
        known = frozenset(tag for kind in kinds for name, tag in kind.tags if name == key)
        inner = place.at(f".{key}", key)
        if key not in value:
            yield inner.problem("missing", _variants(known), None, known)
            return
        if not isinstance(value[key], str) or value[key] not in known:
            yield inner.problem("value", _variants(known), value[key], known)
            return
    yield place.problem("type", "a known variant", value)


def _variants(known: frozenset[str]) -> str:
    return f"one of {', '.join(sorted(known))}"


def _members(
    kind: Object, value: dict[str, Any], place: _Place, *, any_key: bool = False
) -> Iterator[TypeProblem]:
    owner = owner_of(kind.cls) if kind.name else place.owner
    place.at("", "", owner).visit()
    for key, field in kind.fields.items():
        if key not in value and not field.required:
            continue  # most keys
        inner = place.at(f".{key}", key, owner)
        inner.visit()
        if key in value:
            yield from _field(field, value[key], inner)
        else:
            yield inner.problem("missing", f"the key `{key}`", None)
    if len(kind.one_of & value.keys()) > 1:
        names = " or ".join(sorted(kind.one_of))
        yield place.at("", "", owner).problem("keys", f"only one of {names}", value)
    needed = kind.one_of or kind.any_of
    if needed and not needed & value.keys():
        names = " or ".join(sorted(needed))
        yield place.at("", "", owner).problem("keys", f"{names}", value)
    if any_key:
        return
    for key in value:
        if key not in kind.fields and key != "_meta":
            inner = place.at(f".{excerpt(key, _KEY)}", key, owner)
            yield inner.problem("extra", "no such key", value[key], frozenset(kind.fields))
    if "_meta" in value and "_meta" not in kind.fields and not is_object(value["_meta"]):
        inner = place.at("._meta", "_meta", owner)
        yield inner.problem("type", "object", value["_meta"])


def _field(field: Field, value: Any, place: _Place) -> Iterator[TypeProblem]:
    if value is None and field.on_null:
        return  # null reads as empty, according to the schema
    yield from _any_of(field.shape, value, place)


def _has_type(kind: Kind, value: Any) -> bool:
    match kind:
        case Null():
            return value is None
        case Anything():
            return True
        case Boolean():
            return isinstance(value, bool)
        case Integer():
            return _is_number(value) and value == int(value)
        case Number():
            return _is_number(value)
        case Text():
            return isinstance(value, str)
        case List():
            return is_array(value)
        case Mapping() | Object():
            return is_object(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(kind: Kind) -> str:
    match kind:
        case Object(name=name):
            return f"object ({name})" if name else "object"
        case Mapping():
            return "object"
        case List():
            return "array"
        case Text():
            return "string"
        case _:
            return type(kind).__name__.lower()
