"""Persistent sessions: a background process holds the agent, and many clients use its session.

`records` is the folder of all sessions and finds the one that is named, `journal` is what happened
in one, `owners` reaches its process, and `named` uses it from Python. `owner` is the process, `cli`
the commands of `accord session`, `compare` the command `accord compare`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Type checkers read these imports, Python the table below.
if TYPE_CHECKING:
    from accord_terminal.sessions.named import QueuedPrompt as QueuedPrompt
    from accord_terminal.sessions.named import SaidInTurn as SaidInTurn
    from accord_terminal.sessions.named import SessionStatus as SessionStatus
    from accord_terminal.sessions.named import SharedSession as SharedSession
    from accord_terminal.sessions.named import open_session as open_session
    from accord_terminal.sessions.records import NoSession as NoSession
    from accord_terminal.sessions.records import OwnerError as OwnerError
    from accord_terminal.sessions.records import SessionsError as SessionsError
else:
    # Imported when first used, to keep the start of commands fast.
    _LAZY = {
        name: module
        for module, names in {
            "accord_terminal.sessions.records": "NoSession OwnerError SessionsError",
            "accord_terminal.sessions.named": (
                "QueuedPrompt SaidInTurn SessionStatus SharedSession open_session"
            ),
        }.items()
        for name in names.split()
    }
    __all__ = tuple(_LAZY)

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
