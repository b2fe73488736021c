"""A lease: the right to write a dataset on an object store, which expires.

The lease with the highest number counts. It is taken over by creating the next number, which a
store with conditional puts allows to one process only. The holder renews its lease, and does not
write any more some time before others may take it over.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from typing import NamedTuple

import msgspec

from accord_fleet.dataset.errors import DatasetInUse
from accord_fleet.dataset.holder import Holder, in_use, this_process
from accord_fleet.dataset.storage import Storage

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
