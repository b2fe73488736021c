"""Reads the settings file of an editor, and replaces it after a backup."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from accord_terminal.editors.errors import EditorError, JsoncError

_BOM = b"\xef\xbb\xbf"


class SettingsFile(Struct, frozen=True):
    """The contents of a file; `data` is None if there is no file."""

    path: Path
    data: bytes | None

    @property
    def text(self) -> str:
        """The text without the byte order mark. Raises `EditorError`."""
        data = (self.data or b"").removeprefix(_BOM)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[: error.start].decode("utf-8")
            problem = JsoncError("the file is not UTF-8", before, len(before))
            raise EditorError(f"Cannot read {self.path}: {problem}") from None

    def with_text(self, text: str) -> bytes:
        """Return the contents with another text."""
        mark = _BOM if (self.data or b"").startswith(_BOM) else b""
        return mark + text.encode()

    def edited(self, edit: Callable[[str], str]) -> bytes:
        """Return the contents after an edit of the text. Raises `EditorError`."""
        text = self.text
        try:
            new = edit(text)
        except JsoncError as error:
            raise EditorError(f"Cannot read {self.path}: {error}") from None
        return self.with_text(new) if new != text or self.data is None else self.data


def backup_of(path: Path) -> Path:
    """Return where the contents before the last change are."""
    return path.with_name(f"{path.name}.accord-backup")


def original_of(path: Path) -> Path:
    """Return where the contents before the first change are."""
    return path.with_name(f"{path.name}.accord-original")


def read_settings(path: Path) -> SettingsFile:
    """Read a file; it may be missing. Raises `EditorError`."""
    try:
        return SettingsFile(path, path.read_bytes())
    except FileNotFoundError:
        return SettingsFile(path, None)
    except OSError as error:
        raise EditorError(f"Cannot read {path}: {error.strerror or error}") from None


def replace_settings(old: SettingsFile, data: bytes) -> None:
    """Write new contents, with the old ones as backup; a link stays and its target changes.

    Raises `EditorError` if the file cannot be written, or has changed since it was read.
    """
    target = Path(os.path.realpath(old.path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if old.data is not None:
            mode = stat.S_IMODE(target.stat().st_mode)
            _write(backup_of(old.path), old.data, mode)
            _keep_original(old, data, mode)
        else:
            mode = 0o600
        if read_settings(old.path).data != old.data:
            raise EditorError(f"{old.path} has changed in the meantime: run the command again")
        _write(target, data, mode)
    except OSError as error:
        where = error.filename or target
        raise EditorError(f"Cannot write {where}: {error.strerror or error}") from None


def set_back(file: SettingsFile, edit: Callable[[str], str]) -> bytes | None:
    """Return the backup if the edit turns it into what the file contains, else None."""
    backup = read_settings(backup_of(file.path))
    if backup.data is None:
        return None
    try:
        same = backup.edited(edit) == file.data
    except EditorError:
        return None
    return backup.data if same else None


def _keep_original(old: SettingsFile, data: bytes, mode: int) -> None:
    """Keep the contents before the first change, until the file has these again."""
    path = original_of(old.path)
    original = read_settings(path).data
    if original is None:
        _write(path, old.data or b"", mode)
    elif original == data:
        path.unlink()


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file so that it has the old or the new contents, never a part."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
