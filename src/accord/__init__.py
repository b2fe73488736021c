"""The Agent Client Protocol for Python.

`Agent` and `serve` are for agents, written once for both versions of the protocol. `accord.v1`
and `accord.v2` are the versions themselves, complete and typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MethodNotFound,
    NotOffered,
    ParseError,
    ProtocolError,
    RemoteProtocolError,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    StartError,
    TransportError,
    UnsupportedVersion,
    VersionNotOffered,
)
from accord.version import __version__
from accord.wire.base import UNSET, Unknown

if TYPE_CHECKING:
    from accord.agent.agent import Agent
    from accord.agent.serving import serve
    from accord.agent.session import Session
    from accord.agent.turn import Turn
    from accord.model.content import Audio, Content, Image, Link, Resource
    from accord.model.permission import PermissionOption
    from accord.model.session import Choice, Command, Cost, Info, PlanEntry, Select, Switch
    from accord.model.tools import Diff, Location

__all__ = (
    "UNSET",
    "AccordError",
    "Agent",
    "Audio",
    "AuthRequired",
    "Choice",
    "Command",
    "ConnectionClosed",
    "ConnectionLost",
    "Content",
    "Cost",
    "DecodeError",
    "Diff",
    "Image",
    "Info",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "Link",
    "LocalProtocolError",
    "Location",
    "MethodNotFound",
    "NotOffered",
    "ParseError",
    "PermissionOption",
    "PlanEntry",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestError",
    "Resource",
    "ResourceNotFound",
    "Select",
    "Session",
    "StartError",
    "Switch",
    "TransportError",
    "Turn",
    "Unknown",
    "UnsupportedVersion",
    "VersionNotOffered",
    "__version__",
    "serve",
)

# The batteries are imported when they are first named.
_LAZY = {
    "Agent": "accord.agent.agent",
    "serve": "accord.agent.serving",
    "Session": "accord.agent.session",
    "Turn": "accord.agent.turn",
    "Audio": "accord.model.content",
    "Content": "accord.model.content",
    "Image": "accord.model.content",
    "Link": "accord.model.content",
    "Resource": "accord.model.content",
    "PermissionOption": "accord.model.permission",
    "Choice": "accord.model.session",
    "Command": "accord.model.session",
    "Cost": "accord.model.session",
    "Info": "accord.model.session",
    "PlanEntry": "accord.model.session",
    "Select": "accord.model.session",
    "Switch": "accord.model.session",
    "Diff": "accord.model.tools",
    "Location": "accord.model.tools",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
