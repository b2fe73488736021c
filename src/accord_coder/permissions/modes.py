"""The permission modes: what each lets pass, refuses, or asks the user about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from accord import Choice, Select
from accord_coder.tools.base import Access

if TYPE_CHECKING:
    from accord import Session

__all__ = ("MODES", "Verdict", "mode_option", "switch_mode", "verdict")

Verdict: TypeAlias = Literal["allow", "ask", "refuse"]

MODES = (
    Choice("default", "Default", "Asks before each change, command and download"),
    Choice("acceptEdits", "Accept edits", "Changes files without asking; asks for the rest"),
    Choice("plan", "Plan", "Reads only, and ends with a plan for you to approve"),
    Choice("dontAsk", "Don't ask", "Does what was allowed before, refuses the rest"),
    Choice("bypassPermissions", "Bypass permissions", "Does everything without asking"),
)


def mode_option(value: str, *, bypass: bool) -> Select:
    """Return the option that chooses the mode; the one that never asks only with `bypass`."""
    return Select(
        id="mode",
        name="Mode",
        description="What the agent may do without asking",
        category="mode",
        value=value,
        choices=tuple(mode for mode in MODES if bypass or mode.value != "bypassPermissions"),
    )


async def switch_mode(session: Session, mode: str) -> None:
    """Change the mode of a session and tell the client; ValueError for one not offered."""
    await session.set_option("mode", mode)


def verdict(mode: str, access: Access, *, sensitive: bool) -> Verdict:
    """Return what a mode says to what no rule of the user decides.

    `sensitive` are secrets and what lies outside the session's directories.
    """
    if access.kind == "none" or mode == "bypassPermissions":
        return "allow"
    if mode == "plan" and access.kind != "read":
        return "refuse"
    if access.kind == "read" and not sensitive:
        return "allow"
    if mode == "dontAsk":
        return "refuse"
    if mode == "acceptEdits" and access.kind in ("edit", "delete") and not sensitive:
        return "allow"
    return "ask"
