"""The user's keyring, in which API keys are saved."""

from __future__ import annotations

import logging

import keyring
from keyring.errors import KeyringError

log = logging.getLogger("accord_coder")

_SERVICE = "accord"
_ERRORS = (KeyringError, RuntimeError, OSError)


class UserKeyring:
    """Saves keys by the id of their provider. Its methods can ask the user for a password."""

    def save(self, source_id: str, key: str) -> bool:
        """Save a key; return whether that worked."""
        try:
            keyring.set_password(_SERVICE, source_id, key)
            return keyring.get_password(_SERVICE, source_id) == key
        except _ERRORS:
            return False

    def read(self, source_id: str) -> str | None:
        """Return a key, or None."""
        try:
            return keyring.get_password(_SERVICE, source_id)
        except _ERRORS as exc:
            log.warning("! the keyring failed: %s", type(exc).__name__)
            return None

    def delete(self, source_id: str) -> None:
        """Delete a key."""
        try:
            keyring.delete_password(_SERVICE, source_id)
        except _ERRORS as exc:
            log.warning("! the keyring did not delete a key: %s", type(exc).__name__)
