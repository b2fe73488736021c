"""Agents as they are given to a fleet: specifications, commands and names."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from accord.cli import settings
from accord.cli.agent_names import named_agents
from accord.transports.command_line import argv_of
from accord.transports.registry import is_url
from accord_fleet.types.agent import AgentSpec

__all__ = ("agents_from_words", "spec_from_word", "why_not_startable")

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)", re.DOTALL)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def agents_from_words(words: Iterable[str]) -> tuple[list[AgentSpec], list[str]]:
    """Return the agents of all words, and every error.

    A word is `NAME=COMMAND`, a command, a URL, the name of an agent of `accord agents`, or a file
    that ends in `.toml`: its tables `[agents.NAME]` have the fields of `AgentSpec`.
    """
    found: list[AgentSpec] = []
    errors: list[str] = []
    for word in words:
        try:
            if word.endswith(".toml"):
                found += _from_file(Path(word))
            else:
                found.append(spec_from_word(word))
        except (ValueError, OSError) as error:
            errors.append(f"--agent {word}: {error}")
    names = [agent.name for agent in found]
    errors += [
        f"--agent: expected agents with different names, got {name!r} {names.count(name)} times; "
        "write --agent NAME=COMMAND"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    return found, errors


def spec_from_word(word: str) -> AgentSpec:
    """Return the agent of `NAME=COMMAND`, a command, a URL or a name; raise `ValueError`."""
    name = None
    if match := _NAMED.fullmatch(word):
        name, word = match.groups()
    if is_url(word):
        return AgentSpec(name=name or _plain(word.partition("://")[2]), command=(word,))
    named = named_agents(settings.load()).get(word)
    if named is not None:
        return AgentSpec(name=name or word, command=named.argv, env=dict(named.entry.env))
    words = tuple(argv_of(word))
    if not words:
        raise ValueError("expected a command, got nothing")
    return AgentSpec(name=name or _plain(Path(words[0]).name), command=words)


def why_not_startable(agent: AgentSpec, engine: str) -> str | None:
    """Return what is wrong with an agent on this machine; None if nothing, or if it runs elsewhere.

    Agents of a cluster can be installed there.
    """
    where = f"--agent {agent.name}: "
    if missing := [name for name in agent.secrets if name not in os.environ]:
        return f"{where}expected the environment variables {', '.join(missing)}, which are not set"
    if engine != "local" or is_url(agent.command[0]):
        return None
    if shutil.which(agent.command[0]) is None:
        return f"{where}expected a program on PATH, got {agent.command[0]!r}"
    return None


def _plain(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-.") or "agent"


def _from_file(path: Path) -> list[AgentSpec]:
    table: Any = tomllib.loads(path.read_text("utf-8")).get("agents")
    if not isinstance(table, dict) or not table:
        raise ValueError("expected tables [agents.NAME], got none")
    found: list[AgentSpec] = []
    for name, fields in table.items():  # type: ignore[reportUnknownVariableType]
        try:
            values: dict[str, Any] = {"name": name, **fields}
            if isinstance(values.get("command"), str):
                values["command"] = argv_of(values["command"])
            found.append(msgspec.convert(values, AgentSpec))
        except (msgspec.ValidationError, TypeError) as error:
            raise ValueError(f"[agents.{name}]: {error}") from None
    return found
