"""Gates: the capabilities that enable methods and fields."""

from __future__ import annotations

from typing import Any

import pytest

from accord import v1, v2
from accord.rules.gates import closed_methods, closed_variants, is_open, opening
from accord.v1.methods import SPEC as V1
from accord.v2.methods import SPEC as V2
from accord.wire.codec import convert, to_builtins
from requirement import requirement

GATES = [
    pytest.param(spec, gate, id=f"v{spec.version} {gate}")
    for spec in (V1, V2)
    for gate in sorted(
        {method.gate for method in spec.methods if method.gate} | set(spec.variant_gates.values())
    )
]
CAPABILITIES = {
    1: {"agent": v1.AgentCapabilities, "client": v1.ClientCapabilities},
    2: {"agent": v2.AgentCapabilities, "client": v2.ClientCapabilities},
}


def both(spec: Any, *gates: str) -> dict[str, Any]:
    """Return capabilities of both sides that open these gates."""
    return {
        side: opening(cls, side, gates, convert) for side, cls in CAPABILITIES[spec.version].items()
    }


@requirement("R-INIT-16")
@pytest.mark.parametrize(("spec", "gate"), GATES)
def test_gate_is_closed_by_default(spec: Any, gate: str) -> None:
    assert not is_open(gate, both(spec))
    assert is_open(gate, both(spec, gate))


@pytest.mark.parametrize(("spec", "gate"), GATES)
def test_opening_a_gate_opens_only_its_path(spec: Any, gate: str) -> None:
    opened = both(spec, gate)
    others = {
        str(g.values[1])
        for g in GATES
        if g.values[0] is spec and not f"{gate}.".startswith(f"{g.values[1]}.")
    }
    assert [other for other in others if is_open(other, opened)] == []


@requirement("R-INIT-26")
@pytest.mark.parametrize("value", [None, False, 0, 1, "true", [], {}])
def test_boolean_of_v1_is_on_only_for_true(value: Any) -> None:
    capabilities = {"agent": convert({"loadSession": value}, v1.AgentCapabilities)}
    assert not is_open("agent.load_session", capabilities)
    assert is_open(
        "agent.load_session", {"agent": convert({"loadSession": True}, v1.AgentCapabilities)}
    )


@requirement("R-INIT-25", "R-INIT-26")
@pytest.mark.parametrize(
    ("value", "opened"),
    [({}, True), ({"x": 1}, True), (None, False), (False, False), (True, False), ([], False)],
    ids=str,
)
def test_marker_is_on_only_for_an_object(value: Any, opened: bool) -> None:
    agent_v1 = convert({"sessionCapabilities": {"list": value}}, v1.AgentCapabilities)
    agent_v2 = convert({"session": {"fork": value}}, v2.AgentCapabilities)
    assert is_open("agent.session_capabilities.list", {"agent": agent_v1}) is opened
    assert is_open("agent.session.fork", {"agent": agent_v2}) is opened


def test_side_without_capabilities_supports_nothing() -> None:
    assert not is_open("client.terminal", {"client": None})


@requirement("R-INIT-18")
def test_unknown_capabilities_are_tolerated() -> None:
    agent = convert({"teleport": {"now": True}, "session": {"x": []}}, v2.AgentCapabilities)
    assert is_open("agent.session", {"agent": agent})


def test_closed_methods_are_named_with_their_gates() -> None:
    closed = closed_methods(V1.methods, both(V1, "client.terminal"))
    assert closed["session/load"] == "agent.load_session"
    assert "terminal/create" not in closed
    assert "session/prompt" not in closed


def test_closed_variants_are_named_with_their_gates() -> None:
    closed = closed_variants(V1.variant_gates, both(V1, "client.plan"))
    assert closed[v1.Notice] == "client.session.notices"
    assert v1.PlanUpdate not in closed


@pytest.mark.parametrize(
    ("cls", "side", "gates", "written"),
    [
        (v1.AgentCapabilities, "agent", ["agent.load_session"], {"loadSession": True}),
        (v1.AgentCapabilities, "agent", ["client.terminal"], {}),
        (
            v1.ClientCapabilities,
            "client",
            ["client.fs.read_text_file", "client.elicitation", "client.elicitation.url"],
            {"fs": {"readTextFile": True}, "elicitation": {"url": {}}},
        ),
        (
            v2.AgentCapabilities,
            "agent",
            ["agent.session.fork", "agent.session", "agent.session.mcp.acp"],
            {"session": {"fork": {}, "mcp": {"acp": {}}}},
        ),
    ],
)
def test_opening_sets_the_capabilities_of_the_gates(
    cls: Any, side: str, gates: list[str], written: Any
) -> None:
    assert to_builtins(opening(cls, side, gates, convert)) == written


@pytest.mark.parametrize("spec", [V1, V2], ids=["v1", "v2"])
def test_types_are_inspected_once(spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each agent opens its gates at `initialize`, and inspecting the types takes milliseconds."""
    gates = {method.gate for method in spec.methods if method.gate and method.to == "agent"}
    before = both(spec, *gates)

    def look(_: object) -> None:
        raise AssertionError("looked again")

    monkeypatch.setattr("typing.get_type_hints", look)
    assert both(spec, *gates) == before
    again = opening(CAPABILITIES[spec.version]["agent"], "agent", gates, lambda offered, _: offered)
    again.clear()  # the result is not shared
    assert both(spec, *gates) == before
