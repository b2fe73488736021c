"""The folder where programs of this user keep what they have to find again."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """Return ACCORD_STATE, or the folder `accord` in the platform's folder for state."""
    if folder := os.environ.get("ACCORD_STATE"):
        return Path(folder)
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "accord"
