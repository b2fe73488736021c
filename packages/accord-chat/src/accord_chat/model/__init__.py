"""What a chat consists of, without a screen: nothing here knows the view or the agent's connection.

Read `conversation` first (the entries that are shown), then `prompts`, `questions` (of agents),
`changes` (hunks, their review, the file that the agent works on) and `turn_changes` (what the agent
did not report). `saved` has what survives the program, `traffic` the messages of the protocol.
"""

from __future__ import annotations

__all__ = ()
