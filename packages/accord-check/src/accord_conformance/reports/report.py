"""The report of a run: how often each rule passed and failed, and totals by area."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from accord.text.excerpt import excerpt, one_line
from accord_conformance.reports.finding import Finding
from accord_conformance.rules.authority import Authority, Demand
from accord_conformance.rules.manifest import Requirement, areas, requirements
from accord_conformance.rules.sources import links
from accord_conformance.traffic.frame import Frame, Medium, Side

_FRAME_CHARACTERS = 10_000  # of each frame in a JSON report; traces have whole frames

# A failed SHOULD rule is a warning. Advised: the failed rule is not required by the protocol
# itself, but by its reference SDKs or by Accord's own conclusions.
Outcome: TypeAlias = Literal["passed", "failed", "warned", "advised", "not exercised"]

# The areas that apply to one medium only.
_MEDIA: dict[str, Medium] = {"STDIO": "stdio", "WS": "websocket", "HTTP": "http"}
# What the rules call a side.
_NAMES: dict[Side, tuple[str, ...]] = {
    "agent": ("agent", "server"),
    "client": ("client", "http client"),
    "proxy": ("proxy",),
    "conductor": ("conductor",),
}

MAX_FAILURES = 20  # of one rule in the report; others are only counted


class RuleResult(Struct):
    """The findings about one rule."""

    passed: int = 0
    failed: int = 0
    weak: int = 0  # of the failed, those with a weaker source than the protocol
    failures: list[Finding] = field(default_factory=list[Finding])


class AreaTotals(Struct):
    """The number of rules of an area by outcome."""

    area: str
    title: str
    passed: int = 0
    failed: int = 0
    warned: int = 0
    advised: int = 0
    not_exercised: int = 0


class Report(Struct):
    """Findings by rule; every part of the kit can `add` findings.

    `side` is the judged side, if not both. `medium` decides which rules about transports apply.
    `kit_errors` are tracebacks of errors in the kit.
    """

    subject: str = ""
    side: Side | None = None
    version: int | None = None
    medium: Medium = "stdio"
    frames: int = 0
    rules: dict[str, RuleResult] = field(default_factory=dict[str, RuleResult])
    kit_errors: list[str] = field(default_factory=list[str])

    def add_kit_error(self, traceback: str) -> None:
        """Add the traceback of an error in the kit, once."""
        if traceback not in self.kit_errors and len(self.kit_errors) < MAX_FAILURES:
            self.kit_errors.append(traceback)

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        result = self.rules.setdefault(finding.rule, RuleResult())
        if finding.passed:
            result.passed += 1
            return
        result.failed += 1
        result.weak += finding.authority in ("sdk", "derived")
        if len(result.failures) < MAX_FAILURES:
            # Both contain texts of the peer, which must stay on one line.
            expected, got = one_line(finding.expected), one_line(finding.got)
            result.failures.append(replace(finding, expected=expected, got=got))

    def merge(self, other: Report) -> None:
        """Add the report of another connection of the same run."""
        self.frames += other.frames
        self.version = self.version or other.version
        for traceback in other.kit_errors:
            self.add_kit_error(traceback)
        for rule, result in other.rules.items():
            own = self.rules.setdefault(rule, RuleResult())
            own.passed += result.passed
            own.failed += result.failed
            own.weak += result.weak
            own.failures += result.failures[: MAX_FAILURES - len(own.failures)]

    def outcome(self, requirement: Requirement) -> Outcome:
        """Return the outcome of a rule."""
        result = self.rules.get(requirement.id)
        if result is None or not (result.passed or result.failed):
            return "not exercised"
        if not result.failed:
            return "passed"
        if self.authority(requirement) in ("sdk", "derived"):
            return "advised"
        if not requirement.is_must:
            return "warned"
        return "failed" if requirement.decides(self.version) else "advised"

    def authority(self, requirement: Requirement) -> Authority:
        """Return the authority of a rule in this report."""
        result = self.rules.get(requirement.id)
        if result is not None and result.failed and result.weak == result.failed:
            for one in result.failures:
                if one.authority is not None:
                    return one.authority
        return requirement.authority_in(self.version)

    def demand(self, requirement: Requirement) -> Demand | None:
        """Return the place that demands a rule, if one does, also of what failed here."""
        demand = requirement.demand_in(self.version)
        is_weaker = self.authority(requirement) != demand.kind
        return demand if demand.place and not is_weaker else None

    def applicable_rules(self) -> Iterator[Requirement]:
        """Yield the rules that this run could exercise: the judged rules of its version."""
        for requirement in requirements().values():
            judged = requirement.how in ("checked", "observed") or requirement.id in self.rules
            if requirement.id not in self.rules:
                judged &= _concerns(requirement, self.side)
                judged &= applies_to(requirement, self.medium)
            if judged and (self.version is None or self.version in requirement.versions):
                yield requirement

    def failed_rules(self, *, strict: bool = False) -> list[str]:
        """Return the failed rules that decide; with `strict` every failed rule.

        A MUST of the schema or of the text of the protocol decides.
        """
        bad = ("failed", "warned", "advised") if strict else ("failed",)
        return [rule.id for rule in self.applicable_rules() if self.outcome(rule) in bad]

    def problem_rules(self, *outcomes: Outcome) -> list[Requirement]:
        """Return the failed rules, the most severe first; only these outcomes if any are given."""
        broken: tuple[Outcome, ...] = ("failed", "warned", "advised")
        asked = [(self.outcome(rule), rule) for rule in self.applicable_rules()]
        return [rule for one in outcomes or broken for outcome, rule in asked if outcome == one]

    def failures(self) -> Iterator[Finding]:
        """Yield the failures of all rules, in the order of the rules."""
        for ident in requirements():
            if (result := self.rules.get(ident)) is not None:
                yield from result.failures

    def by_area(self) -> list[AreaTotals]:
        """Return the totals of the areas that this run could exercise."""
        sums = {area: AreaTotals(area, title) for area, title in areas().items()}
        for rule in self.applicable_rules():
            name = self.outcome(rule).replace(" ", "_")
            setattr(sums[rule.area], name, getattr(sums[rule.area], name) + 1)
        return [area for area in sums.values() if any(_numbers(area))]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "subject": self.subject,
            "side": self.side,
            "version": self.version,
            "frames": self.frames,
            "areas": [
                {
                    "area": area.area,
                    "title": area.title,
                    "passed": area.passed,
                    "failed": area.failed,
                    "warned": area.warned,
                    "advised": area.advised,
                    "notExercised": area.not_exercised,
                }
                for area in self.by_area()
            ],
            "rules": [self._rule(rule) for rule in self.applicable_rules()],
        }

    def _rule(self, rule: Requirement) -> dict[str, Any]:
        result = self.rules.get(rule.id) or RuleResult()
        return {
            "id": rule.id,
            "level": rule.level,
            "authority": self.authority(rule),
            "demand": _demand_as_json(self.demand(rule)),
            "source": rule.source,
            "links": [link.url for link in links(rule, self.version) if link.url],
            "hint": rule.hint,
            "who": rule.who,
            "rule": rule.rule,
            "outcome": self.outcome(rule),
            "kept": result.passed,
            "broken": result.failed,
            "findings": [
                {
                    "by": finding.by,
                    "expected": finding.expected,
                    "got": finding.got,
                    "frames": frames_as_json(finding.frames),
                }
                for finding in result.failures
            ],
        }


def _demand_as_json(demand: Demand | None) -> dict[str, str] | None:
    if demand is None:
        return None
    return {"place": demand.label, "url": demand.url, "words": demand.words}


def _concerns(requirement: Requirement, side: Side | None) -> bool:
    """Return whether a rule is about a side; "both" are proxy and conductor in one area."""
    in_chain = requirement.area == "PROXY" or requirement.who in ("proxy", "conductor")
    if side is None:
        return not in_chain
    return requirement.who in _NAMES[side] or (
        requirement.who == "both" and in_chain == (side in ("proxy", "conductor"))
    )


def applies_to(requirement: Requirement, medium: Medium) -> bool:
    """Return whether a rule applies to a medium: some areas are about one transport."""
    if medium == "stdio" and requirement.who in ("server", "http client"):
        return False
    return _MEDIA.get(requirement.area, medium) == medium


def frames_as_json(frames: Iterable[Frame]) -> list[dict[str, Any]]:
    """Return frames in the format of JSON reports."""
    return [
        {
            "number": frame.number,
            "time": frame.time,
            "from": frame.sender,
            "frame": excerpt(frame.text.decode("utf-8", "replace"), _FRAME_CHARACTERS),
        }
        for frame in frames
    ]


def _numbers(area: AreaTotals) -> Iterable[int]:
    return area.passed, area.failed, area.warned, area.advised, area.not_exercised
