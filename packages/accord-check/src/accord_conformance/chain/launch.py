"""Starts a conductor under test with components that the kit plays."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from accord.transports.base import Transport
from accord.transports.process import process
from accord_conformance.chain.stream_transport import StreamTransport

PROXY = "{proxy}"
AGENT = "{agent}"
# Called with the name of a component, and its transport, when the conductor has started it.
OnComponent = Callable[[str, Transport], None]

_PROGRAM = Path(__file__).with_name("component.py")


class Launch(Protocol):
    """A conductor that can be started once."""

    async def open(self, on_component: OnComponent, noise: Callable[[str], None]) -> Transport:
        """Return the transport of the client, which is not started yet."""
        ...

    async def aclose(self) -> None:
        """Release everything except the transports."""
        ...


def component_names(command: Sequence[str]) -> list[str]:
    """Return the names of the components in a command: proxy-0, proxy-1, …, agent."""
    names: list[str] = []
    for word in command:
        if word == PROXY:
            names.append(f"proxy-{len(names)}")
        elif word == AGENT:
            names.append("agent")
    return names


class ConductorProcess:
    """A conductor as a process: the placeholders of its command become programs of the kit."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._token = secrets.token_urlsafe(16)
        self._server: asyncio.Server | None = None
        self._on_component: OnComponent = lambda _, __: None

    async def open(self, on_component: OnComponent, noise: Callable[[str], None]) -> Transport:
        """Listen for the components; return the transport of the client."""
        self._on_component = on_component
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: StreamTransport(self._greeted), "127.0.0.1", 0
        )
        port = self._server.sockets[0].getsockname()[1]
        names = iter(component_names(self._command))
        words = [
            self._component(port, next(names)) if word in (PROXY, AGENT) else word
            for word in self._command
        ]
        return process(*words, on_stdout_noise=noise)()

    def _component(self, port: int, name: str) -> str:
        words = [sys.executable, "-I", "-S", str(_PROGRAM), str(port), self._token, name]
        return shlex.join(words)

    def _greeted(self, transport: StreamTransport, hello: bytes) -> None:
        token, _, name = hello.decode("utf-8", "replace").partition(" ")
        if secrets.compare_digest(token.encode(), self._token.encode()):
            self._on_component(name.strip(), transport)

    async def aclose(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
