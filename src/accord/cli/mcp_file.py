"""Reads the file that lists MCP servers, in the form that most editors and agents share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from accord.errors import AccordError
from accord.text import lenient_json
from accord.types.mcp import McpHttp, McpServer, McpSse, McpStdio

__all__ = ("WrongMcpFile", "read_mcp_file")

MOST_BYTES = 1024 * 1024
_KINDS = ("stdio", "http", "streamable-http", "sse")


class WrongMcpFile(AccordError):
    """The file cannot be read, or does not list MCP servers."""


def read_mcp_file(file: Path) -> tuple[McpServer, ...]:
    """Return the servers of an object `mcpServers`; those with `"disabled": true` are left out.

    A program is looked up on PATH, because agents expect an absolute path. Raises `WrongMcpFile`,
    which names the file, the server and the key.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise WrongMcpFile(f"{file}: expected at most {MOST_BYTES} bytes")
        document: Any = json.loads(data)
    except OSError as exc:
        raise WrongMcpFile(f"Cannot read {file}: {exc.strerror}") from None
    except (ValueError, RecursionError) as exc:
        raise WrongMcpFile(f"{file}: expected JSON: {exc}") from None
    servers: Any = document.get("mcpServers") if lenient_json.is_object(document) else None
    if not lenient_json.is_object(servers):
        raise WrongMcpFile(f'{file}: expected an object with the key "mcpServers"')
    found: list[McpServer] = []
    for name, entry in servers.items():
        where = f"{file}: mcpServers.{name}"
        if not lenient_json.is_object(entry):
            raise WrongMcpFile(f"{where}: expected an object, got {type(entry).__name__}")
        if entry.get("disabled") is not True:
            found.append(_server(name, entry, where))
    return tuple(found)


def _server(name: str, entry: dict[str, Any], where: str) -> McpServer:
    kind = entry.get("type", "stdio" if "command" in entry else "http")
    if kind not in _KINDS:
        raise WrongMcpFile(f"{where}.type: expected one of {', '.join(_KINDS)}, got {kind!r}")
    if kind == "stdio":
        command = _text(entry, "command", where)
        args = entry.get("args", [])
        if not (lenient_json.is_array(args) and all(isinstance(word, str) for word in args)):
            raise WrongMcpFile(f"{where}.args: expected an array of strings")
        program = shutil.which(command)
        if program is None:
            raise WrongMcpFile(f"{where}.command: found no program {command!r}")
        return McpStdio(
            name, str(Path(program).absolute()), tuple(map(str, args)), _texts(entry, "env", where)
        )
    url = _text(entry, "url", where)
    headers = _texts(entry, "headers", where)
    return McpSse(name, url, headers) if kind == "sse" else McpHttp(name, url, headers)


def _text(entry: dict[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise WrongMcpFile(f"{where}.{key}: expected a string")
    return value


def _texts(entry: dict[str, Any], key: str, where: str) -> dict[str, str]:
    value: Any = entry.get(key, {})
    if not (
        lenient_json.is_object(value) and all(isinstance(text, str) for text in value.values())
    ):
        raise WrongMcpFile(f"{where}.{key}: expected an object of strings")
    return {str(name): str(text) for name, text in value.items()}
