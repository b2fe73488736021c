"""Two runs on one dataset are refused: locks of folders, and leases of object stores."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import fsspec
import msgspec
import pytest

from accord_fleet.dataset import writer as writer_module
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.lock import Lease, read_lease
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.storage import DatasetInUse, FolderStorage, FsspecStorage, open_storage
from fleet.sample_runs import result, sample_plan, tasks

# Waits for a line, opens the dataset, prints the outcome, and waits for the end of its stdin.
OPEN = """
import asyncio, sys
from accord_fleet.storage import DatasetInUse
from accord_fleet.dataset.writer import DatasetWriter
async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        async with await DatasetWriter.resume(sys.argv[1]):
            print("opened", flush=True)
            sys.stdin.readline()
    except DatasetInUse as error:
        print(f"refused: {error}", flush=True)
asyncio.run(main())
"""
# The same for a lease in a folder that behaves as an object store with conditional puts.
LEASE = """
import os, sys
from accord_fleet.storage import DatasetInUse
from accord_fleet.dataset.lock import Lease
from accord_fleet.storage import FolderStorage
from pathlib import Path
print("ready", flush=True)
sys.stdin.readline()
try:
    lease = Lease(FolderStorage(Path(sys.argv[1]), sys.argv[1]))
    print("opened", flush=True)
    sys.stdin.readline()
except DatasetInUse as error:
    print(f"refused: {error}", flush=True)
"""


async def begin(address: str | Path) -> None:
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)) as writer:
        await writer.append(result(1))


@asynccontextmanager
async def programs(program: str, address: Path, number: int) -> AsyncIterator[list[Process]]:
    """Start programs, which wait until they may open the dataset."""
    file = Path(f"{address}.py")
    file.write_text(program)  # noqa: ASYNC240  # before all else
    running = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(file), str(address)), stdin=PIPE, stdout=PIPE
        )
        for _ in range(number)
    ]
    try:
        for process in running:
            assert await line_of(process) == "ready"
        yield running
    finally:
        for process in running:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def line_of(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode().strip()


def go(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")


async def test_a_second_run_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    await begin(run)
    async with await DatasetWriter.resume(run) as writer:
        with pytest.raises(DatasetInUse) as refused:
            await DatasetWriter.resume(run)
        said = str(refused.value)
        assert f"is written by process {os.getpid()} on {platform.node()} since 20" in said
        with pytest.raises(DatasetInUse):
            await DatasetWriter.create(run, sample_plan(), tasks(10))
        assert await writer.append(result(2)) is not None
    assert len(list(Dataset.open(run).results())) == 2


@pytest.mark.parametrize("kind", ["lock", "lease"])
async def test_of_processes_that_race_one_opens_the_dataset(tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    await begin(run)
    program = OPEN if kind == "lock" else LEASE
    async with programs(program, run, 4) as running:
        for process in running:
            go(process)
        said = [await line_of(process) for process in running]
        assert sorted(text.partition(":")[0] for text in said) == ["opened", *["refused"] * 3]
        for text in said:
            assert text == "opened" or f"{run} is written by" in text


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
async def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    run = tmp_path / "run"
    await begin(run)
    async with programs(OPEN, run, 1) as (process,):
        go(process)
        assert await line_of(process) == "opened"
        holder = Dataset.open(run).writer
        assert holder is not None
        assert holder.pid == process.pid
        with pytest.raises(DatasetInUse, match=f"process {process.pid} on"):
            await DatasetWriter.resume(run)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        assert Dataset.open(run).writer is None
        async with await DatasetWriter.resume(run) as writer:
            assert writer.is_done(("t1", "a", 1))


@pytest.fixture
def memory(tmp_path: Path) -> FsspecStorage:
    fsspec.filesystem("memory").store.clear()
    return FsspecStorage(f"memory:/{tmp_path}")


def test_a_lease_is_refused_until_it_is_released(memory: FsspecStorage) -> None:
    lease = Lease(memory)
    with pytest.raises(DatasetInUse, match=rf"process {os.getpid()} .* its lease ends in \d+ s"):
        Lease(memory)
    lease.release()
    lease.release()
    following = Lease(memory)
    assert memory.names("lease") == ["000002.json"]
    following.release()


def test_a_lease_that_expired_is_taken_over(memory: FsspecStorage) -> None:
    dead = Lease(memory, lease_s=0, renew_s=1000)
    following = Lease(memory)
    # Its holder was only slow: it notices, and does not renew it.
    dead.renew()
    with pytest.raises(DatasetInUse, match="the lease was not renewed"):
        dead.check()
    following.check()
    current = read_lease(memory)
    assert current is not None
    assert current.token == following._token
    dead.release()
    following.release()


def test_a_holder_stops_before_its_lease_expires(memory: FsspecStorage) -> None:
    lease = Lease(memory, used_s=0, renew_s=1000)
    with pytest.raises(DatasetInUse, match="another run may write now; resume the run"):
        lease.check()
    lease.release()
    # The lease remains: results may be in the store's queue, and it ends in time.
    with pytest.raises(DatasetInUse):
        Lease(memory)


def test_a_lease_is_renewed(memory: FsspecStorage) -> None:
    lease = Lease(memory, renew_s=1000)
    before = read_lease(memory)
    lease.renew()
    after = read_lease(memory)
    assert before is not None
    assert after is not None
    assert after.expires > before.expires
    lease.check()
    lease.release()


async def test_results_are_refused_after_the_lease_was_lost(tmp_path: Path) -> None:
    address = f"memory:/{tmp_path}/run"
    writer = await DatasetWriter.create(address, sample_plan(), tasks(10))
    await writer.append(result(1))
    storage = open_storage(address)
    stored = json.loads(storage.read("lease/000001.json"))
    storage.write("lease/000001.json", msgspec.json.encode({**stored, "expires": 0}))
    async with await DatasetWriter.resume(address) as following:
        lease = writer._lock
        assert isinstance(lease, Lease)
        lease.renew()
        assert await following.append(result(2), b"of the second run") is not None
        with pytest.raises(DatasetInUse):
            await writer.append(result(2), b"of the first run")
        await writer.close()
    stored = list(Dataset.open(address).results())
    assert [one.task for one in stored] == ["t1", "t2"]
    assert Dataset.open(address).read_trace(stored[1]) == b"of the second run"
    fsspec.filesystem("memory").store.clear()


async def test_resume_waits_for_the_end_of_a_lease_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_LOOK_S", 0.01)
    address = f"memory:/{tmp_path}/run"
    await begin(address)
    storage = open_storage(address)
    dead = Lease(storage, renew_s=1000)
    said: list[str] = []

    def expire(line: str) -> None:
        said.append(line)
        [name] = storage.names("lease")
        stored = json.loads(storage.read(f"lease/{name}"))
        storage.write(f"lease/{name}", msgspec.json.encode({**stored, "expires": 0}))

    async with asyncio.timeout(40):
        async with await DatasetWriter.resume(address, on_wait=expire) as writer:
            assert writer.is_done(("t1", "a", 1))
    assert len(said) == 1
    assert f"is written by process {os.getpid()} on" in said[0]
    assert re.search(r"its lease ends in \d+ s; waiting for its end$", said[0])
    dead.release()
    fsspec.filesystem("memory").store.clear()


async def test_resume_is_refused_if_the_lease_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_LOOK_S", 0.01)
    address = f"memory:/{tmp_path}/run"
    await begin(address)
    alive = Lease(open_storage(address), renew_s=1000)
    async with asyncio.timeout(20):
        with pytest.raises(DatasetInUse, match="if that process is dead, its lease ends in"):
            await DatasetWriter.resume(address, on_wait=lambda _: alive.renew())
    alive.check()
    alive.release()
    fsspec.filesystem("memory").store.clear()


def test_a_file_is_created_once(tmp_path: Path) -> None:
    for storage in (FolderStorage(tmp_path, ""), FsspecStorage(f"memory:/{tmp_path}")):
        storage.create("a/b", b"1")
        with pytest.raises(FileExistsError):
            storage.create("a/b", b"2")
        assert storage.read("a/b") == b"1"
