"""The tools of MCP servers, as tools of the coder."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from mcp import types
from mcp.types import CallToolResult
from mcp.types import ContentBlock as McpContentBlock
from mcp.types import Tool as Listed

from accord import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    McpServerError,
    RequestError,
    ResourceLink,
)
from accord.mcp import McpConnection
from accord_coder.models.base import ToolSpec
from accord_coder.tool_results import Access, Outcome, ToolFailed
from accord_coder.tools import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.decision import ToolContext


_MAX_NAME = 64  # limit of model providers


def tools_of(connections: Iterable[McpConnection]) -> dict[str, Tool[Any]]:
    """Return the tools of servers by their names for models."""
    found: dict[str, Tool[Any]] = {}
    for connection in connections:
        for listed in connection.tools:
            name = _name(connection.name, listed.name)
            if name not in found:
                found[name] = McpTool(name, connection, listed)
    return found


def _name(server: str, tool: str) -> str:
    name = "__".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in ("mcp", server, tool))
    if len(name) <= _MAX_NAME:
        return name
    mark = hashlib.sha256(f"{server}/{tool}".encode()).hexdigest()[:8]
    return f"{name[: _MAX_NAME - 9]}_{mark}"


class McpTool(Tool[Any]):
    """A tool of an MCP server.

    The server's description affects only the display, never the permission.
    """

    def __init__(self, name: str, connection: McpConnection, listed: Listed) -> None:
        hints = listed.annotations
        self.name = name
        self.kind = "read" if hints is not None and hints.read_only_hint else "other"
        self.description = listed.description or listed.title or listed.name
        self.parallel = self.kind == "read"
        self._shown = listed.title or (hints and hints.title) or listed.name
        self._connection = connection
        self._listed = listed

    @property
    def spec(self) -> ToolSpec:
        """The server's description for models."""
        usual: dict[str, Any] = {"type": "object", "properties": {}}
        return ToolSpec(self.name, self.description, usual | self._listed.input_schema)

    def parse(self, arguments: str) -> dict[str, Any]:
        """Return the arguments; the server checks them."""
        try:
            return msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise ToolFailed(f"The arguments of {self.name} are not a JSON object: {exc}") from exc

    def title(self, args: dict[str, Any], context: ToolContext) -> str:
        """Return a title with the tool and its server."""
        return f"{self._shown} ({self._connection.name})"

    def access(self, args: dict[str, Any], context: ToolContext) -> Access:
        """Return an access to the tool of the server."""
        return Access("mcp", subject=f"{self._connection.name}/{self._listed.name}")

    async def run(
        self, args: dict[str, Any], call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Call the tool."""
        title = call.title

        async def progress(done: float, total: float | None, message: str | None) -> None:
            share = f"{done:g}" if total is None else f"{done:g}/{total:g}"
            await call.update(title=f"{title}: {message or 'working'} ({share})")

        try:
            result: CallToolResult = await self._connection.call(self._listed.name, args, progress)
        except McpServerError as exc:
            raise ToolFailed(f"The MCP server {self._connection.name}: {exc}") from exc
        except RequestError as exc:  # of a server in the client
            raise ToolFailed(f"The MCP server {self._connection.name}: {exc.text}") from exc
        content = tuple(_content(block) for block in result.content)
        structured = result.structured_content
        if structured is not None and not content:
            content = (msgspec.json.encode(structured).decode(),)
        await call.add_content(*content)
        raw = None if structured is None else {"structured": structured}
        return Outcome(content or ("Done.",), raw, failed=bool(result.is_error))


def _content(block: McpContentBlock) -> ContentBlock:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent():
            data = _decode(block.data)
            return "[A malformed image]" if data is None else ImageContent(data, block.mime_type)
        case types.AudioContent():
            data = _decode(block.data)
            return "[Malformed audio]" if data is None else AudioContent(data, block.mime_type)
        case types.ResourceLink():
            return ResourceLink(
                str(block.uri),
                block.name,
                block.title,
                block.description,
                block.mime_type,
                block.size,
            )
        case types.EmbeddedResource(resource=types.TextResourceContents() as inner):
            return EmbeddedResource(str(inner.uri), inner.text, inner.mime_type)
        case types.EmbeddedResource(resource=inner):
            data = _decode(inner.blob) if isinstance(inner, types.BlobResourceContents) else None
            if data is None:
                return "[A malformed resource]"
            return EmbeddedResource(str(inner.uri), data, inner.mime_type)


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
