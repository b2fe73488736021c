"""All the tools there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accord.coder.tools.asking import Ask
from accord.coder.tools.base import Tool
from accord.coder.tools.edit import Edit
from accord.coder.tools.execute import Execute
from accord.coder.tools.fetch import Fetch
from accord.coder.tools.finding import Glob, List
from accord.coder.tools.grep import Grep
from accord.coder.tools.moving import Delete, Move
from accord.coder.tools.planning import ExitPlan, Plan
from accord.coder.tools.read import Read
from accord.coder.tools.write import Write

if TYPE_CHECKING:
    from accord.coder.work import Work

__all__ = ("TOOLS", "tools_for")

TOOLS: tuple[Tool[Any], ...] = (
    Read(),
    Edit(),
    Write(),
    List(),
    Glob(),
    Grep(),
    Move(),
    Delete(),
    Execute(),
    Fetch(),
    Plan(),
    Ask(),
    ExitPlan(),
)


def tools_for(work: Work) -> dict[str, Tool[Any]]:
    """Return the tools of a session as it is set up now, by name."""
    return {tool.name: tool for tool in TOOLS if tool.name != "fetch" or work.settings.fetch}
