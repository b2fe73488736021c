"""Writes the results and recordings of a run as they arrive.

A `DatasetWriter` holds the lock of its dataset. Outcomes that arrive together are written together,
and a full disk loses none that was stored before.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar
from urllib.parse import quote

import msgspec

from accord_fleet.dataset.lock import Lock, acquire_lock
from accord_fleet.dataset.recovery import Recovered, Starts, recover
from accord_fleet.dataset.run_file import (
    check_same_tasks,
    check_tasks,
    read_plan,
    read_tasks,
    write_plan,
    write_run,
)
from accord_fleet.dataset.segments import Journal, Key, Segment, encode_result, fold, open_journal
from accord_fleet.plan import Plan
from accord_fleet.storage import (
    DatasetError,
    DatasetInUse,
    DatasetWriteFailed,
    Storage,
    make_private_folder,
    open_storage,
)
from accord_fleet.types import Result, Task, WorkItem

_LOOK_S = 2.0


_T = TypeVar("_T")


async def when_lease_ends(
    open_it: Callable[[], Awaitable[_T]], on_wait: Callable[[str], None]
) -> _T:
    """Open a dataset; if a process that may be dead has its lease, wait until the lease ends.

    `on_wait` gets a line that says so. Raises `DatasetInUse` as soon as the lease is renewed: its
    holder lives.
    """
    first: float | None = None
    while True:
        try:
            return await open_it()
        except DatasetInUse as error:
            if error.until is None or (first is not None and error.until != first):
                raise
            if first is None:
                first = error.until
                on_wait(f"{error}; waiting for its end")
            left = max(0.0, error.until - time.time())
        await asyncio.sleep(min(left, _LOOK_S))


# A full disk.

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def parts_that_fit(journal: Journal, lines: list[bytes]) -> Iterator[list[bytes]]:
    """Write lines and yield what was written: all at once, or one by one while the disk is full."""
    if not lines:
        return
    try:
        journal.commit(lines)
    except OSError as error:
        if error.errno not in _FULL or len(lines) == 1:
            raise
        for line in lines:
            journal.commit([line])
            yield [line]
    else:
        yield lines


def write_failed(address: str, what: str, error: OSError) -> DatasetWriteFailed:
    """Return the error for what was not written."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        reason += "; make space and run `accord fleet resume`"
    return DatasetWriteFailed(f"{address}: {what}: {reason}", error)


# Recordings.

TRACES = "traces"
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"


def trace_name(
    task: str, agent: str, attempt: int, end: str = ".acp.jsonl", *, mark: str = ""
) -> str:
    """Return the name of a recording in the dataset; `mark` is that of the lock.

    A folder for each task would take longer to make than the recording to write.
    """
    of = f"{_part(task)}.{mark}" if mark else _part(task)
    return f"{TRACES}/{_part(agent)}-{attempt}/{of}{end}"


def trace_name_for(key: tuple[str, str, int], trace: bytes, *, mark: str = "") -> str:
    """Return the name of a recording with these contents."""
    return trace_name(*key, _end_of(trace), mark=mark)


def store_trace(
    storage: Storage, key: tuple[str, str, int], trace: Path | bytes, *, mark: str = ""
) -> str:
    """Move a finished recording into the dataset, and return its name.

    A recording of the same attempt with the same mark is replaced. Raises `OSError`.
    """
    if isinstance(trace, bytes):
        name = trace_name_for(key, trace, mark=mark)
        storage.put(name, trace)
        return name
    with trace.open("rb") as file:
        name = trace_name(*key, _end_of(file.read(4)), mark=mark)
    storage.move_in(trace, name)
    return name


def _end_of(head: bytes) -> str:
    if head.startswith(_ZSTD):
        return ".acp.jsonl.zst"
    return ".acp.jsonl.gz" if head.startswith(_GZIP) else ".acp.jsonl"


def _part(name: str) -> str:
    """Return a part of a path for any name; different names have different parts."""
    safe = quote(name, safe=" @+=,").strip()
    return f"%2E{safe[1:]}" if safe.startswith(".") else safe


_ROWS_OF_PART = 1000
_BYTES_OF_PART = 16 * 2**20
_SYNC_S = 1.0
"""Seconds between flushes to the disk; see docs/reference/fleet-dataset.md for the costs."""
_THREADS = 16
_AT_ONCE = 64
_GROUP = 32
"""Outcomes that are written without waiting for others."""
_GROUP_S = 0.02
"""Seconds between two writes of outcomes: each write costs as much as the work on a result."""


class _Row(NamedTuple):
    line: bytes
    trace: tuple[str, bytes] | None = None
    """The name and the contents of a recording that is stored first."""


class _Waiting(NamedTuple):
    row: _Row
    stored: asyncio.Future[None]


class _Committed(NamedTuple):
    errors: dict[int, Exception] = {}
    """Why rows were not stored, by their place."""
    segment: Segment | None = None
    """The segment, if it is complete."""


class DatasetWriter:
    """The dataset of a running run; one process has one at a time.

    Use it in one event loop, as an async context manager.
    """

    def __init__(
        self,
        storage: Storage,
        plan: Plan,
        lock: Lock,
        recovered: Recovered,
        threads: ThreadPoolExecutor,
    ) -> None:
        self.plan: Plan = plan
        self.recovered: Recovered = recovered
        self.refused: int = 0
        """Results of attempts that had a row; they were dropped."""
        self.not_folded: OSError | DatasetError | None = None
        """Why journals could not become parts. Their results are stored and can be read."""
        self._storage = storage
        self._lock = lock
        self._threads = threads
        self._keys = recovered.keys
        self._number = recovered.next_segment
        self._journal: Journal | None = None
        self._starts = Starts(storage)
        self._noting = asyncio.Lock()
        self._waiting: list[_Waiting] = []
        self._committing: asyncio.Task[None] | None = None
        self._committed: float = 0.0  # by the loop's clock
        self._commit_timer: asyncio.TimerHandle | None = None
        self._folding: asyncio.Task[None] | None = None
        self._synced: float = time.monotonic()
        self._is_unsynced = False
        self._sync_timer: asyncio.TimerHandle | None = None
        self._closed = False

    @classmethod
    async def create(
        cls, address: str | os.PathLike[str], plan: Plan, tasks: Iterable[Task]
    ) -> DatasetWriter:
        """Begin a dataset, with the plan and the tasks of its run.

        Raises `DatasetError` if it exists, `DatasetInUse` if another process begins it, and
        `TasksChanged` if the digest of the plan is not the digest of the tasks.
        """

        def prepare(storage: Storage) -> Plan:
            write_run(storage, plan, tasks)
            return plan

        return await cls._open(address, prepare, resumes=False)

    @classmethod
    async def resume(
        cls,
        address: str | os.PathLike[str],
        plan: Plan | None = None,
        *,
        engine: str | None = None,
        repeat_lost: bool = False,
        on_wait: Callable[[str], None] | None = None,
    ) -> DatasetWriter:
        """Open the dataset of a run that has ended or died, to run what has no row.

        `engine` replaces that of the stored plan. Cancelled attempts lose their rows; attempts with
        effects outside their workspace that began get rows, unless `repeat_lost`. With `on_wait`,
        wait for the end of a lease that is not renewed, and say so first. Raises
        `DatasetError` if it is not a dataset, `DatasetInUse` if another process writes it, and
        `TasksChanged` if the stored tasks were changed or those of `plan` are other tasks.
        """

        def prepare(storage: Storage) -> Plan:
            stored = read_plan(storage)
            check_tasks(storage, stored)
            if plan is not None:
                check_same_tasks(storage, stored, plan)
            if engine is not None and engine != stored.engine:
                stored = msgspec.structs.replace(stored, engine=engine)
                write_plan(storage, stored)
            return stored

        def opened() -> Awaitable[DatasetWriter]:
            return cls._open(address, prepare, resumes=True, repeat_lost=repeat_lost)

        return await (opened() if on_wait is None else when_lease_ends(opened, on_wait))

    @classmethod
    async def _open(
        cls,
        address: str | os.PathLike[str],
        prepare: Callable[[Storage], Plan],
        *,
        resumes: bool,
        repeat_lost: bool = False,
    ) -> DatasetWriter:
        def open_blocking() -> tuple[Storage, Plan, Lock, Recovered]:
            storage = open_storage(address)
            if resumes:
                read_plan(storage)  # before the lock makes a folder
            lock = _locked(storage)
            try:
                plan = prepare(storage)
                return storage, plan, lock, recover(storage, repeat_lost=repeat_lost)
            except OSError as error:
                lock.release()
                raise write_failed(storage.address, "the dataset was not opened", error) from error
            except BaseException:
                lock.release()
                raise

        threads = ThreadPoolExecutor(_THREADS, "accord-dataset")
        try:
            opened = await asyncio.get_running_loop().run_in_executor(threads, open_blocking)
        except BaseException:
            threads.shutdown(wait=False)
            raise
        return cls(*opened, threads)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __len__(self) -> int:
        """Return the number of attempts that have a row."""
        return len(self._keys)

    def is_done(self, key: Key) -> bool:
        """Return whether an attempt has a row."""
        return key in self._keys

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks of the run; they are read as needed."""
        return read_tasks(self._storage)

    async def begin(self, item: WorkItem) -> None:
        """Note durably that an attempt begins, if it may have effects outside its workspace.

        If this process is killed, the attempt is lost instead of repeated. Raises
        `DatasetWriteFailed`; the attempt must not begin then.
        """
        if item.task.side_effects == "workspace":
            return
        async with self._noting:
            try:
                self._lock.check()
                await self._in_thread(lambda: self._starts.add(item))
            except OSError as error:
                what = f"the start of {item.task.id} ({item.agent}) was not noted"
                raise write_failed(self._storage.address, what, error) from error

    async def append(self, result: Result, trace: Path | bytes | None = None) -> Result | None:
        """Store a result and, before it, its recording; return the result as it is stored.

        When this returns, the result survives the end of this process. Returns None, and drops
        both, if the attempt has a row. Raises `DatasetWriteFailed` if nothing was stored; a later
        call may succeed. Calls at the same time share one write.
        """
        return await self._append(result, trace)

    async def _append(
        self, result: Result, trace: Path | bytes | None, *, waits: bool = False
    ) -> Result | None:
        """Store a result; `waits` for others, with which it shares a write."""
        if self._closed:
            raise DatasetError(f"{self._storage.address} is closed")
        key = result.key
        if key in self._keys:
            self.refused += 1
            if isinstance(trace, Path):
                await self._in_thread(lambda: trace.unlink(missing_ok=True))
            return None
        self._keys.add(key)
        try:
            return await self._store(result, trace, waits=waits)
        except OSError as error:
            self._keys.discard(key)
            name = f"{result.task} ({result.agent}, attempt {result.attempt})"
            raise write_failed(self._storage.address, f"{name} was not stored", error) from error
        except DatasetError:
            self._keys.discard(key)
            raise

    async def append_all(
        self, outcomes: AsyncGenerator[tuple[Result, Path | bytes | None]]
    ) -> AsyncGenerator[Result]:
        """Store outcomes as they arrive, many at the same time; yield each once it is stored.

        Takes at most 64 outcomes more than the caller took results. One task iterates over the
        outcomes and closes them. Outcomes that arrive within 20 ms share a write. Raises
        `DatasetWriteFailed` as soon as one cannot be stored.
        """
        slots = asyncio.Semaphore(_AT_ONCE)
        ready: asyncio.Queue[asyncio.Task[Result | None] | None] = asyncio.Queue()
        running: set[asyncio.Task[Result | None]] = set()

        async def store_all() -> None:
            try:
                async with aclosing(outcomes):
                    async for result, trace in outcomes:
                        await slots.acquire()
                        task = asyncio.create_task(self._append(result, trace, waits=True))
                        running.add(task)
                        task.add_done_callback(ready.put_nowait)
            finally:
                ready.put_nowait(None)

        storing = asyncio.create_task(store_all())
        more = True
        try:
            while more or running:
                task = await ready.get()
                if task is None:
                    more = False
                    continue
                running.discard(task)
                slots.release()
                if (stored := task.result()) is not None:
                    yield stored
            await storing
        finally:
            storing.cancel()
            # What has arrived is stored, whatever happens to the caller.
            await asyncio.wait([storing, *running])
            for task in running:
                task.exception()

    async def close(self) -> None:
        """Make all results parts, and let other runs write the dataset."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._waiting:
                self._start_commit()
            if self._committing is not None:
                await self._committing
            if self._sync_timer is not None:
                self._sync_timer.cancel()
            await self._in_thread(self._starts.close)
            segment = await self._in_thread(self._close_journal)
            if segment is not None:
                self._fold_later(segment)
            if self._folding is not None:
                await self._folding
        finally:
            await self._in_thread(self._lock.release)
            self._threads.shutdown()

    async def _store(self, result: Result, trace: Path | bytes | None, *, waits: bool) -> Result:
        if trace is None:
            await self._store_row(_Row(encode_result(result)), waits=waits)
            return result
        if isinstance(trace, bytes) and self._storage.folder is not None:
            name = trace_name_for(result.key, trace, mark=self._lock.mark)
            result = msgspec.structs.replace(result, trace=name)
            await self._store_row(_Row(encode_result(result), (name, trace)), waits=waits)
            return result
        name = await self._in_thread(
            lambda: store_trace(self._storage, result.key, trace, mark=self._lock.mark)
        )
        result = msgspec.structs.replace(result, trace=name)
        try:
            await self._store_row(_Row(encode_result(result)), waits=waits)
        except OSError:
            with contextlib.suppress(OSError):
                await self._in_thread(lambda: self._storage.remove(name))
            raise
        return result

    async def _store_row(self, row: _Row, *, waits: bool) -> None:
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        self._waiting.append(_Waiting(row, stored))
        due = self._committed + _GROUP_S
        if not waits or self._closed or len(self._waiting) >= _GROUP or loop.time() >= due:
            self._start_commit()
        elif self._committing is None and self._commit_timer is None:
            self._commit_timer = loop.call_at(due, self._start_commit)
        await stored

    def _start_commit(self) -> None:
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        if self._committing is None:
            self._committed = asyncio.get_running_loop().time()
            self._committing = asyncio.create_task(self._commit_all())

    async def _commit_all(self) -> None:
        """Write what waits, and what arrives until it is written, in as few writes as possible."""
        try:
            while True:
                batch, self._waiting = self._waiting, []
                rows = [waiting.row for waiting in batch]
                done = await self._in_thread(lambda rows=rows: self._commit(rows))
                for place, waiting in enumerate(batch):
                    if waiting.stored.done():
                        continue  # its caller was cancelled
                    if (error := done.errors.get(place)) is None:
                        waiting.stored.set_result(None)
                    else:
                        waiting.stored.set_exception(error)
                if done.segment is not None:
                    self._fold_later(done.segment)
                if not self._waiting:
                    return
        finally:
            self._committing = None
            if self._journal is not None and self._is_unsynced and self._sync_timer is None:
                self._sync_timer = asyncio.get_running_loop().call_later(_SYNC_S, self._sync)

    def _sync(self) -> None:
        self._sync_timer = None
        if not self._closed:
            self._start_commit()

    def _commit(self, rows: list[_Row]) -> _Committed:
        """Store recordings, and then write their lines to the journal, in a thread."""
        errors: dict[int, Exception] = {}
        waiting = list(range(len(rows)))
        try:
            self._lock.check()
            errors = self._put_traces(rows)
            waiting = [place for place in waiting if place not in errors]
            if self._journal is None:
                if not waiting:
                    return _Committed(errors)
                self._journal = open_journal(self._storage, self._number)
                self._number += 1
            for part in parts_that_fit(self._journal, [rows[place].line for place in waiting]):
                del waiting[: len(part)]
                self._is_unsynced = True
        except (OSError, DatasetError) as error:
            for place in waiting:
                errors[place] = error
                if (trace := rows[place].trace) is not None:
                    with contextlib.suppress(OSError):
                        self._storage.remove(trace[0])
            return _Committed(errors)
        journal = self._journal
        if journal.rows >= _ROWS_OF_PART or journal.bytes >= _BYTES_OF_PART:
            return _Committed(errors, self._close_journal())
        now = time.monotonic()
        if self._is_unsynced and now - self._synced >= _SYNC_S:
            # The lines are in the file, and the system may still write them to the disk.
            with contextlib.suppress(OSError):
                journal.sync()
            self._synced = now
            self._is_unsynced = False
        return _Committed(errors)

    def _put_traces(self, rows: list[_Row]) -> dict[int, Exception]:
        """Store recordings; return which could not be stored."""
        errors: dict[int, Exception] = {}
        for place, row in enumerate(rows):
            if row.trace is not None:
                try:
                    self._storage.put(*row.trace)
                except OSError as error:
                    errors[place] = error
        return errors

    def _close_journal(self) -> Segment | None:
        journal, self._journal = self._journal, None
        self._is_unsynced = False
        if journal is None:
            return None
        try:
            return journal.close()
        except OSError as error:
            # The next run folds it.
            self.not_folded = error
            return None

    def _fold_later(self, segment: Segment) -> None:
        """Make a segment a part, after those before it."""
        before = self._folding

        async def fold_next() -> None:
            if before is not None:
                await before
            try:
                await self._in_thread(lambda: self._fold(segment))
            except (OSError, DatasetError) as error:
                self.not_folded = error

        self._folding = asyncio.create_task(fold_next())

    def _fold(self, segment: Segment) -> None:
        self._lock.check()
        fold(self._storage, segment)

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _locked(storage: Storage) -> Lock:
    if storage.folder is not None:
        try:
            make_private_folder(storage.folder)
        except OSError as error:
            raise write_failed(storage.address, "the folder was not made", error) from error
    try:
        return acquire_lock(storage)
    except OSError as error:
        raise write_failed(storage.address, "no lease was written", error) from error
