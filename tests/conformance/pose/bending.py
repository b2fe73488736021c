"""How doubles are made that take an update otherwise, and clients that keep `_meta`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accord.conformance.pose.shown import SHOWN
from conformance.pose.doubling import add
from conformance.pose.driven import Between, Json

__all__ = (
    "Bend",
    "as_a_whole",
    "bends",
    "by_key",
    "meta_bends",
    "remembers",
    "retells",
    "without",
)

# Takes an update; returns what stands for it, or None where it stays as it is.
Bend = Callable[[Json], Json | list[Json] | None]


def bends(rule: str, *versions: int, plays: str, name: str, bend: Bend, **more: Any) -> None:
    """Make a double that takes updates otherwise than they are."""

    def spoil(between: Between) -> None:
        between.from_agent = _bent(bend)

    add(rule, *versions, spoil=spoil, name=name, plays=plays, window=True, **more)


def retells(
    rule: str,
    *versions: int,
    plays: str,
    name: str,
    since: Callable[[Json], bool],
    tell: Callable[[Json], Json],
    **more: Any,
) -> None:
    """Make a double that tells otherwise what it holds, since some message passed."""

    def spoil(between: Between) -> None:
        passed: list[Json] = []

        def from_agent(message: Json) -> Json:
            passed.extend([message] if since(message) else [])
            return message

        def from_client(message: Json, asked: Json) -> Json:
            passed.extend([message] if since(message) else [])
            if passed and asked.get("method") == SHOWN and "result" in message:
                return {**message, "result": tell(message["result"])}
            return message

        between.from_agent, between.from_client = from_agent, from_client

    add(rule, *versions, spoil=spoil, name=name, plays=plays, window=True, **more)


def without(update: Json, *keys: str) -> Json:
    """Return an update without some keys."""
    return {key: value for key, value in update.items() if key not in keys}


def _bent(bend: Bend) -> Callable[[Json], Json | list[Json]]:
    def from_agent(message: Json) -> Json | list[Json]:
        params = message.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        if not isinstance(update, dict) or "sessionUpdate" not in update:
            return message
        passed = bend(update)
        if passed is None:
            return message
        updates = passed if isinstance(passed, list) else [passed]
        return [{**message, "params": {**params, "update": one}} for one in updates]

    return from_agent


# What our client does not keep.

_METAS = {
    "agent_message": ("messages", "messageId"),
    "tool_call_update": ("toolCalls", "toolCallId"),
    "terminal_update": ("terminals", "terminalId"),
    "compaction_update": ("compactions", "compactionId"),
    "subagent_update": ("subagents", "sessionId"),
}


def by_key(known: Json | None, patch: Json | None) -> Json | None:
    """Patch as version 2 has it."""
    if patch is None:
        return None
    whole = {**(known or {}), **patch}
    return {key: value for key, value in whole.items() if value is not None}


def as_a_whole(known: Json | None, patch: Json | None) -> Json | None:
    """Patch as version 1 has it."""
    return patch


def remembers(
    patch: Callable[[Json | None, Json | None], Json | None], bend: Bend = lambda update: None
) -> Callable[[Between], None]:
    """Keep the `_meta` of all there is, and add it to what our client tells."""

    def spoil(between: Between) -> None:
        metas: dict[tuple[str, str], Json | None] = {}

        def fold(update: Json) -> None:
            table, key = _METAS.get(update["sessionUpdate"], ("", ""))
            if table and "_meta" in update:
                place = table, update[key]
                metas[place] = patch(metas.get(place), update["_meta"])

        def take(update: Json) -> None:
            passed = bend(update)
            if passed is None:
                fold(update)
            else:
                for one in passed if isinstance(passed, list) else [passed]:
                    fold(one)

        def from_client(message: Json, asked: Json) -> Json:
            if asked.get("method") != SHOWN or "result" not in message:
                return message
            shown = dict(message["result"])
            for table, key in _METAS.values():
                shown[table] = [
                    {**entry, "_meta": metas.get((table, entry[key]))} for entry in shown[table]
                ]
            return {**message, "result": shown}

        between.from_agent = _bent(take)  # type: ignore[arg-type]  # changes nothing by itself
        between.from_client = from_client

    return spoil


def meta_bends(
    rule: str,
    version: int,
    *,
    name: str,
    patch: Callable[[Json | None, Json | None], Json | None] | None = None,
    bend: Bend = lambda update: None,
) -> None:
    """Make a double that keeps `_meta` otherwise."""
    kept = by_key if version == 2 else as_a_whole
    plays = "check: shown/meta" if version == 2 else "check: shown/meta_replaced"
    add(rule, version, spoil=remembers(patch or kept, bend), name=name, plays=plays, window=True)
