"""The extension point of the kit: a protocol family with rules, judges and scenarios of its own.

A package that adds a family calls `add_extension` in the module that it names under the group of
entry points `accord_conformance.extensions`. The kit loads all extensions before it reads rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from accord.wire.protocol import Method
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import add_capabilities
from accord_conformance.agent.scenarios import add_agent_scenarios
from accord_conformance.client.context import ClientContext
from accord_conformance.client.scenarios import add_client_scenarios
from accord_conformance.harness import Scenario
from accord_conformance.judges import add_judges
from accord_conformance.judges.base import Judge
from accord_conformance.judges.fields import FieldRule, add_field_rules
from accord_conformance.judges.handshake import add_gate_rules
from accord_conformance.judges.messages import add_version_rules
from accord_conformance.rules.manifest import add_rules
from accord_conformance.traffic.connection_state import add_methods


def add_extension(
    *,
    rules: Path,
    methods: Mapping[int, Sequence[Method]] | None = None,
    judges: Sequence[type[Judge]] = (),
    field_rules: Sequence[FieldRule] = (),
    gate_rules: Mapping[tuple[int, str], str] | None = None,
    version_rules: Mapping[tuple[int, str], str] | None = None,
    capabilities: Mapping[str, tuple[str, str]] | None = None,
    agent_scenarios: Sequence[Scenario[AgentContext]] = (),
    client_scenarios: Sequence[Scenario[ClientContext]] = (),
) -> None:
    """Add a protocol family to the kit.

    `rules` is a folder of TOML files, one for each area, and `methods` has the family's methods by
    protocol version. Judges and scenarios name rules of these files. `field_rules` are tried after
    those of the protocol. `gate_rules` names the rule that a method without its capability breaks,
    by version and method; `version_rules` the rule that a method breaks in a version that does not
    have it, by that version and the beginning of the method's name. `capabilities` has the paths of
    capabilities in versions 1 and 2, by the names that scenarios require.
    """
    add_rules(rules)
    add_methods(methods or {})
    add_judges(judges)
    add_field_rules(field_rules)
    add_gate_rules(gate_rules or {})
    add_version_rules(version_rules or {})
    add_capabilities(capabilities or {})
    add_agent_scenarios(agent_scenarios)
    add_client_scenarios(client_scenarios)
