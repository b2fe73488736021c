"""Agents by name: from the settings file, installed, bundled, and well-known ones.

The settings file of the user also has defaults for `accord ask` and `accord chat`. The agents that
`accord agents install` has installed are in one small file, which is read at each start.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from platformdirs import user_config_path, user_data_path

from accord.errors import AccordError
from accord.transports.command_line import argv_of
from accord.transports.registry import is_url

# The user's settings file: named agents, and defaults for `accord ask` and `accord chat`.

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


def settings_path() -> Path:
    """Return the path: in the folder ACCORD_CONFIG or the platform's configuration folder."""
    named = os.environ.get("ACCORD_CONFIG")
    if named:
        return Path(named).expanduser().absolute() / FILE
    return user_config_path("accord", appauthor=False, roaming=True) / FILE


def shown_settings_path() -> str:
    """Return the path for people, who may look for a file that does not exist."""
    return f"{settings_path()}{'' if settings_path().exists() else MISSING}"


def load_settings() -> Settings:
    """Read the settings file. Raises `SettingsError`, which names the file and the error."""
    where = settings_path()
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


# The agents that `accord agents install` has installed: one small file, read at each start.

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


Source = Literal["settings", "installed", "bundled", "well known", "command line"]
DEFAULT = "accord"

# Documented commands that serve ACP on stdin and stdout.
_WELL_KNOWN = {
    "auggie": ("auggie", "--acp"),
    "claude": ("claude-agent-acp",),
    "codex": ("codex-acp",),
    "copilot": ("copilot", "--acp"),
    "fast-agent": ("fast-agent-acp",),
    "gemini": ("gemini", "--acp"),
    "goose": ("goose", "acp"),
    "kimi": ("kimi", "acp"),
    "opencode": ("opencode", "acp"),
    "qwen": ("qwen", "--acp"),
    "vibe": ("vibe-acp",),
}


class NamedAgent(Struct, frozen=True, kw_only=True):
    """An agent that `--agent NAME` starts."""

    name: str
    argv: tuple[str, ...]
    source: Source
    entry: AgentEntry

    @property
    def is_installed(self) -> bool:
        """Whether its program exists on this machine."""
        return shutil.which(self.argv[0]) is not None


def named_agents(settings: Settings) -> dict[str, NamedAgent]:
    """Return all named agents.

    Those in the settings file replace others of the same name, and installed ones replace
    well-known ones. Raises `SettingsError` if the list of installed agents cannot be read.
    """
    bundled = (sys.executable, "-m", "accord", "agent")
    commands: dict[str, tuple[Source, tuple[str, ...]]] = {
        DEFAULT: ("bundled", bundled),
        "script": ("bundled", (*bundled, "script")),
        **{name: ("well known", words) for name, words in _WELL_KNOWN.items()},
    }
    agents = {
        name: NamedAgent(
            name=name, argv=words, source=source, entry=AgentEntry(command=list(words))
        )
        for name, (source, words) in commands.items()
    }
    for name, found in load_installed().items():
        if found.is_blocked:
            agents.pop(name, None)  # not the well-known one either
            continue
        entry = AgentEntry(command=found.argv, env=found.env)
        agents[name] = NamedAgent(
            name=name, argv=tuple(found.argv), source="installed", entry=entry
        )
    for name, entry in settings.agents.items():
        words = tuple(argv_of(entry.command))
        agents[name] = NamedAgent(name=name, argv=words, source="settings", entry=entry)
    return dict(sorted(agents.items()))


def command_by_name(name: str) -> list[str] | None:
    """Return the command that starts a named agent with its environment; None for other words.

    Raises `SettingsError` if the settings cannot be read.
    """
    if name not in named_agents(load_settings()):
        return None
    return [sys.executable, "-m", "accord", "agents", "run", name]


def complete_name(_context: object, _parameter: object, incomplete: str) -> list[str]:
    """Return the names that a shell offers while the user types one."""
    try:
        names = named_agents(load_settings())
    except SettingsError:  # reported when the command runs
        return []
    return [name for name in names if name.startswith(incomplete)]


def is_object(name: str) -> bool:
    """Return whether it is MODULE:OBJECT or FILE.py:OBJECT, which `accord run` serves.

    What has blanks is a command line, unless there is such a file.
    """
    place, colon, path = name.rpartition(":")
    if not colon or not all(part.isidentifier() for part in path.split(".")):
        return False
    if place.endswith(".py"):
        return " " not in place or Path(place).is_file()
    return all(part.isidentifier() for part in place.split("."))


def object_command(name: str) -> tuple[str, ...]:
    """Return the command that serves an object, from whatever folder it is started."""
    return (sys.executable, "-m", "accord", "run", "--dir", str(Path.cwd()), name)


def find_agent(given: str | None, settings: Settings) -> NamedAgent:
    """Return the agent for a value of `--agent`: a name, a command line, an object or a URL.

    None is the default.

    Raises `ValueError` for a command line that cannot be split, and `SettingsError` for an agent
    in quarantine.
    """
    agents = named_agents(settings)
    named = given if given is not None else settings.ask.agent or DEFAULT
    if named in agents:
        return agents[named]
    installed = load_installed().get(named)
    if installed is not None:
        raise SettingsError(
            f"{named} is in quarantine: {installed.quarantine}. Remove it with `accord agents "
            f"remove {named}`, or insist with `accord agents install {named} --force`"
        )
    if is_object(named):
        words = object_command(named)
        entry = AgentEntry(command=list(words))
        return NamedAgent(name=named, argv=words, source="command line", entry=entry)
    words = (named,) if is_url(named) else tuple(argv_of(named))
    entry = AgentEntry(command=list(words))
    return NamedAgent(name=words[0], argv=words, source="command line", entry=entry)
