"""Agents by name: from the settings file, installed, bundled, and well-known ones."""

from __future__ import annotations

import shutil
import sys
from typing import Literal

from msgspec import Struct

from accord.transports.command_line import argv_of
from accord.transports.registry import is_url
from accord_terminal.toolkit.installed_agents import load_installed
from accord_terminal.toolkit.settings import AgentEntry, Settings, SettingsError, load

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
    if name not in named_agents(load()):
        return None
    return [sys.executable, "-m", "accord", "agents", "run", name]


def complete_name(_context: object, _parameter: object, incomplete: str) -> list[str]:
    """Return the names that a shell offers while the user types one."""
    try:
        names = named_agents(load())
    except SettingsError:  # reported when the command runs
        return []
    return [name for name in names if name.startswith(incomplete)]


def find_agent(given: str | None, settings: Settings) -> NamedAgent:
    """Return the agent for a value of `--agent`: a name, a command line or a URL.

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
    words = (named,) if is_url(named) else tuple(argv_of(named))
    entry = AgentEntry(command=list(words))
    return NamedAgent(name=words[0], argv=words, source="command line", entry=entry)
