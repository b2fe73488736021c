"""The user's editor, at a line of a file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

# How programs other than those like vi take the line; the first word is the name.
_WITH_COLON = frozenset({"hx", "helix", "subl", "sublime_text", "zed", "micro"})
_WITH_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
_WITH_LINE = frozenset({"idea", "pycharm", "webstorm", "goland", "kate"})
_OWN_WINDOW = _WITH_GOTO | _WITH_LINE | {"subl", "sublime_text", "zed", "gedit", "gvim"}


def editor_command(path: Path, line: int | None) -> list[str] | None:
    """Return the command of VISUAL or EDITOR; None if neither is set or can be split."""
    given = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(given)
    except ValueError:
        return None
    if not words:
        return None
    name = Path(words[0]).name
    if line is None:
        return [*words, str(path)]
    if name in _WITH_GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    if name in _WITH_COLON:
        return [*words, f"{path}:{line}"]
    if name in _WITH_LINE:
        return [*words, "--line", str(line), str(path)]
    return [*words, f"+{line}", str(path)]


def has_own_window(command: Sequence[str]) -> bool:
    """Return whether an editor does not need this terminal."""
    return Path(command[0]).name in _OWN_WINDOW
