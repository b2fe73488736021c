"""What the programs at a terminal share: they import it, and nothing here imports a program.

Text: `text` removes what could control a terminal and writes rows and tables, `terminal_output`
folds them and redraws a live region, `markdown` and `tool_rows` show parts of a conversation.
`questions` asks for permissions, forms and URLs. Agents: `agent_names` finds an agent by its name
and has the settings file, `login` lets the user log in, `session_setup` opens a session. `options`
are those of several commands.
"""

from __future__ import annotations

__all__ = ()
