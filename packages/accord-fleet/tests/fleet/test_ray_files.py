"""Copies of the driver's files on a node of a cluster."""

from __future__ import annotations

import io
import os
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from accord_fleet import Folder, Task
from accord_fleet.engines import ray_files
from accord_fleet.engines.ray_files import NodeFiles, ShippedFiles
from accord_fleet.types import AttemptFailed, WorkItem

ITEM = WorkItem(task=Task(id="t", prompts=("x",), workspace=Folder("project")), agent="a")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ShippedFiles, ...]:
    """Files in an object store, which is a dictionary here."""
    (tmp_path / "a.txt").write_text("in a folder\n")
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(tmp_path / "a.txt", "project/a.txt")
    store = SimpleNamespace(get={"chunk": data.getvalue()}.__getitem__)
    monkeypatch.setattr(ray_files, "ray_module", lambda: store)
    return (ShippedFiles("workspace", "digest", "project", ("chunk",)),)


async def test_copies_that_were_not_used_for_a_week_are_removed(
    tmp_path: Path, shipped: tuple[ShippedFiles, ...]
) -> None:
    files = NodeFiles(tmp_path)
    week_ago = time.time() - 8 * 86400
    for name in ("old", "new"):
        (files.folder / name).mkdir(parents=True)
        (files.folder / name / "file").touch()
    os.utime(files.folder / "old", (week_ago, week_ago))
    item = await files.unpacked(ITEM, shipped)
    assert isinstance(item.task.workspace, Folder)
    assert (Path(item.task.workspace.path) / "a.txt").read_text() == "in a folder\n"
    names = {path.name for path in files.folder.iterdir() if path.is_dir()}
    assert names == {"new", "digest"}
    # Each use counts.
    os.utime(files.folder / "digest", (week_ago, week_ago))
    await files.unpacked(ITEM, shipped)
    assert (files.folder / "digest").stat().st_mtime > week_ago + 3600


@pytest.mark.skipif(os.name == "nt", reason="Windows has no links without privileges")
async def test_a_folder_that_somebody_else_prepared_is_refused(
    tmp_path: Path, shipped: tuple[ShippedFiles, ...]
) -> None:
    files = NodeFiles(tmp_path)
    (tmp_path / "other").mkdir()
    files.folder.symlink_to(tmp_path / "other")
    with pytest.raises(AttemptFailed, match="expected a folder of"):
        await files.unpacked(ITEM, shipped)
    assert not list((tmp_path / "other").iterdir())
