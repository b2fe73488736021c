"""A finding: one verdict on one rule."""

from __future__ import annotations

from msgspec import Struct

from accord_conformance.rules.authority import Authority
from accord_conformance.rules.manifest import Requirement, requirements
from accord_conformance.traffic.frame import Frame, Side


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
