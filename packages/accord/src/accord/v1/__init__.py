"""The types of version 1 of the protocol, stable and unstable."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.v1 import methods, types
from accord.v1.methods import *
from accord.v1.types import *

if TYPE_CHECKING:
    from accord.v1.proxy_role import Proxy
    from accord.v1.remote import RemoteAgent, RemoteClient
    from accord.v1.roles import (
        AgentContext,
        AgentRole,
        ClientContext,
        ClientRole,
        MaybeAwaitable,
    )
    from accord.v1.stdio import run

__all__: tuple[str, ...] = (
    "AgentContext",
    "AgentRole",
    "ClientContext",
    "ClientRole",
    "MaybeAwaitable",
    "Proxy",
    "RemoteAgent",
    "RemoteClient",
    "run",
)
__all__ += methods.__all__
__all__ += types.__all__

# The types need no event loop: these modules do, and are imported on first use.
_LAZY = {
    "Proxy": "proxy_role",
    **dict.fromkeys(("RemoteAgent", "RemoteClient"), "remote"),
    **dict.fromkeys(
        ("AgentContext", "AgentRole", "ClientContext", "ClientRole", "MaybeAwaitable"),
        "roles",
    ),
    "run": "stdio",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
