"""Factories of doubles that apply updates wrongly or report another state than they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accord_conformance.client.state_probe import PROBE_METHOD
from conformance.client.double_factories import add
from conformance.client.driven_client import Between, Json
from conformance.client.state_ledger import Bend, Ledger

__all__ = ("Bend", "bends", "meta_bends", "retells", "without")


def bends(rule: str, *versions: int, **more: Any) -> Callable[[Bend], None]:
    """Create a double that applies updates wrongly."""

    def create(bend: Bend) -> None:
        def spoil(between: Between) -> None:
            between.from_agent = _bent(bend)

        add(rule, *versions, window=True, **more)(spoil)

    return create


def retells(
    rule: str, *versions: int, **more: Any
) -> Callable[[Callable[[Json], bool], Callable[[Json], Json]], None]:
    """Create a double that reports another state after some message."""

    def create(since: Callable[[Json], bool], tell: Callable[[Json], Json]) -> None:
        def spoil(between: Between) -> None:
            passed: list[Json] = []

            def from_agent(message: Json) -> Json:
                passed.extend([message] if since(message) else [])
                return message

            def from_client(message: Json, asked: Json) -> Json:
                passed.extend([message] if since(message) else [])
                if passed and asked.get("method") == PROBE_METHOD and "result" in message:
                    return {**message, "result": tell(message["result"])}
                return message

            between.from_agent, between.from_client = from_agent, from_client

        add(rule, *versions, window=True, **more)(spoil)

    return create


def without(update: Json, *keys: str) -> Json:
    """Return an update without some keys."""
    return {key: value for key, value in update.items() if key not in keys}


def _bent(bend: Bend) -> Callable[[Json], Json | list[Json]]:
    def from_agent(message: Json) -> Json | list[Json]:
        params: Any = message.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        if not isinstance(update, dict) or "sessionUpdate" not in update:
            return message
        passed = bend(update)
        if passed is None:
            return message
        updates = passed if isinstance(passed, list) else [passed]
        return [{**message, "params": {**params, "update": one}} for one in updates]

    return from_agent


def meta_bends(
    rule: str, version: int, *, name: str, by_key: bool | None = None, bend: Bend = lambda _: None
) -> None:
    """Create a double that handles metadata wrongly; Accord's client does not keep it at all."""

    def spoil(between: Between) -> None:
        Ledger(version, bend=bend, by_key=by_key).stands_in(between)

    plays = "check: state/meta" if version == 2 else "check: state/meta-replaced"
    add(rule, version, name=name, plays=plays, window=True)(spoil)
