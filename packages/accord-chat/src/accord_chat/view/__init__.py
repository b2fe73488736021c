"""The full-screen view of a chat, made with Textual.

`app` runs the program and owns the terminal. `main_screen` has the keys, `chat_screen` the layout:
tabs, the conversation (`transcript_view`, which draws `entry_lines` out of `lazy_lines`), the
question of the agent (`question_area`), the prompt (`prompt_area`, `composer`) and `bars`.
`commands` are what keys do; most open a screen of their own (`pick_screen`, `review_screen`,
`trace_screen`, `subagent_screens`, `registry`, `picture_screen`). `terminal` reads keys and pastes.
"""

from __future__ import annotations

__all__ = ()
