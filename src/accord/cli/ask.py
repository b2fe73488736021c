"""`accord ask`: one turn with an agent, shown to people or told to programs. Its command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import click

from accord.cli.turn import Asked, run
from accord.transports.process import argv_of

__all__ = ("command",)


def _words(_context: click.Context, _option: click.Parameter, value: str | None) -> list[str]:
    if value is None:
        return [sys.executable, "-m", "accord", "agent"]
    try:
        return argv_of(value)
    except ValueError as exc:
        raise click.BadParameter(f"Expected a command line, got {value!r}: {exc}") from None


def _rules(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if not value:
        return value
    from accord.model.tools import ToolKind

    known, _ = get_args(ToolKind)
    for rule in value:
        kind = rule.partition(":")[0]
        if kind not in ("*", *get_args(known)) and not kind.startswith("_"):
            raise click.BadParameter(
                f"Expected a kind of tool call, got {kind!r} in {rule!r}: it is one of "
                f"{', '.join(get_args(known))}, or * for all"
            )
    return value


@click.command()
@click.argument("prompt")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--agent",
    "words",
    metavar="COMMAND",
    callback=_words,
    help="The agent to start; else the bundled one.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The directory that the session works in.",
)
@click.option(
    "--allow",
    "rules",
    metavar="RULE",
    multiple=True,
    callback=_rules,
    help="Allow what matches, as `edit`, `edit:src/*` or `execute:pytest*`; may be repeated.",
)
@click.option("--yes", is_flag=True, help="Allow everything that the agent asks for.")
@click.option(
    "--terminals",
    is_flag=True,
    help="Run commands for an agent of version 1 on this machine, as editors do.",
)
@click.option("--json", "as_json", is_flag=True, help="Write events as JSON lines.")
@click.option("--continue", "goes_on", is_flag=True, help="Go on with the latest session here.")
@click.option("--session", "session_id", metavar="ID", help="Go on with this session.")
def command(
    prompt: str,
    files: tuple[Path, ...],
    words: list[str],
    cwd: Path,
    rules: tuple[str, ...],
    yes: bool,
    terminals: bool,
    as_json: bool,
    goes_on: bool,
    session_id: str | None,
) -> int:
    """Ask an agent, and show what it does and says.

    FILES go with the prompt. What the agent asks permission for is decided by --allow and --yes,
    else asked at the terminal, else refused. What else it asks the user, in forms, is asked at
    the terminal alone. Ctrl-C cancels the turn, or declines a form; a second one quits.

    The exit status is 0 when the agent came to an end, 1 when it failed, 2 when the command line
    is wrong, 3 when the agent stopped short, 4 when it refused, 130 when the turn was cancelled.
    """
    if goes_on and session_id is not None:
        raise click.UsageError("--continue and --session exclude each other")
    if not prompt and not files:
        raise click.UsageError("Expected something to ask, got an empty PROMPT")

    return run(
        Asked(
            prompt=prompt,
            words=words,
            cwd=cwd.absolute(),
            files=files,
            rules=rules,
            yes=yes,
            terminals=terminals,
            as_json=as_json,
            goes_on=goes_on,
            session_id=session_id,
        )
    )
