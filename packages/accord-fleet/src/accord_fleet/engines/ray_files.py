"""Sends folders and files of the driver to the nodes, once to each node."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import hashlib
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, cast

import msgspec
from filelock import FileLock, Timeout

from accord_fleet.engines.ray_cluster import ray_module
from accord_fleet.scratch import is_own, remove_tree, scratch_folder
from accord_fleet.types import (
    Archive,
    AttemptFailed,
    Folder,
    FunctionGrader,
    GitRepository,
    Task,
    WorkItem,
)

_CHUNK_BYTES = 32 * 2**20
_COMMAND_S = 600.0
_KEPT_S = 7 * 86400.0

_Part = Literal["workspace", "grader"]


class ShippedFiles(msgspec.Struct, frozen=True):
    """A folder or a file of the driver, in Ray's object store."""

    part: _Part
    digest: str
    """Names the copy on each node."""
    name: str
    """The folder or file in the copy."""
    chunks: tuple[Any, ...]
    """References to the parts of a tar file."""


class DriverFiles:
    """Puts what tasks need from the driver's disk into the object store, once each."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._shipped: dict[tuple[_Part, str, bool], asyncio.Task[ShippedFiles]] = {}

    async def needed(self, task: Task) -> tuple[ShippedFiles, ...]:
        """Return what the task needs; raise `AttemptFailed` for what cannot be read."""
        shipped: list[ShippedFiles] = []
        for part, path in _local_paths(task):
            is_repository = isinstance(task.workspace, GitRepository) and part == "workspace"
            key = part, str(path), is_repository
            if key not in self._shipped:
                work = asyncio.to_thread(self._ship, part, path, is_repository)
                self._shipped[key] = asyncio.ensure_future(work)
            try:
                shipped.append(await asyncio.shield(self._shipped[key]))
            except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
                raise AttemptFailed("workspace", f"{path}: cannot be sent: {error}") from error
        return tuple(shipped)

    async def aclose(self) -> None:
        """Let the cluster drop everything that was sent."""
        for task in self._shipped.values():
            task.cancel()
        await asyncio.gather(*self._shipped.values(), return_exceptions=True)
        self._shipped.clear()

    def _ship(self, part: _Part, path: Path, is_repository: bool) -> ShippedFiles:
        with scratch_folder() as scratch:
            if is_repository:
                source, path = path, scratch / "repository.git"
                command = ("git", "clone", "--quiet", "--mirror", "--", str(source), str(path))
                subprocess.run(command, check=True, capture_output=True, timeout=_COMMAND_S)
            chunks = _Chunks(self._ray)
            with tarfile.open(fileobj=cast("IO[bytes]", chunks), mode="w|") as tar:
                tar.add(path, arcname=path.name)
        return ShippedFiles(part, chunks.close(), path.name, tuple(chunks.refs))


class _Chunks:
    """Puts what is written to it into the object store, in parts."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._digest = hashlib.sha256()
        self._data = bytearray()
        self.refs: list[Any] = []

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self._data += data
        if len(self._data) >= _CHUNK_BYTES:
            self._put()
        return len(data)

    def close(self) -> str:
        """Put the rest; return the digest of everything."""
        self._put()
        return self._digest.hexdigest()

    def _put(self) -> None:
        if self._data:
            self.refs.append(self._ray.put(bytes(self._data)))
            self._data.clear()


class NodeFiles:
    """Copies of what drivers sent to this node."""

    def __init__(self, temporary: Path) -> None:
        self.machine: str = platform.node()
        self.folder: Path = temporary / f"accord-fleet-{getpass.getuser()}"

    async def unpacked(self, item: WorkItem, shipped: tuple[ShippedFiles, ...]) -> WorkItem:
        """Return the item with the paths of this node."""
        for files in shipped:
            path = await asyncio.to_thread(self._copy, files)
            item = msgspec.structs.replace(item, task=_with_path(item.task, files.part, path))
        return item

    def _copy(self, files: ShippedFiles) -> Path:
        self.folder.mkdir(exist_ok=True, mode=0o700)
        if not is_own(self.folder):
            message = f"{self.folder}: expected a folder of {getpass.getuser()} on {self.machine}"
            raise AttemptFailed("workspace", message)
        folder = self.folder / files.digest
        if not folder.exists():
            with FileLock(folder.with_suffix(".lock"), timeout=_COMMAND_S):
                if not folder.exists():
                    self._remove_unused()
                    self._unpack(files, folder)
        os.utime(folder)
        return folder / files.name

    def _remove_unused(self) -> None:
        """Remove the copies that no attempt has used for a week."""
        old = time.time() - _KEPT_S
        for folder in self.folder.iterdir():
            if folder.suffix == ".lock" or folder.stat().st_mtime > old:
                continue
            with (
                contextlib.suppress(Timeout),
                FileLock(folder.with_suffix(".lock"), timeout=0),
            ):
                remove_tree(folder)

    def _unpack(self, files: ShippedFiles, folder: Path) -> None:
        ray = ray_module()
        unfinished = folder.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        with tempfile.TemporaryFile(dir=folder.parent) as file:
            for ref in files.chunks:
                file.write(ray.get(ref))
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                tar.extractall(unfinished, filter="tar")
        unfinished.rename(folder)


def _local_paths(task: Task) -> Iterator[tuple[_Part, Path]]:
    """Yield what the task needs from the driver's disk."""
    workspace = task.workspace
    match workspace:
        case Folder(path):
            yield "workspace", Path(path).absolute()
        case Archive(path) if "://" not in path:
            yield "workspace", Path(path).absolute()
        case GitRepository(url) if (folder := Path(url.removeprefix("file://"))).is_dir():
            yield "workspace", folder.absolute()
        case _:
            pass
    grader = task.grader
    if isinstance(grader, FunctionGrader):
        file = grader.function.rpartition(":")[0]
        if file.endswith(".py"):
            yield "grader", Path(file).absolute()


def _with_path(task: Task, part: _Part, path: Path) -> Task:
    replace = msgspec.structs.replace
    if part == "grader":
        assert isinstance(task.grader, FunctionGrader)
        name = task.grader.function.rpartition(":")[2]
        return replace(task, grader=replace(task.grader, function=f"{path}:{name}"))
    match task.workspace:
        case Folder():
            return replace(task, workspace=Folder(str(path)))
        case Archive():
            return replace(task, workspace=Archive(str(path)))
        case GitRepository(commit=commit):
            return replace(task, workspace=GitRepository(str(path), commit))
        case workspace:
            raise TypeError(f"workspace {type(workspace).__name__} has no path")
