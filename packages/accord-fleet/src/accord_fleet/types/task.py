"""A task: what an agent is asked to do, where, and how the outcome is graded."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from accord_fleet.types.limits import Limits


class EmptyFolder(
    msgspec.Struct, frozen=True, kw_only=True, tag="empty", forbid_unknown_fields=True
):
    """A new folder without files."""


class Folder(msgspec.Struct, frozen=True, tag="folder", forbid_unknown_fields=True):
    """A copy of a folder; blocks are shared with the original where the file system can do so."""

    path: str


class GitRepository(msgspec.Struct, frozen=True, tag="git", forbid_unknown_fields=True):
    """A worktree of a repository at a commit."""

    url: str
    """An address or a path that `git clone` takes."""
    commit: str = "HEAD"


class Archive(msgspec.Struct, frozen=True, tag="archive", forbid_unknown_fields=True):
    """The files of a tar or zip archive, at a path or an address of fsspec."""

    path: str


Workspace = EmptyFolder | Folder | GitRepository | Archive


class Permissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules for permission requests, as `accord.client.permissions.allow` and `deny` take them."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class CommandGrader(
    msgspec.Struct, frozen=True, kw_only=True, tag="command", forbid_unknown_fields=True
):
    """Run a command in the workspace; exit status 0 passes."""

    command: tuple[str, ...]
    timeout_s: float = 600.0


class FunctionGrader(
    msgspec.Struct, frozen=True, kw_only=True, tag="function", forbid_unknown_fields=True
):
    """Call a Python function with a `GradedAttempt`; it returns a bool, a score or a `Verdict`."""

    function: str
    """`package.module:name`, or `file.py:name`."""
    timeout_s: float = 600.0


class AgentGrader(
    msgspec.Struct, frozen=True, kw_only=True, tag="agent", forbid_unknown_fields=True
):
    """Ask another agent for a verdict, in the workspace."""

    agent: str
    """Name of an agent of the fleet."""
    prompt: str
    timeout_s: float = 600.0


Grader = CommandGrader | FunctionGrader | AgentGrader


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task of a fleet."""

    id: str
    """Unique in a run; letters, digits, `.`, `_` and `-`."""
    prompts: tuple[str, ...]
    """One prompt for each turn."""
    workspace: Workspace = EmptyFolder()
    files: dict[str, str] = {}
    """Text of files that are written into the workspace, by relative path."""
    env: dict[str, str] = {}
    mcp_servers: tuple[dict[str, Any], ...] = ()
    """MCP servers, as ACP writes them."""
    options: dict[str, str | bool] = {}
    """Configuration options of the session, by id."""
    mode: str | None = None
    permissions: Permissions = Permissions()
    limits: Limits = Limits()
    grader: Grader | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    """Whatever the report and the grader need; it is not sent to the agent."""
    side_effects: Literal["workspace", "outside"] = "workspace"
    """What an attempt may change. An attempt with effects outside its workspace is not repeated
    after its machine or the driver was lost."""


class WorkItem(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one task by one agent."""

    task: Task
    agent: str
    attempt: int = 1

    @property
    def key(self) -> tuple[str, str, int]:
        """What identifies the attempt in a dataset."""
        return self.task.id, self.agent, self.attempt
