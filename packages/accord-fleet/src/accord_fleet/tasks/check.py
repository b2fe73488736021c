"""Checks tasks beyond the types of their fields: names, paths, permissions, graders."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import get_args

from accord_fleet.addresses import is_address, open_address
from accord_fleet.errors import FleetError
from accord_fleet.graders.references import split_reference
from accord_fleet.mcp_servers import mcp_servers
from accord_fleet.tasks.problems import closest, shown
from accord_fleet.types.limits import LimitName
from accord_fleet.types.task import (
    AgentGrader,
    Archive,
    CommandGrader,
    Folder,
    FunctionGrader,
    GitRepository,
    Permissions,
    Task,
)
from accord_fleet.workspaces.paths import why_not_relative

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_TOOL_KINDS = (
    *("*", "read", "edit", "delete", "move", "search", "execute", "think", "fetch"),
    *("switch_mode", "other"),
)
_LIMITS = get_args(LimitName)


class Checker:
    """Checks tasks; what several tasks name is looked up once."""

    def __init__(self, agents: Collection[str] | None) -> None:
        self._agents = agents
        self._places: dict[tuple[str, str], str | None] = {}
        self.functions: dict[str, str] = {}
        """Functions of graders, with the first place of each."""
        self.commits: dict[str, dict[str, str]] = {}
        """Commits of repositories on this machine, with the first place of each."""

    def check(self, task: Task, where: str) -> Iterator[tuple[str, str]]:
        """Yield the path and the message of each problem of a task."""
        if not _ID.fullmatch(task.id):
            expected = "1 to 200 letters, digits, '.', '_' and '-', not a '.' first"
            yield "id", f"expected {expected}, got {shown(task.id)}"
        if not task.prompts:
            yield "prompts", "expected at least one prompt, got []"
        for number, prompt in enumerate(task.prompts):
            if not prompt.strip():
                yield f"prompts[{number}]", f"expected a prompt, got {shown(prompt)}"
        yield from self._check_workspace(task, where)
        yield from _check_files(task.files)
        yield from _check_variables(task.env)
        yield from _check_servers(task)
        yield from check_permissions(task.permissions)
        for name in _LIMITS:
            value = getattr(task.limits, name)
            if value is not None and not value > 0:
                yield f"limits.{name}", f"expected a number above 0, got {shown(value)}"
        yield from self._check_grader(task, where)

    def _check_workspace(self, task: Task, where: str) -> Iterator[tuple[str, str]]:
        match task.workspace:
            case Folder(path=path):
                key, field = ("folder", path), "workspace.path"
            case Archive(path=path):
                key, field = ("archive", path), "workspace.path"
            case GitRepository(url=url, commit=commit):
                key, field = ("git", url), "workspace.url"
                if not commit or commit.startswith("-") or re.search(r"[\0\s]", commit):
                    yield "workspace.commit", f"expected a commit, got {shown(commit)}"
                elif Path(url).is_absolute():
                    self.commits.setdefault(url, {}).setdefault(commit, where)
            case _:
                return
        if key not in self._places:
            self._places[key] = _why_missing(*key)
        if (why := self._places[key]) is not None:
            yield field, why

    def _check_grader(self, task: Task, where: str) -> Iterator[tuple[str, str]]:
        grader = task.grader
        if grader is None:
            return
        match grader:
            case CommandGrader(command=command):
                if not command or not command[0] or any("\0" in word for word in command):
                    yield "grader.command", f"expected a command, got {shown(list(command))}"
            case FunctionGrader(function=function):
                try:
                    split_reference(function)
                    self.functions.setdefault(function, where)
                except FleetError as error:
                    yield "grader.function", str(error)
            case AgentGrader(agent=agent, prompt=prompt):
                if not prompt.strip():
                    yield "grader.prompt", f"expected a prompt, got {shown(prompt)}"
                if self._agents is not None and agent not in self._agents:
                    known = ", ".join(sorted(self._agents)) or "none"
                    yield "grader.agent", f"expected an agent of the fleet ({known}), got {agent!r}"
        if not grader.timeout_s > 0:
            yield "grader.timeout_s", f"expected a number above 0, got {shown(grader.timeout_s)}"


def _why_missing(kind: str, path: str) -> str | None:
    if not path or "\0" in path or path.startswith("-"):
        return f"expected a path or an address, got {shown(path)}"
    match kind:
        case "folder":
            if Path(path).is_dir():
                return None
            what = "is not a folder" if Path(path).exists() else "does not exist"
            return f"expected a folder, {path} {what}"
        case "archive":
            return _why_not_opened(path) if is_address(path) else _why_not_an_archive(path)
        case _:
            if Path(path).is_absolute() and not Path(path).exists():
                return f"expected a repository, {path} does not exist"
            return None


def _why_not_opened(address: str) -> str | None:
    try:
        open_address(address).close()
    except OSError as error:
        return f"expected an archive, {address}: {error.strerror or error}"
    return None


def _why_not_an_archive(path: str) -> str | None:
    if not Path(path).exists():
        return f"expected an archive, {path} does not exist"
    try:
        if tarfile.is_tarfile(path) or zipfile.is_zipfile(path):
            return None
    except OSError as error:
        return f"expected an archive, {path}: {error.strerror}"
    return f"expected a tar or zip archive, {path} is another kind of file"


def _check_files(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    for path in files:
        if why := why_not_relative(path):
            yield f"files.{path}", f"{why}, got {shown(path)}"
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                yield f"files.{path}", f"expected a folder, {parent!r} is a file of the task"
            parent = parent.rpartition("/")[0]


def _check_variables(env: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            yield f"env.{name}", f"expected the name of a variable, got {shown(name)}"
        elif "\0" in value:
            yield f"env.{name}", "expected a value without NUL characters"


def _check_servers(task: Task) -> Iterator[tuple[str, str]]:
    for number, server in enumerate(task.mcp_servers):
        try:
            mcp_servers([server])
        except FleetError as error:
            yield f"mcp_servers[{number}]", str(error).partition(": ")[2]


def check_permissions(permissions: Permissions) -> Iterator[tuple[str, str]]:
    """Yield the path and the error of each rule that names no kind of tool call."""
    for field, rules in (("allow", permissions.allow), ("deny", permissions.deny)):
        for number, rule in enumerate(rules):
            kind = rule.partition(":")[0]
            if kind in _TOOL_KINDS or kind.startswith("_"):
                continue
            found = closest(kind, _TOOL_KINDS)
            hint = "" if found is None else f"; the closest is {found!r}"
            path = f"permissions.{field}[{number}]"
            yield path, f"expected a kind of tool call, got {shown(rule)}{hint}"
