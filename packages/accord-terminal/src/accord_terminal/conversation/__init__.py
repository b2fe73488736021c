"""A conversation with an agent on a web page, as the inspector shows it.

`SessionLog` is one session as a growing list of entries, `changes_json` and `older_json` are what a
page asks for of it, `Questions` has the agent's questions and their answers, and `prompt_contents`
reads what a page sends. `PAGE` is the folder of the modules that show it. A page that uses them
gives `api.js` (`get`, `post`, `live`, `ApiError`) and `router.js` (`address`, `messageAddress`,
`shownNumber`), and serves all its modules at one address.
"""

from __future__ import annotations

from pathlib import Path

from accord_terminal.conversation.entries import (
    changes_json,
    entry_json,
    older_json,
    session_json,
)
from accord_terminal.conversation.questions import ApiError, Questions, prompt_contents
from accord_terminal.conversation.session_log import (
    Clock,
    Entry,
    SessionLog,
    Stamp,
    Wire,
    session_of,
    wire_of,
)

__all__ = (
    "PAGE",
    "ApiError",
    "Clock",
    "Entry",
    "Questions",
    "SessionLog",
    "Stamp",
    "Wire",
    "changes_json",
    "entry_json",
    "older_json",
    "prompt_contents",
    "session_json",
    "session_of",
    "wire_of",
)

PAGE: Path = Path(__file__).parent / "page"
