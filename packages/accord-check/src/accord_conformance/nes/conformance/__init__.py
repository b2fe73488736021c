"""Next edit suggestions: a family that has left the schema, as an extension of the kit."""

from __future__ import annotations

from pathlib import Path

from accord_conformance.extension import add_extension
from accord_conformance.nes.conformance.field_rules import FIELD_RULES
from accord_conformance.nes.conformance.judge import Nes
from accord_conformance.nes.conformance.scenarios import SCENARIOS
from accord_conformance.nes.spec import METHODS

__all__ = ()

add_extension(
    rules=Path(__file__).parent / "rules",
    methods={1: METHODS},
    judges=(Nes,),
    field_rules=FIELD_RULES,
    gate_rules={
        (1, f"document/did{name}"): "R-NES-01"
        for name in ("Open", "Change", "Close", "Save", "Focus")
    },
    version_rules={(2, "nes/"): "R-NES-12", (2, "document/"): "R-NES-12"},
    capabilities={"next edit suggestions": ("nes", "")},
    agent_scenarios=SCENARIOS,
)
