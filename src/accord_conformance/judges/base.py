"""What judges have in common: they see everything in order, and tell what they find.

A judge says which rules it may tell of, and overrides what it wants to see. It sees a message
before `Talk` does: `self.talk` is how things stood when it came. An answer is in `call.reply`
already; the call is still among the open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar

from accord_conformance.reports.finding import Finding
from accord_conformance.rules.manifest import Authority, requirements
from accord_conformance.traffic.connection_state import ConnectionState
from accord_conformance.traffic.frame import Frame, Side
from accord_conformance.traffic.message import InvalidFrame, Notification, RawMessage, Request
from accord_conformance.traffic.session_state import Turn

__all__ = ("Evidence", "Judge", "frames_from", "make_finding")

Evidence = Request | Notification | InvalidFrame | RawMessage | Turn | Frame | None


class Judge:
    """Judges a few rules on one connection."""

    rules: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def judged_rules(cls) -> Collection[str]:
        """Return the rules that this judge reports: `rules`, unless extensions add some."""
        return cls.rules

    def __init__(self, state: ConnectionState, report: Callable[[Finding], None]) -> None:
        self.state = state
        self._judged = frozenset(self.judged_rules())
        self._report = report

    def on_invalid_frame(self, broken: InvalidFrame) -> None:
        """A frame came that is no message."""

    def on_message(self, raw: RawMessage) -> None:
        """A message came, before it is known what it asks or answers."""

    def on_unmatched_response(self, raw: RawMessage) -> None:
        """An answer came that answers nothing."""

    def on_request(self, call: Request) -> None:
        """A request came."""

    def on_response(self, call: Request) -> None:
        """A request got its answer."""

    def on_notification(self, note: Notification) -> None:
        """A notification came."""

    def on_end(self) -> None:
        """Nothing more will come."""

    def judge(
        self,
        rule: str,
        passed: bool,
        *seen: Evidence,
        expected: str = "",
        got: str = "",
        by: Side | None = None,
        authority: Authority | None = None,
    ) -> None:
        """Tell whether a rule was kept; nothing is told when it is not of the version spoken.

        `by` may be left out where the rule names one side. `authority` is given where the rule
        itself does not cover this finding fully.
        """
        assert rule in self._judged, f"{type(self).__name__} does not name {rule}"
        requirement = requirements()[rule]
        if self.state.version is not None and self.state.version not in requirement.versions:
            return
        if by is None:
            assert requirement.who in ("agent", "client"), f"who broke {rule}?"
            by = "agent" if requirement.who == "agent" else "client"
        self._report(
            make_finding(rule, passed, by, *seen, expected=expected, got=got, authority=authority)
        )


def make_finding(
    rule: str,
    passed: bool,
    by: Side,
    *seen: Evidence,
    expected: str = "",
    got: str = "",
    where: str = "",
    authority: Authority | None = None,
) -> Finding:
    """Return what to tell of a rule: frames and words only where it was broken."""
    if passed:
        return Finding(rule=rule, passed=True, by=by)
    return Finding(
        rule=rule,
        passed=False,
        by=by,
        expected=expected,
        got=got,
        frames=frames_from(*seen),
        where=where,
        authority=authority,
    )


def frames_from(*seen: Evidence) -> tuple[Frame, ...]:
    """Return the frames that show something, each once and in their order."""
    frames = {frame.number: frame for item in seen for frame in _frames_in(item)}
    return tuple(frames[number] for number in sorted(frames))


def _frames_in(seen: Evidence) -> list[Frame]:
    """Return the frames that show something."""
    match seen:
        case None:
            return []
        case Frame():
            return [seen]
        case Turn():
            return _frames_in(seen.request)
        case Request():
            return [seen.frame, *([seen.response.frame] if seen.response else [])]
        case _:
            return [seen.frame]
