"""The permission modes: what each lets pass, refuses, or asks the user about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from accord import OptionChoice, SelectOption
from accord_coder.tools.result import Access

if TYPE_CHECKING:
    from accord import Session

__all__ = ("MODES", "Verdict", "mode_option", "mode_verdict", "switch_mode")

Verdict: TypeAlias = Literal["allow", "ask", "refuse"]

MODES = (
    OptionChoice("default", "Default", "Asks before each change, command and download"),
    OptionChoice("acceptEdits", "Accept edits", "Changes files without asking; asks for the rest"),
    OptionChoice("plan", "Plan", "Reads only, and ends with a plan for you to approve"),
    OptionChoice("dontAsk", "Don't ask", "Does what was allowed before, refuses the rest"),
    OptionChoice("bypassPermissions", "Bypass permissions", "Does everything without asking"),
)


def mode_option(value: str, *, bypass: bool) -> SelectOption:
    """Return the option that chooses the mode; the one that never asks only with `bypass`."""
    return SelectOption(
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


def mode_verdict(mode: str, access: Access, *, sensitive: bool) -> Verdict:
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
