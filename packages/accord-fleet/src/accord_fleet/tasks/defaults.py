"""Values that all tasks have in common."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_object
from accord_fleet.addresses import is_address
from accord_fleet.errors import FleetError

_REMOTE = re.compile(r"[^/\\]{2,}:")  # host:path of ssh; C: is a drive


def read_defaults(path: str | Path) -> dict[str, Any]:
    """Return the fields of a TOML file, with absolute paths; raise `FleetError`."""
    file = Path(path)
    try:
        with file.open("rb") as data:
            found = tomllib.load(data)
    except OSError as error:
        raise FleetError(f"The defaults {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FleetError(f"The defaults {file}: expected TOML: {error}") from None
    return absolute_paths(found, file.parent.resolve())


def merged(defaults: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a task above the defaults.

    Objects are merged key by key, unless their `type` differs; everything else is replaced.
    """
    found = dict(defaults)
    for name, value in task.items():
        before = found.get(name)
        if is_object(before) and is_object(value) and _fits(before, value):
            found[name] = merged(before, value)
        else:
            found[name] = value
    return found


def _fits(before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return "type" not in value or value["type"] == before.get("type")


def absolute_paths(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of a task with the paths of its workspace and grader made absolute."""
    workspace, grader = task.get("workspace"), task.get("grader")
    changed = dict(task)
    if is_object(workspace):
        changed["workspace"] = {
            name: _absolute(value, folder) if name in ("path", "url") else value
            for name, value in workspace.items()
        }
    if is_object(grader) and isinstance(function := grader.get("function"), str):
        place, colon, name = function.rpartition(":")
        if colon and place.endswith(".py"):
            changed["grader"] = {**grader, "function": f"{_absolute(place, folder)}:{name}"}
    return changed


def _absolute(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or not value or "\0" in value or value.startswith("-"):
        return value
    if is_address(value) or _REMOTE.match(value):
        return value
    return os.path.normpath(folder / Path(value).expanduser())
