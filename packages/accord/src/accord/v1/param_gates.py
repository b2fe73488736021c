"""The parts of params that need a capability in addition to that of the method (v1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from accord.v1.config import SetSessionConfigOptionBoolean, SetSessionConfigOptionRequest
from accord.v1.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent
from accord.v1.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse
from accord.v1.prompt import PromptRequest
from accord.v1.session import (
    ForkSessionRequest,
    ListSessionsRequest,
    LoadSessionRequest,
    NewSessionRequest,
    ResumeSessionRequest,
)

__all__ = ("PARAM_GATES",)


def _prompt(params: PromptRequest) -> Iterator[tuple[str, str]]:
    for block in params.prompt:
        yield from _block(block)


def _list(params: ListSessionsRequest) -> Iterator[tuple[str, str]]:
    if params.archived is not None:
        yield "archived", "agent.session_capabilities.archive"


def _config(params: SetSessionConfigOptionRequest) -> Iterator[tuple[str, str]]:
    if isinstance(params, SetSessionConfigOptionBoolean):
        yield "a boolean value", "client.session.config_options.boolean"


def _setup(
    params: NewSessionRequest | LoadSessionRequest | ResumeSessionRequest | ForkSessionRequest,
) -> Iterator[tuple[str, str]]:
    offered = "agent.session_capabilities"
    if params.additional_directories:
        yield "additionalDirectories", f"{offered}.additional_directories"
    for server in params.mcp_servers:
        yield from _server(server)
    if params.system_prompt is not None:
        yield "systemPrompt", f"{offered}.system_prompt"
        if params.system_prompt.mode == "override":
            yield "systemPrompt in mode override", f"{offered}.system_prompt.mode.override"


def _server(server: McpServer) -> Iterator[tuple[str, str]]:
    match server:
        case McpServerHttp():
            yield "an MCP server of type http", "agent.mcp_capabilities.http"
        case McpServerSse():
            yield "an MCP server of type sse", "agent.mcp_capabilities.sse"
        case McpServerAcp():
            yield "an MCP server of type acp", "agent.mcp_capabilities.acp"
        case _:
            pass


def _block(block: ContentBlock) -> Iterator[tuple[str, str]]:
    match block:
        case ImageContent():
            yield "an image", "agent.prompt_capabilities.image"
        case AudioContent():
            yield "audio", "agent.prompt_capabilities.audio"
        case EmbeddedResource():
            yield "an embedded resource", "agent.prompt_capabilities.embedded_context"
        case _:
            pass


# By call: what yields the parts that have to be offered, each with its gate.
PARAM_GATES: dict[str, Callable[[Any], Iterator[tuple[str, str]]]] = {
    "prompt": _prompt,
    "new_session": _setup,
    "load_session": _setup,
    "resume_session": _setup,
    "fork_session": _setup,
    "list_sessions": _list,
    "set_session_config_option": _config,
}
