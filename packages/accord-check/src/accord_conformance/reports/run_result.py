"""The result of a run: a report for each version, and the outcome of each scenario."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from accord.text.excerpt import one_line, visible
from accord_conformance.reports.report import Report, frames_as_json
from accord_conformance.traffic.frame import Frame

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
        errors = _count(len(result.kit_errors), "error")
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
    plural = "s" if len(numbers) > 1 else ""
    versions = f" in version{plural} {' and '.join(numbers)}" if numbers else ""
    passed = _count(len({rule for rule, _ in result.passed_rules()}), "rule")
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
        parts.append(_count(warned, "warning"))
    if advised := outcomes.count("advised"):
        parts.append(f"{advised} advised")
    if unseen := len(result.not_exercised_rules()):
        parts.append(f"{unseen} not exercised")
    if known := len(set(result.failed_rules(strict=result.strict)) & result.baseline):
        parts.append(f"{known} known from the baseline")
    return f" ({', '.join(parts)})" if parts else ""


def _rules(rules: set[tuple[str, int]], what: str) -> str:
    count = _count(len(rules), "rule")
    return f"{count} {what}, {_names([f'{rule} (v{version})' for rule, version in sorted(rules)])}"


def _scenarios(failed: list[ScenarioResult]) -> str:
    versions: dict[str, list[str]] = {}
    for one in failed:
        versions.setdefault(one.scenario, []).append(f"v{one.version}")
    names = [f"{name} ({' and '.join(spoken)})" for name, spoken in versions.items()]
    return (
        f"{_count(len(names), 'scenario')} failed for a reason that no rule describes, "
        f"{_names(names)}"
    )


def _names(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _MAX_NAMED} more" if len(unique) > _MAX_NAMED else ""
    return ", ".join(unique[:_MAX_NAMED]) + more


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
