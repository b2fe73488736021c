"""The wire types of next edit suggestions: they equal their table, and decode and reject values."""

from __future__ import annotations

import json
import re
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings

from accord import v1, v2
from accord.errors import DecodeError
from accord.rules.gates import is_open, opening
from accord.wire.codec import convert, decode, to_builtins
from accord.wire.describe import Object, describe
from accord_conformance.nes import types as t
from accord_conformance.nes.types import METHODS, SPEC
from nes import table as family
from requirement import requirement
from schema import model_of_types as types
from schema.compare import Comparison
from schema.model_of_schema import SchemaModel
from wire.test_codec import check, typed_values

FAMILY = [method for method in METHODS if method.name != "initialize"]
TYPES = [tp for method in METHODS for tp in (method.params, method.result) if tp is not None]


def read(value: Any, tp: Any) -> Any:
    """Decode a value and check that the converter agrees."""
    decoded = decode(json.dumps(value).encode(), tp)
    assert convert(value, tp) == decoded
    return decoded


def refused(value: Any, tp: Any) -> str:
    """Return the error for a value, and its place."""
    with pytest.raises(DecodeError) as caught:
        read(value, tp)
    return str(caught.value)


@requirement("R-NES-10", "R-NES-13")
def test_types_equal_their_table() -> None:
    table = SchemaModel(family.schema())
    extended = {"InitializeRequest", "InitializeResponse", *family.CAPABILITIES}
    ours = {name: getattr(t, name) for name in t.__all__ if name not in extended}
    ours.pop("NesSuggestionId")  # a string
    assert ours.keys() == table.defs.keys() - family.CAPABILITIES.keys()
    comparison = Comparison()
    # Aliases first: the classes of a union are compared after the union has added their tags.
    for name in sorted(ours, key=lambda name: types.is_class(ours[name])):
        if ours[name] not in comparison.classes:
            comparison.shapes(table.shape(name), describe(ours[name]), name)
    assert not comparison.findings, "\n".join(map(str, comparison.findings.values()))


@pytest.mark.parametrize("name", family.CAPABILITIES)
def test_capabilities_are_keys_that_the_schema_does_not_have(name: str) -> None:
    table = SchemaModel(family.schema())
    (whole,), (without,) = describe(getattr(t, name)), describe(getattr(v1, name))
    assert isinstance(whole, Object)
    assert isinstance(without, Object)
    ours = types.fields_beside(whole, without)
    comparison = Comparison()
    comparison.shapes(table.shape(name), (ours,), name)
    assert not comparison.findings, "\n".join(map(str, comparison.findings.values()))


def test_methods_equal_their_table() -> None:
    ours = [(m.name, m.params.__name__, m.result and m.result.__name__, m.to) for m in FAMILY]
    assert sorted(map(str, ours)) == sorted(str((*row, "agent")) for row in family.METHODS)
    assert {m.name: _wire_names(m.gate or "") for m in FAMILY} == family.GATES


def test_no_version_has_a_method_or_a_capability_of_the_family() -> None:
    names = {method.name for method in FAMILY}
    assert not names & {method.name for method in (*v1.METHODS, *v2.METHODS)}
    assert names < {method.name for method in SPEC.methods}
    for tp in (v1.AgentCapabilities, v1.ClientCapabilities, v2.AgentCapabilities):
        assert not set(family.KEYS) & set(tp.__struct_encode_fields__)


@pytest.mark.parametrize("gate", sorted({method.gate for method in FAMILY if method.gate}))
def test_gate_is_a_capability_and_opens_only_its_own_path(gate: str) -> None:
    side, *steps = gate.split(".")
    place: Any = SPEC.capability_types[side]  # type: ignore[index]
    for step in steps:
        place = types.class_of(get_type_hints(place)[step])
    opened = {"agent": opening(t.AgentCapabilities, "agent", [gate], convert), "client": None}
    assert is_open(gate, opened)
    others = {m.gate for m in FAMILY if m.gate and not f"{gate}.".startswith(f"{m.gate}.")}
    assert not [other for other in others if is_open(other, opened)]


def test_opening_a_gate_sets_the_required_fields() -> None:
    gate = "agent.nes.events.document.did_change"
    written = {"nes": {"events": {"document": {"didChange": {"syncKind": "full"}}}}}
    opened = opening(t.AgentCapabilities, "agent", [gate], convert)
    assert to_builtins(opened) == written


def test_capabilities_of_next_edit_suggestions_are_lenient() -> None:
    seen = read(
        {"positionEncodings": ["utf-8", "ebcdic"], "nes": {"jump": {}, "rename": 1}},
        t.ClientCapabilities,
    )
    assert seen.position_encodings == ["utf-8"]
    assert seen.nes == t.ClientNesCapabilities(jump=t.NesJumpCapabilities())


@requirement("R-NES-13")
def test_malformed_change_fails_the_notification() -> None:
    value = {"sessionId": "s", "uri": "u", "version": 1, "contentChanges": [{"text": "a"}, {}]}
    assert refused(value, t.DidChangeDocumentNotification).endswith("at $.contentChanges[1]")


@requirement("R-NES-13")
def test_unknown_kind_of_suggestion_is_an_error() -> None:
    value = {"suggestions": [{"kind": "delete", "id": "1"}]}
    assert refused(value, t.SuggestNesResponse).endswith("at $.suggestions[0].kind")


@settings(max_examples=200)
@given(typed_values(TYPES))
def test_both_decoders_agree_on_the_types(case: tuple[Any, Any]) -> None:
    check(*case)


def _wire_names(gate: str) -> str:
    """Return a path of attributes as a path of keys."""
    return re.sub("_([a-z])", lambda match: match[1].upper(), gate)
