"""Where the coder keeps what is the user's: data and configuration, as each system has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ("config_dir", "data_dir", "private_dir")


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where sessions are kept; `ACCORD_DATA` says it of all systems."""
    if named := environ.get("ACCORD_DATA"):
        return Path(named).expanduser().absolute()
    return _place(environ, "XDG_DATA_HOME", ".local/share", "LOCALAPPDATA")


def config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the user's settings and instructions are; `ACCORD_CONFIG` says it."""
    if named := environ.get("ACCORD_CONFIG"):
        return Path(named).expanduser().absolute()
    return _place(environ, "XDG_CONFIG_HOME", ".config", "APPDATA")


def _place(environ: Mapping[str, str], xdg: str, below_home: str, windows: str) -> Path:
    if sys.platform == "win32":
        base = environ.get(windows)
        return Path(base) / "Accord" if base else Path.home() / "AppData" / "Accord"
    if sys.platform == "darwin" and not environ.get(xdg):
        return Path.home() / "Library" / "Application Support" / "Accord"
    named = environ.get(xdg, "")
    # The XDG rules: what is not absolute is not there.
    base = Path(named) if named.startswith("/") else Path.home() / below_home
    return base / "accord"


def private_dir(path: Path) -> Path:
    """Make a directory that only the user can look into, with its parents; return it.

    A directory that exists keeps its mode: others may share it. Its files need their own modes.
    """
    missing: list[Path] = []
    for folder in (path, *path.parents):
        if folder.exists():
            break
        missing.append(folder)
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path
