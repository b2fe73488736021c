"""A conversation with an agent on a web page: that of the inspector, and that of `accord web`.

`SessionLog` is one session as a growing list of entries, `changes_json` and `older_json` are what a
page asks for of it, `Questions` has the agent's questions and their answers, and `prompt_contents`
reads what a page sends. `PageFiles` serves the folder of a page together with the modules that
show a conversation, for which the page gives `api.js` (`get`, `post`, `live`, `ApiError`) and
`router.js` (`address`, `messageAddress`, `shownNumber`).
"""

from __future__ import annotations

from accord_terminal.conversation.entries import (
    changes_json,
    entry_json,
    older_json,
    session_json,
)
from accord_terminal.conversation.questions import ApiError, Questions, prompt_contents
from accord_terminal.conversation.serving import (
    HEADERS,
    PageFiles,
    UnreadBody,
    body_of,
    json_response,
    with_headers,
)
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
    "HEADERS",
    "ApiError",
    "Clock",
    "Entry",
    "PageFiles",
    "Questions",
    "SessionLog",
    "Stamp",
    "UnreadBody",
    "Wire",
    "body_of",
    "changes_json",
    "entry_json",
    "json_response",
    "older_json",
    "prompt_contents",
    "session_json",
    "session_of",
    "wire_of",
    "with_headers",
)
