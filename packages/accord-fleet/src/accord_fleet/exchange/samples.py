"""An attempt of a log, for all formats: its names, its scores, and what an export adds to it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from accord_fleet.types import Result, Task, Verdict

OWN = "accord_fleet"
"""The key, in the metadata of a log, of what an export adds for an exact import."""


class Sample(msgspec.Struct, kw_only=True):
    """One attempt of a log."""

    place: str
    """Its log, for messages."""
    dataset: str
    """What its evaluator calls the set of tasks."""
    command: tuple[str, ...]
    """The command of the agent, if the log has it."""
    task: Task
    result: Result
    """Without a verdict, unless it has no scores."""
    scores: dict[str, Any]
    """Values by the name of a scorer; that of a part of a value is `SCORER/PART`."""
    reasons: dict[str, str] = {}
    """What a scorer says for its score, by the same names."""
    verdict: Verdict | None = None
    """What an export wrote for the score, if the score is still the same."""
    is_exported: bool = False
    """Whether `accord fleet export` wrote it, so that the task and the result are exact."""


def flat_scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name, with the parts of values that are objects under names of their own."""
    found: dict[str, Any] = {}
    for name, value in scores.items():
        if isinstance(value, Mapping):
            parts = cast("Mapping[str, Any]", value)
            found.update({f"{name}/{part}": one for part, one in parts.items()})
        else:
            found[name] = value
    return found


# Names.

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def plain_name(text: str) -> str:
    """Return a text as the name of an agent."""
    return _UNSAFE.sub("-", text).strip("-._")[:100] or "agent"


def task_id(text: str) -> str:
    """Return a text as the id of a task; different texts have different ids."""
    plain = _UNSAFE.sub("_", text).lstrip(".")
    if plain == text and 0 < len(text) <= 200:
        return text
    return f"{plain[:180]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def own_of(metadata: Mapping[str, Any]) -> tuple[Task, Result] | None:
    """Return the task and the result that an export has left in metadata; None if it has not."""
    try:
        found: Any = metadata[OWN]
        return msgspec.convert(found["task"], Task), msgspec.convert(found["result"], Result)
    except (KeyError, TypeError, msgspec.ValidationError):
        return None


_NOT_EXPORTED = ("env", "files", "mcp_servers")  # they may have secrets


def own_metadata(task: Task, result: Result) -> dict[str, Any]:
    """Return what `own_of` reads: everything of an attempt but what its task gives the agent."""
    bare = msgspec.structs.replace(task, env={}, files={}, mcp_servers=())
    return {OWN: {"task": msgspec.to_builtins(bare), "result": msgspec.to_builtins(result)}}
