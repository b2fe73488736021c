"""The values of fleets, which can be pickled and written as JSON, and their errors.

In reading order: an agent, the limits of an attempt, its result, a task, and what graders get.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from accord.errors import AccordError

# Agents.

_TOKEN = "ACCORD_TOKEN"  # the name of a variable


class Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attempt reserves on the machine that runs it."""

    cpus: float = 1.0
    memory_bytes: int | None = None
    custom: dict[str, float] = {}
    """Resources that the cluster defines, for example `{"gpu_lane": 1}`."""


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent: how it is started, and what it needs."""

    name: str
    """Names the agent in results; unique in a fleet."""
    command: tuple[str, ...]
    """The command and its arguments, or one URL of a remote agent."""
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    """Names of environment variables of the machine that the agent gets. Their values are never
    stored."""
    token: str | None = None
    """Name of the environment variable of the machine with the token of a remote agent; without
    it, `ACCORD_TOKEN` if that is set."""
    provider: str | None = None
    """Name of the provider in `Providers` whose gateway the agent uses."""
    packages: tuple[str, ...] = ()
    """Packages that a cluster installs for the agent, as `pip install` takes them."""
    resources: Resources = Resources()
    versions: tuple[int, ...] = (1, 2)
    """Versions of the protocol that are offered."""
    warm: bool = True
    """Whether one process serves several attempts, each in a new session."""
    unmetered: bool = False
    """Whether it may have limits of tokens and cost although it is not known to report them."""

    @property
    def token_variable(self) -> str:
        """Name of the environment variable with the token, if the agent is at a URL."""
        return self.token or _TOKEN


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How the process of an agent is started. Attempts with an equal launch share warm agents."""

    argv: tuple[str, ...]
    env: dict[str, str | None] = {}
    """Changes of the inherited environment; None removes a variable."""
    cwd: str = ""
    """Where it starts; "" is a new folder for each process."""
    is_shared: bool = True
    """Whether attempts can share an agent that was started like this."""


# Limits.

LimitName = Literal[
    "turn_s",
    "wall_s",
    "output_bytes",
    "memory_bytes",
    "processes",
    "tokens",
    "cost",
    "tool_calls",
    "changed_files",
]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one attempt; None is unlimited."""

    turn_s: float | None = None
    """Seconds that one turn may take."""
    wall_s: float | None = 3600.0
    """Seconds from the preparation of the workspace to the end of the last turn."""
    output_bytes: int | None = 64 * 2**20
    """Bytes that the agent may send."""
    memory_bytes: int | None = None
    """Memory of the agent's process and its children together."""
    processes: int | None = None
    """Processes that the agent and its children may have at the same time."""
    tokens: int | None = None
    """Tokens of all turns, as the agent reports them or the model gateway counts them."""
    cost: float | None = None
    """Cost of all turns in the currency that the agent reports."""
    tool_calls: int | None = None
    """Tool calls of all turns."""
    changed_files: int | None = None
    """Files that the agent shows as changed in its tool calls."""


# Results.

Status = Literal["finished", "failed", "limit", "cancelled", "lost"]
"""How an attempt ended.

- `finished`: the agent ended all turns, whatever the grader says.
- `failed`: `Failure.where` tells what failed.
- `limit`: the attempt was ended at a limit.
- `cancelled`: the user cancelled it.
- `lost`: its machine or the driver was lost, and it must not be repeated.
"""
FailedPart = Literal["workspace", "start", "session", "turn", "agent_exit", "sandbox", "engine"]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt did not finish."""

    where: FailedPart | None = None
    limit: LimitName | None = None
    message: str = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost; None where nothing was reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | None = None
    currency: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the grader says. `error` is set if the grader itself failed; there is no score then."""

    passed: bool | None = None
    score: float | None = None
    reason: str = ""
    error: str | None = None
    details: dict[str, Any] = {}
    usage: Usage = Usage()
    """What an agent that graded has used; it is not in the usage of the attempt."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """When, in seconds since 1970, and how long, in seconds."""

    started: float
    workspace_s: float = 0.0
    start_s: float = 0.0
    """From starting the agent to its session; about 0 for a warm agent."""
    turns_s: tuple[float, ...] = ()
    grading_s: float = 0.0
    wall_s: float = 0.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a dataset: the only result of (task, agent, attempt)."""

    task: str
    agent: str
    attempt: int = 1
    status: Status
    failure: Failure | None = None
    stop_reasons: tuple[str, ...] = ()
    """One for each turn that ended."""
    answer: str = ""
    """The text of the last turn."""
    diff: str = ""
    """Changes of the workspace as a unified diff, cut at a limit."""
    files_changed: tuple[str, ...] = ()
    tool_calls: int = 0
    verdict: Verdict | None = None
    usage: Usage = Usage()
    """Of all turns."""
    times: Times
    stderr: str = ""
    """The end of what the agent wrote to its stderr."""
    trace: str | None = None
    """The recording, relative to the folder of the run."""
    machine: str = ""
    repeated: tuple[str, ...] = ()
    """Why it was started again on other machines: for each, its name and what failed there."""
    tags: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, int]:
        """What identifies the attempt in a dataset."""
        return self.task, self.agent, self.attempt


# Tasks: what an agent is asked to do, where, and how the outcome is graded.


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


class GradedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt after its last turn."""

    task: Task
    workspace: Path
    """The folder that the agent has worked in; it exists until the grader returns."""
    result: Result
    """The result so far, without a verdict."""
    trace: Path | None = None
    """The recording of the messages, complete up to the last turn."""


# Errors: why a run does not start or ends, and why an attempt does not finish.


class FleetError(AccordError):
    """A run cannot start or continue; the message has everything that is wrong."""


class AttemptFailed(AccordError):
    """A part of an attempt failed: the result has this failure, and other attempts continue."""

    def __init__(self, where: FailedPart, message: str) -> None:
        super().__init__(message)
        self.where: FailedPart = where


class LimitReached(AccordError):
    """An attempt reached a limit: the result has this failure, and other attempts continue."""

    def __init__(self, limit: LimitName, message: str) -> None:
        super().__init__(message)
        self.limit: LimitName = limit


class ClusterLost(FleetError):
    """The head of the cluster does not answer any more.

    Results that arrived before were yielded. The attempts that were running can be repeated on
    another cluster, or on this one when its head is back.
    """
