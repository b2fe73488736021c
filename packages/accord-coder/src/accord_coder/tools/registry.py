"""The tools of the coder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accord_coder.tools.ask_user import Ask
from accord_coder.tools.base import Tool
from accord_coder.tools.edit import Edit
from accord_coder.tools.fetch import Fetch
from accord_coder.tools.find import Glob, List
from accord_coder.tools.grep import Grep
from accord_coder.tools.move import Delete, Move
from accord_coder.tools.plan import ExitPlan, Plan
from accord_coder.tools.read import Read
from accord_coder.tools.run_command import Execute
from accord_coder.tools.write import Write

if TYPE_CHECKING:
    from accord_coder.permissions.context import ToolContext


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


def tools_for(context: ToolContext) -> dict[str, Tool[Any]]:
    """Return the tools of a session by name, for its current settings."""
    return {tool.name: tool for tool in TOOLS if tool.name != "fetch" or context.settings.fetch}
