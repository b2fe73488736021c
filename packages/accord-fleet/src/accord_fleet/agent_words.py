"""Agents as they are given to a fleet: specifications, commands and names."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.transports.command_line import argv_of
from accord.transports.registry import is_url
from accord_fleet.tasks.problems import closest, explain, shown
from accord_fleet.types import AgentSpec
from accord_terminal.toolkit.agent_names import load_settings, named_agents

_NAMED = re.compile(r"([^\s=]*)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NAME_IS = "letters, digits, '.', '_' and '-', with a letter or a digit first"
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
            errors.append(one_line(f"--agent {word or repr(word)}: {error}"))
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
    if (match := _NAMED.fullmatch(word)) and not is_url(word) and not _is_program(word):
        name, word = match.groups()
        if not _NAME.fullmatch(name):
            raise ValueError(f"expected NAME=COMMAND with a name of {_NAME_IS}, got {name!r}")
        if not word.strip():
            raise ValueError(f"expected NAME=COMMAND, the command of {name} is missing")
    if is_url(word):
        return AgentSpec(name=name or _plain(word.partition("://")[2]), command=(word,))
    named = named_agents(load_settings()).get(word)
    if named is not None:
        return AgentSpec(name=name or word, command=named.argv, env=dict(named.entry.env))
    if not word.strip():
        raise ValueError("expected a command, NAME=COMMAND, a URL or a file .toml, got nothing")
    words = absolute_files(argv_of(word), Path.cwd())
    return AgentSpec(name=name or _plain(Path(words[0]).name), command=words)


def absolute_files(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return a command with the files of a folder that it names made absolute.

    Agents start elsewhere. A program counts as a file if it has a `/`, other words if they have a
    `/` or a suffix, as in `python agent.py`.
    """
    found: list[str] = []
    for number, word in enumerate(words):
        looks = "/" in word or (number > 0 and bool(Path(word).suffix))
        is_file = looks and len(word) < 1000 and "\0" not in word and (folder / word).is_file()
        found.append(os.path.abspath(folder / word) if is_file else word)  # noqa: PTH100  # no links
    return tuple(found)


def why_not_startable(agent: AgentSpec, engine: str) -> str | None:
    """Return what is wrong with an agent on this machine; None if nothing, or if it runs elsewhere.

    Agents of a cluster can be installed there.
    """
    where = f"--agent {agent.name}: "
    needed = (*agent.secrets, *([agent.token] if agent.token else []))
    if missing := [name for name in needed if name not in os.environ]:
        return f"{where}expected the environment variables {', '.join(missing)}, which are not set"
    if engine != "local" or is_url(agent.command[0]):
        return None
    if shutil.which(agent.command[0]) is None:
        known = closest(agent.command[0], named_agents(load_settings()))
        hint = "" if known is None else f"; `accord agents` has {known!r}"
        return f"{where}expected a program on PATH, got {agent.command[0]!r}{hint}"
    return None


def _is_program(word: str) -> bool:
    """Return whether a word with `=` begins with the path of a program that has it in its name."""
    try:
        words = argv_of(word)
    except ValueError:
        return False
    return bool(words) and "/" in words[0] and shutil.which(words[0]) is not None


def _plain(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-._") or "agent"


def _from_file(path: Path) -> list[AgentSpec]:
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"expected a file with agents: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"expected TOML: {error}") from None
    table: Any = found.get("agents")
    if not is_object(table) or not table:
        raise ValueError("expected tables [agents.NAME], got none")
    specs: list[AgentSpec] = []
    wrong: list[str] = []
    for name, fields in table.items():
        where = f"[agents.{name}]"
        if not _NAME.fullmatch(name):
            wrong.append(f"{where}: expected a name of {_NAME_IS}")
        elif not is_object(fields):
            wrong.append(f"{where}: expected a table, got {shown(fields)}")
        else:
            try:
                specs.append(_spec(name, fields, path.parent.absolute()))
            except ValueError as error:
                wrong.append(f"{where}: {error}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return specs


def _spec(name: str, fields: dict[str, Any], folder: Path) -> AgentSpec:
    if "name" in fields:
        raise ValueError("name: unknown field; the table names the agent")
    values: dict[str, Any] = {**fields, "name": name}
    if isinstance(command := values.get("command"), str):
        values["command"] = argv_of(command)
    try:
        spec = msgspec.convert(values, AgentSpec)
    except msgspec.ValidationError as error:
        problems = [f"{path}: {what}" for path, what in explain(values, AgentSpec, "", strict=True)]
        raise ValueError("; ".join(problems) or str(error)) from None
    if not spec.command or not spec.command[0]:
        raise ValueError("command: expected a command, got nothing")
    if is_url(spec.command[0]):
        return spec
    return msgspec.structs.replace(spec, command=absolute_files(spec.command, folder))
