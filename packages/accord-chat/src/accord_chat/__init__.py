"""`accord chat`: the client that stays open, with its sessions, drafts and questions.

`command` parses the command line and starts one of two views of the same chat: the screen (`view`,
made with Textual) or plain lines (`lines`). Both show a `Chat`, which owns the open sessions.

    command → chat.prepare → Chat → LiveSession → AgentLink → an agent
                                       ↓ events
                               model (no screen) → view or lines → what the user does → LiveSession

Data comes in as events of `accord.client`. A `LiveSession` passes them to its `Timeline`, which
notes what has changed; the view draws that in its next frame. What the user does goes back by the
methods of `LiveSession` and `Chat`, questions of the agent by `Question.answer`. The keys of the
user go before the updates of agents (`pace`).

Read `chat`, `live_session` and `model.conversation` first, then `view.chat_screen` or
`lines.program`. Textual is imported by `view` only, and `view` only when the screen is started.
"""

from __future__ import annotations

__all__ = ()
