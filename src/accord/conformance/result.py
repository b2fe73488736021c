"""What a run with scenarios came to: a report for each version, and how each scenario went."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from accord.conformance.frame import Frame
from accord.conformance.report import Report, frames_as_json
from accord.excerpt import one_line, visible

__all__ = ("Ending", "Login", "Played", "Result")

# Unfinished: the peer fell silent or went away, and it is not this scenario's business why.
# Wrong: it did what no rule forbids and nobody could want; advised: what does little harm.
Ending: TypeAlias = Literal[
    "finished", "not exercised", "unfinished", "skipped", "wrong", "advised"
]


class Played(Struct, kw_only=True):
    """A scenario that was played in one version; `reason` says why it has no outcome.

    `left`: the peer went away in it, although nothing was done to it that could be a reason.
    Where it is wrong or advised, `advice` says what to do about it, and `frames` show it.
    """

    scenario: str
    about: str
    version: int
    ending: Ending
    reason: str = ""
    seconds: float = 0.0
    left: bool = False
    advice: str = ""
    frames: tuple[Frame, ...] = ()


class Login(Struct, kw_only=True):
    """That scenarios came to nothing because the agent wants a login in one version.

    `turns` is how many were taken nevertheless, `tried` the login of the settings, which failed
    with `error` if that is what happened, `offered` the ids that there are.
    """

    version: int
    scenarios: list[str]
    turns: int
    offered: list[str]
    tried: str = ""
    error: str = ""

    @property
    def words(self) -> str:
        """What was not checked, and how to give a login."""
        parts = ", ".join(dict.fromkeys(name.partition("/")[0] for name in self.scenarios))
        lost = f"{len(self.scenarios)} scenarios came to nothing ({parts})"
        if self.turns == 0:
            lost += ", and no turn was checked at all"
        if self.error:
            how = f"The login {self.tried!r} of the settings failed: {self.error}."
        elif self.tried:
            how = f"The login {self.tried!r} of the settings was not enough."
        elif self.offered:
            names = " or ".join(f'"{one}"' for one in self.offered)
            how = f"If one works without a user, name it in the settings: `login = {names}`."
        else:
            how = "It offers none, so it has to be logged in before the check."
        env = "What it needs, as a key, may stand in the environment, or under `[env]` there."
        return f"Version {self.version}: the agent wants a login: {lost}. {how} {env}"


class Result(Struct):
    """A whole run; `unspoken` are the versions that were to be checked and are not spoken.

    A report may tell of such a version, too: of what was broken in its handshake.
    """

    subject: str
    reports: list[Report] = field(default_factory=list[Report])
    played: list[Played] = field(default_factory=list[Played])
    unspoken: dict[int, str] = field(default_factory=dict[int, str])
    logins: list[Login] = field(default_factory=list[Login])
    seconds: float = 0.0

    @property
    def checked(self) -> list[Report]:
        """The reports of the versions that are spoken."""
        return [report for report in self.reports if report.version not in self.unspoken]

    @property
    def shut_out(self) -> list[Login]:
        """The versions in which no turn was checked because the agent wants a login."""
        return [login for login in self.logins if login.turns == 0]

    def broken(self, *, strict: bool = False) -> list[tuple[str, int]]:
        """Return the rules that were broken and must not be, each with its version."""
        return [
            (rule, report.version or 0)
            for report in self.reports
            for rule in report.broken(strict=strict)
        ]

    def passed(self) -> set[tuple[str, int]]:
        """Return the rules that were kept, each with its version."""
        return {
            (rule.id, report.version or 0)
            for report in self.reports
            for rule in report.asked()
            if report.outcome(rule) == "passed"
        }

    @property
    def left(self) -> list[Played]:
        """The scenarios in which the peer went away without a reason."""
        return [played for played in self.played if played.left]

    @property
    def wrong(self) -> list[Played]:
        """The scenarios in which the peer did what nobody could want."""
        return [played for played in self.played if played.ending == "wrong"]

    def scenarios(self, version: int | None) -> list[Played]:
        """Return what was played in a version."""
        return [played for played in self.played if played.version == version]

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return {
            "subject": one_line(self.subject),
            "seconds": round(self.seconds, 3),
            "versionsNotSpoken": {str(key): visible(why) for key, why in self.unspoken.items()},
            "loginWanted": [
                {
                    "version": login.version,
                    "scenarios": login.scenarios,
                    "turns": login.turns,
                    "offered": login.offered,
                    "text": login.words,
                }
                for login in self.logins
            ],
            "reports": [report.as_json() for report in self.reports],
            "scenarios": [
                {
                    "scenario": played.scenario,
                    "about": played.about,
                    "version": played.version,
                    "ending": played.ending,
                    "reason": one_line(played.reason),
                    "seconds": round(played.seconds, 3),
                    "left": played.left,
                    "advice": played.advice,
                    "frames": frames_as_json(played.frames),
                }
                for played in self.played
            ],
        }
