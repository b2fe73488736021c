"""Reads a log of any evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from accord_fleet.exchange.harbor_job import is_harbor_job, read_harbor_job
from accord_fleet.exchange.imports import Sample
from accord_fleet.exchange.inspect_log import read_inspect_log
from accord_fleet.types import FleetError


def read_log(path: Path, notes: list[str]) -> Iterator[Sample]:
    """Yield the attempts of a log, a folder of logs, or a job."""
    if not path.exists():
        raise FleetError(f"{path} does not exist: expected a log of inspect-ai or a job of Harbor")
    if path.is_file():
        yield from read_inspect_log(path, notes)
        return
    if is_harbor_job(path):
        yield from read_harbor_job(path, notes)
        return
    logs = sorted(path.glob("*.eval"))
    if not logs:
        raise FleetError(
            f"{path} is no log: expected a file .eval or .json of inspect-ai, a folder with files "
            ".eval, or a job of Harbor (a folder with trials that have a result.json)"
        )
    for log in logs:
        yield from read_log(log, notes)
