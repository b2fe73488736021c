"""The proof that the wire types equal all four official schemas."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

import pytest

from accord.errors import RequestError
from requirement import requirement
from schema import allowed, gates, official, proof
from schema import model_of_types as types
from schema.methods_of_schema import ENVELOPES, EXTENSIONS

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
def test_schema_has_only_messages_of_methods_and_extensions(version: str, unstable: bool) -> None:
    official.require()
    defs = official.model(version, unstable=unstable).defs
    hidden = {name for name, node in defs.items() if node.get("x-docs-ignore")}
    assert hidden == {name for name in ENVELOPES if name in defs}
    assert all(defs[name].keys() <= {"description"} for name in EXTENSIONS)


# The schema does not list the codes of MCP over ACP (R-MOA-12).
MCP_OVER_ACP = {-33000, -33001, -33002}


def test_every_error_code_has_its_exception() -> None:
    official.require()
    ours = {cls.default_code for cls in RequestError.__subclasses__()}
    codes = {version: _codes(version) for version in official.VERSIONS}
    assert ours - MCP_OVER_ACP == codes["v1"] | codes["v2"]
    assert ours >= MCP_OVER_ACP
    assert codes["v2"] - codes["v1"] == {-32022}


@EACH_VERSION
def test_three_state_fields_are_those_of_the_table(version: str) -> None:
    catalogue = gates.THREE_STATE[version] | gates.THREE_STATE_TOO[version].keys()
    assert types.three_state(version) - _of_bases(version) == catalogue - _of_bases(version)
    assert catalogue <= types.three_state(version)


@EACH_VERSION
def test_gates_are_those_of_the_table(version: str) -> None:
    ours = {m.name: _wire_names(m.gate) for m in types.methods(version) if m.gate}
    assert ours == gates.GATES[version]


@EACH_VERSION
def test_gates_of_variants_are_those_of_the_table(version: str) -> None:
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


def _codes(version: str) -> set[int]:
    """Return the error codes in the schema."""
    members = official.load(version, unstable=True)["$defs"]["ErrorCode"]["anyOf"]
    return {member["const"] for member in members if "const" in member}


def _of_bases(version: str) -> set[str]:
    """Return the fields of classes that are only inherited from, or that have no tag."""
    public = [tp for tp in types.public(version).values() if types.is_class(tp)]
    bases = {base.__name__ for tp in public for base in tp.__mro__[1:]}
    return {name for name in types.three_state(version) if name.split(".")[0] in bases}


def _wire_names(gate: str) -> str:
    """Return a path of attributes as a path of keys."""
    return re.sub("_([a-z])", lambda match: match[1].upper(), gate)
