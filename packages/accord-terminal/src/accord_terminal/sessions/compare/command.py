"""The command line of `accord compare`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from accord.local.run import run_program
from accord.text.excerpt import hidden_removed, one_line
from accord_terminal.sessions.cli.options import approval_options
from accord_terminal.sessions.compare.attempt import Attempt, Rules, run_attempts
from accord_terminal.sessions.compare.table import show_attempts
from accord_terminal.sessions.compare.worktree import base_commit, has_changes
from accord_terminal.sessions.errors import FAILED, TIME_LIMIT, SessionsError
from accord_terminal.sessions.lookup import named_agent


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
    keep: bool,
    as_json: bool,
) -> int:
    """Give one prompt to several agents, and show answers, diffs, time and cost side by side.

    Each agent works in a git worktree of its own, made from the current commit; your files do not
    change. Permission requests that no rule allows are rejected. A worktree is not a sandbox: a
    command that you allow can change other files.

    Exit status: 0 all turns completed, 1 an agent failed, 2 usage error, 3 time limit.
    """
    if not prompt.strip():
        raise click.UsageError("Expected a PROMPT, got an empty one")
    rules = Rules(allow=("*",) if yes else allow_rules, deny=deny_rules, timeout_s=timeout_s)
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
    if any(attempt.timed_out for attempt in attempts):
        return TIME_LIMIT
    return FAILED if any(attempt.stop_reason != "end_turn" for attempt in attempts) else 0


def _show_end(attempt: Attempt) -> None:
    how = attempt.stop_reason if attempt.error is None else f"failed: {attempt.error}"
    click.echo(one_line(f"{attempt.agent}: {how}, {attempt.seconds:.1f} s"), err=True)
