"""What `--only` means: areas of rules, rules, areas of scenarios and scenarios, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from accord_conformance.rules.manifest import Requirement, areas, requirements

__all__ = ("NamedScenario", "UnknownName", "select_rules", "select_scenarios", "validate_skips")


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
    """Nothing has this name; the message says what has one."""


def select_rules(names: Sequence[str], scenarios: Iterable[NamedScenario]) -> list[Requirement]:
    """Return the rules that the names stand for, all without any; raise `UnknownName`."""
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
    """Return the scenarios that the names stand for, all without any; raise `UnknownName`."""
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
                f"No scenario is about {name}; `accord check rules --only {name}` says who judges"
            )
        if not found:
            raise UnknownName(_unknown(name, scenarios))
        chosen |= found
    return [one for one in scenarios if one.name in chosen]


def validate_skips(names: Iterable[str], scenarios: Iterable[NamedScenario]) -> None:
    """Raise `UnknownName` for what is to be skipped, and is no scenario and no area of them."""
    scenarios = list(scenarios)
    for name in names:
        if not any(name in (one.name, one.area) for one in scenarios):
            known = dict.fromkeys(name for one in scenarios for name in (one.area, one.name))
            raise UnknownName(
                f"[skip]: there is no scenario {name!r}; there are {', '.join(known)}"
            )


def _rules_named(name: str) -> set[str]:
    """Return the rules of an area, or the rule, of this name."""
    upper = name.upper()
    return {rule.id for rule in requirements().values() if upper in (rule.id, rule.area)}


def _unknown(name: str, scenarios: Iterable[NamedScenario]) -> str:
    if name.upper().startswith("R-"):
        area = name.upper().split("-")[1]
        there = [rule.id for rule in requirements().values() if rule.area == area]
        if there:
            return f"There is no rule {name}; {area} has {there[0]} to {there[-1]}"
    parts = dict.fromkeys(one.area for one in scenarios)
    return (
        f"There is no area, rule or scenario {name!r}; there are the areas of rules "
        f"{', '.join(areas())}; those of scenarios {', '.join(parts)}"
    )
