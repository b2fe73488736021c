"""Makes MCP servers from what a program gives as `tools`."""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from inspect import isroutine
from types import SimpleNamespace
from typing import Any, cast

from mcp import Client
from mcp.server import MCPServer, Server
from msgspec import Struct
from pydantic import TypeAdapter

from accord.mcp.forwarding import forwarding_server
from accord.mcp.tool import marked_tools
from accord.text.excerpt import excerpt
from accord.version import __version__


class NamedServer(Struct, frozen=True):
    """A server, and its name in the session."""

    name: str
    server: Server[Any]


def servers_from(tools: Iterable[object], taken: Iterable[str] = ()) -> list[NamedServer]:
    """Return the servers for `tools`, with names that are unique and not `taken` (R-MCP-15).

    All functions, and the marked methods of objects, are tools of one server. A `mcp.Client`
    that is not connected yet represents the server that it connects to. Raises `TypeError` for
    anything else that is not a server of the library `mcp`, and for a function whose annotations
    have no JSON schema, and `ValueError` for two functions of one name.
    """
    functions: list[Callable[..., Any]] = []
    others: list[tuple[str, Server[Any] | Client]] = []
    for given in tools:
        if isinstance(given, MCPServer):
            others.append((given.name, _inner(cast("MCPServer[Any]", given))))
        elif isinstance(given, Server):
            others.append((given.name, given))  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(given, Client):
            others.append((getattr(given.server, "name", "server"), given))
        elif isroutine(given):
            functions.append(given)
        elif methods := marked_tools(given):
            functions += methods
        else:
            raise TypeError(
                "tools=[…]: expected a function, an object with methods marked by accord.tool, or "
                f"a server of the library mcp, got {excerpt(repr(given))}"
            )
    names = set(taken)
    found: list[NamedServer] = []
    if functions:
        name = _unique("tools", names)
        found.append(NamedServer(name, _server_of(name, functions)))
    for wanted, other in others:
        name = _unique(wanted, names)
        server = forwarding_server(name, other) if isinstance(other, Client) else other
        found.append(NamedServer(name, server))
    return found


def _server_of(name: str, functions: Iterable[Callable[..., Any]]) -> Server[Any]:
    with _unchanged_logging():
        server = MCPServer(name, version=__version__)
    names: set[str] = set()
    for function in functions:
        if function.__name__ in names:
            raise ValueError(f"tools=[…]: two functions have the name {function.__name__!r}")
        names.add(function.__name__)
        try:
            server.add_tool(function)
        except Exception as exc:
            raise TypeError(_unusable(function, exc)) from exc
    return _inner(server)


def _unusable(function: Callable[..., Any], error: Exception) -> str:
    """Say which annotation of a function cannot be described to the agent."""
    known: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    for name, annotation in inspect.get_annotations(function).items():
        alone: Any = SimpleNamespace(__annotations__={name: annotation})
        try:
            TypeAdapter(
                typing.get_type_hints(alone, globalns=known, include_extras=True)[name]
            ).json_schema()
        except Exception as exc:  # noqa: BLE001  # reported
            place = "the return type" if name == "return" else f"the parameter {name!r}"
            reason = str(exc).partition("\n")[0]
            return (
                f"the tool {function.__name__!r}: {place} is annotated with"
                f" {excerpt(repr(annotation), 80)}: expected a type with a JSON schema ({reason})"
            )
    return f"the tool {function.__name__!r}: {error}"


def _inner(server: MCPServer[Any]) -> Server[Any]:
    # The library has no public name for it yet.
    return server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


@contextmanager
def _unchanged_logging() -> Generator[None, None, None]:
    """Keep the handlers of the program: a server of the library adds its own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _unique(wanted: str, names: set[str]) -> str:
    name, number = wanted, 2
    while name in names:
        name, number = f"{wanted}-{number}", number + 1
    names.add(name)
    return name
