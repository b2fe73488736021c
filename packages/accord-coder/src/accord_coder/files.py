"""The text files that tools work on: the editor's version, changed only after it was read."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from accord import RequestError
from accord.local.files import OutsideRoots, Roots
from accord_coder.tool_results import ToolFailed, display_path

if TYPE_CHECKING:
    from accord import Session


MAX_BYTES = 16 * 1024 * 1024  # of a text in memory
_SNIFFED_BYTES = 8192
_BOM = "\ufeff"
T = TypeVar("T")


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run blocking work in a thread. Its argument returns True once the caller is cancelled."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop.is_set)
    finally:
        stop.set()


class LoadedText(Struct, frozen=True):
    """A text as models see it: without byte order mark, and with LF if all lines end in CRLF.

    `raw` is the unchanged text; `on_disk` is a digest of the file, None if it does not exist.
    """

    path: str
    raw: str
    on_disk: bytes | None = None

    @property
    def has_bom(self) -> bool:
        """Whether it begins with a byte order mark."""
        return self.raw.startswith(_BOM)

    @property
    def is_crlf(self) -> bool:
        """Whether all its lines end in CRLF."""
        count = self.raw.count("\n")
        return count > 0 and self.raw.count("\r\n") == count

    @property
    def text(self) -> str:
        """What models see."""
        text = self.raw.removeprefix(_BOM)
        return text.replace("\r\n", "\n") if self.is_crlf else text

    def raw_of(self, text: str) -> str:
        """Return another text with the line ends and the byte order mark of this one."""
        if self.is_crlf:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        return _BOM + text if self.has_bom else text


class ReadSnapshot(Struct, frozen=True):
    """A file as it was when the model read it."""

    text: bytes
    on_disk: bytes | None


class TrackedFiles:
    """The texts of one session; relative paths are relative to its `cwd`.

    `allowed_paths` are real paths outside the session's directories that the user allowed. Any
    other path outside raises `OutsideRoots`, a missing file `FileNotFoundError`, and a file that
    is not text `ToolFailed`.
    """

    def __init__(self, session: Session, allowed_paths: Collection[str]) -> None:
        self._session = session
        self._inside = Roots(session.directories)
        self.roots = Roots(session.directories, also=allowed_paths)
        self._snapshots: dict[str, ReadSnapshot] = {}  # by real path
        self._previewed: dict[str, LoadedText | None] = {}  # by absolute path

    # Paths.

    def absolute(self, path: str) -> str:
        """Return the absolute path without dots, links not resolved."""
        return self.roots.absolute(os.path.expanduser(path))  # noqa: PTH111  # text, not a file

    def shown(self, path: str) -> str:
        """Return a path for models and users: relative if it is below `cwd`."""
        # Names that are not UTF-8 can be displayed roughly, but not used as arguments.
        absolute = os.fsencode(self.absolute(path)).decode("utf-8", "replace")
        cwd = os.path.normpath(self._session.cwd).rstrip(os.sep) + os.sep
        if absolute + os.sep == cwd:
            return "."
        return display_path(absolute.removeprefix(cwd))

    async def is_reachable(self, path: str) -> bool:
        """Return whether a path is inside the session's directories or allowed."""
        try:
            await asyncio.to_thread(self.roots.resolve, self.absolute(path))
        except OutsideRoots:
            return False
        return True

    async def require_entry(self, path: str) -> None:
        """Raise `FileNotFoundError` if a reachable path does not exist.

        Called before permission is requested: the user should not decide about what cannot be done.
        """
        if await self.is_reachable(path) and not await self.has_entry(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    async def has_entry(self, path: str) -> bool:
        """Return whether a path exists, also as a dangling link."""
        return await asyncio.to_thread(os.path.lexists, self.absolute(path))

    # Reading.

    async def head(self, path: str) -> bytes | None:
        """Return the first bytes of a file on disk; None if it does not exist."""
        return await asyncio.to_thread(self._bytes, self.absolute(path), _SNIFFED_BYTES)

    async def size(self, path: str) -> int | None:
        """Return the size of a file on disk in bytes; None if it does not exist."""
        return await asyncio.to_thread(self._size, self.absolute(path))

    async def bytes(self, path: str, max_bytes: int) -> bytes | None:
        """Return the first `max_bytes` of a file on disk; None if it does not exist."""
        return await asyncio.to_thread(self._bytes, self.absolute(path), max_bytes)

    async def load(self, path: str) -> LoadedText:
        """Return a text: the editor's with unsaved changes, else the one on disk."""
        absolute = self.absolute(path)
        data = await asyncio.to_thread(self._bytes, absolute, MAX_BYTES + 1)
        if data is not None and len(data) > MAX_BYTES:
            raise ToolFailed(f"{path} is larger than {MAX_BYTES // 2**20} MiB.")
        if data is not None and b"\0" in data[:_SNIFFED_BYTES]:
            raise ToolFailed(f"{path} is a binary file.")
        raw = await self._in_editor(absolute)
        if data is None and not raw:  # some editors return an empty text for a missing file
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if raw is None:
            raw = _decode(data or b"", path)
        return LoadedText(absolute, raw, None if data is None else _digest_of_bytes(data))

    async def load_for_change(self, path: str, *, previews: bool) -> LoadedText | None:
        """Return a text that will be changed; None if the file does not exist.

        The change uses the text that the preview loaded, so there is one read for each change,
        unless `forget_previews` was called.
        """
        absolute = self.absolute(path)
        if not previews and absolute in self._previewed:
            return self._previewed.pop(absolute)
        try:
            loaded = await self.load(path)
        except FileNotFoundError:
            loaded = None
        except RequestError:
            if await self.has_entry(path):
                raise  # there may be unsaved text
            loaded = None  # the write is tried, and its own error counts
        if previews:
            self._previewed[absolute] = loaded
        return loaded

    def forget_previews(self) -> None:
        """Load texts again before they are changed, for example after the user was asked."""
        self._previewed.clear()

    async def remember_read(self, loaded: LoadedText) -> None:
        """Record that the model knows this text."""
        real = await asyncio.to_thread(self.roots.resolve, loaded.path)
        self._snapshots[real] = ReadSnapshot(_digest(loaded.text), loaded.on_disk)

    # Writing.

    async def check(self, loaded: LoadedText) -> None:
        """Raise `ToolFailed` unless the model knows the current text."""
        real = await asyncio.to_thread(self.roots.resolve, loaded.path)
        seen = self._snapshots.get(real)
        name = self.shown(loaded.path)
        if seen is None:
            raise ToolFailed(f"{name} has not been read yet: read it before changing it.")
        text = _digest(loaded.text)
        if text != seen.text or loaded.on_disk not in (seen.on_disk, seen.text):
            raise ToolFailed(
                f"{name} has changed since it was read. Nothing was written; read it again."
            )

    async def store(self, path: str, old: LoadedText | None, text: str) -> None:
        """Replace a text that `load` returned, or create a file.

        Raises `ToolFailed` if the file has changed since then; nothing is overwritten.
        """
        absolute = self.absolute(path)
        raw = text if old is None else old.raw_of(text)
        try:
            data = raw.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise ToolFailed("The text contains half of a surrogate pair.") from exc
        on_disk: bytes | None = _digest_of_bytes(data)
        if self._session.client.writes_files and await self._is_inside(absolute):
            # The preview shows the change.
            await self._session.files.write(absolute, raw, show=False)
            on_disk = None if old is None else old.on_disk  # the editor may save it later
        else:
            expected = None if old is None else old.on_disk
            await asyncio.to_thread(self._replace, absolute, expected, data)
        await self.remember_read(LoadedText(absolute, raw, on_disk))

    async def check_saved(self, path: str) -> None:
        """Raise `ToolFailed` if the editor has unsaved changes of a file."""
        absolute = self.absolute(path)
        raw = await self._in_editor(absolute)
        if raw is None:
            return
        data = await asyncio.to_thread(self._bytes, absolute, MAX_BYTES)
        if data is not None and _digest(LoadedText(absolute, raw).text) != _digest_of_bytes(data):
            raise ToolFailed(
                f"{self.shown(path)} has unsaved changes in the editor: save it first."
            )

    async def on_moved(self, source: str, target: str) -> None:
        """Keep the snapshots of a path that was moved, and of the files below it."""
        target_real = await asyncio.to_thread(os.path.realpath, self.absolute(target))
        folder = os.path.dirname(self.absolute(source))  # noqa: PTH120  # text, not a file
        real_folder = await asyncio.to_thread(os.path.realpath, folder)
        name = os.path.basename(self.absolute(source))  # noqa: PTH119  # as above
        source_real = os.path.join(real_folder, name)  # noqa: PTH118  # as above
        for path in list(self._snapshots):
            if path == source_real or path.startswith(source_real + os.sep):
                self._snapshots[target_real + path[len(source_real) :]] = self._snapshots.pop(path)

    # Where texts are.

    async def _in_editor(self, absolute: str) -> str | None:
        """Return the client's text; None if the client has none or does not serve files."""
        if not self._session.client.reads_files or not await self._is_inside(absolute):
            return None
        with suppress(FileNotFoundError):
            return await self._session.files.read(absolute)
        return None

    async def _is_inside(self, absolute: str) -> bool:
        try:
            await asyncio.to_thread(self._inside.resolve, absolute)
        except OutsideRoots:
            return False
        return True

    def _bytes(self, absolute: str, max_bytes: int) -> bytes | None:
        try:
            fd = self.roots.open(absolute)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read(max_bytes)

    def _size(self, absolute: str) -> int | None:
        try:
            fd = self.roots.open(absolute)
        except FileNotFoundError:
            return None
        try:
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

    def _replace(self, absolute: str, expected: bytes | None, data: bytes) -> None:
        """Replace a file atomically: a full disk or a crash leaves the old content."""
        changed = ToolFailed(
            f"{self.shown(absolute)} has changed in the meantime. Nothing was written."
        )

        def check(was: bytes | None) -> None:
            if was is None or _digest_of_bytes(was) != expected:
                raise changed

        if expected is not None:
            self.roots.replace(absolute, data, expected=check)
            return
        try:
            self.roots.create(absolute, data)
        except FileExistsError:
            raise changed from None


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ToolFailed(
            f"{path} is not text in UTF-8: byte 0x{data[exc.start]:02x} at offset {exc.start}."
        ) from exc


def _digest_of_bytes(data: bytes) -> bytes:
    try:
        return _digest(LoadedText("", data.decode("utf-8")).text)
    except UnicodeDecodeError:
        return hashlib.sha256(b"\xff" + data).digest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
