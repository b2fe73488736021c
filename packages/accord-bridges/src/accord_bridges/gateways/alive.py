"""Which gateways of this user run: the next one ends what one has begun that has died."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from accord_terminal.sessions.records import Lock, is_locked


class Alive:
    """A gateway that runs, for the rows of a protocol; `name` is in those that it has begun."""

    def __init__(self, folder: Path, protocol: str) -> None:
        self.name: str = secrets.token_hex(8)
        self._folder = folder
        self._protocol = protocol
        self._lock = Lock.take(self._path(self.name))
        assert self._lock is not None, "its name is new"

    def _path(self, gateway: str) -> Path:
        return self._folder / f"{self._protocol}-{gateway}.lock"

    def dead(self, gateways: Iterable[str]) -> set[str]:
        """Return those that have ended, however they ended."""
        return {one for one in gateways if not is_locked(self._path(one))}

    def forget(self, gateways: Iterable[str]) -> None:
        """Remove what dead gateways have left."""
        for gateway in gateways:
            self._path(gateway).unlink(missing_ok=True)

    def close(self) -> None:
        """Note that this gateway has ended."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self.forget([self.name])
            lock.release()
