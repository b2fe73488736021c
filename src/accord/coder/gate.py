"""Whether a tool may do what it is about to do: the user's rules, the mode, or the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accord import PermissionOption
from accord.coder.modes import verdict
from accord.coder.tools.base import Access, ToolFailed

if TYPE_CHECKING:
    from accord.agent.tool import ToolCall
    from accord.coder.work import Work

__all__ = ("Refused", "pass_gate")

_OPTIONS = (
    PermissionOption("allow_once", "Allow", "allow_once"),
    PermissionOption("allow_always", "Always allow", "allow_always"),
    PermissionOption("reject_once", "Reject", "reject_once"),
    PermissionOption("reject_always", "Always reject", "reject_always"),
)


class Refused(ToolFailed):
    """The user, a rule or the mode does not let the tool do this."""


async def pass_gate(access: Access, call: ToolCall, work: Work) -> None:
    """Return when a tool may go on; raise `Refused`."""
    decided = verdict(work.mode, access, sensitive=False)
    if decided == "ask":
        chosen = await call.ask(_OPTIONS)
        decided = "allow" if chosen is not None and chosen.allows else "refuse"
        if decided == "refuse":
            raise Refused("The user does not allow that.")
    if decided == "refuse":
        raise Refused(f"The mode {work.mode} does not allow that.")
    await call.start()
