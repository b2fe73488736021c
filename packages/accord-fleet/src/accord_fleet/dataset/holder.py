"""The process that writes a dataset."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime

import msgspec

from accord_fleet.dataset.errors import DatasetInUse


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that writes a dataset."""

    pid: int
    machine: str
    started: float
    """When it began to write, in seconds since 1970."""


def this_process() -> Holder:
    """Return this process."""
    return Holder(pid=os.getpid(), machine=platform.node(), started=time.time())


def in_use(
    address: str, holder: Holder | None, more: str = "", until: float | None = None
) -> DatasetInUse:
    """Return the error for a dataset that another process writes, with a lease `until` then."""
    if holder is None:
        return DatasetInUse(f"{address} is written by another process{more}", until)
    since = datetime.fromtimestamp(holder.started, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    by = f"process {holder.pid} on {holder.machine} since {since}"
    return DatasetInUse(f"{address} is written by {by}{more}", until)
