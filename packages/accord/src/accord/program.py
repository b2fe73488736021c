"""The program `accord`: finds a command in the package that has it, and imports only what it needs.

Commands are entry points of the group `accord.commands`, click commands that the package
`accord-terminal` runs. The group `accord.program` has what gets the words of the command line
itself: `agent` and `run`, which start without click because an editor is waiting, and `group`,
which runs the click commands. `importlib.metadata` takes a fifth of the time of a short command,
so the entry points of Accord's own packages are looked up in the one file that has them.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.installed import install_command
from accord.version import __version__

if TYPE_CHECKING:
    import click


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
    "gateway": "Serve agents by the OpenAI API, MCP, A2A and AG-UI.",
    "inspect": "Show messages on a web page, live or recorded.",
    "install": "Add an agent to the settings of an editor.",
    "run": "Serve an agent of a framework on stdin and stdout.",
    "serve": "Serve an agent to clients on the network.",
    "session": "Keep sessions open, for scripts, terminals and editors.",
    "trace": "Record messages, and read recordings.",
    "web": "Show the sessions of this machine in a browser and on a phone.",
}
# The packages with these commands; the others are in the package of the terminal.
_TERMINAL = "accord_terminal"
_PACKAGES = {
    "agent": "accord_coder",
    "chat": "accord_chat",
    "check": "accord_check",
    "fleet": "accord_fleet",
    "gateway": "accord_bridges",
    "inspect": "accord_inspector",
    "run": "accord_bridges",
    "web": "accord_web",
}
_COMPLETION = "_ACCORD_COMPLETE"  # click's name; a shell sets it when it completes a line
# The extras with what a command may miss.
_EXTRAS = {
    **dict.fromkeys((_TERMINAL, "accord_check", "accord_coder", "accord_trace"), "cli"),
    **dict.fromkeys(("click", "markdown_it", "platformdirs", "rich"), "cli"),
    **dict.fromkeys(("accord_inspector", "jsonpath_rfc9535", "psutil", "starlette"), "inspector"),
    "accord_bridges": "bridges",
    **dict.fromkeys(("accord_web", "segno"), "web"),
    **dict.fromkeys(("accord_chat", "textual"), "tui"),
    **dict.fromkeys(("accord_fleet", "fsspec", "pyarrow", "ray"), "fleet"),
    **dict.fromkeys(("h11", "h2", "httpx2", "hypercorn", "websockets"), "remote"),
}
_EXTRA_OF_COMMAND = {
    "chat": "tui",
    "fleet": "fleet",
    "gateway": "gateway",
    "inspect": "inspector",
    "web": "web",
}
# What a write to the output raises if its disk is full or fails.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))


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
            return _agent(words[1:])
        if words[:1] == ["run"]:
            return _run(words[1:])
        if not words[0].startswith("-") and words[0] not in COMMANDS:
            print(
                f"accord: unknown command {words[0]!r}: expected one of "
                f"{', '.join(sorted(COMMANDS))}; see `accord --help`",
                file=sys.stderr,
            )
            return 2
    try:
        run = load_entry_point("accord.program", "group", _TERMINAL)
        if run is None:
            raise ModuleNotFoundError(name=_TERMINAL)
        return run(words, COMMANDS, load_command)
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


def load_command(name: str) -> click.Command:
    """Import a click command; raises `ModuleNotFoundError` if its package is not installed."""
    package = _PACKAGES.get(name, _TERMINAL)
    command = load_entry_point("accord.commands", name, package)
    if command is None:
        raise ModuleNotFoundError(f"`accord {name}` is not installed", name=package)
    return command


def load_entry_point(group: str, name: str, package: str = "") -> Any:
    """Import and return the object of an entry point; None if it is not installed.

    `package` is the package of Accord that probably has it, with an underscore.
    """
    value = _value_in(package, group, name) if package else None
    if value is not None:
        module, _, attribute = value.partition(":")
        return getattr(import_module(module), attribute)
    from importlib.metadata import entry_points

    for entry in entry_points(group=group, name=name):
        return entry.load()
    return None


def open_standard_streams() -> None:
    """Open closed ones of stdin, stdout and stderr on the null device, for children too.

    Otherwise the next file or socket that is opened gets the number 0, 1 or 2, and what is meant
    for the stream is read from it or written to it.
    """
    numbers: dict[int, int] = {}
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = numbers[number] = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            os.set_inheritable(opened, True)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # A file that was opened before, as by a hook of `site`, may have the number already.
            opened = numbers.get(number, os.devnull)
            setattr(sys, name, open(opened, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def write_output(text: str) -> int:
    """Write a text to stdout; return the exit status, which is 1 if that fails.

    There is no traceback if the disk is full, or if the reader has left.
    """
    if sys.stdout is None:  # closed before the program started
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"accord: cannot write the output: {error.strerror}\n")
        drop_output()
        return 1
    return 0


def is_full(error: OSError) -> bool:
    """Return whether stdout could not be written: its disk is full, or fails."""
    return error.errno in _FULL and error.filename is None


def drop_output() -> None:
    """Let Python write the rest of a buffer to nowhere when it exits."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device
        os.dup2(nowhere.fileno(), 1)


def _agent(words: Sequence[str]) -> int:
    """Run `accord agent`, which is in the package of the coding agent."""
    run = load_program("agent", _PACKAGES["agent"])
    if run is not None:
        return run(words)
    if list(words) == ["script"]:
        from accord.script_agent.agent import ScriptAgent

        try:
            ScriptAgent(exit_process=os._exit).run()
        except KeyboardInterrupt:
            return 130
        return 0
    print(
        "accord agent: the coding agent requires more packages:"
        f" {install_command('cli')}, or {install_command('cli,coder')} to use a language model",
        file=sys.stderr,
    )
    return 2


def _run(words: Sequence[str]) -> int:
    """Run `accord run`, which is in the package of the bridges."""
    run = load_program("run", _PACKAGES["run"])
    if run is not None:
        return run(words)
    advice = install_command("bridges")
    print(f"accord: `accord run` requires more packages: {advice}", file=sys.stderr)
    return 2


def load_program(name: str, package: str) -> Any:
    """Return an object of the group `accord.program`; None if its package is not installed."""
    try:
        return load_entry_point("accord.program", name, package)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        return None


def _value_in(package: str, group: str, name: str) -> str | None:
    """Return the value of an entry point of a package of Accord, `module:attribute`."""
    # pathlib is slow to import.
    file_name = os.path.join(f"{package}-{__version__}.dist-info", "entry_points.txt")  # noqa: PTH118
    for folder in sys.path:
        try:
            with open(os.path.join(folder, file_name), encoding="utf-8") as file:  # noqa: PTH118, PTH123
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        section = ""
        for line in map(str.strip, lines):
            if line.startswith("["):
                section = line.strip("[]")
            elif section == group:
                key, is_pair, value = line.partition("=")
                if is_pair and key.strip() == name:
                    return value.strip()
    return None


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
