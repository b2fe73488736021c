"""`accord`: finds the command, and imports what that one needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ("COMMANDS", "main")

# Each has a file of its own. All but `agent` have a click command there, called `command`.
COMMANDS = {
    "agent": "Serve the bundled agent on stdin and stdout, for editors.",
    "ask": "Ask an agent, and show what it does and says.",
    "check": "Check that the rules of the protocol are kept.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["agent"]:
        # An editor waits for it: it starts without click.
        from accord.cli import agent

        return agent.main(words[1:])
    try:
        from accord.cli import group
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print("accord: this needs more packages: pip install 'accord[cli]'", file=sys.stderr)
        return 2
    return group.main(words, COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
