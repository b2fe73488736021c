"""The permission modes: what each allows, refuses, or asks the user about.

Only `bypassPermissions` allows commands. In `acceptEdits`, as in `default`, the user is asked about
each command that no rule of the project allows (`rules`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from accord import OptionChoice, SelectOption
from accord_coder.tool_results import Access

if TYPE_CHECKING:
    from accord import Session


Verdict: TypeAlias = Literal["allow", "ask", "refuse"]

MODES = (
    OptionChoice("default", "Default", "Asks before each change, command and download"),
    OptionChoice("acceptEdits", "Accept edits", "Edits files without asking; asks for the rest"),
    OptionChoice("plan", "Plan", "Only reads, and proposes a plan that you approve"),
    OptionChoice("dontAsk", "Don't ask", "Does what the rules allow, refuses the rest"),
    OptionChoice("bypassPermissions", "Bypass permissions", "Does everything without asking"),
)


def mode_option(value: str, *, bypass: bool) -> SelectOption:
    """Return the option for the mode; `bypass` includes the mode that never asks."""
    return SelectOption(
        id="mode",
        name="Mode",
        description="What the agent can do without asking",
        category="mode",
        value=value,
        choices=tuple(mode for mode in MODES if bypass or mode.value != "bypassPermissions"),
    )


async def switch_mode(session: Session, mode: str) -> None:
    """Change the mode of a session and notify the client; ValueError for an unknown mode."""
    await session.set_option("mode", mode)


def mode_verdict(mode: str, access: Access, *, sensitive: bool) -> Verdict:
    """Return the verdict of a mode if no rule of the user decides.

    `sensitive` is access to secrets, or outside the session's directories.
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
