"""What the programs at a terminal share: they import it, and nothing here imports a program.

Text: `safe_text` removes what could control a terminal, `folding` and `rows` fit it to a width, and
`markdown`, `diff_rows`, `excerpt_place`, `tool_rows` and `columns` show parts of a conversation.
Questions: `forms`, `permission_question` and `keyboard`. Agents: `settings` is the settings file,
`agent_names` and `installed_agents` find an agent by its name, `login`, `terminal_login` and
`remote_token` let the user log in, `session_setup` and `mcp_file` open a session.
"""

from __future__ import annotations

__all__ = ()
