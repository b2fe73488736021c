"""Reads and checks tasks: everything is checked before anything runs."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from accord.text.lenient_json import is_object
from accord_fleet.errors import FleetError
from accord_fleet.graders.grade import check_functions
from accord_fleet.scratch import scratch_folder
from accord_fleet.tasks.check import Checker
from accord_fleet.tasks.columns import Template, fields_of, misspelt_column
from accord_fleet.tasks.defaults import absolute_paths, merged, read_defaults
from accord_fleet.tasks.problems import Problems, explain, shown
from accord_fleet.tasks.rows import Row, Source, open_source
from accord_fleet.types.task import Task
from accord_fleet.workspaces.errors import WorkspaceError
from accord_fleet.workspaces.git_command import git, has_git


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
