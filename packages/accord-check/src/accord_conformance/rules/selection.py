"""Selects rules and scenarios by the names of `--only`: areas, rules and scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from accord_conformance.rules.manifest import Requirement, areas, requirements


class NamedScenario(Protocol):
    """What a selection needs to know of a scenario."""

    @property
    def name(self) -> str:
        """The area, a slash, and the name of the scenario in it."""
        ...

    @property
    def area(self) -> str:
        """The first part of the name."""
        ...

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that the scenario judges."""
        ...


ScenarioT = TypeVar("ScenarioT", bound=NamedScenario)


class UnknownName(ValueError):
    """An unknown name; the message lists the known ones."""


def select_rules(names: Sequence[str], scenarios: Iterable[NamedScenario]) -> list[Requirement]:
    """Return the rules with these names, or all rules without names; raise `UnknownName`."""
    if not names:
        return list(requirements().values())
    scenarios = list(scenarios)
    chosen: set[str] = set()
    for name in names:
        found = _rules_named(name) or {
            rule for one in scenarios if name in (one.name, one.area) for rule in one.rules
        }
        if not found and not any(name in (one.name, one.area) for one in scenarios):
            raise UnknownName(_unknown(name, scenarios))
        chosen |= found
    return [rule for rule in requirements().values() if rule.id in chosen]


def select_scenarios(names: Sequence[str], scenarios: Iterable[ScenarioT]) -> list[ScenarioT]:
    """Return the scenarios with these names, or all without names; raise `UnknownName`."""
    scenarios = list(scenarios)
    if not names:
        return scenarios
    chosen: set[str] = set()
    for name in names:
        found = {one.name for one in scenarios if name in (one.name, one.area)}
        rules = _rules_named(name)
        found = found or {one.name for one in scenarios if rules.intersection(one.rules)}
        if rules and not found:
            raise UnknownName(
                f"No scenario is about {name}; see `accord check rules --only {name}`"
            )
        if not found:
            raise UnknownName(_unknown(name, scenarios))
        chosen |= found
    return [one for one in scenarios if one.name in chosen]


def validate_skips(names: Iterable[str], scenarios: Iterable[NamedScenario]) -> None:
    """Raise `UnknownName` if a name under `[skip]` matches no scenario or area."""
    scenarios = list(scenarios)
    for name in names:
        if not any(name in (one.name, one.area) for one in scenarios):
            known = dict.fromkeys(name for one in scenarios for name in (one.area, one.name))
            raise UnknownName(
                f"[skip]: unknown scenario {name!r}; expected one of {', '.join(known)}"
            )


def _rules_named(name: str) -> set[str]:
    """Return the rules of the area, or the rule, with this name."""
    upper = name.upper()
    return {rule.id for rule in requirements().values() if upper in (rule.id, rule.area)}


def _unknown(name: str, scenarios: Iterable[NamedScenario]) -> str:
    if name.upper().startswith("R-"):
        area = name.upper().split("-")[1]
        there = [rule.id for rule in requirements().values() if rule.area == area]
        if there:
            return f"Unknown rule {name}; {area} has {there[0]} to {there[-1]}"
    parts = dict.fromkeys(one.area for one in scenarios)
    return (
        f"Unknown area, rule or scenario {name!r}; the areas of rules are "
        f"{', '.join(areas())}, those of scenarios {', '.join(parts)}"
    )
