"""Makes the setup of a session from what a program gives."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from accord.client.agent_adapter import SessionSetup
from accord.local.files import real_path
from accord.types.mcp import McpServer
from accord.types.session import SystemPrompt

StrPath: TypeAlias = str | os.PathLike[str]


def session_setup(
    cwd: StrPath,
    directories: Iterable[StrPath],
    mcp_servers: Iterable[McpServer],
    system_prompt: str | SystemPrompt | None,
    meta: dict[str, Any] | None = None,
) -> SessionSetup:
    """Return the setup of a session; relative paths are those of the current directory."""
    if isinstance(system_prompt, str):
        system_prompt = SystemPrompt((system_prompt,))
    cwd = absolute(cwd)
    # `additionalDirectories` contains each directory once, and not `cwd` (R-DIR-11).
    others = tuple(dict.fromkeys(map(absolute, directories)))
    if cwd in others:
        others = tuple(path for path in others if path != cwd)
    return SessionSetup(
        cwd=cwd,
        additional_directories=others,
        mcp_servers=tuple(mcp_servers),
        system_prompt=system_prompt,
        meta=meta,
        real_directories=(real_path(cwd), *map(real_path, others)),
    )


def absolute(path: StrPath) -> str:
    """Return an absolute path as text."""
    text = os.fspath(path)
    if os.path.isabs(text) and os.path.normpath(text) == text:  # noqa: PTH117  # much faster
        return text
    return str(Path(path).absolute())
