"""The texts and values of the scenario agent, in the shape of each version."""

from __future__ import annotations

from typing import Any, TypeAlias

from accord.version import __version__

Json: TypeAlias = dict[str, Any]

COMMAND = "accord-check"
# A key of a future version, in capabilities and elsewhere.
ABSENT_METHOD = "_accord/probe"
_UNKNOWN_KEYS: Json = {"accordUnheardOf": {"of": ["a", "later", "version"]}}
_INFO = {"name": "accord-check", "title": "Accord's conformance kit", "version": __version__}
ELSEWHERE = "/accord-check/elsewhere"  # does not exist
LOGIN, BROKEN_LOGIN = "check", "check-broken"
_LOGINS_1: list[Json] = [
    {"id": LOGIN, "name": "Log in to the check"},
    {"id": BROKEN_LOGIN, "name": "Malformed", "type": "terminal", "args": "none"},
]
_LOGINS_2: list[Json] = [
    {"type": "agent", "methodId": LOGIN, "name": "Log in to the check"},
    {"type": "_accord_later", "methodId": "later", "name": "In a way of a future version"},
]


def initialize_result(version: int, *, login: bool = False) -> Json:
    """Return the result of `initialize`, with unknown capabilities."""
    methods = (_LOGINS_1 if version == 1 else _LOGINS_2) if login else []
    if version == 1:
        sessions: Json = {"list": {}, "resume": {}, "close": {}, "delete": {}, "status": {}}
        offers: Json = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True, **_UNKNOWN_KEYS},
            "mcpCapabilities": {"http": False, "sse": False, "acp": True},
            "sessionCapabilities": {**sessions, "systemPrompt": {}, **_UNKNOWN_KEYS},
            "auth": {"status": {}},
            "providers": {},
            **_UNKNOWN_KEYS,
        }
        return {
            "protocolVersion": version,
            "agentCapabilities": offers,
            "agentInfo": _INFO,
            "authMethods": methods,
            **_UNKNOWN_KEYS,
        }
    sessions = {
        "prompt": {"image": {}, "embeddedContext": {}, **_UNKNOWN_KEYS},
        "mcp": {"stdio": {}, "acp": {}},
        "delete": {},
        "status": {},
        "systemPrompt": {},
        **_UNKNOWN_KEYS,
    }
    others: Json = {"auth": {"status": {}}, "providers": {}}
    return {
        "protocolVersion": version,
        "capabilities": {"session": sessions, **others, **_UNKNOWN_KEYS},
        "info": _INFO,
        "authMethods": methods,
        **_UNKNOWN_KEYS,
    }


def config_options(version: int, mode: str, *more: Json) -> list[Json]:
    """Return the config options of a session, followed by `more`."""
    ident = "id" if version == 1 else "configId"
    modes = [{"value": "kind", "name": "Kind"}, {"value": "strict", "name": "Strict"}]
    choice = {
        ident: "mode",
        "type": "select",
        "name": "Mode",
        "category": "mode",
        "currentValue": mode,
        "options": modes,
    }
    return [choice, *more]


def session_setup(version: int, mode: str) -> Json:
    """Return the members that every session result has; v1 has the modes twice."""
    said: Json = {"configOptions": config_options(version, mode)}
    if version == 1:
        available = [{"id": "kind", "name": "Kind"}, {"id": "strict", "name": "Strict"}]
        said["modes"] = {"currentModeId": mode, "availableModes": available}
    return said


def commands(version: int) -> list[Json]:
    """Return the only slash command."""
    field: Json = {"hint": "all, list, or a scenario"}
    if version == 2:
        field["type"] = "text"
    about = "Run scenarios that test this client"
    return [{"name": COMMAND, "description": about, "input": field}]


def text_block(words: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": words}


# The end of every history of version 2; the final message is C and D.
REPLAYED_ID = "replayed"
REPLAYED_UPDATES: list[Json] = [
    {
        "sessionUpdate": kind,
        "messageId": REPLAYED_ID,
        "content": text_block(word) if chunk else [text_block(word)],
    }
    for word, kind, chunk in (
        ("A", "agent_message", False),
        ("B", "agent_message_chunk", True),
        ("C", "agent_message", False),
        ("D", "agent_message_chunk", True),
    )
]
