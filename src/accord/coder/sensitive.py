"""What is asked about whatever the mode and the rules say: secrets, and files that run things."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import PurePath

__all__ = ("guarded", "secret", "secrets_in_words", "sensitive_below")

# By the name of the file, in lower case.
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
# Code and templates have such names, too, and hold no secret.
_NO_SECRETS = (
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
# Directories all of whose files are secrets.
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".password-store", "keyrings"})
# The end of a path.
_SECRET_PATHS = (
    (".git", "config"),
    (".kube", "config"),
    (".docker", "config.json"),
    (".config", "gh", "hosts.yml"),
    (".cargo", "credentials"),
)
_SECRET_WITHIN = ((".config", "gcloud"),)

# Who writes here has programs of the user run, or lifts the agent's own limits.
_GUARDED_FOLDERS = frozenset({".accord", ".git", ".hg", ".svn", ".vscode", ".idea", ".husky"})
_GUARDED_NAMES = frozenset(
    {
        ".bash_profile",
        ".bashrc",
        ".gitconfig",
        ".gitmodules",
        ".mcp.json",
        ".pre-commit-config.yaml",
        ".profile",
        ".zprofile",
        ".zshenv",
        ".zshrc",
    }
)

_MOST_ENTRIES = 20_000  # of a directory that is looked through

# Between words of a shell, and within one: --file=.env, user@host:.env, <.env
_BREAKS = re.compile(r"[\s;&|<>()`\"'$={}:,@]+")
_PATTERN = re.compile(r"[*?\[]")


def secret(path: str) -> bool:
    """Tell whether a file may hold secrets, going by its path alone."""
    parts = tuple(part.lower() for part in PurePath(path).parts)
    if not parts:
        return False
    if _SECRET_FOLDERS.intersection(parts):
        return not parts[-1].endswith(".pub")
    if any(parts[-len(end) :] == end for end in _SECRET_PATHS):
        return True
    if any(_holds(parts, folders) for folders in _SECRET_WITHIN):
        return True
    name = parts[-1]
    if any(fnmatchcase(name, pattern) for pattern in _NO_SECRETS):
        return False
    return any(fnmatchcase(name, pattern) for pattern in _SECRET_NAMES)


def guarded(path: str) -> bool:
    """Tell whether changing a file is asked about always."""
    parts = tuple(part.lower() for part in PurePath(path).parts)
    if not parts:
        return False
    return bool(_GUARDED_FOLDERS.intersection(parts)) or parts[-1] in _GUARDED_NAMES


def sensitive_below(folder: str, *, most: int = _MOST_ENTRIES) -> str | None:
    """Return what a directory holds that is asked about always; None where it holds none.

    What cannot be looked through, or not to its end, counts. Links are not followed; what is no
    directory, or a link to one, holds nothing. Blocks.
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
                    if seen > most:
                        return "more files than can be looked through"
                    if secret(entry.path) or guarded(entry.path):
                        return os.path.relpath(entry.path, folder)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            return "what cannot be looked through"
    return None


def secrets_in_words(command: str) -> str | None:
    """Return the first word of a command that names a secret, as far as it can be seen.

    A word with a wildcard that a secret's name fits counts, too. What a program makes of its
    words cannot be seen: this is for catching the usual, not for keeping anybody out.
    """
    for word in _BREAKS.split(command.replace("\\", "/")):
        if not word:
            continue
        if secret(word):
            return word
        name = word.rpartition("/")[2].lower()
        # A lone * is everywhere; what says a bit of a secret's name is meant.
        if _PATTERN.search(name) and name.strip("*?") and _fits_secret(name):
            return word
    return None


def _fits_secret(pattern: str) -> bool:
    """Tell whether a pattern of names fits one of the usual names of secrets."""
    samples = (".env", ".env.local", "id_rsa", "id_ed25519", ".netrc", ".npmrc", "credentials")
    return any(fnmatchcase(sample, pattern) for sample in samples)


def _holds(parts: tuple[str, ...], run: tuple[str, ...]) -> bool:
    return any(parts[at : at + len(run)] == run for at in range(len(parts)))
