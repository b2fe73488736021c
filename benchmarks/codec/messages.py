"""Ten thousand messages of a working day, always the same ones."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from workload import source_text

Made = tuple[str, str, dict[str, Any]]  # kind (note, request, result), method, message

SESSION = "sess_0f3a9c2be4d14f7a"
WORDS = ("a", "tool", "reads", "the", "old", "file", "and", "writes", "one", "that", "passes")
SOURCE = source_text(40_000)


class Author:
    """Makes messages from a fixed seed."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        self.last_id = 0

    def text(self, size: int) -> str:
        pick = self.random.choice
        words = " ".join(pick(WORDS) for _ in range(size // 4 + 1))[:size]
        return words + pick(["", "", "", "", "", "\n", " é→"])

    def code(self, *sizes: int) -> str:
        start = self.random.randrange(2000)
        return SOURCE[start : start + self.random.choice(sizes)]

    def path(self) -> str:
        numbers = self.random.randrange(20), self.random.randrange(200)
        return "/home/user/project/src/part_{}/file_{}.py".format(*numbers)

    def call_id(self) -> str:
        return f"call_{self.random.randrange(10**6):06d}"

    def request(self, method: str, /, **params: Any) -> Made:
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        return "request", method, message

    def asks(self, method: str, /, **params: Any) -> Made:
        return self.request(method, sessionId=SESSION, **params)

    def result(self, method: str, /, **result: Any) -> Made:
        self.last_id += 1
        return "result", method, {"jsonrpc": "2.0", "id": self.last_id, "result": result}

    def update(self, kind: str, /, **fields: Any) -> Made:
        params = {"sessionId": SESSION, "update": {"sessionUpdate": kind, **fields}}
        method = "session/update"
        return "note", method, {"jsonrpc": "2.0", "method": method, "params": params}

    def chunk(self, who: str = "agent_message") -> Made:
        size = self.random.choice([4, 8, 12, 20, 40, 60, 120])
        return self.update(f"{who}_chunk", content={"type": "text", "text": self.text(size)})

    def tool_call(self) -> Made:
        path = self.path()
        return self.update(
            "tool_call",
            toolCallId=self.call_id(),
            title=f"Reading {path}",
            kind=self.random.choice(["read", "edit", "execute", "search"]),
            status="pending",
            locations=[{"path": path, "line": self.random.randrange(500)}],
            rawInput={"path": path, "offset": 0, "limit": 2000},
        )

    def tool_status(self) -> Made:
        status = self.random.choice(["in_progress", "completed"])
        return self.update("tool_call_update", toolCallId=self.call_id(), status=status)

    def tool_text(self) -> Made:
        content = {"type": "text", "text": self.code(200, 1000, 4000)}
        return self.update(
            "tool_call_update",
            toolCallId=self.call_id(),
            status="completed",
            content=[{"type": "content", "content": content}],
            rawOutput={"exitCode": 0, "stdout": self.code(300)},
        )

    def tool_diff(self) -> Made:
        size = self.random.choice([500, 2000, 10_000])
        old, new = self.code(size), self.code(size)
        return self.update(
            "tool_call_update",
            toolCallId=self.call_id(),
            status="completed",
            content=[{"type": "diff", "path": self.path(), "oldText": old, "newText": new}],
        )

    def tool_terminal(self) -> Made:
        return self.update(
            "tool_call_update",
            toolCallId=self.call_id(),
            status="in_progress",
            content=[{"type": "terminal", "terminalId": "term_1"}],
        )

    def plan(self) -> Made:
        pick = self.random.choice
        entries = [
            {
                "content": self.text(50),
                "priority": pick(["high", "medium", "low"]),
                "status": pick(["pending", "in_progress", "completed"]),
            }
            for _ in range(self.random.randrange(3, 9))
        ]
        return self.update("plan", entries=entries)

    def commands(self) -> Made:
        commands = [
            {"name": f"cmd{i}", "description": self.text(60), "input": {"hint": "path"}}
            for i in range(12)
        ]
        return self.update("available_commands_update", availableCommands=commands)

    def usage(self) -> Made:
        cost = {"amount": 0.25, "currency": "USD"}
        used = self.random.randrange(200_000)
        return self.update("usage_update", size=200_000, used=used, cost=cost)

    def permission(self) -> Made:
        call = {
            "toolCallId": self.call_id(),
            "title": f"Edit {self.path()}",
            "kind": "edit",
            "status": "pending",
            "rawInput": {"path": self.path()},
        }
        options = [
            {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
            {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
            {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
        ]
        return self.asks("session/request_permission", toolCall=call, options=options)

    def create_terminal(self) -> Made:
        return self.asks(
            "terminal/create",
            command="pytest",
            args=["-q", "tests/unit"],
            env=[{"name": "CI", "value": "1"}],
            cwd="/home/user/project",
            outputByteLimit=1_048_576,
        )

    def terminal_output(self) -> Made:
        return self.result(
            "terminal/output",
            output=self.code(500, 2000),
            truncated=False,
            exitStatus={"exitCode": 0, "signal": None},
        )

    def prompt(self) -> Made:
        uri, python = f"file://{self.path()}", "text/x-python"
        file = {"uri": uri, "text": self.code(2000), "mimeType": python}
        link = {"uri": uri, "name": "file.py", "mimeType": python, "size": 1234}
        blocks = [
            {"type": "text", "text": self.text(200)},
            {"type": "resource_link", **link},
            {"type": "resource", "resource": file},
        ]
        return self.asks("session/prompt", prompt=blocks)

    def new_session(self) -> Made:
        env = [{"name": "A", "value": "B"}]
        server = {"name": "fs", "command": "/usr/bin/mcp-fs", "args": ["--stdio"], "env": env}
        return self.request("session/new", cwd="/home/user/project", mcpServers=[server])

    def initialize(self) -> Made:
        return self.request(
            "initialize",
            protocolVersion=1,
            clientCapabilities={
                "fs": {"readTextFile": True, "writeTextFile": True},
                "terminal": True,
            },
            clientInfo={"name": "ed", "title": "Editor", "version": "1.0.0"},
        )

    def initialized(self) -> Made:
        prompt = {"image": True, "audio": False, "embeddedContext": True}
        return self.result(
            "initialize",
            protocolVersion=1,
            agentCapabilities={"loadSession": True, "promptCapabilities": prompt},
            authMethods=[],
            agentInfo={"name": "ag", "version": "2.0.0"},
        )

    def cancel(self) -> Made:
        params = {"sessionId": SESSION}
        message = {"jsonrpc": "2.0", "method": "session/cancel", "params": params}
        return "note", "session/cancel", message

    def mix(self) -> list[tuple[int, Callable[[], Made]]]:
        """Return how many there are of each message."""
        selected = {"outcome": "selected", "optionId": "allow"}
        status = {"exitCode": 0, "signal": None}
        sizes = (1000, 4000, 16_000)
        return [
            (6200, self.chunk),
            (900, lambda: self.chunk("agent_thought")),
            (100, lambda: self.chunk("user_message")),
            (400, self.tool_call),
            (500, self.tool_status),
            (300, self.tool_text),
            (150, self.tool_diff),
            (50, self.tool_terminal),
            (120, self.plan),
            (20, self.commands),
            (20, lambda: self.update("current_mode_update", currentModeId="code")),
            (150, self.usage),
            (30, lambda: self.update("session_info_update", title=self.text(30))),
            (120, self.permission),
            (120, lambda: self.result("session/request_permission", outcome=selected)),
            (150, lambda: self.asks("fs/read_text_file", path=self.path(), line=1, limit=2000)),
            (150, lambda: self.result("fs/read_text_file", content=self.code(*sizes))),
            (
                80,
                lambda: self.asks(
                    "fs/write_text_file", path=self.path(), content=self.code(*sizes)
                ),
            ),
            (80, lambda: self.result("fs/write_text_file")),
            (50, self.create_terminal),
            (50, lambda: self.result("terminal/create", terminalId="term_1")),
            (50, lambda: self.asks("terminal/output", terminalId="term_1")),
            (50, self.terminal_output),
            (30, lambda: self.asks("terminal/wait_for_exit", terminalId="term_1")),
            (30, lambda: self.result("terminal/wait_for_exit", **status)),
            (20, lambda: self.asks("terminal/release", terminalId="term_1")),
            (30, self.prompt),
            (30, lambda: self.result("session/prompt", stopReason="end_turn")),
            (5, self.new_session),
            (5, lambda: self.result("session/new", sessionId=SESSION)),
            (2, self.initialize),
            (2, self.initialized),
            (6, self.cancel),
        ]


def messages() -> bytes:
    """Return lines of kind, method and JSON text, with tabs between, in a mixed order."""
    author = Author()
    made = [make() for count, make in author.mix() for _ in range(count)]
    assert len(made) == 10_000
    author.random.shuffle(made)
    lines = []
    for kind, method, message in made:
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        lines.append(f"{kind}\t{method}\t{text}\n")
    return "".join(lines).encode()
