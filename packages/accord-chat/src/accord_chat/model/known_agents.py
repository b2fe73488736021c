"""Agents as a list shows them: the label that starts one, and a short name for tabs."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from urllib.parse import urlsplit

from msgspec import Struct

# The word after one of these says more than they do.
_RUNNERS = ("bun", "bunx", "deno", "env", "node", "npx", "pipx", "python", "uv", "uvx")


class KnownAgent(Struct, frozen=True):
    """An agent that can be started."""

    label: str  # as given to --agent
    origin: str  # settings, installed, …
    command: str  # as a user would type it
    is_default: bool = False


def short_name(label: str) -> str:
    """Return the name, the program of a command, or the host of a URL."""
    if label.startswith("session "):  # a persistent session
        return label
    if "://" in label:
        return _host(label)
    try:
        words = shlex.split(label)
    except ValueError:
        words = label.split()
    if len(words) < 2:
        return PurePath(label).name or label
    program = PurePath(words[0]).name
    if program.rstrip("0123456789.").removesuffix(".exe") in _RUNNERS:
        program = next((word for word in words[1:] if not word.startswith("-")), program)
    return PurePath(program).name or program


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url
