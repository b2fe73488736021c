"""The editors with a settings file in JSON: where it is, and what an agent is in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from accord_terminal.editors.agent_command import EditorCommand


class JsonEditor(Struct, frozen=True):
    """An editor; its agents are members of the object `key`."""

    title: str
    key: str
    path: Callable[[], Path]
    entry: Callable[[EditorCommand], dict[str, Any]]
    next_step: str


def _program(command: EditorCommand) -> dict[str, Any]:
    entry: dict[str, Any] = {"command": command.command, "args": list(command.args)}
    return {**entry, "env": dict(command.env)} if command.env else entry


def _custom_agent(command: EditorCommand) -> dict[str, Any]:
    return {"type": "custom", **_program(command)}


def _zed() -> Path:
    if sys.platform == "win32":
        return _roaming() / "Zed" / "settings.json"
    return _config() / "zed" / "settings.json"


def _vscode() -> Path:
    if sys.platform == "win32":
        folder = _roaming() / "Code"
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support" / "Code"
    else:
        folder = _config() / "Code"
    return folder / "User" / "settings.json"


def _jetbrains() -> Path:
    return Path.home() / ".jetbrains" / "acp.json"


def _config() -> Path:
    given = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(given) if Path(given).is_absolute() else Path.home() / ".config"


def _roaming() -> Path:
    return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")


JSON_EDITORS = {
    "zed": JsonEditor(
        "Zed", "agent_servers", _zed, _custom_agent, "Open the agent panel and choose {name}."
    ),
    "jetbrains": JsonEditor(
        "JetBrains IDEs",
        "agent_servers",
        _jetbrains,
        _program,
        "Open the AI Chat and choose {name}.",
    ),
    "vscode": JsonEditor(
        "VS Code, with the extension formulahendry.acp-client",
        "acp.agents",
        _vscode,
        _program,
        "Open the ACP view and connect to {name}.",
    ),
}
