"""What survives the program: the open sessions of a folder, unsent drafts and queued prompts."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct
from platformdirs import user_state_path

__all__ = ("SavedChat", "SavedChats", "SavedTab")

_VERSION = 1


class SavedTab(Struct, kw_only=True):
    """One session, as it was when the program ended."""

    agent: str  # as given to --agent
    session_id: str | None = None  # None if it cannot be opened again
    title: str = ""
    draft: str = ""
    queue: list[str] = []
    images: list[str] = []  # paths of the images of the draft and the queue
    lost_images: int = 0  # of the clipboard, which are not kept


class SavedChat(Struct, kw_only=True):
    """The open sessions of one folder."""

    version: int = _VERSION
    tabs: list[SavedTab] = []
    active: int = 0


class SavedChats:
    """The file of one folder, and its lock: only one program at a time has the chat of a folder."""

    def __init__(self, folder: Path, state: Path | None = None) -> None:
        place = state or user_state_path("accord", appauthor=False) / "chat"
        name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:24]
        self.path = place / f"{name}.json"
        self._lock = FileLock(place / f"{name}.lock", mode=0o600)
        self.is_held = False
        self.problem: str | None = None  # why nothing is saved

    def acquire(self) -> bool:
        """Take the lock; return whether no other program has it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire(timeout=0)
        except Timeout:
            self.problem = "Another accord chat runs in this folder"
            return False
        except OSError as error:
            self.problem = f"{self.path.parent}: {error.strerror}"
            return False
        self.is_held, self.problem = True, None
        return True

    def release(self) -> None:
        """Give the lock back."""
        if self.is_held:
            self.is_held = False
            self._lock.release()

    def load(self) -> SavedChat:
        """Return what was saved; an empty chat if there is nothing, or nothing readable."""
        try:
            saved = msgspec.json.decode(self.path.read_bytes(), type=SavedChat)
        except (OSError, msgspec.MsgspecError):
            return SavedChat()
        return saved if saved.version == _VERSION else SavedChat()

    def save(self, chat: SavedChat) -> None:
        """Replace the file, mode 0600; without the lock nothing is written."""
        if not self.is_held:
            return
        try:
            self._write(msgspec.json.encode(chat))
            self.problem = None
        except OSError as error:  # a full disk must not end the chat
            self.problem = f"{self.path.parent}: {error.strerror}"

    def _write(self, data: bytes) -> None:
        descriptor, made = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(made).replace(self.path)
        except BaseException:
            Path(made).unlink(missing_ok=True)
            raise
