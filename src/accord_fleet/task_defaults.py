"""What a fleet gives to tasks that do not say otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import msgspec

from accord_fleet.errors import FleetError
from accord_fleet.types.limits import LimitName, Limits
from accord_fleet.types.task import EmptyFolder, Grader, Task, Workspace

__all__ = ("TaskDefaults", "limits_from_words", "with_defaults")

_NO_LIMITS = Limits()
_NAMES: tuple[LimitName, ...] = (
    "turn_s",
    "wall_s",
    "output_bytes",
    "memory_bytes",
    "tokens",
    "cost",
)
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


class TaskDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Values for tasks; a task that has its own keeps it."""

    workspace: Workspace | None = None
    grader: Grader | None = None
    limits: Mapping[LimitName, float | None] = {}


def with_defaults(tasks: Iterable[Task], defaults: TaskDefaults) -> Iterator[Task]:
    """Yield the tasks with these defaults."""
    if defaults == TaskDefaults():
        yield from tasks
        return
    for task in tasks:
        yield _completed(task, defaults)


def _completed(task: Task, defaults: TaskDefaults) -> Task:
    changes: dict[str, object] = {}
    if defaults.workspace is not None and task.workspace == EmptyFolder():
        changes["workspace"] = defaults.workspace
    if defaults.grader is not None and task.grader is None:
        changes["grader"] = defaults.grader
    own = task.limits
    limits = {
        name: value
        for name, value in defaults.limits.items()
        if getattr(own, name) == getattr(_NO_LIMITS, name)
    }
    if limits:
        changes["limits"] = msgspec.structs.replace(own, **limits)
    return msgspec.structs.replace(task, **changes) if changes else task


def limits_from_words(words: Iterable[str]) -> tuple[dict[LimitName, float | None], list[str]]:
    """Return the limits of words such as `turn_s=60` and `memory_bytes=2g`, and every error."""
    found: dict[LimitName, float | None] = {}
    errors: list[str] = []
    for word in words:
        try:
            name, value = _limit(word)
        except FleetError as error:
            errors.append(f"--limit {word}: {error}")
        else:
            found[name] = value
    return found, errors


def _limit(word: str) -> tuple[LimitName, float | None]:
    given, equals, text = word.partition("=")
    if given not in _NAMES or not equals:
        raise FleetError(f"expected NAME=VALUE with a name of {', '.join(_NAMES)}")
    name = cast("LimitName", given)
    text = text.strip().lower()
    if text == "none":
        return name, None
    unit = _UNITS.get(text[-1:], 1) if name.endswith("_bytes") else 1
    try:
        value = float(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise FleetError(f"expected a number above 0 or `none`, got {text!r}")
    return name, (value if name in ("turn_s", "wall_s", "cost") else int(value))
