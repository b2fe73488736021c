"""The files that always require permission: secrets, and files that make programs run code."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import PurePath

from accord_coder.permissions.guarded_files import GUARDED
from accord_coder.wildcards import MAX_CHARACTERS, Wildcards, path_pattern, text_pattern

# Names of files, in lower case.
_SECRET_NAMES = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdb",
    "*.kdbx",
    "*.ppk",
    "*.asc",
    "*.gpg",
    "*.age",
    "*.ovpn",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gemrc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".vault-token",
    ".dockercfg",
    ".terraformrc",
    "*.tfstate",
    "*.tfstate.backup",
    "*.tfvars",
    "credentials",
    "credentials.*",
    "*_credentials.json",
    "*-credentials.json",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    "secret",
    "secrets",
    "secret.*",
    "secrets.*",
    ".secrets",
    "auth.json",
    "shadow",
    "gshadow",
    ".bash_history",
    ".zsh_history",
    ".python_history",
)
# Names of code and templates, which contain no secrets.
_NOT_SECRET_NAMES = (
    "*.example",
    "*.sample",
    "*.template",
    "*.dist",
    "*.pub",
    "secret.py",
    "secrets.py",
    "secret.md",
    "secrets.md",
    "credentials.py",
    "credentials.md",
)
# Directories in which all files are secrets.
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".password-store", "keyrings"})
# The end of a path.
_SECRET_PATHS = (
    (".git", "config"),
    (".kube", "config"),
    (".docker", "config.json"),
    (".config", "gh", "hosts.yml"),
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    ("accord", "keys.json"),
)
_SECRET_WITHIN = ((".config", "gcloud"),)

_MAX_ENTRIES = 20_000  # of a directory that is searched

_PATTERN = re.compile(r"[*?\[]")


class _Names:
    """Patterns of names with at most one star, which match fast: commands can be long."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._whole = frozenset(pattern for pattern in patterns if "*" not in pattern)
        split = [pattern.split("*") for pattern in patterns if "*" in pattern]
        self._ends = tuple(end for start, end in split if not start)
        self._starts = tuple(start for start, end in split if not end)
        self._both = [(start, end) for start, end in split if start and end]

    def has(self, name: str) -> bool:
        return (
            name in self._whole
            or name.endswith(self._ends)
            or name.startswith(self._starts)
            or any(
                len(name) >= len(start) + len(end) and name.startswith(start) and name.endswith(end)
                for start, end in self._both
            )
        )


@cache
def _secret_names() -> _Names:
    return _Names(_SECRET_NAMES)


@cache
def _not_secret_names() -> _Names:
    return _Names(_NOT_SECRET_NAMES)


class _GuardedTable:
    """The rows of the table, by how they are compared."""

    def __init__(self, rows: Iterable[str]) -> None:
        self.folders: set[str] = set()
        self.names: set[str] = set()
        self.patterns: dict[str, list[Wildcards]] = {}  # by the first character of the name
        self.ends: dict[str, list[tuple[str, ...]]] = {}  # by their last part
        self.runs: dict[str, list[tuple[str, ...]]] = {}  # directories, by their first part
        for row in rows:
            parts = tuple(row.rstrip("/").split("/"))
            if row.endswith("/"):
                if len(parts) == 1:
                    self.folders.add(parts[0])
                else:
                    self.runs.setdefault(parts[0], []).append(parts)
            elif _PATTERN.search(parts[-1]):
                pattern = path_pattern("**/" + "/".join(parts))
                self.patterns.setdefault(parts[-1][0], []).append(pattern)
            elif len(parts) == 1:
                self.names.add(row)
            else:
                self.ends.setdefault(parts[-1], []).append(parts)

    def has(self, parts: tuple[str, ...]) -> bool:
        """Return whether a path in lower case is in the table."""
        if parts[-1] in self.names or not self.folders.isdisjoint(parts):
            return True
        if any(parts[-len(end) :] == end for end in self.ends.get(parts[-1], ())):
            return True
        for at, part in enumerate(parts):
            if any(parts[at : at + len(run)] == run for run in self.runs.get(part, ())):
                return True
        path = "/".join(parts[-3:])
        patterns = (*self.patterns.get(parts[-1][0], ()), *self.patterns.get("*", ()))
        return any(pattern.matches(path) for pattern in patterns)


@cache
def _guarded_files() -> _GuardedTable:
    return _GuardedTable(GUARDED)


def _parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a path as the least strict file systems compare them."""
    return tuple(map(_folded, PurePath(path).parts))


def _folded(part: str) -> str:
    if part.isascii():
        part = part.lower()
    else:
        # macOS compares like this, and older versions ignored these characters.
        part = unicodedata.normalize("NFC", part.translate(_IGNORED)).casefold()
    # Windows drops these suffixes.
    return part.partition("::$")[0].rstrip(". ") or part


_IGNORED = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)


def is_secret(path: str) -> bool:
    """Return whether a file may contain secrets, judged by its path."""
    parts = _parts_of(path)
    if not parts:
        return False
    if _SECRET_FOLDERS.intersection(parts):
        return not parts[-1].endswith(".pub")
    if any(parts[-len(end) :] == end for end in _SECRET_PATHS):
        return True
    if any(_holds(parts, folders) for folders in _SECRET_WITHIN):
        return True
    name = parts[-1]
    return _secret_names().has(name) and not _not_secret_names().has(name)


def is_guarded(path: str) -> bool:
    """Return whether a program runs or obeys a file automatically, judged by its path."""
    parts = _parts_of(path)
    return bool(parts) and _guarded_files().has(parts)


def sensitive_below(
    folder: str, *, target: str | None = None, max_entries: int = _MAX_ENTRIES
) -> str | None:
    """Return the first sensitive file in a directory; None if it contains none.

    With a `target`, files that become sensitive when the directory is moved there count, too.

    A directory that cannot be searched completely counts as sensitive. Links are not followed; a
    path that is not a directory contains nothing. Blocks.
    """
    if os.path.islink(folder) or not os.path.isdir(folder):  # noqa: PTH112, PTH114  # a text
        return None
    waiting, seen = [folder], 0
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    seen += 1
                    if seen > max_entries:
                        return "too many files to check"
                    if is_secret(entry.path) or is_guarded(entry.path):
                        return os.path.relpath(entry.path, folder)
                    moved = None if target is None else target + entry.path[len(folder) :]
                    if moved is not None and (is_secret(moved) or is_guarded(moved)):
                        return os.path.relpath(entry.path, folder)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            return "a directory that cannot be read"
    return None


def matches_secret(word: str) -> bool:
    """Return whether a word of a command has a wildcard that matches usual names of secrets."""
    name = word.rpartition("/")[2].lower()
    # A lone * is too common; the pattern must contain a part of a secret's name.
    if len(name) > MAX_CHARACTERS or not _PATTERN.search(name) or not name.strip("*?"):
        return False
    pattern = text_pattern(name)
    return any(pattern.matches(sample) for sample in _SAMPLES)


_SAMPLES = (".env", ".env.local", "id_rsa", "id_ed25519", ".netrc", ".npmrc", "credentials")


def _holds(parts: tuple[str, ...], run: tuple[str, ...]) -> bool:
    return any(parts[at : at + len(run)] == run for at in range(len(parts)))
