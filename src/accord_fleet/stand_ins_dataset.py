"""A dataset of JSON lines, until results are Parquet parts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from accord_fleet.errors import FleetError
from accord_fleet.plan import Plan
from accord_fleet.types.result import Result
from accord_fleet.types.task import Task

__all__ = ("JsonLinesDataset", "read_tasks")


def read_tasks(path: Path) -> Iterator[Task]:
    """Yield the tasks of a file of JSON lines."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield msgspec.json.decode(line, type=Task)
            except msgspec.DecodeError as error:
                raise FleetError(f"{path}:{number}: {error}") from None


class JsonLinesDataset:
    """`results.jsonl`, `tasks.jsonl` and `run.json` in a folder."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.plan: Plan = plan
        self._folder = folder
        self._keys: set[tuple[str, str, int]] = set()
        results = folder / "results.jsonl"
        if results.exists():
            for line in results.read_bytes().splitlines():
                self._keys.add(msgspec.json.decode(line, type=Result).key)
        self._file = results.open("ab")

    @classmethod
    async def create(cls, address: str, plan: Plan, tasks: Iterable[Task]) -> Self:
        """Begin a dataset."""
        folder = Path(address)
        _begin(folder, plan, tasks)
        return cls(folder, plan)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._keys)

    def is_done(self, key: tuple[str, str, int]) -> bool:
        """Return whether an attempt has a row."""
        return key in self._keys

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks."""
        return read_tasks(self._folder / "tasks.jsonl")

    async def append(self, result: Result, trace: Path | bytes | None = None) -> Result | None:
        """Store a result and its recording."""
        if isinstance(trace, Path):
            suffix = "".join(trace.suffixes)
            name = f"traces/{result.task}/{result.agent}-{result.attempt}{suffix}"
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(trace, self._folder / name)
            result = msgspec.structs.replace(result, trace=name)
        self._file.write(msgspec.json.encode(result) + b"\n")
        self._file.flush()
        return result


def _begin(folder: Path, plan: Plan, tasks: Iterable[Task]) -> None:
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(msgspec.json.encode(plan))
    with (folder / "tasks.jsonl").open("wb") as file:
        file.writelines(msgspec.json.encode(task) + b"\n" for task in tasks)
