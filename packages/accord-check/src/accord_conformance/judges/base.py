"""The base of all judges: they see all messages in order, and report findings.

A judge names its rules and overrides the methods for the messages that it needs. It sees a message
before `ConnectionState` does, so `self.state` is the state when the message arrived. A response is
in `call.response` already; the request is still open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar

from accord_conformance.reports.finding import Finding
from accord_conformance.rules.authority import Authority
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.connection_state import ConnectionState
from accord_conformance.traffic.frame import Frame, Side
from accord_conformance.traffic.message import InvalidFrame, Notification, RawMessage, Request
from accord_conformance.traffic.observed_session import Turn

Evidence = Request | Notification | InvalidFrame | RawMessage | Turn | Frame | None


class Judge:
    """Judges some rules on one connection."""

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
        """Handle a frame that is not a message."""

    def on_message(self, raw: RawMessage) -> None:
        """Handle any message, before the method for its kind is called."""

    def on_unmatched_response(self, raw: RawMessage) -> None:
        """Handle a response without a request."""

    def on_request(self, call: Request) -> None:
        """Handle a request."""

    def on_response(self, call: Request) -> None:
        """Handle the response to a request."""

    def on_notification(self, note: Notification) -> None:
        """Handle a notification."""

    def on_end(self) -> None:
        """Handle the end of the connection."""

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
        """Report whether a rule was obeyed, if the rule applies to the agreed version.

        `by` may be left out if the rule is about one side only. `authority` is given if the rule
        itself does not fully cover this finding.
        """
        assert rule in self._judged, f"{type(self).__name__} does not name {rule}"
        requirement = requirements()[rule]
        if self.state.version is not None and self.state.version not in requirement.versions:
            return
        if by is None:
            assert requirement.who in ("agent", "client"), f"{rule} needs `by`"
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
    """Return a finding, with frames and texts only if the rule was broken."""
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
    """Return the frames of messages, each once and in order."""
    frames = {frame.number: frame for item in seen for frame in _frames_in(item)}
    return tuple(frames[number] for number in sorted(frames))


def _frames_in(seen: Evidence) -> list[Frame]:
    """Return the frames of a message."""
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
