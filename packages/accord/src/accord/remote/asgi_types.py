"""The types of ASGI applications, which have no package of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

# The extension of a scope for a client on a Unix socket: `{"uid": …}` is its checked user.
UNIX_PEER = "accord.unix_peer"
_HEADERS = "accord.headers"  # key of a scope: what `headers_of` returns

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def path_of(scope: Scope) -> str:
    """Return the path of a request within the application, which may be mounted in another one."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    is_below = bool(root) and (path == root or path.startswith(f"{root}/"))
    return path[len(root) :] if is_below else path


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """Return the headers of a request by name in lower case; they must not be changed."""
    headers: dict[str, list[str]] | None = scope.get(_HEADERS)
    if headers is None:
        headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        scope[_HEADERS] = headers
    return headers
