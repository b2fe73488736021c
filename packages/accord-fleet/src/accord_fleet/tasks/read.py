"""Reads and checks tasks: everything is checked before anything runs.

The first part checks beyond the types of fields: names, paths, permissions, servers, graders.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

import msgspec

from accord import McpServerHttp, McpServerSse, McpServerStdio
from accord.text.lenient_json import is_object
from accord_fleet.grader_functions import split_reference
from accord_fleet.graders import check_functions
from accord_fleet.scratch import scratch_folder
from accord_fleet.storage import is_address, open_address
from accord_fleet.tasks.problems import Problems, closest, explain, shown
from accord_fleet.tasks.rows import (
    Row,
    Source,
    Template,
    absolute_paths,
    fields_of,
    merged,
    misspelt_column,
    open_source,
    read_defaults,
)
from accord_fleet.types import (
    AgentGrader,
    Archive,
    CommandGrader,
    FleetError,
    Folder,
    FunctionGrader,
    GitRepository,
    LimitName,
    Permissions,
    Task,
)
from accord_fleet.workspaces.contents import why_not_relative
from accord_fleet.workspaces.git import WorkspaceError, git, has_git

# MCP servers, which a task has as ACP writes them.


class _Pair(msgspec.Struct, frozen=True):
    name: str
    value: str


class _Stdio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[_Pair, ...] = ()
    type: Literal["stdio"] = "stdio"


class _Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    url: str
    type: Literal["http", "sse"]
    headers: tuple[_Pair, ...] = ()


def mcp_servers(
    servers: Iterable[dict[str, Any]],
) -> tuple[McpServerStdio | McpServerHttp | McpServerSse, ...]:
    """Return the servers as `new_session` takes them; raise `FleetError` for an invalid one."""
    found: list[McpServerStdio | McpServerHttp | McpServerSse] = []
    for number, server in enumerate(servers):
        try:
            found.append(_server(server))
        except msgspec.ValidationError as error:
            raise FleetError(f"mcp_servers[{number}]: {error}") from None
    return tuple(found)


def _server(server: dict[str, Any]) -> McpServerStdio | McpServerHttp | McpServerSse:
    if server.get("type", "stdio") == "stdio":
        stdio = msgspec.convert(server, _Stdio)
        env = {pair.name: pair.value for pair in stdio.env}
        return McpServerStdio(stdio.name, stdio.command, stdio.args, env)
    http = msgspec.convert(server, _Http)
    kind = McpServerHttp if http.type == "http" else McpServerSse
    return kind(http.name, http.url, {pair.name: pair.value for pair in http.headers})


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


class CheckedTasks:
    """Tasks without problems, which can be read several times; they are in a temporary file.

    `close` removes the file; so does the end of a `with` block.
    """

    def __init__(self, file: Path, count: int, digest: str, remove: Callable[[], None]) -> None:
        self.count: int = count
        self.digest: str = digest
        """SHA-256 of the tasks, for the plan of a run."""
        self._file = file
        self._remove = remove

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Task]:
        decode = msgspec.json.Decoder(Task).decode
        with self._file.open("rb") as lines:
            for line in lines:
                yield decode(line)

    def close(self) -> None:
        """Remove the file."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


async def check_tasks(
    given: str | Path | Iterable[Any],
    *,
    defaults: str | Path | Mapping[str, Any] | None = None,
    agents: Collection[str] | None = None,
    first: int | None = None,
) -> CheckedTasks:
    """Read all tasks and check them; nothing is run.

    `given` is a file (.jsonl, .csv, .tsv, .parquet), `file.py:name`, or an iterable of tasks or
    mappings. `defaults` are the fields of all tasks, or a TOML file with them. `agents` are the
    names of the agents of the fleet, for graders. Rows are read one at a time. With `first`, only
    so many tasks are kept; all are checked.

    Raises `TaskErrors` with everything that is wrong, and `FleetError` for what cannot be read.
    """
    reading = _Reading(given, defaults, agents, first)
    with ExitStack() as stack:
        # A later run removes the folder if this process is killed.
        file = stack.enter_context(scratch_folder()) / "tasks.jsonl"
        await asyncio.to_thread(reading.read_all, file)
        await reading.check_outside()
        reading.problems.raise_if_any()
        remove = stack.pop_all().close
    return CheckedTasks(file, reading.kept, reading.digest.hexdigest(), remove)


class _Reading:
    def __init__(
        self,
        given: str | Path | Iterable[Any],
        defaults: str | Path | Mapping[str, Any] | None,
        agents: Collection[str] | None,
        first: int | None,
    ) -> None:
        self._source: Source = open_source(given)
        if isinstance(defaults, (str, Path)):
            found = read_defaults(defaults)
        else:
            found = absolute_paths(dict(defaults or {}), Path.cwd())
        template = found.pop("prompt_template", None)
        if template is not None and not isinstance(template, str):
            raise FleetError(f"prompt_template: expected text, got {shown(template)}")
        self._template = None if template is None else Template(template)
        self._defaults = _with_prompts(found)
        self._checker = Checker(agents)
        self._places: dict[str, str] = {}
        self._misspelt: set[str] = set()
        self.problems = Problems()
        self.kept = 0
        self.digest = hashlib.sha256()
        self._first = first

    def read_all(self, path: Path) -> None:
        """Check all tasks, and write those that are kept to a file."""
        count = 0
        with path.open("xb") as file:
            for count, row in enumerate(self._source.rows(), 1):
                task = self._task(row)
                if task is not None and (self._first is None or count <= self._first):
                    line = msgspec.json.encode(task) + b"\n"
                    self.digest.update(line)
                    file.write(line)
                    self.kept += 1
        if not count:
            self.problems.add(self._source.name, "", "expected at least one task, got none")

    def _task(self, row: Row) -> Task | None:
        if row.error is not None:
            self.problems.add(row.where, "", row.error)
            return None
        before = self.problems.count
        task = self._converted(row)
        if task is None:
            return None
        for path, message in self._checker.check(task, row.where):
            self.problems.add(row.where, path, message)
        return task if self.problems.count == before else None

    def _converted(self, row: Row) -> Task | None:
        data: Any = row.data
        if isinstance(data, Task):
            data = _given_fields(data)
        if not is_object(data):
            self.problems.add(row.where, "", f"expected an object, got {shown(data)}")
            return None
        try:
            fields = self._fields(row.where, data)
        except FleetError as error:
            self.problems.add(row.where, "", str(error))
            return None
        name = fields.get("id")
        if isinstance(name, str):
            place = self._places.setdefault(name, row.where)
            if place != row.where:
                self.problems.add(row.where, "id", f"expected a unique id, {name!r} is at {place}")
        strict = not self._source.is_text
        try:
            return msgspec.convert(fields, Task, strict=strict)
        except msgspec.ValidationError as error:
            before = self.problems.count
            for path, message in explain(fields, Task, "", strict=strict):
                self.problems.add(row.where, path, message)
            if self.problems.count == before:
                self.problems.add(row.where, "", str(error))
            return None

    def _fields(self, where: str, data: dict[str, Any]) -> dict[str, Any]:
        columns = data
        if self._source.has_columns:
            for column in data.keys() - self._misspelt:
                if (meant := misspelt_column(column)) is not None:
                    self._misspelt.add(column)
                    message = f"expected the name of a field, as {meant!r}, or another name"
                    self.problems.add(where, column, f"{message} for metadata")
            data = fields_of(data, is_text=self._source.is_text)
        data = absolute_paths(_with_prompts(data), self._source.folder)
        if self._template is not None and "prompts" not in data:
            metadata = data.get("metadata")
            values = {**(metadata if is_object(metadata) else {}), **columns}
            data["prompts"] = [self._template.fill(values)]
        return merged(self._defaults, data)

    async def check_outside(self) -> None:
        """Check what needs other programs: functions of graders, and commits of repositories."""
        functions = self._checker.functions
        for name, why in (await check_functions(functions)).items():
            self.problems.add(functions[name], "grader.function", why)
        for url, commits in self._checker.commits.items():
            if os.path.exists(url):  # noqa: ASYNC240, PTH110  # a missing one has been reported
                await self._check_commits(url, commits)

    async def _check_commits(self, url: str, commits: Mapping[str, str]) -> None:
        first = next(iter(commits.values()))
        if not has_git():
            self.problems.add(first, "workspace", "git is not installed")
            return
        names = "".join(f"{commit}^{{commit}}\n" for commit in commits)
        try:
            done = await git(
                "cat-file",
                "--batch-check=%(objecttype)",
                cwd=url,
                stdin=names.encode("utf-8", "surrogateescape"),
                user_config=True,
            )
        except WorkspaceError as error:
            self.problems.add(first, "workspace.url", f"expected a repository at {url}: {error}")
            return
        found = done.stdout.decode("utf-8", "replace").splitlines()
        for (commit, where), kind in zip(commits.items(), found, strict=False):
            if kind != "commit":
                message = f"expected a commit of {url}, {commit!r} does not exist"
                self.problems.add(where, "workspace.commit", message)


def _given_fields(task: Task) -> dict[str, Any]:
    """Return the fields of a task that do not have their default values."""
    plain = Task(id="", prompts=())
    names = [name for name in Task.__struct_fields__ if getattr(task, name) != getattr(plain, name)]
    found = msgspec.to_builtins(task)
    return {name: found[name] for name in names}


def _with_prompts(data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with `prompt`, if it is one, as the only one of `prompts`."""
    if "prompt" not in data:
        return dict(data)
    if "prompts" in data:
        raise FleetError("expected either `prompt` or `prompts`, got both")
    found = dict(data)
    found["prompts"] = [found.pop("prompt")]
    return found
