"""The capabilities of an agent, by one name for both versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from accord.text.lenient_json import is_object

Json: TypeAlias = dict[str, Any]

# In version 1 some are booleans. All others are markers, and `session` includes several.
_BOOLEANS = ("loadSession", "promptCapabilities", "mcpCapabilities")
_WHERE: dict[str, tuple[str, str]] = {
    "load": ("loadSession", ""),
    "resume": ("sessionCapabilities.resume", "session"),
    "list": ("sessionCapabilities.list", "session"),
    "close": ("sessionCapabilities.close", "session"),
    "delete": ("sessionCapabilities.delete", "session.delete"),
    "fork": ("sessionCapabilities.fork", "session.fork"),
    "archive": ("sessionCapabilities.archive", "session.archive"),
    "status": ("sessionCapabilities.status", "session.status"),
    "title": ("sessionCapabilities.title", "session.title"),
    "system prompts": ("sessionCapabilities.systemPrompt", "session.systemPrompt"),
    "system prompts with mode override": (
        "sessionCapabilities.systemPrompt.mode.override",
        "session.systemPrompt.mode.override",
    ),
    "additional directories": (
        "sessionCapabilities.additionalDirectories",
        "session.additionalDirectories",
    ),
    "images": ("promptCapabilities.image", "session.prompt.image"),
    "audio": ("promptCapabilities.audio", "session.prompt.audio"),
    "resources": ("promptCapabilities.embeddedContext", "session.prompt.embeddedContext"),
    "MCP over stdio": ("", "session.mcp.stdio"),
    "MCP over HTTP": ("mcpCapabilities.http", "session.mcp.http"),
    "MCP over ACP": ("mcpCapabilities.acp", "session.mcp.acp"),
    "logout": ("auth.logout", ""),
    "login status": ("auth.status", "auth.status"),
    "providers": ("providers", "providers"),
}


def supports(what: str, version: int, result: Json) -> bool:
    """Return whether the result of `initialize` advertises a capability."""
    path = _WHERE[what][version - 1]
    if what == "logout" and version == 2:
        return bool(result.get("authMethods"))
    if what == "MCP over stdio" and version == 1:
        return True  # R-MCP-01
    if not path:
        return False
    found: Any = result.get("agentCapabilities" if version == 1 else "capabilities")
    for step in path.split("."):
        found = found.get(step) if is_object(found) else None
    return found is True if version == 1 and path.startswith(_BOOLEANS) else is_object(found)


def add_capabilities(paths: Mapping[str, tuple[str, str]]) -> None:
    """Add capabilities of an extension: the paths in versions 1 and 2, by name."""
    _WHERE.update(paths)
