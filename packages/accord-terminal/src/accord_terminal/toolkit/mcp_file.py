"""Reads a file of MCP servers, in the format that most editors and agents share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from accord.errors import AccordError
from accord.text import lenient_json
from accord.types.mcp import McpServer, McpServerHttp, McpServerSse, McpServerStdio

MAX_BYTES = 1024 * 1024
_KINDS = ("stdio", "http", "streamable-http", "sse")


class McpFileError(AccordError):
    """The file cannot be read, or is not a file of MCP servers."""


def read_mcp_file(file: Path) -> tuple[McpServer, ...]:
    """Return the servers in the object `mcpServers`, except those with `"disabled": true`.

    Programs are looked up on PATH, because agents expect absolute paths. Raises `McpFileError`,
    which names the file, the server and the key.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as exc:
        raise McpFileError(f"Cannot read {file}: {exc.strerror}") from None
    return mcp_servers(data, str(file))


def mcp_servers(data: str | bytes, source: str) -> tuple[McpServer, ...]:
    """Return the servers in the text of such a file; errors name the source."""
    if len(data) > MAX_BYTES:
        raise McpFileError(f"{source}: expected at most {MAX_BYTES} bytes")
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise McpFileError(f"{source}: expected JSON: {exc}") from None
    servers: Any = document.get("mcpServers") if lenient_json.is_object(document) else None
    if not lenient_json.is_object(servers):
        raise McpFileError(f'{source}: expected an object with the key "mcpServers"')
    enabled: list[McpServer] = []
    for name, entry in servers.items():
        where = f"{source}: mcpServers.{name}"
        if not lenient_json.is_object(entry):
            raise McpFileError(f"{where}: expected an object, got {type(entry).__name__}")
        if entry.get("disabled") is not True:
            enabled.append(_server(name, entry, where))
    return tuple(enabled)


def _server(name: str, entry: dict[str, Any], where: str) -> McpServer:
    kind = entry.get("type", "stdio" if "command" in entry else "http")
    if kind not in _KINDS:
        raise McpFileError(f"{where}.type: expected one of {', '.join(_KINDS)}, got {kind!r}")
    if kind == "stdio":
        command = _require_string(entry, "command", where)
        args = entry.get("args", [])
        if not (lenient_json.is_array(args) and all(isinstance(word, str) for word in args)):
            raise McpFileError(f"{where}.args: expected an array of strings")
        program = shutil.which(command)
        if program is None:
            raise McpFileError(f"{where}.command: program not found: {command!r}")
        return McpServerStdio(
            name,
            str(Path(program).absolute()),
            tuple(map(str, args)),
            _require_strings(entry, "env", where),
        )
    url = _require_string(entry, "url", where)
    headers = _require_strings(entry, "headers", where)
    return McpServerSse(name, url, headers) if kind == "sse" else McpServerHttp(name, url, headers)


def _require_string(entry: dict[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise McpFileError(f"{where}.{key}: expected a string")
    return value


def _require_strings(entry: dict[str, Any], key: str, where: str) -> dict[str, str]:
    value: Any = entry.get(key, {})
    if not (
        lenient_json.is_object(value) and all(isinstance(text, str) for text in value.values())
    ):
        raise McpFileError(f"{where}.{key}: expected an object of strings")
    return {str(name): str(text) for name, text in value.items()}
