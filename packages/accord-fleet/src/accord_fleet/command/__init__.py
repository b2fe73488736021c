"""`accord fleet`: run, resume, status, show, report, export and import.

Read `commands` first: it has the arguments, options and exit status of each command, and imports
the rest when a command is called. `run_fleet` begins and resumes runs; `show` prints the status
of a run and its attempts. Reports are made in `accord_fleet.report`.
"""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ("command",)

_COMMANDS = {
    "export": "Write the results as logs of inspect-ai or as a job of Harbor.",
    "import": "Make a run of logs of inspect-ai or of a job of Harbor.",
    "report": "Show the results of a run, as text or as a page.",
    "resume": "Run what has no result yet.",
    "run": "Give tasks to agents, and store the results.",
    "show": "Show one attempt: prompts, answer, changes, verdict, messages.",
    "status": "Show how far a run is.",
}
_FUNCTIONS = {"export": "export_run", "import": "import_run"}


class _FleetGroup(click.Group):
    """Imports the commands when one of them is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return getattr(
            import_module("accord_fleet.command.commands"), _FUNCTIONS.get(cmd_name, cmd_name)
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group("fleet", cls=_FleetGroup)
def command() -> None:
    """Give the same tasks to many agents, on this machine or on a cluster."""
