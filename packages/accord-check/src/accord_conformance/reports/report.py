"""What a run found: findings, reports for each version, the outcome of scenarios, the verdict.

A `Finding` is one verdict on one rule. A `Report` has the findings of a version: how often each
rule passed and failed, and totals by area. A `RunResult` has the reports of a run and the outcome
of each scenario, and `verdict` makes a sentence and an exit status of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from accord.text.excerpt import excerpt, one_line, visible
from accord_conformance.rules.manifest import (
    Authority,
    Demand,
    Requirement,
    areas,
    links,
    requirements,
)
from accord_conformance.traffic.message import Frame, Medium, Side

# A finding: one verdict on one rule.


class Finding(Struct, frozen=True, kw_only=True):
    """A rule applied, and the side `by` obeyed or broke it, as `frames` show.

    `expected` and `got` are texts for people, and empty if the rule passed. `where` names the
    scenario, if one ran. `authority` is given if the finding has a weaker source than the rule.
    """

    rule: str
    passed: bool
    by: Side
    expected: str = ""
    got: str = ""
    frames: tuple[Frame, ...] = ()
    where: str = ""
    authority: Authority | None = None

    @property
    def requirement(self) -> Requirement:
        """The rule."""
        return requirements()[self.rule]


# The report of a version.

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


# One line about a frame for reports: number, time, sender and an excerpt.

FRAME_CHARACTERS = 600


def frame_line(frame: Frame, most: int = FRAME_CHARACTERS) -> str:
    """Return a line about a frame."""
    sign = ">" if frame.sender == "client" else "<"
    text = one_line(frame.text.decode("utf-8", "replace"), most)
    return f"#{frame.number} {frame.time:.3f} s {sign} {text}"


# The result of a run: a report for each version, and the outcome of each scenario.

# Exit statuses other than 0.
EXIT_FAILED = 1
EXIT_NO_TURN = 3  # no failure, but no turn was tested: for want of a login, or of a model
EXIT_KIT_ERROR = 70  # EX_SOFTWARE: there is no verdict

# Unfinished: the peer did not respond or disconnected, for a reason that is not judged here.
# Wrong: it did something harmful that no rule forbids; advised: something less harmful.
# Error in the kit: the scenario itself failed, which is not the fault of the peer.
ScenarioOutcome: TypeAlias = Literal[
    "finished", "not exercised", "unfinished", "skipped", "wrong", "advised", "error in the kit"
]


class ScenarioResult(Struct, kw_only=True):
    """The result of a scenario in one version; `reason` explains the outcome.

    `disconnected`: the peer disconnected without a reason. If the outcome is wrong or advised,
    `advice` describes the fix, and `frames` show the problem; after a disconnect they are the last
    frames sent. `traceback` is that of an error in the kit.
    """

    scenario: str
    about: str
    version: int
    outcome: ScenarioOutcome
    reason: str = ""
    seconds: float = 0.0
    disconnected: bool = False
    advice: str = ""
    frames: tuple[Frame, ...] = ()
    traceback: str = ""

    @property
    def label(self) -> str:
        """The outcome, as people read it."""
        return "failed, no rule describes it" if self.outcome == "wrong" else self.outcome


class LoginProblem(Struct, kw_only=True):
    """Scenarios that were not exercised because the agent requires a login in one version.

    `turns` is the number of turns that ran nevertheless, `tried` the login of the settings, `error`
    its error if it failed, and `offered` the ids of the auth methods.
    """

    version: int
    scenarios: list[str]
    turns: int
    offered: list[str]
    tried: str = ""
    error: str = ""

    @property
    def message(self) -> str:
        """The scenarios that were not exercised, and how to configure a login."""
        parts = ", ".join(dict.fromkeys(name.partition("/")[0] for name in self.scenarios))
        lost = f"{len(self.scenarios)} scenarios were not exercised ({parts})"
        if self.turns == 0:
            lost += ", and no turn was tested at all"
        if self.error:
            how = f"The login {self.tried!r} of the settings failed: {self.error}."
        elif self.tried:
            how = f"The login {self.tried!r} of the settings was not enough."
        elif self.offered:
            names = " or ".join(f'"{one}"' for one in self.offered)
            how = f"If one works without a user, name it in the settings: `login = {names}`."
        else:
            how = "It has no auth methods, so it has to be logged in before the check."
        env = "Keys that it needs can be set in the environment or under `[env]` in the settings."
        return f"Version {self.version}: the agent requires a login: {lost}. {how} {env}"


class RunResult(Struct):
    """A whole run; `unsupported` are the versions that the peer does not support, with the reason.

    An unsupported version has a report, too, if rules failed in its handshake. `prompt_failures`
    are the versions in which each prompt failed, with the reason: the agent may have no model.
    `run_errors` are tracebacks of errors in the kit outside scenarios, `exceeded_budget_s` is the
    time budget if the run exceeded it. `strict` and `baseline` affect the verdict.
    """

    subject: str
    reports: list[Report] = field(default_factory=list[Report])
    scenario_results: list[ScenarioResult] = field(default_factory=list[ScenarioResult])
    unsupported: dict[int, str] = field(default_factory=dict[int, str])
    login_problems: list[LoginProblem] = field(default_factory=list[LoginProblem])
    prompt_failures: dict[int, str] = field(default_factory=dict[int, str])
    seconds: float = 0.0
    run_errors: list[str] = field(default_factory=list[str])
    exceeded_budget_s: float | None = None
    strict: bool = False
    baseline: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    def after(self, earlier: RunResult | None) -> RunResult:
        """Add the findings of an earlier process, whose remaining scenarios ran in this one."""
        if earlier is None:
            return self
        played = {one.scenario for one in self.scenario_results}
        kept = [one for one in earlier.scenario_results if one.scenario not in played]
        self.scenario_results = kept + self.scenario_results
        for report, before in zip(self.reports, earlier.reports, strict=False):
            report.merge(before)
        self.seconds += earlier.seconds
        self.run_errors = earlier.run_errors + self.run_errors
        return self

    @property
    def supported(self) -> list[Report]:
        """The reports of the supported versions."""
        return [report for report in self.reports if report.version not in self.unsupported]

    @property
    def model_problems(self) -> list[str]:
        """Why no turn was tested though no login was required, and what to do about it."""
        return [
            f"Version {version}: no turn was tested, because every prompt failed: {reason}. "
            "Give the agent a model: its key in the environment or under `[env]` in the settings. "
            "If it needs certain prompts, write them with `accord check init`."
            for version, reason in self.prompt_failures.items()
        ]

    @property
    def locked_out(self) -> list[LoginProblem]:
        """The versions in which no turn was tested because the agent requires a login."""
        return [login for login in self.login_problems if login.turns == 0]

    def failed_rules(self, *, strict: bool = False) -> list[tuple[str, int]]:
        """Return the failed rules that decide, each with its version."""
        return [
            (rule, report.version or 0)
            for report in self.reports
            for rule in report.failed_rules(strict=strict)
        ]

    def passed_rules(self) -> set[tuple[str, int]]:
        """Return the passed rules, each with its version."""
        return {
            (rule.id, report.version or 0)
            for report in self.reports
            for rule in report.applicable_rules()
            if report.outcome(rule) == "passed"
        }

    def not_exercised_rules(self) -> set[str]:
        """Return the rules for this peer that no version exercised."""
        unseen: set[str] = set()
        seen: set[str] = set()
        for report in self.supported:
            for rule in report.applicable_rules():
                outcome = report.outcome(rule)
                (unseen if outcome == "not exercised" else seen).add(rule.id)
        return unseen - seen

    @property
    def disconnects(self) -> list[ScenarioResult]:
        """The scenarios in which the peer disconnected without a reason."""
        return [played for played in self.scenario_results if played.disconnected]

    @property
    def failed_scenarios(self) -> list[ScenarioResult]:
        """The scenarios that failed without a rule."""
        return [played for played in self.scenario_results if played.outcome == "wrong"]

    @property
    def kit_errors(self) -> list[str]:
        """The tracebacks of all errors in the kit."""
        inside = [
            one.traceback for one in self.scenario_results if one.outcome == "error in the kit"
        ]
        judging = [fault for report in self.reports for fault in report.kit_errors]
        return [*inside, *self.run_errors, *judging]

    def scenarios(self, version: int | None) -> list[ScenarioResult]:
        """Return the results of the scenarios in a version."""
        return [played for played in self.scenario_results if played.version == version]

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "subject": one_line(self.subject),
            "seconds": round(self.seconds, 3),
            "verdict": verdict(self).text,
            "exitStatus": verdict(self).status,
            "errorsInTheKit": self.kit_errors,
            "versionsNotSpoken": {str(key): visible(why) for key, why in self.unsupported.items()},
            "loginWanted": [
                {
                    "version": login.version,
                    "scenarios": login.scenarios,
                    "turns": login.turns,
                    "offered": login.offered,
                    "text": login.message,
                }
                for login in self.login_problems
            ],
            "promptsFailed": {
                str(version): one_line(why) for version, why in self.prompt_failures.items()
            },
            "reports": [report.as_json() for report in self.reports],
            "scenarios": [
                {
                    "scenario": played.scenario,
                    "about": played.about,
                    "version": played.version,
                    "ending": played.outcome,
                    "reason": one_line(played.reason),
                    "seconds": round(played.seconds, 3),
                    "left": played.disconnected,
                    "advice": played.advice,
                    "frames": frames_as_json(played.frames),
                    "traceback": played.traceback,
                }
                for played in self.scenario_results
            ],
        }


class Verdict(Struct, frozen=True):
    """The verdict on a run in one line, and its exit status."""

    status: int
    text: str


_MAX_NAMED = 5


def verdict(result: RunResult) -> Verdict:
    """Return the verdict on a run."""
    decisive = set(result.failed_rules(strict=result.strict)) - result.baseline
    why = [_rules(decisive, "failed")] if decisive else []
    if result.failed_scenarios:
        why.append(_scenarios(result.failed_scenarios))
    if result.disconnects:
        why.append(
            f"the peer disconnected in {_names([one.scenario for one in result.disconnects])}"
        )
    if result.exceeded_budget_s is not None:
        why.append(f"the time budget of {result.exceeded_budget_s:g} s was exceeded")
    if not result.supported:
        why.append("no version could be tested")
    if result.kit_errors:
        errors = plural(len(result.kit_errors), "error")
        found = f"; and {'; '.join(why)}" if why else ""
        return Verdict(EXIT_KIT_ERROR, f"No verdict: {errors} in the kit{found}.")
    beside = _other_problems(result, decisive)
    if why:
        return Verdict(EXIT_FAILED, f"Failed: {'; '.join(why)}{beside}.")
    if result.locked_out:
        return Verdict(EXIT_NO_TURN, f"Login required: no turn was tested{beside}.")
    if result.prompt_failures:
        return Verdict(EXIT_NO_TURN, f"No model: no turn was tested{beside}.")
    numbers = [str(report.version) for report in result.supported if report.version]
    many = "s" if len(numbers) > 1 else ""
    versions = f" in version{many} {' and '.join(numbers)}" if numbers else ""
    passed = plural(len({rule for rule, _ in result.passed_rules()}), "rule")
    return Verdict(0, f"Passed: {passed}{versions}, none failed{beside}.")


def _other_problems(result: RunResult, decisive: set[tuple[str, int]]) -> str:
    """Describe what does not decide: warnings, advice, and failures in the baseline."""
    outcomes = [
        report.outcome(rule)
        for report in result.reports
        for rule in report.applicable_rules()
        if (rule.id, report.version or 0) not in decisive | result.baseline
    ]
    parts: list[str] = []
    if warned := outcomes.count("warned"):
        parts.append(plural(warned, "warning"))
    if advised := outcomes.count("advised"):
        parts.append(f"{advised} advised")
    if unseen := len(result.not_exercised_rules()):
        parts.append(f"{unseen} not exercised")
    if known := len(set(result.failed_rules(strict=result.strict)) & result.baseline):
        parts.append(f"{known} known from the baseline")
    return f" ({', '.join(parts)})" if parts else ""


def _rules(rules: set[tuple[str, int]], what: str) -> str:
    count = plural(len(rules), "rule")
    return f"{count} {what}, {_names([f'{rule} (v{version})' for rule, version in sorted(rules)])}"


def _scenarios(failed: list[ScenarioResult]) -> str:
    versions: dict[str, list[str]] = {}
    for one in failed:
        versions.setdefault(one.scenario, []).append(f"v{one.version}")
    names = [f"{name} ({' and '.join(spoken)})" for name, spoken in versions.items()]
    return (
        f"{plural(len(names), 'scenario')} failed for a reason that no rule describes, "
        f"{_names(names)}"
    )


def _names(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _MAX_NAMED} more" if len(unique) > _MAX_NAMED else ""
    return ", ".join(unique[:_MAX_NAMED]) + more


def plural(number: int, what: str) -> str:
    """Return a number with the name of what was counted."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# The baseline: the rules that are known to fail, so that only new failures count.

# Rules with the version in which they fail.
Known: TypeAlias = set[tuple[str, int]]

_LINE = re.compile(r"(R-[A-Z]+-\d+) v([12])")


def read_baseline(path: Path) -> Known:
    """Read a baseline; raise `OSError` or `ValueError`."""
    known: Known = set()
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected UTF-8") from None
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].strip()
        if not words:
            continue
        found = _LINE.fullmatch(words)
        if found is None:
            raise ValueError(f"{path}, line {number}: expected a rule and a version: R-GEN-03 v1")
        if found[1] not in requirements():
            raise ValueError(f"{path}, line {number}: unknown rule {found[1]}")
        known.add((found[1], int(found[2])))
    return known


def write_baseline(path: Path, broken: Iterable[tuple[str, int]]) -> None:
    """Write a baseline."""
    lines = ["# Rules that are known to fail: `accord check` ignores these failures."]
    lines += [f"{rule} v{version}" for rule, version in sorted(broken)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
