"""The group of the click commands of `accord`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import click
from click.shell_completion import CompletionItem

from accord.program import drop_output, is_full
from accord.version import __version__


class LazyGroup(click.Group):
    """A group of commands in their own modules; it only has their summaries."""

    def __init__(self, summaries: Mapping[str, str], load: Callable[[str], click.Command]) -> None:
        super().__init__(
            name="accord",
            help="Use, serve and test agents that speak the Agent Client Protocol.",
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self.summaries = summaries
        self._load = load

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.summaries:
            return None
        return self._load(cmd_name)

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


def main(
    arguments: Sequence[str],
    summaries: Mapping[str, str],
    load: Callable[[str], click.Command],
) -> int:
    """Run or complete a command; return the exit status, which is 2 for a usage error.

    `load` imports a command.
    """
    version = click.version_option(__version__, message="accord %(version)s")
    group = version(LazyGroup(summaries, load))
    color = False if os.environ.get("NO_COLOR") else None  # None: on a terminal
    try:
        status = group.main(list(arguments), prog_name="accord", standalone_mode=False, color=color)
    except click.ClickException as error:
        error.show(sys.stderr)
        return error.exit_code
    except click.exceptions.Exit as left:
        return left.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except OSError as error:
        if not is_full(error):
            raise
        click.echo(f"Error: Cannot write the output: {error.strerror}", err=True)
        drop_output()
        return 1
    return status if isinstance(status, int) else 0
