"""The devices that may use the page: codes that pair one, tokens that it then has, and its role.

Codes and tokens are random and stored as hashes, in a SQLite file that only this user can read.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal, TypeAlias

import segno
from msgspec import Struct

from accord.text.excerpt import one_line
from accord_terminal.conversation import ApiError
from accord_terminal.sessions.records import state_folder

Role: TypeAlias = Literal["watch", "answer", "full"]
ROLES: tuple[Role, ...] = ("watch", "answer", "full")
CODE_S = 300.0  # for which a code is valid
_WRONG = 10  # codes in a minute; then no code is read for the rest of it
_MINUTE_S = 60.0
_MAX_DEVICES = 100

_SCHEMA = """
CREATE TABLE IF NOT EXISTS codes (hash BLOB PRIMARY KEY, role TEXT NOT NULL, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS devices (
    number INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB UNIQUE NOT NULL, name TEXT UNIQUE NOT NULL,
    role TEXT NOT NULL, paired_at REAL NOT NULL, seen_at REAL NOT NULL
);
"""


class Device(Struct, frozen=True):
    """A browser that was paired. Times are seconds since 1970."""

    number: int
    name: str
    role: Role
    paired_at: float
    seen_at: float

    def may(self, role: Role) -> bool:
        """Return whether the device may do what this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def web_file() -> Path:
    """Return the file of the devices, beside the sessions of this user."""
    return state_folder().parent / "web.db"


class Devices:
    """The devices of this user; several processes may use them at once."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._wrong: deque[float] = deque(maxlen=_WRONG)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        with closing(self._open()) as db, db:
            db.executescript(_SCHEMA)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=10.0)

    def new_code(self, role: Role) -> str:
        """Return a code that pairs one device with this role, within `CODE_S` seconds."""
        code = secrets.token_urlsafe(18)
        now = self._clock()
        with closing(self._open()) as db, db:
            db.execute("DELETE FROM codes WHERE until < ?", (now,))
            db.execute("INSERT INTO codes VALUES (?, ?, ?)", (_hash(code), role, now + CODE_S))
        return code

    def pair(self, code: str, name: str) -> tuple[Device, str]:
        """Use a code up; return the new device and its token.

        Raises `ApiError` for a wrong, used or expired code, and after too many of them.
        """
        now = self._clock()
        if len(self._wrong) == _WRONG and now - self._wrong[0] < _MINUTE_S:
            raise ApiError(429, "Too many wrong codes: wait a minute, then try again")
        token = secrets.token_urlsafe(32)
        with closing(self._open()) as db, db:
            db.execute("BEGIN IMMEDIATE")
            found = db.execute(
                "DELETE FROM codes WHERE hash = ? RETURNING role, until", (_hash(code),)
            ).fetchone()
            if found is None or found[1] < now:
                self._wrong.append(now)
                raise ApiError(
                    403,
                    "This code was used, has expired or is wrong: a code pairs one device within "
                    f"{CODE_S / 60:.0f} minutes. `accord web pair` prints a new one",
                )
            names = {row[0] for row in db.execute("SELECT name FROM devices")}
            if len(names) >= _MAX_DEVICES:
                raise ApiError(409, f"{_MAX_DEVICES} devices are paired: revoke one first")
            plain = base = one_line(" ".join(name.split()), 40) or "device"
            number = 2
            while plain in names:
                plain, number = f"{base} {number}", number + 1
            row = db.execute(
                "INSERT INTO devices (hash, name, role, paired_at, seen_at) "
                "VALUES (?, ?, ?, ?, ?) RETURNING number, name, role, paired_at, seen_at",
                (_hash(token), plain, found[0], now, now),
            ).fetchone()
        return Device(*row), token

    def of_token(self, token: str) -> Device | None:
        """Return the device that has a token; None if there is none, or none any more."""
        with closing(self._open()) as db, db:
            row = db.execute(
                "UPDATE devices SET seen_at = ? WHERE hash = ? "
                "RETURNING number, name, role, paired_at, seen_at",
                (self._clock(), _hash(token)),
            ).fetchone()
        return None if row is None else Device(*row)

    def all(self) -> list[Device]:
        """Return all devices, the first to be paired first."""
        with closing(self._open()) as db:
            rows = db.execute(
                "SELECT number, name, role, paired_at, seen_at FROM devices ORDER BY number"
            ).fetchall()
        return [Device(*row) for row in rows]

    def revoke(self, number: int) -> bool:
        """Forget a device, which cannot do anything from now on; return whether it was there."""
        with closing(self._open()) as db, db:
            return db.execute("DELETE FROM devices WHERE number = ?", (number,)).rowcount > 0


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def pairing_picture(address: str) -> str:
    """Return a QR code as the URL of an image."""
    return segno.make(address, error="m").svg_data_uri(scale=4, border=4, light="#ffffff")


def terminal_picture(address: str) -> str:
    """Return a QR code for a terminal."""
    import io

    out = io.StringIO()
    segno.make(address, error="l").terminal(out, compact=True, border=2)
    return out.getvalue()
