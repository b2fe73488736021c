"""What judges have in common: they see everything in order, and tell what they find.

A judge says which rules it may tell of, and overrides what it wants to see. It sees a message
before `Talk` does: `self.talk` is how things stood when it came. An answer is in `call.reply`
already; the call is still among the open ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from accord_conformance.reports.finding import Finding
from accord_conformance.rules.manifest import Authority, requirements
from accord_conformance.traffic.connection_state import Talk
from accord_conformance.traffic.frame import Frame, Side
from accord_conformance.traffic.message import Broken, Call, Note, RawMessage
from accord_conformance.traffic.session_state import Turn

__all__ = ("Judge", "Seen", "found", "frames_of")

Seen = Call | Note | Broken | RawMessage | Turn | Frame | None


class Judge:
    """Judges a few rules on one connection."""

    rules: ClassVar[tuple[str, ...]] = ()

    def __init__(self, talk: Talk, tell: Callable[[Finding], None]) -> None:
        self.talk = talk
        self._tell = tell

    def broken(self, broken: Broken) -> None:
        """A frame came that is no message."""

    def message(self, raw: RawMessage) -> None:
        """A message came, before it is known what it asks or answers."""

    def stray(self, raw: RawMessage) -> None:
        """An answer came that answers nothing."""

    def called(self, call: Call) -> None:
        """A request came."""

    def answered(self, call: Call) -> None:
        """A request got its answer."""

    def noted(self, note: Note) -> None:
        """A notification came."""

    def finished(self) -> None:
        """Nothing more will come."""

    def judge(
        self,
        rule: str,
        kept: bool,
        *seen: Seen,
        expected: str = "",
        got: str = "",
        by: Side | None = None,
        authority: Authority | None = None,
    ) -> None:
        """Tell whether a rule was kept; nothing is told when it is not of the version spoken.

        `by` may be left out where the rule names one side. `authority` is given where the rule
        itself does not cover this finding fully.
        """
        assert rule in self.rules, f"{type(self).__name__} does not name {rule}"
        requirement = requirements()[rule]
        if self.talk.version is not None and self.talk.version not in requirement.versions:
            return
        if by is None:
            assert requirement.who in ("agent", "client"), f"who broke {rule}?"
            by = "agent" if requirement.who == "agent" else "client"
        self._tell(found(rule, kept, by, *seen, expected=expected, got=got, authority=authority))


def found(
    rule: str,
    kept: bool,
    by: Side,
    *seen: Seen,
    expected: str = "",
    got: str = "",
    where: str = "",
    authority: Authority | None = None,
) -> Finding:
    """Return what to tell of a rule: frames and words only where it was broken."""
    if kept:
        return Finding(rule=rule, passed=True, by=by)
    return Finding(
        rule=rule,
        passed=False,
        by=by,
        expected=expected,
        got=got,
        frames=frames_of(*seen),
        where=where,
        authority=authority,
    )


def frames_of(*seen: Seen) -> tuple[Frame, ...]:
    """Return the frames that show something, each once and in their order."""
    frames = {frame.number: frame for item in seen for frame in _frames_of(item)}
    return tuple(frames[number] for number in sorted(frames))


def _frames_of(seen: Seen) -> list[Frame]:
    """Return the frames that show something."""
    match seen:
        case None:
            return []
        case Frame():
            return [seen]
        case Turn():
            return _frames_of(seen.call)
        case Call():
            return [seen.frame, *([seen.reply.frame] if seen.reply else [])]
        case _:
            return [seen.frame]
