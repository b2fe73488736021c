"""`accord agent [NAME]`: serves a bundled agent on stdin and stdout, without click or rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ("main",)

USAGE = "usage: accord agent [script]"
HELP = f"""\
{USAGE}

Serve a bundled agent on stdin and stdout, in version 1 or 2 of the Agent Client Protocol.
Give an editor `accord agent` as the command of an agent.

Agents:
  script    does what it is told: every prompt is a command, `help` lists them (the default)
"""


def main(arguments: Sequence[str]) -> int:
    """Serve the agent that the arguments name; return the exit status."""
    if any(word in ("-h", "--help") for word in arguments):
        print(HELP, end="")
        return 0
    names = [word for word in arguments if not word.startswith("-")]
    unknown = [word for word in arguments if word.startswith("-")] or names[1:]
    if names and names[0] != "script":
        return _refuse(f"there is no agent {names[0]!r}")
    if unknown:
        return _refuse(f"unexpected argument {unknown[0]!r}")
    return _serve()


def _refuse(why: str) -> int:
    print(f"accord agent: {why}\n{USAGE}", file=sys.stderr)
    return 2


def _serve() -> int:
    from accord.scripted.agent import ScriptAgent

    if sys.stdin.isatty():
        print(
            "accord agent: waiting for JSON lines from a client; end with Ctrl-D", file=sys.stderr
        )
    try:
        ScriptAgent(leave=os._exit).run()
    except KeyboardInterrupt:
        return 130
    return 0
