"""The agents that `accord agents install` has installed: one small file, read at each start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from platformdirs import user_data_path

from accord_terminal.toolkit.settings import SettingsError

_FILE = "agents.json"


class InstalledAgent(Struct, frozen=True, kw_only=True):
    """An agent of a registry on this machine, and how it is started."""

    version: str
    kind: Literal["binary", "uvx", "npx"]
    argv: list[str]
    env: dict[str, str] = {}
    folder: str  # below `agents` in the folder of the user's data
    previous: str | None = None  # the folder of the version before, which may still run
    registry: str  # its URL
    quarantine: str | None = None  # why the registry says not to start it
    forced: bool = False  # the user insists

    @property
    def is_blocked(self) -> bool:
        """Whether it must not be started."""
        return self.quarantine is not None and not self.forced


def data_dir() -> Path:
    """Return the folder of the user's data: `ACCORD_DATA`, or the platform's."""
    if named := os.environ.get("ACCORD_DATA"):
        return Path(named).expanduser().absolute()
    return user_data_path("accord", appauthor=False)


def installed_file() -> Path:
    """Return the path of the list."""
    return data_dir() / _FILE


def load_installed() -> dict[str, InstalledAgent]:
    """Return the installed agents by name. Raises `SettingsError`, which names the file."""
    path = installed_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, InstalledAgent])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise SettingsError(
            f"Cannot read the list of installed agents {path}: {exc}. Repair the file, or move it "
            "away and install the agents again"
        ) from None
