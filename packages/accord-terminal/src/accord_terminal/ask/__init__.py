"""`accord ask`: sends one prompt to an agent and shows the turn.

`command` reads the command line into `options`, `run` starts the agent, `conversation` talks to it,
and `views` show the turn; `screen` is the view for people. The agent starts while what talks to it
and shows it is imported.
"""

from __future__ import annotations

__all__ = ()
