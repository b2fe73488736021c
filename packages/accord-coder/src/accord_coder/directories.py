"""The directories of the user's data and configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the sessions: `ACCORD_DATA`, else the system's place for data."""
    if named := environ.get("ACCORD_DATA"):
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("accord", appauthor=False)


def config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of settings and keys: `ACCORD_CONFIG`, else the system's place."""
    if named := environ.get("ACCORD_CONFIG"):
        return Path(named).expanduser().absolute()
    from platformdirs import user_config_path

    return user_config_path("accord", appauthor=False, roaming=True)


def private_dir(path: Path) -> Path:
    """Create a directory that only the user can open, with its parents, and return it.

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
