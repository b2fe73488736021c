"""Runs with missing or damaged files: one line says which file, and what can be done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from accord_fleet.command import command
from accord_fleet.dataset.writer import DatasetWriter
from fleet.sample_runs import result, sample_plan, tasks

PART = "results/part-000001.parquet"


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    async with await DatasetWriter.create(folder, sample_plan(), tasks(10)) as writer:
        for number in range(5):
            await writer.append(result(number))
    return folder


async def error_of(*words: str | Path) -> str:
    """Return the only line of an error."""
    done = await asyncio.to_thread(CliRunner().invoke, command, list(map(str, words)))
    assert done.exit_code == 1, done.output
    assert isinstance(done.exception, SystemExit)  # no traceback
    [line] = done.output.splitlines()
    return line


def truncate(path: Path, keep: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])


@pytest.mark.parametrize("name", ["report", "resume"])
async def test_missing_tasks(run: Path, name: str) -> None:
    (run / "tasks.jsonl").unlink()
    expected = f"Error: {run}: tasks.jsonl is missing; restore it from a copy, or begin a new run"
    assert await error_of(name, run) == expected


@pytest.mark.parametrize("name", ["report", "resume", "status"])
@pytest.mark.parametrize("content", ["{", "{}", b"\xff", None], ids=repr)
async def test_damaged_plan(run: Path, name: str, content: str | bytes | None) -> None:
    (run / "run.json").unlink()
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (run / "run.json").write_bytes(data)
    what = "is not a dataset: run.json is missing; " if content is None else "run.json cannot be "
    assert what in await error_of(name, run)


async def test_damaged_line_of_tasks(run: Path) -> None:
    (run / "tasks.jsonl").write_bytes(b'{"id": "\xff"}\n')
    assert "line 1 of tasks.jsonl: " in await error_of("report", run)
    assert "tasks.jsonl was changed after the run began" in await error_of("resume", run)


async def test_results_that_are_not_a_folder(run: Path) -> None:
    (run / PART).unlink()
    (run / "results").rmdir()
    (run / "results").write_text("")
    for name in ("report", "resume", "status"):
        assert "results" in await error_of(name, run)


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
async def test_truncated_part_can_be_moved_away(run: Path, keep: float) -> None:
    truncate(run / PART, keep)
    for name in ("report", "resume", "status"):
        line = await error_of(name, run)
        assert line.startswith(f"Error: {run}: {PART} cannot be read: ")
        assert line.endswith(
            f"; move it out of results/, and `accord fleet resume {run}` repeats its attempts"
        )
    (run / PART).rename(run / "damaged.parquet")
    async with await DatasetWriter.resume(run) as writer:  # as `accord fleet resume`
        assert not any(writer.is_done((f"t{number}", "a", 1)) for number in range(10))
        assert await writer.append(result(0)) is not None
    done = CliRunner().invoke(command, ["status", str(run)])
    assert "1 of 10 results" in done.output


async def test_damage_within_a_part(run: Path) -> None:
    data = bytearray((run / PART).read_bytes())
    data[4 : len(data) // 3] = b"\xff" * (len(data) // 3 - 4)
    (run / PART).write_bytes(data)
    assert f"{PART} cannot be read: " in await error_of("report", run)
