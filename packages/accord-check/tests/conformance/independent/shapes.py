"""The params that the independent agent requires, and its capabilities, in both versions."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from peer import PARAMS, VARY, Refused

Json = Any

MODES = {"ask": "Ask first", "code": "Just code"}
MODELS = {"small": "Small", "large": "Large"}


def wrong(what: str, data: Json = None) -> Refused:
    return Refused(PARAMS, what, data)


def text(params: dict[str, Json], key: str) -> str:
    value = params.get(key)
    if not isinstance(value, str):
        raise wrong(f"Expected a string as {key}")
    return value


def absolute(value: Json, what: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value or not Path(value).is_absolute():
        raise wrong(f"Expected an absolute path as {what}")
    return value


def items(params: dict[str, Json], key: str, *, needed: bool = False) -> list[Json]:
    """Return a list that can be null, and can be absent unless it is `needed`."""
    if needed and key not in params:
        raise wrong(f"Expected {key}")
    value = params.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong(f"Expected a list as {key}")
    return value


def roots(params: dict[str, Json]) -> tuple[str, list[str]]:
    cwd = absolute(params.get("cwd"), "cwd")
    more = items(params, "additionalDirectories")
    return cwd, [absolute(path, "additionalDirectories") for path in more]


def strings(values: list[Json], what: str) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise wrong(f"Expected strings as {what}")
    return values


def mcp_servers(params: dict[str, Json], version: int, *, needed: bool) -> list[dict[str, Json]]:
    """Return the stdio servers to start; reject other kinds, which are not advertised."""
    names: set[str] = set()
    servers: list[dict[str, Json]] = []
    for server in items(params, "mcpServers", needed=needed and version == 1):
        if not isinstance(server, dict):
            raise wrong("Expected an object as MCP server")
        kind = server.get("type")
        if (version == 2 and kind != "stdio") or kind in ("http", "sse", "acp"):
            raise wrong("This kind of MCP server is not supported", {"type": kind})
        name = text(server, "name")
        if version == 2 and name in names:
            raise wrong("Two MCP servers have one name", {"name": name})
        names.add(name)
        strict = version == 1
        env: dict[str, str] = {}
        for pair in items(server, "env", needed=strict):
            if not isinstance(pair, dict):
                raise wrong("Expected an object as variable")
            env[text(pair, "name")] = text(pair, "value")
        args = strings(items(server, "args", needed=strict), "args")
        argv = [absolute(server.get("command"), "command"), *args]
        servers.append({"argv": argv, "env": env})
    return servers


def _base64(block: dict[str, Json], key: str, version: int) -> None:
    data = text(block, key)
    if version == 2:
        try:
            base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise wrong(f"Expected base64 as {key}") from None


def _uri(block: dict[str, Json], version: int) -> None:
    uri = text(block, "uri")
    if version == 2 and not urlsplit(uri).scheme:
        raise wrong("Expected an absolute URI")


def prompt(params: dict[str, Json], version: int) -> str:
    """Return the text of a prompt whose blocks are all valid."""
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or (version == 2 and not blocks):
        raise wrong("Expected a list of blocks as prompt")
    words: list[str] = []
    for block in blocks:
        if not isinstance(block, dict):
            raise wrong("Expected an object as block")
        match block.get("type"):
            case "text":
                words.append(text(block, "text"))
            case "image" | "audio":
                _base64(block, "data", version)
                text(block, "mimeType")
            case "resource_link":
                text(block, "name")
                _uri(block, version)
            case "resource":
                resource = block.get("resource")
                if not isinstance(resource, dict):
                    raise wrong("Expected an object as resource")
                _uri(resource, version)
                if not isinstance(resource.get("text"), str):
                    _base64(resource, "blob", version)
            case kind:
                raise wrong("This kind of content is not supported", {"type": kind})
    return " ".join(words)


def capabilities(version: int) -> dict[str, Json]:
    if "bare" in VARY:
        return {"session": {}} if version == 2 else {}
    if version == 2:
        content: Json = {"image": {}, "audio": {}, "embeddedContext": {}}
        session = {"prompt": content, "mcp": {"stdio": {}}, "delete": {}}
        return {"session": session | {"additionalDirectories": {}, "fork": {}}, "auth": {}}
    markers = ("list", "resume", "close", "delete", "additionalDirectories", "fork")
    return {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
        "sessionCapabilities": {marker: {} for marker in markers},
        "auth": {"logout": {}},
    }


def login_method(version: int) -> dict[str, Json]:
    if version == 2:
        return {"type": "agent", "methodId": "token", "name": "The token of this machine"}
    return {"id": "token", "name": "The token of this machine"}


def commands(version: int) -> list[dict[str, Json]]:
    command: dict[str, Json] = {"name": "greet", "description": "Greets whom you name"}
    if version == 2:
        return [command | {"type": "command", "input": {"type": "text", "hint": "a name"}}]
    return [command | {"input": {"hint": "a name"}}]


def _select(
    key: str, name: str, values: dict[str, str], now: str, category: str
) -> dict[str, Json]:
    options = [{"value": value, "name": label} for value, label in values.items()]
    shape = {"type": "select", "currentValue": now, "options": options}
    return {key: category, "name": name, "category": category, **shape}


def options(chosen: dict[str, Json], version: int, *, booleans: bool) -> list[dict[str, Json]]:
    """Return the complete list of config options, most important first."""
    key = "configId" if version == 2 else "id"
    found = [
        _select(key, "Model", MODELS, chosen["model"], "model"),
        _select(key, "Mode", MODES, chosen["mode"], "mode"),
    ]
    if version == 2 or booleans:
        found.append(
            {key: "verbose", "name": "Say more", "type": "boolean"}
            | {"currentValue": chosen["verbose"]}
        )
    return found


def modes(chosen: dict[str, Json]) -> dict[str, Json]:
    listed = [{"id": mode, "name": name} for mode, name in MODES.items()]
    return {"currentModeId": chosen["mode"], "availableModes": listed}
