"""Reads the file with the rules of a project."""

from __future__ import annotations

import tomllib
from pathlib import Path

from accord_coder.permissions.rules import Rule, rules_from

_MAX_BYTES = 256 * 1024


class InvalidRules(ValueError):
    """The file with the rules cannot be used; the text is the reason."""


def read_rules(project: Path) -> tuple[str, list[Rule]]:
    """Return the text and the rules of a project, empty if there is no file.

    Raises `InvalidRules`, also for a file or a directory that is a link.
    """
    path = project / ".accord" / "permissions.toml"
    for part in (path.parent, path):
        if part.is_symlink():
            raise InvalidRules(f"{part.name} is a link, which is not followed")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return "", []
    except OSError as exc:
        raise InvalidRules(f"it cannot be read: {exc.strerror}") from exc
    if len(data) > _MAX_BYTES:
        raise InvalidRules(f"it is longer than {_MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8")
        return text, rules_from(tomllib.loads(text))
    except (UnicodeDecodeError, ValueError) as exc:
        raise InvalidRules(str(exc)) from exc
