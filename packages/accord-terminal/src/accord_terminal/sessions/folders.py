"""The folders of persistent sessions: only this user can enter them (R-NAMED-06)."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

from platformdirs import user_state_path

from accord_terminal.sessions.errors import StoreError

SOCKET_BYTES = 99  # systems allow 104 or 108 bytes with the NUL
_STATE = "ACCORD_STATE"


def require_system() -> None:
    """Raise `StoreError` on systems without Unix sockets and `flock`."""
    if sys.platform == "win32":
        raise StoreError(
            "Persistent sessions need Unix sockets and file locks, which Python does not have on "
            "Windows: use WSL, or `accord ask --continue`"
        )


def state_folder() -> Path:
    """Return the folder of the records, in ACCORD_STATE or the platform's folder for state.

    Raises `StoreError` if it cannot be made, or if others can write to it.
    """
    require_system()
    named = os.environ.get(_STATE)
    base = Path(named).expanduser() if named else user_state_path("accord", appauthor=False)
    return _own_folder(base.absolute() / "named-sessions")


def runtime_folder() -> Path:
    """Return the folder of sockets and locks, in XDG_RUNTIME_DIR or the temporary folder."""
    require_system()
    named = os.environ.get("XDG_RUNTIME_DIR")
    if named and Path(named).is_dir():
        folder = Path(named) / "accord"
        if len(os.fsencode(folder)) + 1 + 16 + len(".sock") <= SOCKET_BYTES:
            return _own_folder(folder)
    return _own_folder(Path(tempfile.gettempdir()) / f"accord-{os.getuid()}")


def socket_path(record_id: str) -> Path:
    """Return where the owner of a record listens; below 100 bytes.

    Raises `StoreError` if the temporary folder has too long a path.
    """
    key = hashlib.sha256(f"{state_folder()}\0{record_id}".encode()).hexdigest()[:16]
    path = runtime_folder() / f"{key}.sock"
    if len(os.fsencode(path)) > SOCKET_BYTES:
        raise StoreError(
            f"Expected a path of at most {SOCKET_BYTES} bytes for the socket, got {path}: set "
            "XDG_RUNTIME_DIR or TMPDIR to a shorter path"
        )
    return path


def _own_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as exc:
        raise StoreError(f"Cannot make the folder {folder}: {exc.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"Expected a folder at {folder}, got another file or a link")
    if found.st_uid != os.geteuid():
        raise StoreError(f"The folder {folder} belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder
