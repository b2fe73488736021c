"""Explains a message: what its fields mean, and where it differs from its type.

The fields of a value, and their types, are those of the wire types of a version.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, Final, NamedTuple

from msgspec import Struct

from accord.text.excerpt import excerpt, one_line
from accord.text.lenient_json import is_array, is_object
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
from accord.wire.protocol import Method
from accord_conformance.judges.fields import rule_for_problem, rules_for_keys
from accord_conformance.rules.manifest import links, requirements
from accord_conformance.traffic.connection_state import methods
from accord_conformance.traffic.message import (
    Member,
    TypeProblem,
    VisitedKey,
    find_problems,
    format_value,
    owner_of,
)

_KEY = 100  # characters of a key in a path, as in `find_problems`
_NAMES = 6  # of types or values, in the text of a shape


class Place(NamedTuple):
    """A value at a path: its field, if it is one, and the class of the value, if it has one."""

    path: str
    visit: VisitedKey
    field: Field | None
    cls: type[Struct] | None
    shape: Shape


def places_of(tp: Any, value: Any) -> Iterator[Place]:
    """Yield the places in a value, parents first; paths are those of `find_problems`."""
    yield from _value(describe(tp), value, "$", owner_of(tp), "", (), None)


def doc_of(cls: type[Struct] | None) -> str:
    """Return the docstring of a wire type."""
    doc = None if cls is None else cls.__dict__.get("__doc__")
    return inspect.cleandoc(doc) if isinstance(doc, str) else ""


def text_of_shape(shape: Shape) -> str:
    """Return a type for a person: `string or null`, `array of TextContent or ImageContent`."""
    names = list(dict.fromkeys(_name(kind) for kind in shape if not isinstance(kind, Null)))
    shown = [*names[:_NAMES], *([f"{len(names) - _NAMES} more"] if len(names) > _NAMES else [])]
    null = ["null"] if Null() in shape else []
    return " or ".join([*shown, *null])


def _value(
    shape: Shape,
    value: Any,
    path: str,
    owner: Any,
    key: str,
    within: tuple[Member, ...],
    field: Field | None,
) -> Iterator[Place]:
    kind = _fitting(shape, value)
    cls = kind.cls if isinstance(kind, Object) else None
    yield Place(path, VisitedKey(owner, key, within), field, cls, shape)
    match kind:
        case List(item) if is_array(value):
            for index, entry in enumerate(value):
                yield from _value(item, entry, f"{path}[{index}]", owner, key, within, None)
        case Mapping(item) if is_object(value):
            inner = (*within, (owner, key)) if key else within
            for name, entry in value.items():
                at = f"{path}.{excerpt(name, _KEY)}"
                yield from _value(item, entry, at, owner, name, inner, None)
        case Object(name=name, fields=fields) if is_object(value):
            inner = (*within, (owner, key)) if key else within
            of = owner_of(kind.cls) if name else owner
            for member, entry in value.items():
                known = fields.get(member)
                if known is not None:
                    at = f"{path}.{excerpt(member, _KEY)}"
                    yield from _value(known.shape, entry, at, of, member, inner, known)
        case _:
            pass


def _fitting(shape: Shape, value: Any) -> Kind | None:
    """Return the alternative that describes a value, if one does."""
    if is_array(value):
        return next((kind for kind in shape if isinstance(kind, List)), None)
    if not is_object(value):
        return None
    objects = [kind for kind in shape if isinstance(kind, Object)]
    exact = [
        kind
        for kind in objects
        if kind.tags and not kind.rest and all(value.get(key) == tag for key, tag in kind.tags)
    ]
    if exact:
        return exact[0]
    rests = [kind for kind in objects if kind.rest and kind.rest.tag_field in value]
    if rests:
        return rests[-1]
    plain = [kind for kind in objects if not kind.tags and not kind.rest and kind.cls is not None]
    if plain:
        return min(plain, key=lambda kind: len(find_problems(kind.cls, value)))
    return next((kind for kind in shape if isinstance(kind, Mapping)), None)


def _name(kind: Kind) -> str:
    match kind:
        case Text(values=frozenset() as values, open=is_open):
            names = sorted(values)
            shown = ", ".join(f'"{name}"' for name in names[: 2 * _NAMES])
            more = ", …" if is_open or len(names) > 2 * _NAMES else ""
            return f"{shown}{more}" if len(names) == 1 else f"one of {shown}{more}"
        case Text():
            return "string"
        case List(item):
            return f"array of {text_of_shape(item)}"
        case Object(name=name):
            return name or "object"
        case Mapping():
            return "object"
        case Integer(low, high):
            return f"integer from {low} to {high}" if _is_small(low, high) else "integer"
        case Number():
            return "number"
        case Boolean():
            return "boolean"
        case Anything():
            return "any JSON"
        case Null():
            return "null"


def _is_small(low: int | None, high: int | None) -> bool:
    return low is not None and high is not None and high - low < 100_000


_MAX_PLACES = 3000  # that are explained
_MAX_PROBLEMS = 200
_MAX_DOC = 2000  # characters

_CODES: Final[dict[int, str]] = {
    -32700: "Parse error: the frame was not JSON.",
    -32600: "Invalid request: the frame was JSON, but not a message.",
    -32601: "Method not found: the receiver does not have this method.",
    -32602: "Invalid params: the receiver does not accept these params.",
    -32603: "Internal error: the receiver failed.",
    -32800: "Request cancelled: `$/cancel_request` named this request.",
    -32000: "Authentication required: call `authenticate` first.",
    -32002: "Resource not found, for example a file or a session.",
}


class RuleText(Struct, frozen=True, kw_only=True):
    """A rule of the protocol: its sentence, and the page that has it."""

    id: str
    level: str
    rule: str
    url: str
    hint: str


class FieldDoc(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a field: `rules` are the ids of rules about it."""

    type: str
    required: bool = False
    doc: str = ""
    rules: list[str] = []


class Problem(Struct, frozen=True, kw_only=True):
    """A difference between a value and its type; `rule` is empty if no rule is broken by it."""

    path: str
    what: str
    expected: str
    got: str
    rule: str


class Explanation(Struct, kw_only=True):
    """The explanation of a message.

    `places` has the number of the entry in `docs` by path: `$` is the whole message. `title` is
    the name of the type; it is empty if the protocol does not define the method.
    """

    version: int | None
    title: str = ""
    doc: str = ""
    notes: list[str] = []
    places: dict[str, int] = {}
    docs: list[FieldDoc] = []
    problems: list[Problem] = []
    rules: dict[str, RuleText] = {}


def explain(
    kind: str, method: str, value: Any, *, version: int | None, direction: str = ""
) -> Explanation:
    """Return the explanation of a message.

    `kind` is that of the record, `method` for a response that of its request, and `value` the
    decoded frame. `version` is the agreed one; without it, the one that fits better is used.
    """
    part = {"request": "params", "notification": "params", "response": "result"}.get(kind)
    if part is None or not is_object(value):
        return Explanation(version=version)
    if part == "result" and "error" in value:
        return _of_error(value["error"], version)
    content = value.get(part, {} if part == "params" else None)
    if method == "initialize":
        version = _version_of_initialize(content)
    if version is None:
        found = [_of_value(kind, method, content, one, direction) for one in (1, 2)]
        return min(found, key=lambda one: (not one.title, len(one.problems)))
    return _of_value(kind, method, content, version, direction)


def rule_text(ident: str, version: int | None = None) -> RuleText | None:
    """Return a rule by its id."""
    rule = requirements().get(ident)
    if rule is None:
        return None
    url = next((link.url for link in links(rule, version) if link.url), "")
    return RuleText(id=ident, level=rule.level, rule=rule.rule, url=url, hint=rule.hint)


def _of_value(kind: str, method: str, content: Any, version: int, direction: str) -> Explanation:
    found = _method(method, kind, version)
    if found is None:
        notes = [_unknown_method(method, kind, version)]
        return Explanation(version=version, notes=notes)
    is_result = kind == "response"
    tp = found.result if is_result else found.params
    base = "$.result" if is_result else "$.params"
    result = Explanation(
        version=version,
        title=str(getattr(tp, "__name__", method)),
        doc=doc_of(tp if isinstance(tp, type) and issubclass(tp, Struct) else None),
        notes=list(_notes(found, kind, version, direction)),
    )
    _add_places(result, tp, content, base, version)
    for problem in islice(_problems(tp, content, version, result.title), _MAX_PROBLEMS):
        at = base + problem.path.removeprefix("$")
        rule = rule_for_problem(problem, version) or "R-INIT-08"
        got = "nothing" if problem.what == "missing" else format_value(problem.got)
        result.problems.append(
            Problem(
                path=at,
                what=problem.what,
                expected=one_line(problem.expected),
                got=one_line(got),
                rule=rule,
            )
        )
        _add_rule(result, rule)
    return result


def _problems(tp: Any, value: Any, version: int, title: str) -> Iterator[TypeProblem]:
    for problem in find_problems(tp, value):
        if rule_for_problem(problem, version) == "":
            continue  # a custom value
        # A program for both versions sends the keys of both.
        if title.startswith("Initialize") and problem.what == "extra":
            continue
        yield problem


def _add_places(result: Explanation, tp: Any, value: Any, base: str, version: int) -> None:
    numbers: dict[FieldDoc | tuple[Any, ...], int] = {}
    for place in islice(places_of(tp, value), _MAX_PLACES):
        path = base + place.path.removeprefix("$")
        key = (place.visit, place.cls, place.shape)
        if key not in numbers:
            numbers[key] = len(result.docs)
            result.docs.append(_field_doc(place, version))
            for rule in result.docs[-1].rules:
                _add_rule(result, rule)
        result.places[path] = numbers[key]


def _field_doc(place: Place, version: int) -> FieldDoc:
    kind = place.cls.__name__ if place.cls is not None else text_of_shape(place.shape)
    doc = doc_of(place.cls)
    if place.visit.key == "_meta":
        doc = doc or "Data of extensions; the protocol gives it no meaning."
    rules = sorted(rules_for_keys([place.visit], version) - {"R-GEN-07", "R-GEN-12"})
    return FieldDoc(
        type=kind,
        required=place.field is not None and place.field.required,
        doc=doc[:_MAX_DOC],
        rules=[rule for rule in rules if version in requirements()[rule].versions],
    )


def _add_rule(result: Explanation, rule: str) -> None:
    if rule not in result.rules and (text := rule_text(rule, result.version)) is not None:
        result.rules[rule] = text


def _of_error(error: Any, version: int | None) -> Explanation:
    result = Explanation(version=version, title="Error", doc="An error response of JSON-RPC.")
    code = error.get("code") if is_object(error) else None
    meaning = _CODES.get(code) if isinstance(code, int) else None
    about = [
        ("$.error", FieldDoc(type="Error", required=True, doc=result.doc)),
        ("$.error.code", FieldDoc(type="integer", required=True, doc=meaning or "")),
        ("$.error.message", FieldDoc(type="string", required=True, doc="One short sentence.")),
        ("$.error.data", FieldDoc(type="any JSON", doc="Details.")),
    ]
    for path, doc in about:
        result.places[path] = len(result.docs)
        result.docs.append(doc)
    if meaning:
        result.notes.append(meaning)
    return result


def _notes(method: Method, kind: str, version: int, direction: str) -> Iterator[str]:
    if method.to in ("agent", "client"):
        other = "client" if method.to == "agent" else "agent"
        verb = "request" if method.is_request else "notification"
        yield f"{method.name}: a {verb} of the {other} to the {method.to} (version {version})."
        sent = "to_agent" if (method.to == "agent") != (kind == "response") else "to_client"
        if direction and direction != sent:
            yield "This message was sent in the other direction."
    if method.gate:
        yield f"Needs the capability `{method.gate}`."
    if method.unstable:
        yield "This method is unstable: it may change."


def _unknown_method(method: str, kind: str, version: int) -> str:
    if not method:
        return "The request of this response was not recorded."
    if method.startswith("_"):
        return f"{method} is a method of an extension: the protocol does not define it."
    if _method(method, kind, 3 - version) is not None:
        return f"{method} is a method of version {3 - version}; version {version} was agreed."
    return f"Version {version} does not define the {kind} {method}."


def _version_of_initialize(value: Any) -> int | None:
    version = value.get("protocolVersion") if is_object(value) else None
    return version if version in (1, 2) else None


@cache
def _method(name: str, kind: str, version: int) -> Method | None:
    for method in methods(version):
        if method.name == name and method.is_request is (kind != "notification"):
            return method
    return None
