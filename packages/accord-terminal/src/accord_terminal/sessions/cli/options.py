"""Options that several commands of `accord session` have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from accord.types.tool_calls import rule_error

F = TypeVar("F", bound=Callable[..., Any])


def name_option(function: F) -> F:
    """Add -s."""
    option = click.option(
        "-s", "--session", "name", metavar="NAME", help="Name of the session, or its id."
    )
    return option(function)


def json_option(function: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def print_result(result: Any, text: str, *, as_json: bool) -> None:
    """Print what a command has done."""
    click.echo(json.dumps(result, ensure_ascii=False) if as_json else text)


def cwd_option(function: F) -> F:
    """Add --cwd."""
    option = click.option(
        "--cwd",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default=".",
        help="Directory of the session [default: .].",
    )
    return option(function)


def agent_option(function: F) -> F:
    """Add --agent."""
    option = click.option(
        "--agent", metavar="NAME|COMMAND", help="Name from `accord agents`, or a command."
    )
    return option(function)


def approval_options(function: F) -> F:
    """Add --allow, --deny and --yes, as `accord ask` has them."""
    for option in (
        click.option("--yes", is_flag=True, help="Allow all permission requests."),
        click.option(
            "--deny",
            "deny_rules",
            metavar="RULE",
            multiple=True,
            callback=check_rules,
            help="Reject matching actions; repeatable.",
        ),
        click.option(
            "--allow",
            "allow_rules",
            metavar="RULE",
            multiple=True,
            callback=check_rules,
            help="Allow matching actions, such as `edit` or `execute:pytest*`; repeatable.",
        ),
    ):
        function = option(function)
    return function


def check_rules(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Return rules; raise `click.BadParameter` for an invalid one."""
    if value and (error := rule_error(value)) is not None:
        raise click.BadParameter(error)
    return value
