"""The tools of models: their base class `Tool`, and the environment of the programs they start.

`read`, `edit`, `grep`, `run_command`, `fetch` and `ask_user` have the tools, `mcp_tool` those of
MCP servers; `search` walks directories, and is the program that searches files without ripgrep. A
tool is a struct of arguments, what a call accesses (for the permission), and `run`. `prompt` lists
them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from accord import ToolCallLocation
from accord_coder.models.base import ToolSpec
from accord_coder.models.providers import KEY_VARIABLES
from accord_coder.tool_results import Access, Outcome, ToolFailed

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.decision import ToolContext

__all__ = ("Tool", "command_environment", "environment_without_keys")

F = TypeVar("F", bound=Struct)


class Tool(ABC, Generic[F]):
    """A tool. `arguments_type` is a struct; the `Meta` of its fields is the documentation."""

    name: str
    kind: str  # a tool kind of the protocol
    description: str
    arguments_type: type[F]
    parallel: bool = False  # can run concurrently with others
    cancellable: bool = False  # the user can cancel only this call, if the client supports that

    @property
    def spec(self) -> ToolSpec:
        """The description for models."""
        return ToolSpec(self.name, self.description, _schema(self.arguments_type))

    def parse(self, arguments: str) -> F:
        """Parse the arguments; raise `ToolFailed` with the place of an error."""
        try:
            return msgspec.json.decode(arguments or "{}", type=self.arguments_type, strict=False)
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise ToolFailed(f"The arguments of {self.name} are not valid: {exc}") from exc

    @abstractmethod
    def title(self, args: F, context: ToolContext) -> str:
        """Return the title of the tool call, one line."""

    def locations(self, args: F, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the locations of the tool call, for editors that follow the agent: its files."""
        access = self.access(args, context)
        return () if access.kind == "execute" else tuple(map(ToolCallLocation, access.paths))

    @abstractmethod
    def access(self, args: F, context: ToolContext) -> Access:
        """Return what the call accesses; decides about permission before `run`."""

    async def preview(self, args: F, call: ToolCallHandle, context: ToolContext) -> None:
        """Show what will happen, for example a diff, before the user is asked. Changes nothing."""

    @abstractmethod
    async def run(self, args: F, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Run the tool; raise `ToolFailed`."""


@cache  # every request to a model has the schemas of all tools
def _schema(arguments_type: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of arguments."""
    schema = msgspec.json.schema(arguments_type, ref_template="#/$defs/{name}")
    definitions = schema.pop("$defs", {})
    body: dict[str, Any] = definitions.pop(arguments_type.__name__)
    body.pop("title", None)
    if definitions:
        body["$defs"] = definitions
    return body


# A repository can contain another one whose settings name programs. With these settings, git
# ignores a bare repository that is not at GIT_DIR, and runs none of these programs.
_GIT_SETTINGS = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
}
_PAGERS = ("PAGER", "GIT_PAGER", "GH_PAGER", "MANPAGER", "SYSTEMD_PAGER")


def environment_without_keys() -> dict[str, str | None]:
    """Return the change of the environment that removes the API keys."""
    return dict.fromkeys(KEY_VARIABLES)


def command_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """Return the change of the environment for commands: no keys, no pagers, no git hooks."""
    env = environment_without_keys()
    env |= dict.fromkeys(_PAGERS, "cat")
    counted = environ.get("GIT_CONFIG_COUNT", "")
    first = int(counted) if counted.isascii() and counted.isdigit() and len(counted) < 5 else 0
    for number, (name, value) in enumerate(_GIT_SETTINGS.items(), first):
        env[f"GIT_CONFIG_KEY_{number}"] = name
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    env["GIT_CONFIG_COUNT"] = str(first + len(_GIT_SETTINGS))
    return env
