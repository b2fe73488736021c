"""Factories of doubles: Accord's client behind a filter that changes one thing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.client.driven_client import Between, Json

__all__ = (
    "ASK",
    "DOUBLES",
    "FORM",
    "READ",
    "WRITE",
    "Double",
    "add",
    "asks",
    "breaks",
    "changes",
    "error",
    "formed",
    "gone_at",
    "noted",
    "reported",
    "result",
    "titled",
    "visit",
)


@dataclass(frozen=True)
class Double:
    """A client that violates `rule`; `plays` is the prompt, `more` is passed to the driver.

    `advised`: the protocol demands the rule, but not in this case.
    """

    rule: str
    version: int
    plays: tuple[str, ...]
    spoil: Callable[[Between], None]
    also: frozenset[str] = frozenset()
    advised: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.rule}-v{self.version}-{self.spoil.__name__}"


DOUBLES: list[Double] = []
ASK, FORM = "session/request_permission", "elicitation/create"


def breaks(
    rule: str,
    *versions: int,
    plays: str | None = None,
    also: str = "",
    advised: bool = False,
    **more: Any,
) -> Callable[[Callable[[Between], None]], Callable[[Between], None]]:
    """Create a double from a function that changes messages."""

    def add(spoil: Callable[[Between], None]) -> Callable[[Between], None]:
        prompts = (plays,) if plays else ("help",)
        named = frozenset(also.split())
        DOUBLES.extend(
            Double(rule, version, prompts, spoil, named, advised, more) for version in versions
        )
        return spoil

    return add


def leaves(when: Callable[[Json], bool]) -> Callable[[Between], None]:
    """Disconnect at such a message of the agent."""

    def spoil(between: Between) -> None:
        between.from_agent = lambda message: None if when(message) else message

    return spoil


def changes(
    when: Callable[[Json, Json], bool], into: Callable[[Json, Json], Json | list[Json]]
) -> Callable[[Between], None]:
    """Change the response to such a request."""

    def spoil(between: Between) -> None:
        def from_client(message: Json, asked: Json) -> Json | list[Json] | None:
            if asked and when(asked, message):
                return into(asked, message)
            return message

        between.from_client = from_client

    return spoil


def error(code: int) -> Callable[[Json, Json], Json]:
    def into(_: Json, message: Json) -> Json:
        failed = {"code": code, "message": "It is so"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": failed}

    return into


def result(value: Any) -> Callable[[Json, Json], Json]:
    return lambda _, message: {"jsonrpc": "2.0", "id": message["id"], "result": value}


def asks(method: str, /, **params: Any) -> Callable[[Json, Json], bool]:
    def when(asked: Json, _: Json) -> bool:
        given = asked.get("params") or {}
        return asked.get("method") == method and all(
            given.get(key) == value for key, value in params.items()
        )

    return when


def reported(kind: str, **fields: Any) -> Callable[[Json], bool]:
    def when(message: Json) -> bool:
        params = message.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        return (
            isinstance(update, dict)
            and update.get("sessionUpdate") == kind
            and all(update.get(key) == value for key, value in fields.items())
        )

    return when


def noted(method: str, **params: Any) -> Callable[[Json], bool]:
    def when(message: Json) -> bool:
        given = message.get("params") or {}
        return message.get("method") == method and all(
            given.get(key) == value for key, value in params.items()
        )

    return when


def add(
    rule: str, *versions: int, name: str, **more: Any
) -> Callable[[Callable[[Between], None]], None]:
    """Create a double with a name from a function that changes messages."""

    def create(spoil: Callable[[Between], None]) -> None:
        def named(between: Between) -> None:
            spoil(between)

        named.__name__ = name
        breaks(rule, *versions, **more)(named)

    return create


def gone_at(rule: str, *versions: int, **more: Any) -> Callable[[Callable[[Json], bool]], None]:
    """Create a double that leaves at such a message of the agent."""
    return lambda when: add(rule, *versions, name="leaves", **more)(leaves(when))


READ, WRITE = "fs/read_text_file", "fs/write_text_file"


def titled(title: str) -> Callable[[Json, Json], bool]:
    def when(asked: Json, _: Json) -> bool:
        params = asked.get("params") or {}
        call = params.get("toolCall") or {}
        return asked.get("method") == ASK and title in (params.get("title"), call.get("title"))

    return when


def formed(message: str) -> Callable[[Json, Json], bool]:
    return asks(FORM, message=message)


async def visit(address: str) -> None:
    host, _, rest = address.removeprefix("http://").partition(":")
    port, _, path = rest.partition("/")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /{path} HTTP/1.1\r\n\r\n".encode())
    await reader.read()
    writer.close()
