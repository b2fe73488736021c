"""A model of datasets: whatever fails or dies at any step, each attempt has one row at most.

A process that dies is a storage that does nothing any more after one step, which it did, did in
part or did not. A disk that is full and an answer that is lost fail one step only.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import fsspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from accord_fleet.dataset import segments as journal_module
from accord_fleet.dataset import writer as writer_module
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.storage import DatasetError, FolderStorage, FsspecStorage
from accord_fleet.types import Result, Task, WorkItem
from fleet.sample_runs import result, sample_plan, tasks

How = Literal["before", "half", "after"]


class Fuse:
    """Lets one of the next steps fail, and all after it if the process dies."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.how: How = "before"
        self.dies = False
        self.dead = False

    def set(self, left: int, how: How, *, dies: bool) -> None:
        self.left, self.how, self.dies = left, how, dies

    def step(self, whole: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        """Do a step, unless it fails."""
        if self.dead:
            raise OSError(errno.EIO, "this process is dead")
        if self.left is not None:
            self.left -= 1
        if self.left != 0:
            return whole()
        self.left, self.dead = None, self.dies
        if self.how == "half":
            half()
        elif self.how == "after":
            whole()
        raise OSError(errno.ENOSPC, "this step failed")


class FaultyFolder(FolderStorage):
    fuse: Fuse

    def write_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        data = b"".join(bytes(piece) for piece in pieces)
        unfinished = (self.folder / name).with_name(f".{Path(name).name}.tmp")
        self.fuse.step(
            lambda: FolderStorage.write_pieces(self, name, [data]),
            lambda: unfinished.write_bytes(data[: len(data) // 2]),
        )

    def put(self, name: str, data: bytes) -> None:
        self.fuse.step(
            lambda: FolderStorage.put(self, name, data),
            lambda: FolderStorage.put(self, name, data[: len(data) // 2]),
        )

    def move_in(self, source: Path, name: str) -> None:
        self.fuse.step(lambda: FolderStorage.move_in(self, source, name))

    def remove(self, name: str) -> None:
        self.fuse.step(lambda: FolderStorage.remove(self, name))


class FaultyObjects(FsspecStorage):
    fuse: Fuse

    def write(self, name: str, data: Any) -> None:
        self.fuse.step(lambda: FsspecStorage.write(self, name, data))

    def create(self, name: str, data: bytes) -> None:
        self.fuse.step(lambda: FsspecStorage.create(self, name, data))

    def move_in(self, source: Path, name: str) -> None:
        self.fuse.step(lambda: FsspecStorage.move_in(self, source, name))

    def remove(self, name: str) -> None:
        self.fuse.step(lambda: FsspecStorage.remove(self, name))


class FaultyOs:
    """The calls of journals to the system."""

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, *args: Any) -> int:
        return self._fuse.step(lambda: os.open(*args))

    def write(self, file: int, data: memoryview) -> int:
        return self._fuse.step(
            lambda: os.write(file, data), lambda: os.write(file, data[: len(data) // 2])
        )

    def ftruncate(self, file: int, size: int) -> None:
        self._fuse.step(lambda: os.ftruncate(file, size))

    def fsync(self, file: int) -> None:
        self._fuse.step(lambda: os.fsync(file))


class DatasetMachine(RuleBasedStateMachine):
    """One dataset, with the processes that write it one after another."""

    storage: FaultyFolder | FaultyObjects

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.patches = pytest.MonkeyPatch()
        self.fuse = Fuse()
        self.writer: DatasetWriter | None = None
        self.stored: dict[Any, Result] = {}
        self.tried: dict[Any, list[str]] = {}
        self.begun: dict[Any, bool] = {}
        """Attempts with effects outside, and whether they surely began; they left no result."""
        self.count = 0
        self.storage = self.new_storage(self.folder.name)
        self.storage.fuse = self.fuse
        self.patches.setattr(writer_module, "open_storage", lambda _: self.storage)
        self.patches.setattr(writer_module, "_ROWS_OF_PART", 3)
        self.patches.setattr(writer_module, "_SYNC_S", 0.0)
        self.patches.setattr(journal_module, "os", FaultyOs(self.fuse))

    def new_storage(self, folder: str) -> FaultyFolder | FaultyObjects:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        create = DatasetWriter.create("", sample_plan(), tasks(10))
        self.writer = self.runner.run(create)

    @rule(
        indexes=st.lists(st.integers(0, 9), min_size=1, max_size=5),
        attempt=st.integers(1, 3),
        traced=st.booleans(),
    )
    def append(self, indexes: list[int], attempt: int, traced: bool) -> None:
        writer = self.writer
        if writer is None:
            return

        async def append_all() -> None:
            async def append(one: Result) -> None:
                trace = one.answer.encode() if traced else None
                try:
                    stored = await writer.append(one, trace)
                except DatasetError:
                    return
                if stored is not None:
                    assert one.key not in self.stored, "a second result was accepted"
                    self.stored[one.key] = stored

            self.count += 1
            new = [
                result(index, attempt=attempt, answer=f"{self.count}-{place}")
                for place, index in enumerate(indexes)
            ]
            for one in new:
                self.tried.setdefault(one.key, []).append(one.answer)
            await asyncio.gather(*map(append, new))
            await settle(writer)

        self.runner.run(append_all())

    @rule()
    def begin_outside(self) -> None:
        writer = self.writer
        if writer is None:
            return
        self.count += 1
        task = Task(id=f"outside-{self.count}", prompts=("x",), side_effects="outside")
        item = WorkItem(task=task, agent="a")
        self.begun[item.key] = self.begun.get(item.key, False)
        with contextlib.suppress(DatasetError):
            self.runner.run(writer.begin(item))
            self.begun[item.key] = True

    @rule(
        left=st.integers(1, 12),
        how=st.sampled_from(["before", "half", "after"]),
        dies=st.booleans(),
    )
    def fail(self, left: int, how: How, dies: bool) -> None:
        # A call of this system that fails has no effect, or a part of it.
        if not dies and how == "after" and isinstance(self.storage, FaultyFolder):
            how = "half"
        self.fuse.set(left, how, dies=dies)

    @rule()
    def die(self) -> None:
        self.fuse.dead = True
        self.bury()

    @rule()
    def close(self) -> None:
        if self.writer is not None and not self.fuse.dead:
            self.runner.run(self.writer.close())
            if self.fuse.dead:
                self.bury()
            self.writer = None

    @rule()
    def resume(self) -> None:
        if self.fuse.dead:
            self.bury()
        if self.writer is not None:
            return
        try:
            self.writer = self.runner.run(DatasetWriter.resume(""))
        except DatasetError:
            self.bury()
            return
        rows = self.rows()
        assert self.writer.recovered.keys == rows.keys()
        for key, surely in self.begun.items():
            assert not surely or rows[key].status == "lost", "it would be repeated"
        self.stored = rows
        self.tried = {}

    @invariant()
    def each_attempt_has_one_row_at_most(self) -> None:
        if self.writer is None and not self.stored:
            return
        rows = self.rows()
        for key, one in self.stored.items():
            assert rows.pop(key) == one
        for key, one in rows.items():
            assert one.answer in self.tried[key] if key not in self.begun else one.status == "lost"

    def rows(self) -> dict[Any, Result]:
        """Read the dataset as another process does; check that recordings exist."""
        dataset = Dataset(self.plain_storage())
        rows: dict[Any, Result] = {}
        for one in dataset.results():
            assert one.key not in rows, "two rows of one attempt"
            rows[one.key] = one
            if one.trace is not None:
                assert dataset.read_trace(one)
                if one.key in self.stored:
                    assert dataset.read_trace(one).decode() == one.answer
        return rows

    def plain_storage(self) -> Any:
        raise NotImplementedError

    def bury(self) -> None:
        """End a dead process, as the system does."""
        writer, self.writer = self.writer, None
        if writer is not None:
            self.runner.run(settle(writer))
            if writer._sync_timer is not None:
                writer._sync_timer.cancel()
            writer._threads.shutdown()
            for journal in (writer._journal, writer._starts._journal):
                if isinstance(journal, journal_module.FileJournal):
                    os.close(journal._file)
        self.end_lock(writer)
        self.fuse.dead = False
        self.fuse.left = None

    def end_lock(self, writer: Any) -> None:
        raise NotImplementedError

    def teardown(self) -> None:
        self.bury()
        self.runner.close()
        self.patches.undo()
        self.folder.cleanup()


async def settle(writer: DatasetWriter) -> None:
    """Wait until nothing is being written."""
    while writer._committing is not None or writer._folding is not None:
        if writer._committing is not None:
            await writer._committing
        folding, writer._folding = writer._folding, None
        if folding is not None:
            await folding


class FolderMachine(DatasetMachine):
    def new_storage(self, folder: str) -> FaultyFolder:
        return FaultyFolder(Path(folder), folder)

    def plain_storage(self) -> FolderStorage:
        return FolderStorage(Path(self.folder.name), "")

    def end_lock(self, writer: Any) -> None:
        if writer is not None:
            writer._lock._lock.release()


class ObjectMachine(DatasetMachine):
    def new_storage(self, folder: str) -> FaultyObjects:
        return FaultyObjects(f"memory:/{folder}")

    def plain_storage(self) -> FsspecStorage:
        return FsspecStorage(f"memory:/{self.folder.name}")

    def end_lock(self, writer: Any) -> None:
        if writer is not None:
            writer._lock._released.set()
            writer._lock._thread.join()
        files = fsspec.filesystem("memory")
        for name in [name for name in files.store if "/lease/" in name]:
            del files.store[name]

    def teardown(self) -> None:
        super().teardown()
        fsspec.filesystem("memory").store.clear()


steps = settings(max_examples=12, stateful_step_count=20)
TestFolder = FolderMachine.TestCase
TestFolder.settings = steps
TestObjects = ObjectMachine.TestCase
TestObjects.settings = steps


def test_a_full_disk_at_the_end_of_a_run_loses_no_note_and_no_result() -> None:
    """The machines find this seldom: closing the notes fails, with results in the journal."""
    machine = FolderMachine()
    machine.begin()
    machine.append([1], 1, traced=False)
    machine.begin_outside()
    machine.fail(left=1, how="before", dies=False)
    machine.close()
    assert [one.task for one in machine.rows().values()] == ["t1"]
    machine.resume()
    assert sorted(one.status for one in machine.rows().values()) == ["finished", "lost"]
    machine.teardown()
