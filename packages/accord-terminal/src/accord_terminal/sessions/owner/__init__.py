"""The process that holds an agent and its session, and serves them to many clients.

`program` starts and ends it, `owner` runs the turns, `state` is what its parts share. `roles` serve
each client in its version of the protocol, with `translate`; `questions` go to all clients.
"""

from __future__ import annotations

__all__ = ()
