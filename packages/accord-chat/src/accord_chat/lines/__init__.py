"""`accord chat --lines`: the chat in plain lines, for screen readers and simple terminals.

`program` is the loop: it passes on what is typed, and prints what the sessions report. It reads
with `keyboard`, and runs `commands`. `reader` prints a session, `questions` asks the user, and
`words` has the printer and its words. Nothing here imports Textual.
"""

from __future__ import annotations

__all__ = ()
