"""What a person types at a terminal: `accord ask`, `session`, `agents`, `serve` and their like.

Words of a command line go in. An agent is started or reached, and what it does comes out as text,
as JSON lines, or as messages for an editor.

Each command of the program `accord` is a `command` in a module or a folder; the entry points of
this package name them. `accord` imports only the command that is called, and a command imports what
is slow when it is needed: `tests/cli/test_start.py` checks this.

- `click_group`: the group of all commands.
- `ask`: one prompt and its turn. Read `ask/run.py` first, then `ask/conversation.py`.
- `sessions`: sessions that stay open. `sessions/owner` is the background process that holds an
  agent; read `sessions/owner/program.py`. `sessions/cli` has the commands.
- `agents`: agents of registries, and `accord doctor`.
- `trace`: commands for recordings, which `accord_trace` writes and reads.
- `chain`, `serve`, `install`: an agent for editors and for clients on the network.
- `toolkit`: what several programs share: text, rows, diffs, questions, logins, the names of agents
  and the settings file. It imports no program.
"""

from __future__ import annotations

__all__ = ()
