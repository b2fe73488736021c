"""Tasks and archives at addresses of fsspec."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import (
    MemoryFileSystem,
)

from accord_fleet import Fleet, FleetError, TaskErrors, check_tasks
from fleet.running import raw


@pytest.fixture
def store() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


def tar_with(name: str, text: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


@pytest.mark.skipif(os.name == "nt", reason="the agents use signals of POSIX")
async def test_tasks_and_their_archives_are_at_an_address(store: Any) -> None:
    workspace = {"type": "archive", "path": "memory://bucket/a.tar.gz"}
    task = {"id": "t", "prompt": "try a.txt", "workspace": workspace}
    store.pipe("/bucket/a.tar.gz", tar_with("a.txt", "from the archive"))
    store.pipe("/bucket/tasks.jsonl", json.dumps(task).encode())
    fleet = Fleet([raw(warm=False)])
    [result] = [one async for one in fleet.run("memory://bucket/tasks.jsonl")]
    assert (result.status, result.answer) == ("finished", "from the archive")


async def test_tables_at_an_address(store: Any) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    data = io.BytesIO()
    parquet.write_table(pyarrow.table({"id": ["a"], "prompt": ["p"]}), data)
    store.pipe("/bucket/tasks.parquet", data.getvalue())
    store.pipe("/bucket/tasks.csv", b"id,prompt\na,p\n")
    for kind in ("parquet", "csv"):
        with await check_tasks(f"memory://bucket/tasks.{kind}") as tasks:
            assert [(task.id, task.prompts) for task in tasks] == [("a", ("p",))]


class Unreachable(MemoryFileSystem):
    """A store whose library raises errors of its own."""

    protocol = "unreachable"

    def _open(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no\nanswer")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("memory://bucket/missing", "it does not exist"),
        ("unheard-of://bucket/x", "Protocol not known: unheard-of"),
        ("uninstalled://bucket/x", "install the library of the store"),
        ("unreachable://bucket/x", r"no\nanswer"),
    ],
)
async def test_what_cannot_be_opened_is_an_error_with_the_reason(address: str, why: str) -> None:
    text = "install the library of the store"
    fsspec.register_implementation("uninstalled", "no_such_module.Files", True, text)
    fsspec.register_implementation("unreachable", Unreachable, True)
    with pytest.raises(FleetError) as missing:
        await check_tasks(f"{address}.jsonl")
    assert str(missing.value) == f"{address}.jsonl: {why}"
    task = {"id": "t", "prompt": "p", "workspace": {"type": "archive", "path": f"{address}.tar"}}
    with pytest.raises(TaskErrors) as wrong:
        await check_tasks([task])
    assert f"workspace.path: expected an archive, {address}.tar: {why}" in str(wrong.value)
