"""The user's settings file: named agents, and defaults for `accord ask` and `accord chat`."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from platformdirs import user_config_path

from accord.errors import AccordError
from accord.transports.command_line import argv_of

FILE = "settings.toml"
MISSING = " (does not exist: defaults apply)"


class SettingsError(AccordError):
    """The settings file cannot be read, or is invalid."""


class AgentEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[agents.NAME]`: the command of an agent, and its defaults."""

    command: str | list[str]
    env: dict[str, str] = {}
    protocol: Literal[1, 2] | None = None
    model: str | None = None
    mode: str | None = None
    options: dict[str, str | bool] = {}
    mcp: str | None = None  # a file, relative to the settings file


class AskDefaults(Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[ask]`: defaults of the command line."""

    agent: str | None = None
    allow: list[str] = []
    deny: list[str] = []
    timeout: float | None = None


class ChatDefaults(Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[chat]`."""

    notify: bool = True  # on the desktop


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of the file; a missing file is an empty one."""

    agents: dict[str, AgentEntry] = {}
    ask: AskDefaults = AskDefaults()
    chat: ChatDefaults = ChatDefaults()


def path() -> Path:
    """Return the path: in the folder ACCORD_CONFIG or the platform's configuration folder."""
    named = os.environ.get("ACCORD_CONFIG")
    if named:
        return Path(named).expanduser().absolute() / FILE
    return user_config_path("accord", appauthor=False, roaming=True) / FILE


def shown_path() -> str:
    """Return the path for people, who may look for a file that does not exist."""
    return f"{path()}{'' if path().exists() else MISSING}"


def load() -> Settings:
    """Read the settings file. Raises `SettingsError`, which names the file and the error."""
    where = path()
    try:
        text = where.read_text("utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"Cannot read the settings file {where}: {exc}") from None
    try:
        settings = msgspec.toml.decode(text, type=Settings)
    except msgspec.ValidationError as exc:
        from accord.text.reason import validation_text

        why = validation_text(exc, Settings)
        raise SettingsError(f"The settings file {where} is invalid: {why}") from None
    except msgspec.DecodeError as exc:
        raise SettingsError(f"The settings file {where} is invalid: {exc}") from None
    timeout_s = settings.ask.timeout
    if timeout_s is not None and not (math.isfinite(timeout_s) and timeout_s > 0):
        raise SettingsError(
            f"The settings file {where} is invalid: ask.timeout: expected a number of seconds "
            f"above 0, got {timeout_s:g}"
        )
    for name, entry in settings.agents.items():
        if not name.replace("-", "").replace("_", "").isalnum():
            raise SettingsError(
                f"The settings file {where} is invalid: expected letters, digits, - and _ in the "
                f"name of an agent, got {name!r}"
            )
        try:
            argv_of(entry.command)
        except ValueError as exc:
            raise SettingsError(
                f"The settings file {where} is invalid: agents.{name}.command: {exc}"
            ) from None
    return settings
