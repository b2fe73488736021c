"""Options of several commands: the token of a remote agent, and those of recordings.

A token is read from a file or the environment, never from the command line. Nothing here imports
what records.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

if TYPE_CHECKING:
    from accord.client.budget import SpendingLedger
    from accord.client.limits import Limits
    from accord.client.permissions import Policy

# The token for remote agents: read from a file or the environment, never the command line.

TOKEN_VARIABLE = "ACCORD_TOKEN"

F = TypeVar("F", bound=Callable[..., Any])


def token_file_option(command: F) -> F:
    """Add `--token-file`: other users see a command line in the list of processes (R-SEC-06)."""
    return click.option(
        "--token-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"File with the token of the server. Default: the value of {TOKEN_VARIABLE}.",
    )(command)


def connection_options(command: F) -> F:
    """Add `--token-file`, `--ca-file` and `--insecure`, for connections to a remote agent."""
    insecure = click.option(
        "--insecure", is_flag=True, help="Send the token unencrypted to another machine."
    )
    ca_file = click.option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Certificates to trust instead of the system's.",
    )
    return token_file_option(ca_file(insecure(command)))


def read_or_make_token(file: Path) -> tuple[str, bool]:
    """Return the token in a file, and whether it was made: for this user only, with 256 bits."""
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_token(file) or "", False
    except OSError as error:
        raise click.UsageError(f"--token-file: {file} cannot be made: {error}") from None
    import secrets

    token = secrets.token_urlsafe(32)
    with os.fdopen(opened, "w", encoding="utf-8") as writing:
        writing.write(f"{token}\n")
    return token, True


def read_token(file: Path | None) -> str | None:
    """Return the token in a file, else that of the environment; None if there is none."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise click.UsageError(f"--token-file: {file} cannot be read: {error}") from None
    if not text or len(text.split()) != 1:
        raise click.UsageError(f"--token-file: expected one token in {file}")
    return text


def budget_options(command: F) -> F:
    """Add `--budget` and `--unmetered`; `limits_of` reads their values."""
    budget = click.option(
        "--budget",
        metavar="LIMITS",
        help="Cancel a turn at a limit: cost=2, tokens=200k/session, time=1h/day; or a file.",
    )
    unmetered = click.option(
        "--unmetered",
        multiple=True,
        metavar="NAME",
        help="Run this agent although it does not report its tokens or cost; can be repeated.",
    )
    return budget(unmetered(command))


def limits_of(budget: str | None, unmetered: Sequence[str] = ()) -> Limits | None:
    """Return the limits of `--budget`, from its text or file; None without it."""
    if budget is None:
        if unmetered:
            raise click.UsageError("--unmetered is for --budget")
        return None
    from accord.client.budget import Budget
    from accord.client.limits import Limits, read_limits

    path = Path(budget).expanduser()
    try:
        if path.suffix == ".toml" or path.is_file():
            limits = read_limits(path)
        else:
            limits = Limits(budgets=Budget.parse(budget))
    except ValueError as error:
        raise click.UsageError(f"--budget: {error}") from None
    return Limits(
        budgets=limits.budgets,
        deny=limits.deny,
        allow=limits.allow,
        unmetered=(*limits.unmetered, *unmetered),
    )


def limited_connection(limits: Limits | None) -> dict[str, Any]:
    """Return the arguments of `connect` for limits.

    The accounts of sessions and days are in a file: a session can be opened again.
    """
    if limits is None:
        return {}
    ledger = ledger_of(limits)
    return {"budget": limits.budgets, "unmetered": limits.unmetered, "ledger": ledger}


def ledger_of(limits: Limits, *, principal: str = "") -> SpendingLedger | None:
    """Return the accounts of this user, if limits need them; days are those of a `principal`."""
    from accord.client.budget import SpendingLedger

    is_kept = any(budget.per != "turn" for budget in limits.budgets)
    return SpendingLedger(principal=principal) if is_kept else None


def limit_policies(limits: Limits | None) -> list[Policy]:
    """Return the permission policies of limits, which come before all others."""
    if limits is None:
        return []
    from accord.client.limits import Rules

    return [Rules(limits).decide]


def checked_budget(budget: str | None, unmetered: Sequence[str] = ()) -> str | None:
    """Return `--budget`, whose limits are right, with the path of a file as an absolute one."""
    if limits_of(budget, unmetered) is None or budget is None:
        return None
    path = Path(budget).expanduser()
    return str(path.absolute()) if path.is_file() else budget


def limited_command(
    argv: Sequence[str],
    budget: str | None,
    unmetered: Sequence[str] = (),
    *,
    account: str | None = None,
) -> tuple[str, ...]:
    """Return the command of a chain that keeps the agent of a command within limits.

    None is the command itself. With an `account`, sessions count as one of this name.
    """
    if (given := checked_budget(budget, unmetered)) is None:
        return tuple(argv)
    named = [word for name in unmetered for word in ("--unmetered", name)]
    counted = () if account is None else ("--account", account)
    chain = (sys.executable, "-m", "accord", "chain", "--budget", given, *named, *counted)
    return (*chain, "--", shlex.join(argv))


Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

no_redact_option: Option = click.option(
    "--no-redact", is_flag=True, help="Keep secrets: environment, headers, logins."
)
max_size_option: Option = click.option(
    "--max-size",
    type=click.FloatRange(0, min_open=True),
    metavar="MB",
    help="Continue in a new file after this size.",
)
_MEGABYTE = 1_000_000


def own_path(path: Path) -> Path:
    """Return the path with `{pid}` replaced by the number of this process."""
    return path.with_name(path.name.replace("{pid}", str(os.getpid())))


def bytes_of(max_size: float | None) -> int | None:
    """Return a size in megabytes as bytes."""
    return None if max_size is None else round(max_size * _MEGABYTE)
