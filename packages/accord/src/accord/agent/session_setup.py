"""What a client requests for a session that it opens."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from accord.errors import InvalidParams
from accord.types.mcp import McpServer
from accord.types.session import SystemPrompt


class SessionSetup(Struct, frozen=True, kw_only=True):
    """Directories, MCP servers and system prompt of a session; all paths are absolute."""

    cwd: str
    additional_directories: Sequence[str] = ()
    mcp_servers: Sequence[McpServer] = ()
    system_prompt: SystemPrompt | None = None

    def check(self) -> None:
        """Raise `InvalidParams` for an invalid path (R-SESS-03, R-DIR-06: they are absolute)."""
        for path in (self.cwd, *self.additional_directories):
            if not _is_absolute(path):
                raise InvalidParams("Directories must be absolute paths", data={"path": path})
            if not _is_usable_path(path):
                raise InvalidParams("A directory has neither NUL nor lone surrogates in its path")
        for server in self.mcp_servers:
            if not _is_usable_path(getattr(server, "command", "")):
                raise InvalidParams("A program has neither NUL nor lone surrogates in its path")

    def is_in(self, cwd: str) -> bool:
        """Return whether the session works in a directory, compared as normalized paths."""
        return os.path.normpath(cwd) == os.path.normpath(self.cwd)

    def directories(self) -> tuple[str, ...]:
        """Return the directories that files may be in, each once (R-DIR-05)."""
        return tuple(dict.fromkeys((self.cwd, *self.additional_directories)))


def _is_absolute(path: str) -> bool:
    # On any system: the client may run on another machine.
    return path.startswith(("/", "\\\\")) or path[1:3] in (":\\", ":/")


def _is_usable_path(text: str) -> bool:
    """Return whether the system accepts a text as a path: no NUL, no lone surrogate."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False
