"""Explains a message: what its fields mean, and where it differs from its type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.wire.protocol import Method
from accord_conformance.judges.fields import rule_for_problem, rules_for_keys
from accord_conformance.rules.manifest import requirements
from accord_conformance.rules.sources import links
from accord_conformance.traffic.connection_state import methods
from accord_conformance.traffic.strict_types import TypeProblem, find_problems, format_value
from accord_inspector.explain_fields import Place, doc_of, places_of, text_of_shape

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
