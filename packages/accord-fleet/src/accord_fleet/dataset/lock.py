"""One run writes a dataset: a lock on this machine, a lease on an object store."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from pathlib import Path
from typing import Protocol

import msgspec

from accord_fleet.dataset.errors import DatasetError, DatasetInUse
from accord_fleet.dataset.holder import Holder, in_use, this_process
from accord_fleet.dataset.lease import Lease, read_lease
from accord_fleet.dataset.storage import Storage
from accord_fleet.dataset.storage_folder import PRIVATE_FILE

_LOCK = "lock"
_HOLDER = "lock.json"


class Lock(Protocol):
    """The right to write a dataset."""

    mark: str
    """Distinguishes the files of this holder from those of others; "" if only one can exist."""

    def check(self) -> None:
        """Raise `DatasetInUse` if it may have been lost."""
        ...

    def release(self) -> None:
        """Let other runs write the dataset."""
        ...


def acquire_lock(storage: Storage) -> Lock:
    """Return the right to write a dataset; raise `DatasetInUse` if another process has it."""
    if storage.folder is not None:
        return FolderLock(storage, storage.folder)
    return Lease(storage)


def read_holder(storage: Storage) -> Holder | None:
    """Return the process that writes a dataset, without a lock; None if there is not one.

    A process of this machine is looked up. One of another machine counts until its lease expires;
    in a folder that machines share, until it has removed the name.
    """
    if storage.folder is None:
        lease = read_lease(storage)
        return None if lease is None or lease.has_ended(time.time()) else lease.holder
    holder = _stored_holder(storage)
    if holder is None:
        return None
    if holder.machine == platform.node() and not _is_alive(holder):
        return None
    return holder


class FolderLock:
    """A lock of the operating system, which ends with its process, however that ends."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        self.mark: str = ""
        self._storage = storage
        import filelock  # slow to import, and readers need no lock

        self._holder = this_process()
        # Acquired and released by different threads.
        self._lock = filelock.FileLock(
            folder / _LOCK, timeout=0, mode=PRIVATE_FILE, thread_local=False, fallback_to_soft=False
        )
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise in_use(storage.address, _stored_holder(storage)) from None
        except (NotImplementedError, OSError) as error:
            raise DatasetError(f"{storage.address} cannot be locked: {error}") from error
        try:
            storage.write(_HOLDER, msgspec.json.encode(self._holder))
        except OSError:
            # The disk is full: the lock itself needs no space.
            with contextlib.suppress(OSError):
                storage.remove(_HOLDER)
        self._pid = os.getpid()

    def check(self) -> None:
        """Raise `DatasetInUse` in a copy of the process that `fork` made."""
        if os.getpid() != self._pid:
            raise DatasetInUse(f"{self._storage.address}: locked by process {self._pid}")

    def release(self) -> None:
        """Let other runs write the dataset."""
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                self._storage.remove(_HOLDER)
            self._lock.release()


def _stored_holder(storage: Storage) -> Holder | None:
    try:
        return msgspec.json.decode(storage.read(_HOLDER), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None


def _is_alive(holder: Holder) -> bool:
    """Return whether the process lives; a later one with its number began after the lock."""
    import psutil

    try:
        return psutil.Process(holder.pid).create_time() <= holder.started + 1
    except psutil.Error:
        return False
