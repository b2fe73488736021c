"""Proxies on Accord that change nothing: NAME is `pass` or `read`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import accord

Forward = Callable[..., Awaitable[Any]]


class Pass(accord.Proxy):
    """Overrides nothing."""


class Read(accord.Proxy):
    """Decodes what it can, and changes nothing."""

    async def prompt(self, turn: accord.ProxyTurn, forward: Forward) -> Any:
        assert turn.text.startswith(("work", "wait", "ask")), turn.text
        return await forward()

    def update(self, event: Any) -> Any:
        return event

    async def open_session(self, session: Any, forward: Forward) -> None:
        assert await forward() == "session-1"

    async def close_session(self, session_id: str, forward: Forward) -> None:
        await forward()

    async def decide_permission(self, request: accord.PermissionRequest, forward: Forward) -> Any:
        assert [option.kind for option in request.options] == ["reject_once", "allow_once"]
        return await forward()

    async def read_file(self, request: Any, forward: Forward) -> str:
        return await forward()

    async def write_file(self, request: Any, forward: Forward) -> None:
        await forward(request)

    async def start_terminal(self, request: Any, forward: Forward) -> str:
        return await forward()

    def client_capabilities_v1(self, offered: Any) -> Any:
        return offered

    def client_capabilities_v2(self, offered: Any) -> Any:
        return offered

    def agent_capabilities_v1(self, offered: Any) -> Any:
        return offered

    def agent_capabilities_v2(self, offered: Any) -> Any:
        return offered

    async def extension_request(self, method: str, params: Any, forward: Forward) -> Any:
        return await forward(params)


PROXIES: dict[str, type[accord.Proxy]] = {"pass": Pass, "read": Read}

if __name__ == "__main__":
    PROXIES[sys.argv[1]]().run()
