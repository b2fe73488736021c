"""Agents by name: those of the settings file, the bundled ones, and well-known ones."""

from __future__ import annotations

import shutil
import sys
from typing import Literal

from msgspec import Struct

from accord.cli.settings import AgentEntry, Settings
from accord.transports.process import argv_of

__all__ = ("NamedAgent", "find_agent", "named_agents")

Source = Literal["settings", "bundled", "well known"]
DEFAULT = "accord"

# Commands that serve ACP on stdin and stdout, as their programs document them.
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
        """Whether its program is found on this machine."""
        return shutil.which(self.argv[0]) is not None


def named_agents(settings: Settings) -> dict[str, NamedAgent]:
    """Return all agents that have a name; the user's own take the place of others."""
    ours = (sys.executable, "-m", "accord", "agent")
    commands: dict[str, tuple[Source, tuple[str, ...]]] = {
        DEFAULT: ("bundled", ours),
        "script": ("bundled", (*ours, "script")),
        **{name: ("well known", words) for name, words in _WELL_KNOWN.items()},
    }
    agents = {
        name: NamedAgent(
            name=name, argv=words, source=source, entry=AgentEntry(command=list(words))
        )
        for name, (source, words) in commands.items()
    }
    for name, entry in settings.agents.items():
        words = tuple(argv_of(entry.command))
        agents[name] = NamedAgent(name=name, argv=words, source="settings", entry=entry)
    return dict(sorted(agents.items()))


def find_agent(given: str | None, settings: Settings) -> NamedAgent:
    """Return the agent that `--agent` means: a name, else a command line.

    Raises `ValueError` for a command line that cannot be split, or a default that has no name.
    """
    agents = named_agents(settings)
    named = given if given is not None else settings.ask.agent or DEFAULT
    if named in agents:
        return agents[named]
    words = tuple(argv_of(named))
    entry = AgentEntry(command=list(words))
    return NamedAgent(name=words[0], argv=words, source="settings", entry=entry)
