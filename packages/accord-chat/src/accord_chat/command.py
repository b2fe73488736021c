"""The command line of `accord chat`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from accord_terminal.toolkit.options import budget_options, limits_of, token_file_option

# Imports inside the function keep `--help` and completion fast.


@click.command("chat")
@click.option(
    "--agent",
    metavar="NAME|COMMAND|URL",
    help="Name from `accord agents`, the command that starts the agent, or its URL.",
)
@token_file_option
@click.option(
    "--protocol",
    type=click.Choice(["1", "2"]),
    help="Protocol version [default: the newest version that the agent speaks].",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Working directory of the sessions [default: .].",
)
@click.option("--model", metavar="NAME", help="Model of new sessions.")
@click.option("--mode", metavar="NAME", help="Mode of new sessions.")
@click.option(
    "--option",
    "options",
    metavar="ID=VALUE",
    multiple=True,
    help="Set an option of new sessions; repeatable.",
)
@click.option(
    "--mcp",
    "mcp_files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Give the agent the MCP servers in this JSON file (`mcpServers`); repeatable.",
)
@click.option(
    "--allow",
    "allow_rules",
    metavar="RULE",
    multiple=True,
    help="Allow matching actions, such as `edit:src/*`; repeatable.",
)
@click.option(
    "--deny",
    "deny_rules",
    metavar="RULE",
    multiple=True,
    help="Reject matching actions; repeatable.",
)
@click.option("--terminals", is_flag=True, help="Let v1 agents run commands on this machine.")
@budget_options
@click.option("--new", "is_new", is_flag=True, help="Start with a new session only.")
@click.option("--resume", is_flag=True, help="Start with the list of the agent's sessions.")
@click.option("--session", "session_id", metavar="ID", help="Start with the session with this ID.")
@click.option(
    "-s",
    "shared_name",
    metavar="NAME",
    help="Use the session NAME of `accord session`, which stays open; make it if there is none.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Record all messages, for `accord trace`.",
)
@click.option(
    "--lines",
    is_flag=True,
    help="Print plain lines instead of a screen: for screen readers, pipes and simple terminals.",
)
def command(lines: bool, **given: Any) -> int:
    """Talk to agents on the whole screen, in sessions that stay open.

    Without --new, --resume, --session and -s, the sessions and drafts that were open in the folder
    when the program last ended come back. F1 shows the keys.

    With --lines, :help lists the commands, and the end of the input quits when all is done.

    Exit status: 0 left by the user, 1 failed, 2 usage error.
    """
    ways = ("is_new", "resume", "session_id", "shared_name")
    if sum(bool(given[way]) for way in ways) > 1:
        raise click.UsageError("--new, --resume, --session and -s exclude each other")
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not (lines or has_terminal):
        raise click.UsageError(
            "The screen of `accord chat` needs a terminal. `accord chat --lines` and `accord ask` "
            "work without one"
        )
    if lines or os.environ.get("TERM") in ("dumb", "unknown"):
        from accord_chat.lines.program import run_lines as run
    else:
        from accord_chat.view.app import run_chat as run
    from accord_chat.sources import ChatOptions

    limits_of(given["budget"], given["unmetered"])  # a usage error comes before the screen
    if given["budget"] and given["shared_name"]:
        raise click.UsageError(
            "-s: give --budget to `accord session new`, which starts the agent for all clients"
        )
    return run(ChatOptions(**given))
