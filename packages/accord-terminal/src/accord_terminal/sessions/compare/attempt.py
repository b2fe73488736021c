"""One agent of a comparison: its turn in its worktree, and the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from accord.client.connect import connect
from accord.client.events import PermissionRequest, ToolCall
from accord.client.permissions import allow, deny
from accord.client.transcript import Message
from accord.errors import AccordError
from accord_terminal.sessions.compare.worktree import FileChange, GitError, Worktree

if TYPE_CHECKING:
    from accord_terminal.toolkit.agent_names import NamedAgent


_CANCEL_S = 10.0


class Rules(Struct, frozen=True, kw_only=True):
    """How permission requests are decided, and when a turn is cancelled."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    timeout_s: float | None = None


class Attempt(Struct, kw_only=True, rename="camel"):
    """The result of one agent; `error` if it failed, `worktree` if it was kept."""

    agent: str
    stop_reason: str | None = None
    error: str | None = None
    timed_out: bool = False
    seconds: float = 0.0
    text: str = ""
    tool_calls: int = 0
    rejected: list[str] = []
    tokens: int | None = None
    cost: float | None = None
    currency: str | None = None
    diff: str = ""
    files: list[FileChange] = []
    worktree: str | None = None


async def run_attempts(
    agents: Sequence[NamedAgent],
    prompt: str,
    cwd: Path,
    base: str,
    rules: Rules,
    *,
    keep: bool,
    on_end: Callable[[Attempt], None],
) -> list[Attempt]:
    """Give the prompt to all agents at the same time; return their attempts in order.

    The worktrees are removed, unless `keep`, also if this is cancelled.
    """
    trees: list[Worktree] = []
    try:
        while len(trees) < len(agents):  # one after another: git locks the repository
            trees.append(await Worktree.add(cwd, base))
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_run(agent, label, prompt, tree, rules, on_end))
                for agent, label, tree in zip(agents, _labels(agents), trees, strict=True)
            ]
        attempts = [task.result() for task in tasks]
        if keep:
            for attempt, tree in zip(attempts, trees, strict=True):
                attempt.worktree = str(tree.folder)
        return attempts
    finally:
        if not keep:
            for tree in trees:
                await asyncio.shield(tree.remove())


def _labels(agents: Sequence[NamedAgent]) -> list[str]:
    """Return a name for each agent; the second of the same name gets a number."""
    seen: dict[str, int] = {}
    labels: list[str] = []
    for agent in agents:
        seen[agent.name] = number = seen.get(agent.name, 0) + 1
        labels.append(agent.name if number == 1 else f"{agent.name} {number}")
    return labels


async def _run(
    agent: NamedAgent,
    label: str,
    prompt: str,
    tree: Worktree,
    rules: Rules,
    on_end: Callable[[Attempt], None],
) -> Attempt:
    attempt = Attempt(agent=label)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    try:
        async with asyncio.timeout(rules.timeout_s):
            await _turn(agent, attempt, prompt, tree, rules)
    except TimeoutError:
        attempt.timed_out = True
        attempt.error = "did not end in time"
    except (AccordError, OSError) as exc:
        attempt.error = str(exc)
    attempt.seconds = round(loop.time() - begin, 3)
    try:
        attempt.diff, attempt.files = await tree.diff()
    except GitError as exc:
        attempt.error = attempt.error or str(exc)
    on_end(attempt)
    return attempt


async def _turn(
    agent: NamedAgent, attempt: Attempt, prompt: str, tree: Worktree, rules: Rules
) -> None:
    def reject(request: PermissionRequest) -> None:
        attempt.rejected.append(request.title)

    entry = agent.entry
    async with connect(
        list(agent.argv),
        permissions=[deny(*rules.deny), allow(*rules.allow), reject],
        cwd=tree.cwd,
        env=entry.env,
        versions=(1, 2) if entry.protocol is None else (entry.protocol,),
        on_stderr=_ignore,
    ) as connected:
        session = await connected.new_session(tree.cwd)
        try:
            async with session.prompt(prompt, cancel_timeout_s=_CANCEL_S) as turn:
                attempt.stop_reason = await turn.wait()
        finally:
            transcript = session.transcript
            attempt.text = "\n\n".join(
                item.text
                for item in transcript.items
                if isinstance(item, Message) and item.role == "agent"
            )
            attempt.tool_calls = sum(isinstance(item, ToolCall) for item in transcript.items)
            usage = transcript.usage
            if usage is not None and usage.cost is not None:
                attempt.cost, attempt.currency = usage.cost.amount, usage.cost.currency
        if turn.token_usage is not None:
            attempt.tokens = turn.token_usage.total


def _ignore(_line: str) -> None:
    """Drop a line of stderr."""
