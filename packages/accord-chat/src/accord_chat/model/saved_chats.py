"""What survives the program: the open sessions of a folder, unsent drafts and queued prompts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct
from platformdirs import user_state_path

from accord_chat.model.state_files import put_aside, replace_file, why_unreadable

_VERSION = 1


class SavedTab(Struct, kw_only=True):
    """One session, as it was when the program ended."""

    agent: str  # as given to --agent
    session_id: str | None = None  # None if it cannot be opened again
    title: str = ""
    options: dict[str, str | bool] = {}  # their values, by id
    draft: str = ""
    queue: list[str] = []
    images: list[str] = []  # paths of the images of the draft and the queue
    lost_images: int = 0  # of the clipboard, which are not kept


class SavedChat(Struct, kw_only=True):
    """The open sessions of one folder."""

    version: int = _VERSION
    tabs: list[SavedTab] = []
    active: int = 0


class _Versioned(Struct):
    version: int = _VERSION


class SavedChats:
    """The file of one folder, and its lock: only one program at a time has the chat of a folder."""

    def __init__(self, folder: Path, state: Path | None = None) -> None:
        place = state or user_state_path("accord", appauthor=False) / "chat"
        name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:24]
        self.path = place / f"{name}.json"
        self._lock = FileLock(place / f"{name}.lock", mode=0o600)
        self.is_held = False
        self.problem: str | None = None  # why nothing is saved
        self._is_lost_by_saving = False  # what cannot be read, and could not be put aside
        self._put_aside = ""

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
        """Return what was saved; an empty chat if there is nothing.

        A file that cannot be read, or that a newer version has written, is put aside.
        """
        try:
            data = self.path.read_bytes()
            if msgspec.json.decode(data, type=_Versioned).version != _VERSION:
                raise msgspec.ValidationError("another version of Accord has written it")
            return msgspec.json.decode(data, type=SavedChat)
        except FileNotFoundError:
            return SavedChat()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._keep_unreadable(why_unreadable(error))
            return SavedChat()

    def _keep_unreadable(self, why: str) -> None:
        try:
            aside = put_aside(self.path)
        except OSError as error:
            self._is_lost_by_saving = True
            self.problem = f"{self.path} cannot be read ({why}), nor renamed: {error.strerror}"
        else:
            self._put_aside = (
                f"What was open here cannot be read ({why}). Nothing of it is deleted: {aside}"
            )

    def take_remark(self) -> str:
        """Return, once, what was put aside; an empty text if nothing was."""
        remark, self._put_aside = self._put_aside, ""
        return remark

    def save(self, chat: SavedChat) -> None:
        """Replace the file, mode 0600; without the lock nothing is written."""
        if not self.is_held or self._is_lost_by_saving:
            return
        try:
            replace_file(self.path, msgspec.json.encode(chat))
            self.problem = None
        except OSError as error:  # a full disk must not end the chat
            self.problem = f"{self.path.parent}: {error.strerror}"
