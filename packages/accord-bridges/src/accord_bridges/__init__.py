"""ACP agents in the tools of others: inspect-ai (`inspect`), Harbor (`harbor`) and frameworks.

The frameworks are in `used_in`.

A bridge is one file and depends on one tool, which is an extra of the same name. No bridge imports
a tool that you have not imported. `steps` divides a turn into messages with their tool calls, which
is what such tools count, and `command_transport` reaches an agent where only commands can be run.
"""

from __future__ import annotations

__all__ = ()
