"""What a person types at a terminal: `accord ask`, `session`, `agents`, `serve` and their like.

Each command of the program `accord` is a module or a folder with a `command`; the entry points of
this package name them. `toolkit` has what several programs share: safe text, rows, diffs, forms,
logins, the names of agents and the settings file.
"""

from __future__ import annotations

__all__ = ()
