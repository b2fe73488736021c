"""The commands of `accord` as click has them, each imported when it is called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

import click
from click.shell_completion import CompletionItem

from accord.version import __version__

__all__ = ("LazyGroup", "main")


class LazyGroup(click.Group):
    """Commands that stand in files of their own, of which only the summaries are known."""

    def __init__(self, summaries: Mapping[str, str]) -> None:
        super().__init__(
            name="accord",
            help="Use, serve and test agents that speak the Agent Client Protocol.",
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self.summaries = summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.summaries:
            return None
        if cmd_name == "agent":
            return _agent()
        return _command(cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        found = [
            CompletionItem(name, help=summary)
            for name, summary in sorted(self.summaries.items())
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.summaries.items()))


def _command(name: str) -> click.Command:
    """Import a command: our own, or one that an installed package adds."""
    for entry in entry_points(group="accord.commands", name=name):
        return entry.load()
    return importlib.import_module(f"accord.cli.{name}").command


def _agent() -> click.Command:
    """Return what the shell completes for `accord agent`, which itself runs without click."""
    from accord.cli.agent import AGENTS, FLAGS, OPTIONS

    params: list[click.Parameter] = [
        click.Argument(["name"], type=click.Choice(AGENTS), required=False),
        *(
            click.Option(
                [f"--{name}"],
                is_flag=name in FLAGS,
                type=click.Choice(choices) if choices else None,
            )
            for name, choices in OPTIONS.items()
        ),
    ]
    return click.Command("agent", params=params)


def main(arguments: Sequence[str], summaries: Mapping[str, str]) -> int:
    """Run a command, or complete one; return the exit status, 2 for a usage error."""
    group = click.version_option(__version__, message="accord %(version)s")(LazyGroup(summaries))
    try:
        status = group.main(list(arguments), prog_name="accord", standalone_mode=False)
    except click.ClickException as error:
        error.show(sys.stderr)
        return error.exit_code
    except click.exceptions.Exit as left:
        return left.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    return status if isinstance(status, int) else 0
