"""The program `accord`: finds the command, and imports only what that command needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from accord.output import write_output
from accord.standard_streams import open_standard_streams
from accord.installed import install_command
from accord.version import __version__

if TYPE_CHECKING:
    import click

__all__ = ("COMMANDS", "load_command", "main")

COMMANDS = {
    "agent": "Serve a bundled agent on stdin and stdout.",
    "agents": "List, install and update agents.",
    "ask": "Send one prompt to an agent and show the result.",
    "bridge": "Connect an editor to a remote agent.",
    "chain": "Run proxies and an agent as one agent.",
    "chat": "Talk to agents on the whole screen, in sessions that stay open.",
    "check": "Test agents and clients against the protocol.",
    "doctor": "Check which agents start here, and show what is known about them.",
    "compare": "Give a prompt to several agents, and show the results side by side.",
    "fleet": "Give the same tasks to many agents, here or on a cluster.",
    "inspect": "Show messages on a web page, live or recorded.",
    "install": "Add an agent to the settings of an editor.",
    "serve": "Serve an agent to clients on the network.",
    "session": "Keep sessions open, for scripts, terminals and editors.",
    "trace": "Record messages, and read recordings.",
}
# The modules of the click commands, each with a `command`. Other packages add the rest.
_MODULES = {
    "agent": "accord_coder.completion",
    "ask": "accord_terminal.ask.command",
    "bridge": "accord_terminal.bridge",
    "chain": "accord_terminal.chain",
    "serve": "accord_terminal.serve",
    "trace": "accord_terminal.trace.command",
}
_COMPLETION = "_ACCORD_COMPLETE"  # click's name; a shell sets it when it completes a line
# What the extras install that the commands need.
_EXTRAS = {
    **dict.fromkeys(("click", "markdown_it", "platformdirs", "rich"), "cli"),
    **dict.fromkeys(("jsonpath_rfc9535", "psutil", "starlette"), "inspector"),
    "textual": "tui",
    **dict.fromkeys(("fsspec", "pyarrow", "ray"), "fleet"),
    **dict.fromkeys(("h11", "h2", "httpx2", "hypercorn", "websockets"), "remote"),
}


_EXTRA_OF_COMMAND = {
    "chat": "tui",
    "fleet": "fleet",
    "inspect": "inspector",
}  # if it needs more than a module tells


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status."""
    open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    completes = _COMPLETION in os.environ
    if not completes:
        if words[:1] in ([], ["-h"], ["--help"]):
            return write_output(_help())
        if words[:1] == ["--version"]:
            return write_output(f"accord {__version__}\n")
        if words[:1] == ["agent"]:
            # Without click, to start fast: an editor is waiting.
            from accord_coder import command

            return agent.main(words[1:])
        if not words[0].startswith("-") and words[0] not in COMMANDS:
            print(
                f"accord: unknown command {words[0]!r}: expected one of "
                f"{', '.join(sorted(COMMANDS))}; see `accord --help`",
                file=sys.stderr,
            )
            return 2
    try:
        from accord_terminal import click_group

        return click_group.main(words, COMMANDS, load_command)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = _EXTRAS.get(package)
        if extra is None:
            raise
        if completes:
            return 0  # no candidates, and no error in the middle of the user's line
        extra = _EXTRA_OF_COMMAND.get(words[0], extra)
        print(
            f"accord: `accord {words[0]}` requires more packages: {install_command(extra)}",
            file=sys.stderr,
        )
        return 2


def load_command(name: str) -> click.Command | None:
    """Import a click command; return None if it is not installed."""
    if name in _MODULES:
        return import_module(_MODULES[name]).command
    from accord.entry_point import load_entry_point

    return load_entry_point("accord.commands", name)


def _help() -> str:
    width = max(map(len, COMMANDS))
    rows = "".join(f"  {name:<{width}}  {summary}\n" for name, summary in sorted(COMMANDS.items()))
    return f"""\
Usage: accord [OPTIONS] COMMAND [ARGS]...

  Use, serve and test agents that speak the Agent Client Protocol.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
{rows}
Run `accord COMMAND --help` for the options of a command.
"""


if __name__ == "__main__":
    sys.exit(main())
