"""`accord compare`: the same prompt for several agents, each in a git worktree of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import Struct
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from accord.client.connect import connect
from accord.client.events import PermissionRequest, ToolCall
from accord.client.permissions import allow, deny
from accord.client.transcript import Message
from accord.errors import AccordError
from accord.local.run import kill_process, run_program
from accord.text.excerpt import hidden_removed
from accord.text.excerpt import one_line as escaped_line
from accord_terminal.sessions.cli.options import approval_options
from accord_terminal.sessions.records import FAILED, TIME_LIMIT, USAGE, SessionsError, named_agent
from accord_terminal.toolkit.options import (
    budget_options,
    limit_policies,
    limited_connection,
    limits_of,
)
from accord_terminal.toolkit.text import one_line, printable

if TYPE_CHECKING:
    from accord.client.limits import Limits
    from accord_terminal.toolkit.agent_names import NamedAgent

# Git worktrees for agents: made from the current commit, compared with it, and removed.

_GIT_S = 120.0
_END_S = 5.0
# What a shell inside of git, such as a hook, sets: it would name another repository.
_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")


class GitError(SessionsError):
    """Git has refused a command."""


class _NoRepository(GitError):
    """The directory has no commit to start from."""

    status = USAGE


class FileChange(Struct, frozen=True):
    """A changed file; the numbers of lines are None if it is binary."""

    path: str
    added: int | None
    removed: int | None


async def base_commit(cwd: Path) -> str:
    """Return the current commit; raise `GitError` if there is none."""
    try:
        return (await _git(cwd, "rev-parse", "--verify", "HEAD")).decode().strip()
    except GitError:
        raise _NoRepository(
            f"Expected a directory in a git repository with a commit, got {cwd}"
        ) from None


async def has_changes(cwd: Path) -> bool:
    """Return whether the user has changes that are not committed."""
    return bool(await _git(cwd, "status", "--porcelain"))


class Worktree:
    """A worktree at a commit; `cwd` is the user's directory in it."""

    def __init__(self, repository: Path, folder: Path, base: str, below: Path) -> None:
        self._repository = repository
        self._base = base
        self.folder = folder
        self.cwd: Path = folder / below

    @staticmethod
    async def add(cwd: Path, base: str) -> Worktree:
        """Add a worktree in a new temporary folder."""
        found = os.fsdecode(await _git(cwd, "rev-parse", "--show-toplevel", "--show-prefix"))
        top, below = map(Path, found.split("\n")[:2])
        folder = _new_folder() / top.name
        try:
            await _git(cwd, "worktree", "add", "--quiet", "--detach", os.fspath(folder), base)
        except BaseException:
            await _remove(top, folder)  # an interrupt may come when git has registered it
            raise
        made = Worktree(top, folder, base, below)
        made.cwd.mkdir(parents=True, exist_ok=True)  # a directory without committed files
        return made

    async def diff(self) -> tuple[str, list[FileChange]]:
        """Return all changes since the base commit, new files and commits included."""
        await _git(self.folder, "add", "--all")
        options = ("--cached", "--no-ext-diff", "--no-textconv", self._base)
        text = await _git(self.folder, "diff", *options)
        rows = (await _git(self.folder, "diff", "--numstat", "-z", "--no-renames", *options)).split(
            b"\0"
        )
        return text.decode("utf-8", "replace"), [_change(row) for row in rows if row]

    async def remove(self) -> None:
        """Remove the worktree and what is in it."""
        await _remove(self._repository, self.folder)


async def _remove(repository: Path, folder: Path) -> None:
    """Remove a worktree, also one that git has not finished, and the temporary folder around it."""
    try:
        # Twice: git locks a worktree while it adds it.
        await _git(repository, "worktree", "remove", "--force", "--force", os.fspath(folder))
    except GitError:
        shutil.rmtree(folder, ignore_errors=True)
        await _git(repository, "worktree", "prune")
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="accord-compare-")).resolve()


def _change(row: bytes) -> FileChange:
    added, removed, path = row.split(b"\t", 2)
    counts = [int(count) if count.isdigit() else None for count in (added, removed)]
    return FileChange(path.decode("utf-8", "replace"), counts[0], counts[1])


async def _git(cwd: Path, *words: str) -> bytes:
    """Run git; raise `GitError` with its message if it fails."""
    environ = {name: value for name, value in os.environ.items() if name not in _REPOSITORY}
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *words,
            cwd=cwd,
            env=environ | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as exc:
        raise GitError(f"Cannot start git: {exc.strerror}") from None
    try:
        async with asyncio.timeout(_GIT_S):
            out, errors = await process.communicate()
    except BaseException:
        await _end(process)
        raise
    if process.returncode != 0:
        said = errors.decode("utf-8", "replace").strip() or f"status {process.returncode}"
        raise GitError(f"git {words[0]} failed: {said}")
    return out


async def _end(process: asyncio.subprocess.Process) -> None:
    """End git: SIGTERM first, on which it removes its lock files and what it has half made."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await process.communicate()
    except TimeoutError:
        await kill_process(process)


# One agent of a comparison: its turn in its worktree, and the result.

_CANCEL_S = 10.0


class Rules(Struct, frozen=True, kw_only=True):
    """How permission requests are decided, and when a turn is cancelled."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    timeout_s: float | None = None
    limits: Limits | None = None
    """The budget of each agent, and what it may touch."""


class Attempt(Struct, kw_only=True, rename="camel"):
    """The result of one agent; `error` if it failed, `worktree` if it was kept."""

    agent: str
    stop_reason: str | None = None
    error: str | None = None
    timed_out: bool = False
    limit: str | None = None
    """The limit of the budget that was reached."""
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
        permissions=[*limit_policies(rules.limits), deny(*rules.deny), allow(*rules.allow), reject],
        cwd=tree.cwd,
        env=entry.env,
        versions=(1, 2) if entry.protocol is None else (entry.protocol,),
        on_stderr=_ignore,
        **limited_connection(rules.limits),
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
        if turn.limit is not None:
            attempt.limit = str(turn.limit)


def _ignore(_line: str) -> None:
    """Drop a line of stderr."""


# Shows attempts side by side, or one below another if the terminal is narrow.

_COLUMN = 36  # characters that a column needs
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_attempts(attempts: Sequence[Attempt], console: Console) -> None:
    """Print results, answers and diffs."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    for attempt in attempts:
        table.add_column(Text(one_line(attempt.agent, 40)), overflow="fold")
    rows: tuple[tuple[str, Callable[[Attempt], str]], ...] = (
        ("result", _result),
        ("time", lambda attempt: f"{attempt.seconds:.1f} s"),
        ("cost", _cost),
        ("tokens", lambda attempt: "-" if attempt.tokens is None else f"{attempt.tokens:,}"),
        ("tool calls", lambda attempt: str(attempt.tool_calls)),
        ("rejected", lambda attempt: str(len(attempt.rejected) or "-")),
        ("changes", _changes),
    )
    for name, cell in rows:
        table.add_row(name, *(Text(one_line(cell(attempt))) for attempt in attempts))
    if any(attempt.worktree for attempt in attempts):
        table.add_row("worktree", *(Text(attempt.worktree or "-") for attempt in attempts))
    console.print(table)
    _section("Answers", attempts, lambda each: Text(printable(each.text).strip() or "-"), console)
    _section("Diffs", attempts, _diff, console)


def _section(
    title: str,
    attempts: Sequence[Attempt],
    content: Callable[[Attempt], Text],
    console: Console,
) -> None:
    console.print()
    console.print(Text(title, style="bold underline"))
    parts: list[RenderableType] = [content(attempt) for attempt in attempts]
    if console.width // len(attempts) >= _COLUMN:
        table = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="bold")
        for attempt in attempts:
            table.add_column(Text(one_line(attempt.agent, 40)), ratio=1, overflow="fold")
        table.add_row(*parts)
        console.print(table)
        return
    for attempt, part in zip(attempts, parts, strict=True):
        console.print(Text(one_line(attempt.agent, 40), style="bold"))
        console.print(part)


def _diff(attempt: Attempt) -> Text:
    if not attempt.diff:
        return Text("no changes", style="dim")
    shown = Text()
    for line in attempt.diff.splitlines():
        style = "bold" if line.startswith(("+++", "---", "diff ")) else _STYLES.get(line[:1], "")
        shown.append(f"{printable(line)}\n", style=style)
    return shown


def _result(attempt: Attempt) -> str:
    if attempt.error is not None:
        return f"failed: {attempt.error}"
    return attempt.limit or attempt.stop_reason or "-"


def _cost(attempt: Attempt) -> str:
    return "-" if attempt.cost is None else f"{attempt.cost:.4f} {attempt.currency or ''}".strip()


def _changes(attempt: Attempt) -> str:
    if not attempt.files:
        return "none"
    added = sum(file.added or 0 for file in attempt.files)
    removed = sum(file.removed or 0 for file in attempt.files)
    count = len(attempt.files)
    return f"{count} file{'s' * (count != 1)}, +{added} -{removed}"


@click.command("compare")
@click.argument("prompt")
@click.option(
    "--agent",
    "agents",
    metavar="NAME|COMMAND",
    multiple=True,
    required=True,
    help="Name from `accord agents`, or a command; repeat it for each agent.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Directory in a git repository [default: .].",
)
@approval_options
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop an agent after this time.",
)
@budget_options
@click.option("--keep", is_flag=True, help="Keep the worktrees.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    prompt: str,
    agents: tuple[str, ...],
    cwd: Path,
    allow_rules: tuple[str, ...],
    deny_rules: tuple[str, ...],
    yes: bool,
    timeout_s: float | None,
    budget: str | None,
    unmetered: tuple[str, ...],
    keep: bool,
    as_json: bool,
) -> int:
    """Give one prompt to several agents, and show answers, diffs, time and cost side by side.

    Each agent works in a git worktree of its own, made from the current commit; your files do not
    change. Permission requests that no rule allows are rejected. A worktree is not a sandbox: a
    command that you allow can change other files.

    Exit status: 0 all turns completed, 1 an agent failed, 2 usage error, 3 a limit was reached.
    """
    if not prompt.strip():
        raise click.UsageError("Expected a PROMPT, got an empty one")
    rules = Rules(
        allow=("*",) if yes else allow_rules,
        deny=deny_rules,
        timeout_s=timeout_s,
        limits=limits_of(budget, unmetered),
    )
    try:
        named = [named_agent(agent) for agent in agents]

        async def work() -> tuple[str, list[Attempt]]:
            base = await base_commit(cwd)
            if await has_changes(cwd):
                click.echo("accord compare: the agents do not see uncommitted changes", err=True)
            attempts = await run_attempts(
                named, prompt, cwd, base, rules, keep=keep, on_end=_show_end
            )
            return base, attempts

        base, attempts = run_program(work())
    except SessionsError as exc:
        click.echo(f"accord compare: {hidden_removed(str(exc))}", err=True)
        return exc.status
    if as_json:
        result = {"prompt": prompt, "base": base, "attempts": attempts}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    else:
        show_attempts(attempts, Console(highlight=False, markup=False, emoji=False))
    if any(attempt.timed_out or attempt.limit is not None for attempt in attempts):
        return TIME_LIMIT
    return FAILED if any(attempt.stop_reason != "end_turn" for attempt in attempts) else 0


def _show_end(attempt: Attempt) -> None:
    how = _result(attempt)
    click.echo(escaped_line(f"{attempt.agent}: {how}, {attempt.seconds:.1f} s"), err=True)
