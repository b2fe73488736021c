"""The proof that our types are those of the official schemas, all four of them."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

import pytest

from accord.errors import RequestError
from accord.wire.describe import describe
from requirement import requirement
from schema import allowed, gates, nes, official, proof
from schema import model_of_types as types
from schema.compare import Comparison
from schema.methods_of_schema import ENVELOPES, EXTENSIONS
from schema.model_of_schema import SchemaModel

FOUR = [(version, unstable) for version in official.VERSIONS for unstable in (False, True)]
EACH_SCHEMA = pytest.mark.parametrize(
    ("version", "unstable"),
    FOUR,
    ids=[f"{version}-{'unstable' if unstable else 'stable'}" for version, unstable in FOUR],
)
EACH_VERSION = pytest.mark.parametrize("version", official.VERSIONS)


@requirement(
    "R-GEN-07",
    "R-GEN-12",
    "R-CONT-01",
    "R-MSG-05",
    "R-PERM-07",
    "R-PERM-11",
    "R-PLAN-07",
    "R-TOOL-20",
    "R-USAGE-02",
    "R-USAGE-03",
    "R-MCP-11",
    "R-NES-10",
    "R-DTERM-14",
)
@EACH_SCHEMA
def test_types_equal_the_schema(version: str, unstable: bool) -> None:
    official.require()
    schema = official.model(version, unstable=unstable)
    found = proof.prove(version, schema, unstable=unstable)
    unexpected = [str(f) for key, f in found.items() if key not in allowed.ALLOWED[version]]
    assert not unexpected, "\n".join(["", *sorted(unexpected)])


@EACH_VERSION
def test_every_allowed_difference_is_needed(version: str) -> None:
    official.require()
    found: set[str] = set()
    for unstable in (False, True):
        schema = official.model(version, unstable=unstable)
        found |= proof.prove(version, schema, unstable=unstable).keys()
    assert not allowed.ALLOWED[version].keys() - found


@EACH_VERSION
def test_every_allowed_difference_has_a_reason(version: str) -> None:
    assert all(len(reason.split()) > 3 for reason in allowed.ALLOWED[version].values())


@EACH_SCHEMA
def test_schema_has_no_messages_beside_methods_and_extensions(version: str, unstable: bool) -> None:
    official.require()
    defs = official.model(version, unstable=unstable).defs
    hidden = {name for name, node in defs.items() if node.get("x-docs-ignore")}
    assert hidden == {name for name in ENVELOPES if name in defs}
    assert all(defs[name].keys() <= {"description"} for name in EXTENSIONS)


def test_every_error_code_has_its_exception() -> None:
    official.require()
    ours = {cls.default_code for cls in RequestError.__subclasses__()}
    codes = {version: _codes(version) for version in official.VERSIONS}
    assert ours == codes["v1"] | codes["v2"]
    assert codes["v2"] - codes["v1"] == {-32022}


@EACH_VERSION
def test_three_state_fields_are_those_of_the_catalogue(version: str) -> None:
    catalogue = gates.THREE_STATE[version] | gates.THREE_STATE_TOO[version].keys()
    assert types.three_state(version) - _of_bases(version) == catalogue - _of_bases(version)
    assert catalogue <= types.three_state(version)


@EACH_VERSION
def test_gates_are_those_of_the_catalogue(version: str) -> None:
    ours = {m.name: _wire_names(m.gate) for m in types.methods(version) if m.gate}
    gated = {name: gate for name, gate in ours.items() if not proof.is_nes(name)}
    assert gated == gates.GATES[version]


@EACH_VERSION
def test_gates_of_variants_are_those_of_the_catalogue(version: str) -> None:
    ours = types.variant_gates(version)
    assert {cls.__name__: _wire_names(g) for cls, g in ours.items()} == gates.VARIANTS[version]


@EACH_VERSION
def test_every_gate_is_a_capability(version: str) -> None:
    paths = {method.gate for method in types.methods(version) if method.gate}
    for path in paths | set(types.variant_gates(version).values()):
        side, *steps = path.split(".")
        place: Any = types.public(version)[f"{side.title()}Capabilities"]
        for step in steps:
            place = types.class_of(get_type_hints(place)[step])


@requirement("R-NES-10", "R-NES-13")
def test_nes_types_equal_their_table() -> None:
    table = SchemaModel(nes.schema())
    ours = types.nes()
    names = table.defs.keys() - nes.CAPABILITIES.keys()
    assert ours.keys() == names
    comparison = Comparison()
    # Aliases first: the classes of a union are compared where the union adds their tags.
    for name in sorted(names, key=lambda name: types.is_class(ours[name])):
        if ours[name] not in comparison.classes:
            comparison.shapes(table.shape(name), describe(ours[name]), name)
    assert not comparison.findings, "\n".join(map(str, comparison.findings.values()))


@pytest.mark.parametrize("name", nes.CAPABILITIES)
def test_nes_capabilities_are_the_keys_that_the_schema_does_not_have(name: str) -> None:
    table = SchemaModel(nes.schema())
    cls = types.public("v1")[name]
    (whole,), (without,) = describe(cls, nes=True), describe(cls)
    ours = types.fields_beside(whole, without)
    comparison = Comparison()
    comparison.shapes(table.shape(name), (ours,), name)
    assert not comparison.findings, "\n".join(map(str, comparison.findings.values()))


def test_nes_methods_equal_their_table() -> None:
    ours = [
        (method.name, _name(method.params), _name(method.result), method.to)
        for method in types.methods("v1")
        if proof.is_nes(method.name)
    ]
    assert sorted(map(str, ours)) == sorted(str((*row, "agent")) for row in nes.METHODS)
    methods = types.methods("v1")
    gated = {m.name: _wire_names(m.gate) for m in methods if m.gate and proof.is_nes(m.name)}
    assert gated == gates.NES
    assert not [m for m in types.methods("v2") if proof.is_nes(m.name)]


def _codes(version: str) -> set[int]:
    """Return the error codes that the schema names."""
    members = official.load(version, unstable=True)["$defs"]["ErrorCode"]["anyOf"]
    return {member["const"] for member in members if "const" in member}


def _of_bases(version: str) -> set[str]:
    """Return the fields of classes that only others inherit from or that wear no tag."""
    public = [tp for tp in types.public(version).values() if types.is_class(tp)]
    bases = {base.__name__ for tp in public for base in tp.__mro__[1:]}
    return {name for name in types.three_state(version) if name.split(".")[0] in bases}


def _wire_names(gate: str) -> str:
    """Return a path of attributes as a path of keys."""
    return re.sub("_([a-z])", lambda match: match[1].upper(), gate)


def _name(tp: type | None) -> str | None:
    return None if tp is None else tp.__name__
