"""Hand-written conversations: a conforming one, and additions that violate one rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from accord_conformance.judges.observer import Observer
from accord_conformance.reports.report import Report
from accord_conformance.traffic.message import Side, other

__all__ = ("DOUBLES", "Double", "Talker", "breaks")

Json = dict[str, Any]

CLIENT_1: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "subagents": {},
    "plan": {},
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "nes": {"jump": {}},
    "positionEncodings": ["utf-8", "utf-16"],
}
AGENT_1: Json = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True, "acp": True},
    "sessionCapabilities": {
        "list": {},
        "delete": {},
        "additionalDirectories": {},
        "systemPrompt": {"mode": {"override": {}}},
        "fork": {},
        "archive": {},
        "status": {},
        "title": {},
        "resume": {},
        "close": {},
    },
    "auth": {"status": {}, "logout": {}},
    "providers": {},
    "nes": {
        "events": {"document": {"didOpen": {}, "didChange": {"syncKind": "full"}}},
        "context": {"openFiles": {}},
    },
    "positionEncoding": "utf-16",
}
METHODS_1 = [
    {"id": "key", "name": "Key"},
    {"id": "tty", "name": "Terminal", "type": "terminal", "args": ["login"], "env": {"A": "b"}},
]
CLIENT_2: Json = {"auth": {"terminal": {}}, "elicitation": {"form": {}, "url": {}}}
AGENT_2: Json = {
    "session": {
        "prompt": {"image": {}, "audio": {}, "embeddedContext": {}},
        "mcp": {"stdio": {}, "http": {}, "acp": {}},
        "delete": {},
        "additionalDirectories": {},
        "systemPrompt": {"mode": {"override": {}}},
        "fork": {},
        "archive": {},
        "status": {},
        "title": {},
    },
    "auth": {"status": {}},
    "providers": {},
}
METHODS_2 = [
    {"type": "agent", "methodId": "key", "name": "Key"},
    {"type": "terminal", "methodId": "tty", "name": "T", "env": [{"name": "A", "value": "b"}]},
]
INFO = {"name": "some", "version": "1.0"}
SELECT_1 = {
    "type": "select",
    "id": "model",
    "name": "Model",
    "currentValue": "large",
    "options": [{"value": "large", "name": "Large"}, {"value": "tiny", "name": "Tiny"}],
}
SELECT_2 = {key: value for key, value in SELECT_1.items() if key != "id"} | {"configId": "model"}
MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
TEXT = {"type": "text", "text": "hello"}


class Talker:
    """Writes the messages of both sides; `session` is the id of the session opened at the start."""

    session = "s1"

    def __init__(self, version: int) -> None:
        self.version = version
        self.observer = Observer()
        self.time = 0.0
        self._ids: dict[Side, int] = {"client": 0, "agent": 0}
        self._messages = 0

    # Single messages.

    def raw(self, sender: Side, text: bytes | str) -> None:
        self.observer.receive(sender, text.encode() if isinstance(text, str) else text, self.time)

    def send(self, sender: Side, **fields: Any) -> None:
        self.raw(sender, json.dumps({"jsonrpc": "2.0", **fields}))

    def ask(self, method: str, params: Any, by: Side = "client") -> int:
        self._ids[by] += 1
        self.send(by, id=self._ids[by], method=method, params=params)
        return self._ids[by]

    def answer(self, ident: int, result: Any, by: Side = "agent") -> None:
        self.send(by, id=ident, result=result)

    def fail(self, ident: int, code: int, by: Side = "agent", **more: Any) -> None:
        self.send(by, id=ident, error={"code": code, "message": "It is so", **more})

    def note(self, method: str, params: Any, by: Side = "client") -> None:
        self.send(by, method=method, params=params)

    # Sequences of messages.

    def call(self, method: str, params: Any, result: Any, by: Side = "client") -> None:
        self.answer(self.ask(method, params, by), result, other(by))

    def refused(
        self, method: str, params: Any, code: int, by: Side = "client", **more: Any
    ) -> None:
        self.fail(self.ask(method, params, by), code, other(by), **more)

    def here(self, **params: Any) -> Json:
        return {"sessionId": self.session, **params}

    def update(self, kind: str, /, **fields: Any) -> None:
        self.note("session/update", self.here(update={"sessionUpdate": kind, **fields}), "agent")

    def state(self, state: str, **fields: Any) -> None:
        self.update("state_update", state=state, **fields)

    def initialize(
        self,
        *,
        client: Json | None = None,
        agent: Json | None = None,
        asks: Json | None = None,
        says: Json | None = None,
    ) -> None:
        """Initialize with all capabilities, except for the given ones."""
        v1 = self.version == 1
        if v1:
            params = {"clientCapabilities": client or CLIENT_1, "clientInfo": INFO}
            result = {"agentCapabilities": agent or AGENT_1, "agentInfo": INFO}
        else:
            params = {"capabilities": client or CLIENT_2, "info": INFO}
            result = {"capabilities": agent or AGENT_2, "info": INFO}
        methods = METHODS_1 if v1 else METHODS_2
        params = {"protocolVersion": self.version, **params, **(asks or {})}
        result = {"protocolVersion": self.version, "authMethods": methods, **result, **(says or {})}
        self.call("initialize", _some(params), _some(result))

    def setup(self, **more: Any) -> Json:
        """Return the result of session/new."""
        if self.version == 1:
            return self.here(modes=MODES, configOptions=[SELECT_1], **more)
        return self.here(configOptions=[SELECT_2], **more)

    def new(self, params: Json | None = None, **more: Any) -> None:
        params = {"cwd": "/project", "mcpServers": [], **(params or {})}
        self.call("session/new", params, self.setup(**more))

    def prompt(self, *blocks: Json) -> int:
        """Start a turn, up to the running work."""
        ident = self.ask("session/prompt", self.here(prompt=list(blocks) or [TEXT]))
        if self.version == 2:
            self._messages += 1
            message = f"m{self._messages}"
            self.update("user_message", messageId=message, content=list(blocks) or [TEXT])
            self.state("running")
            self.answer(ident, {"messageId": message})
        return ident

    def stop(self, ident: int, reason: str = "end_turn") -> None:
        """End a turn."""
        if self.version == 1:
            self.answer(ident, {"stopReason": reason})
        else:
            self.state("idle", stopReason=reason)

    def tool(self, ident: str = "t1", **fields: Any) -> None:
        """Report a tool call."""
        kind = "tool_call" if self.version == 1 else "tool_call_update"
        self.update(kind, toolCallId=ident, title="Edit", **fields)

    def permission(self, ident: str = "t1", **fields: Any) -> int:
        """Request permission."""
        tool = {"toolCallId": ident, "title": "Edit"}
        about: Json = {"toolCall": tool}
        if self.version == 2:
            about = {"title": "May I?", "subject": {"type": "tool_call", "toolCall": tool}}
        params = self.here(**about, options=OPTIONS) | fields
        return self.ask("session/request_permission", params, "agent")

    def report(self) -> Report:
        return self.observer.finish()


def _some(fields: Json) -> Json:
    """Return the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


class Double:
    """Violates one rule in one version; `also` are rules that the other side violates first."""

    def __init__(
        self, rule: str, version: int, by: Side | None, also: set[str], act: Callable[[Talker], Any]
    ) -> None:
        self.rule, self.version, self.by, self.also, self.act = rule, version, by, also, act

    def __repr__(self) -> str:
        return f"{self.rule} v{self.version} {self.act.__name__}"

    def report(self) -> Report:
        talker = Talker(self.version)
        self.act(talker)
        return talker.report()


DOUBLES: list[Double] = []


def breaks(
    rule: str,
    *versions: int,
    by: Side | None = None,
    also: set[str] | None = None,
    bare: bool = False,
    name: str = "",
) -> Callable[[Callable[[Talker], Any]], Callable[[Talker], Any]]:
    """Register a double of a rule, after a conforming start unless it is `bare`.

    It has the name of the function, or `name` for a lambda.
    """

    def register(act: Callable[[Talker], Any]) -> Callable[[Talker], Any]:
        def whole(talker: Talker) -> None:
            if not bare:
                talker.initialize()
                talker.new()
            act(talker)

        whole.__name__ = name or act.__name__
        DOUBLES.extend(Double(rule, version, by, also or set(), whole) for version in versions)
        return act

    return register
