"""What was found about one rule, once."""

from __future__ import annotations

from msgspec import Struct

from accord_conformance.rules.manifest import Authority, Requirement, requirements
from accord_conformance.traffic.frame import Frame, Side

__all__ = ("Finding",)


class Finding(Struct, frozen=True, kw_only=True):
    """A rule came into play: it was kept or broken, `by` whom, as `frames` show.

    `expected` and `got` are for people, and empty where the rule was kept. `where` names the
    scenario, if one was played. `authority` is given where this finding rests on less than the
    rule itself.
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
        """The rule itself."""
        return requirements()[self.rule]
