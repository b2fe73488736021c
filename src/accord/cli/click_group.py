"""The click commands of `accord`, each imported when it is called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence

import click
from click.shell_completion import CompletionItem

from accord.version import __version__

__all__ = ("LazyGroup", "main")

OWN = ("agents", "ask")  # commands of this package


class LazyGroup(click.Group):
    """A group of commands in their own modules; it only has their summaries."""

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
        names = [
            CompletionItem(name, help=summary)
            for name, summary in sorted(self.summaries.items())
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.summaries.items()))


def _command(name: str) -> click.Command:
    """Import a command: one of this package, or one that another package adds."""
    if name in OWN:
        return importlib.import_module(f"accord.cli.{name}").command
    from importlib.metadata import entry_points  # slow to import

    for entry in entry_points(group="accord.commands", name=name):
        return entry.load()
    raise click.UsageError(f"`accord {name}` is not installed")


def _agent() -> click.Command:
    """Return `accord agent` for completion only: the command itself runs without click."""
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
    """Run or complete a command; return the exit status, which is 2 for a usage error."""
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
