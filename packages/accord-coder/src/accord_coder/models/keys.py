"""API keys of providers: from the environment, the keyring, or a file of the user.

`prompt_for_key` saves one: `accord agent --login`.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Callable, Mapping
from getpass import getpass
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from accord import AccordError
from accord_coder.models.providers import PROVIDERS, ModelProvider
from accord_coder.settings import private_dir

log = logging.getLogger("accord_coder")

_SERVICE = "accord"  # of the keyring

KeyLocation = Literal["keyring", "file"]


class _StoredKey(Struct, frozen=True, omit_defaults=True):
    """A saved key: here, or in the keyring if it is None."""

    key: str | None = None

    def __repr__(self) -> str:
        return "_StoredKey()"  # never the key


class ApiKeys:
    """The available API keys. A key is never logged and is never part of an error.

    `folder` contains the file of the saved keys; None means only the environment.
    """

    def __init__(self, folder: Path | None, environ: Mapping[str, str] | None = None) -> None:
        self._path = None if folder is None else folder / "keys.json"
        self._environ = os.environ if environ is None else environ
        self._stored: dict[str, _StoredKey] | None = None
        self._from_keyring: dict[str, str | None] = {}

    def has_key(self, source: ModelProvider) -> bool:
        """Return whether there is a key, without asking the keyring, which can be slow."""
        return self.in_environment(source) or source.id in self._read()

    def conceal(self) -> None:
        """Protect the memory of this process from other processes if it has keys."""
        if any(map(self.has_key, PROVIDERS)):
            conceal_process()

    def in_environment(self, source: ModelProvider) -> bool:
        """Return whether the environment has a key."""
        return any(self._environ.get(name, "").strip() for name in source.variables)

    def find(self, source: ModelProvider) -> str | None:
        """Return the key. Blocks: the keyring can ask the user for a password."""
        for name in source.variables:
            if key := self._environ.get(name, "").strip():
                return key
        kept = self._read().get(source.id)
        if kept is None:
            return None
        if kept.key is not None:
            return kept.key
        if source.id not in self._from_keyring:
            self._from_keyring[source.id] = _read_keyring(source.id)
        return self._from_keyring[source.id]

    def reload(self) -> None:
        """Read the keys again when they are needed next."""
        self._stored = None
        self._from_keyring.clear()
        self.conceal()

    def save(self, source: ModelProvider, key: str) -> KeyLocation:
        """Save a key in the keyring, or else in the file; return which. Raises `OSError`."""
        self.reload()
        kept = dict(self._read())
        in_keyring = _save_in_keyring(source.id, key)
        kept[source.id] = _StoredKey() if in_keyring else _StoredKey(key)
        self._write(kept)
        return "keyring" if in_keyring else "file"

    def delete_all(self) -> None:
        """Delete all saved keys. Keys in the environment stay."""
        self.reload()
        for source_id, kept in self._read().items():
            if kept.key is None:
                _delete_from_keyring(source_id)
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self.reload()

    def _read(self) -> dict[str, _StoredKey]:
        if self._stored is None:
            self._stored = {} if self._path is None else _read_private(self._path)
        return self._stored

    def _write(self, kept: dict[str, _StoredKey]) -> None:
        if self._path is None:
            raise OSError("there is no directory for keys")
        private_dir(self._path.parent)
        beside = self._path.with_suffix(".new")
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(kept))
        beside.replace(self._path)
        self._stored = kept


def _read_private(path: Path) -> dict[str, _StoredKey]:
    """Return the content of a file, unless other users can read it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if sys.platform != "win32" and stat.S_IMODE(mode) & 0o077:
                log.warning("! %s is ignored: other users can read it; run chmod 600 on it", path)
                return {}
            return msgspec.json.decode(file.read(), type=dict[str, _StoredKey])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as exc:
        # Not the error's text, which can quote the file.
        log.warning("! %s cannot be read: %s", path, type(exc).__name__)
        return {}


def _save_in_keyring(source_id: str, key: str) -> bool:
    """Save a key in the keyring; return whether that worked."""
    keyring = _keyring()
    return keyring is not None and keyring.save(source_id, key)


def _read_keyring(source_id: str) -> str | None:
    keyring = _keyring()
    if keyring is None:
        log.warning("! a key is in the keyring, and `keyring` is not installed")
        return None
    return keyring.read(source_id)


def _delete_from_keyring(source_id: str) -> None:
    if (keyring := _keyring()) is not None:
        keyring.delete(source_id)


def _keyring() -> _UserKeyring | None:
    """Return the user's keyring, None if the package is not installed."""
    try:
        return _UserKeyring()
    except ImportError:
        return None


class _UserKeyring:
    """The user's keyring, with keys by the id of their provider; it can ask for a password."""

    def __init__(self) -> None:
        import keyring  # slow to import
        from keyring.errors import KeyringError

        self._keyring = keyring
        self._errors = (KeyringError, RuntimeError, OSError)

    def save(self, source_id: str, key: str) -> bool:
        """Save a key; return whether that worked."""
        try:
            self._keyring.set_password(_SERVICE, source_id, key)
            return self._keyring.get_password(_SERVICE, source_id) == key
        except self._errors:
            return False

    def read(self, source_id: str) -> str | None:
        """Return a key, or None."""
        try:
            return self._keyring.get_password(_SERVICE, source_id)
        except self._errors as exc:
            log.warning("! the keyring failed: %s", type(exc).__name__)
            return None

    def delete(self, source_id: str) -> None:
        """Delete a key."""
        try:
            self._keyring.delete_password(_SERVICE, source_id)
        except self._errors as exc:
            log.warning("! the keyring did not delete a key: %s", type(exc).__name__)


_PR_SET_DUMPABLE = 4


def conceal_process() -> None:
    """Make `/proc/PID/environ` and `/proc/PID/mem` of this process unreadable, on Linux.

    Commands that the user allows run as the user and could read keys there. Debuggers and core
    dumps of this process do not work either; programs that it starts are not affected. On other
    systems, only debuggers with special rights can read the memory of a process.
    """
    if sys.platform == "linux":
        import ctypes  # slow to import

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def prompt_for_key(
    provider: str,
    config: Path,
    *,
    ask: Callable[[str], str] = getpass,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Prompt for the API key of a provider in the terminal and save it; return the exit status."""
    source = next((source for source in PROVIDERS if source.id == provider), None)
    if source is None:
        known = ", ".join(source.id for source in PROVIDERS)
        return _print_error(f"unknown provider {provider!r}: expected one of {known}")
    try:
        key = ask(f"Key of {source.name} (it is not shown): ").strip()
    except (EOFError, KeyboardInterrupt):
        key = ""
    if not key or not key.isprintable() or " " in key:
        return _print_error("the input is not a key; nothing was saved")
    try:
        place = ApiKeys(config, environ).save(source, key)
    except (OSError, AccordError) as exc:
        return _print_error(f"cannot save the key: {exc}")
    where = "your keyring" if place == "keyring" else f"{config / 'keys.json'}"
    sys.stderr.write(f"The key of {source.name} is saved in {where}.\n")
    return 0


def _print_error(why: str) -> int:
    sys.stderr.write(f"accord agent: {why}\n")
    return 1
