"""MCP servers that a session is given to work with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

__all__ = ("McpServer", "McpServerHttp", "McpServerSse", "McpServerStdio")


def _none() -> Mapping[str, str]:
    return {}


class McpServerStdio(Struct, frozen=True):
    """A server that the agent starts; `command` is an absolute path."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=_none)


class McpServerHttp(Struct, frozen=True):
    """A server that the agent reaches by streamable HTTP."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=_none)


class McpServerSse(Struct, frozen=True):
    """A server that the agent reaches by server-sent events, the older way (v1 alone)."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=_none)


McpServer: TypeAlias = McpServerStdio | McpServerHttp | McpServerSse
