"""The parts of params that need a capability in addition to that of the method (v2).

Unknown variants have a gate that is never open: an agent rejects them (R-CONT-05).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from accord.v2.config import SetSessionConfigOptionRequest
from accord.v2.content import AudioContent, EmbeddedResource, ImageContent
from accord.v2.mcp import McpServerAcp, McpServerHttp, McpServerStdio
from accord.v2.prompt import PromptRequest
from accord.v2.session import (
    ForkSessionRequest,
    ListSessionsRequest,
    NewSessionRequest,
    ResumeSessionRequest,
)
from accord.wire.base import Unknown

__all__ = ("PARAM_GATES",)

_NEVER = "agent.session.unknown"


def _prompt(params: PromptRequest) -> Iterator[tuple[str, str]]:
    for block in params.prompt:
        yield from _block(block)


def _list(params: ListSessionsRequest) -> Iterator[tuple[str, str]]:
    if params.archived is not None:
        yield "archived", "agent.session.archive"


def _config(params: SetSessionConfigOptionRequest) -> Iterator[tuple[str, str]]:
    if isinstance(params, Unknown):
        yield f"a value of type {params.tag!r}", _NEVER


def _resume(params: ResumeSessionRequest) -> Iterator[tuple[str, str]]:
    yield from _setup(params)
    if isinstance(params.replay_from, Unknown):  # R-SESS-16
        yield f"a replay from {params.replay_from.tag!r}", _NEVER


def _setup(
    params: NewSessionRequest | ResumeSessionRequest | ForkSessionRequest,
) -> Iterator[tuple[str, str]]:
    if params.additional_directories:
        yield "additionalDirectories", "agent.session.additional_directories"
    for server in params.mcp_servers:
        yield from _server(server)
    if params.system_prompt is not None:
        yield "systemPrompt", "agent.session.system_prompt"
        if params.system_prompt.mode == "override":
            yield "systemPrompt in mode override", "agent.session.system_prompt.mode.override"


def _server(server: object) -> Iterator[tuple[str, str]]:
    match server:
        case McpServerHttp():
            yield "an MCP server of type http", "agent.session.mcp.http"
        case McpServerStdio():
            yield "an MCP server of type stdio", "agent.session.mcp.stdio"
        case McpServerAcp():
            yield "an MCP server of type acp", "agent.session.mcp.acp"
        case Unknown(tag):
            yield f"an MCP server of type {tag!r}", _NEVER
        case _:
            pass


def _block(block: object) -> Iterator[tuple[str, str]]:
    match block:
        case ImageContent():
            yield "an image", "agent.session.prompt.image"
        case AudioContent():
            yield "audio", "agent.session.prompt.audio"
        case EmbeddedResource():
            yield "an embedded resource", "agent.session.prompt.embedded_context"
        case Unknown(tag):
            yield f"content of type {tag!r}", _NEVER
        case _:
            pass


# By call: what yields the parts that have to be offered, each with its gate.
PARAM_GATES: dict[str, Callable[[Any], Iterator[tuple[str, str]]]] = {
    "prompt": _prompt,
    "new_session": _setup,
    "resume_session": _resume,
    "fork_session": _setup,
    "list_sessions": _list,
    "set_session_config_option": _config,
}
