"""What differs between the tasks of a run and those that are given again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from accord_fleet.types.task import Task

_MOST_SHOWN = 5


def describe_changes(stored: Iterable[Task], given: Iterable[Task]) -> str | None:
    """Return which tasks were added, removed or changed, at most five of each, or None.

    The order of the tasks does not matter. Tasks are read one at a time.
    """
    before = {task.id: _digests(task) for task in stored}
    added: list[str] = []
    changed: list[str] = []
    for task in given:
        old = before.pop(task.id, None)
        new = _digests(task)
        if old is None:
            added.append(task.id)
        elif old != new:
            fields = Task.__struct_fields__
            names = [name for name, a, b in zip(fields, old, new, strict=True) if a != b]
            changed.append(f"{task.id} ({', '.join(names)})")
    parts = [
        f"{len(names)} {what}: {', '.join(names[:_MOST_SHOWN])}{' …' * (len(names) > _MOST_SHOWN)}"
        for what, names in (("changed", changed), ("added", added), ("removed", list(before)))
        if names
    ]
    return "; ".join(parts) or None


def _digests(task: Task) -> tuple[bytes, ...]:
    """Return a short digest of each field."""
    return tuple(
        hashlib.blake2b(
            msgspec.json.encode(getattr(task, name), order="deterministic"), digest_size=6
        ).digest()
        for name in Task.__struct_fields__
    )
