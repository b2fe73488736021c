"""One run writes a dataset: a lock on this machine, a lease on an object store."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from accord_fleet.storage import PRIVATE_FILE, DatasetError, DatasetInUse, Storage


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


# A lease: the right to write a dataset on an object store, which expires.
#
# The lease with the highest number counts. It is taken over by creating the next number, which a
# store with conditional puts allows to one process only. The holder renews its lease, and does not
# write any more some time before others may take it over.

LEASE_S = 60.0
"""Seconds after its last renewal in which a lease is valid for others."""
_USED_S = 40.0
"""Seconds in which its holder uses it: the clocks of two machines may differ by the rest."""
_RENEW_S = 10.0
_FOLDER = "lease"


class StoredLease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease as it is stored."""

    token: str
    holder: Holder
    expires: float
    """Seconds since 1970; 0 for a lease that was released."""

    def has_ended(self, now: float) -> bool:
        """Return whether another process may take it over."""
        return now >= self.expires


class _Numbered(NamedTuple):
    number: int
    lease: StoredLease | None


def read_lease(storage: Storage) -> StoredLease | None:
    """Return the lease that counts, which may have ended."""
    return _latest(storage).lease


class Lease:
    """The lease of this process, which a thread renews until it is released."""

    def __init__(
        self,
        storage: Storage,
        *,
        lease_s: float = LEASE_S,
        used_s: float = _USED_S,
        renew_s: float = _RENEW_S,
    ) -> None:
        self._storage = storage
        self._lease_s = lease_s
        self._used_s = used_s
        self._token = secrets.token_hex(8)
        self.mark: str = self._token[:8]
        self._holder = this_process()
        latest = _latest(storage)
        now = time.time()
        if latest.lease is not None and not latest.lease.has_ended(now):
            left = max(1, round(latest.lease.expires - now))
            raise in_use(
                storage.address,
                latest.lease.holder,
                f"; if that process is dead, its lease ends in {left} s",
                latest.lease.expires,
            )
        self._number = latest.number + 1
        self._until: float = time.monotonic() + used_s
        try:
            storage.create(_name(self._number), self._encoded(now + lease_s))
        except FileExistsError:
            raise in_use(storage.address, self._current_holder()) from None
        # A store without conditional puts may have let another process create it, too.
        if not self._is_latest():
            raise in_use(storage.address, self._current_holder())
        for name in storage.names(_FOLDER):
            if name < f"{self._number:06}":
                storage.remove(f"{_FOLDER}/{name}")
        self._released = threading.Event()
        self._thread = threading.Thread(
            target=self._renew, args=(renew_s,), name="accord-lease", daemon=True
        )
        self._thread.start()

    def check(self) -> None:
        """Raise `DatasetInUse` if the lease was not renewed in time, or another process has it."""
        if time.monotonic() >= self._until:
            raise DatasetInUse(
                f"{self._storage.address}: the lease was not renewed for {self._used_s:g} s, "
                "so that another run may write now; resume the run"
            )

    def release(self) -> None:
        """Let other runs write the dataset."""
        if self._released.is_set():
            return
        self._released.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            if time.monotonic() < self._until and self._is_latest():
                self._storage.write(_name(self._number), self._encoded(0))

    def renew(self) -> None:
        """Renew the lease, unless another process has it; raise `OSError`."""
        before = time.monotonic()
        if before >= self._until:
            return
        if not self._is_latest():
            self._until = before
            return
        self._storage.write(_name(self._number), self._encoded(time.time() + self._lease_s))
        self._until = before + self._used_s

    def _renew(self, every: float) -> None:
        while not self._released.wait(every):
            # The next attempt may succeed; `check` counts the time.
            with contextlib.suppress(OSError):
                self.renew()

    def _is_latest(self) -> bool:
        latest = _latest(self._storage)
        return latest.lease is not None and latest.lease.token == self._token

    def _current_holder(self) -> Holder | None:
        lease = _latest(self._storage).lease
        return None if lease is None else lease.holder

    def _encoded(self, expires: float) -> bytes:
        return msgspec.json.encode(
            StoredLease(token=self._token, holder=self._holder, expires=expires)
        )


def _latest(storage: Storage) -> _Numbered:
    names = storage.names(_FOLDER)
    if not names:
        return _Numbered(0, None)
    number = int(names[-1].partition(".")[0])
    try:
        content = storage.read(_name(number))
    except FileNotFoundError:
        # Its successor has removed it since the names were listed.
        return _latest(storage)
    return _Numbered(number, msgspec.json.decode(content, type=StoredLease))


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:06}.json"


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
