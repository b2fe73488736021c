"""An agent without the library, for version 1, that makes no mistake: the others change one thing.

Each prompt lists a folder: a thought, a tool call with permission, and a message.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import Any

Message = dict[str, Any]


class Agent:
    """Reads requests from stdin, one after the other."""

    def __init__(self) -> None:
        self.session = "session-1"
        self._waiting: deque[Message] = deque()
        self._calls = 0

    def run(self) -> None:
        while (message := self._read()) is not None:
            if "method" in message and "id" in message:
                result = self.handle(message["method"], message.get("params", {}))
                if result is None:
                    error = {"code": -32601, "message": "Method not found"}
                    self.write({"id": message["id"], "error": error})
                else:
                    self.respond(message["id"], result)
                    self.after(message["method"])

    def handle(self, method: str, params: Message) -> Message | None:
        """Return the result of a request; None if the method is unknown."""
        match method:
            case "initialize":
                info = {"name": "example", "version": "1.0.0"}
                return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {}}
            case "session/new":
                modes = [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]
                shown = {"currentModeId": "ask", "availableModes": modes}
                return {"sessionId": self.session, "modes": shown}
            case "session/set_mode":
                return {}
            case "session/prompt":
                self.work()
                return {"stopReason": self.stop_reason()}
            case _:
                return None

    def respond(self, number: Any, result: Message) -> None:
        self.write({"id": number, "result": result})

    def after(self, method: str) -> None:
        """Called after the response to a request."""

    def stop_reason(self) -> str:
        return "end_turn"

    def work(self) -> None:
        """One turn."""
        thought = {"type": "text", "text": "I list the folder."}
        self.update({"sessionUpdate": "agent_thought_chunk", "content": thought})
        self.tool()
        self.say("The folder is empty.")

    def tool(self) -> None:
        self.update(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "call-1",
                "title": self.title(),
                "kind": "read",
                "status": "pending",
            }
        )
        self.ask()
        self.update(
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": self.finished_call(),
                "status": "completed",
            }
        )

    def title(self) -> Any:
        return "List the folder"

    def finished_call(self) -> str:
        return "call-1"

    def ask(self) -> None:
        self.call(
            "session/request_permission",
            {
                "sessionId": self.session,
                "toolCall": {"toolCallId": "call-1"},
                "options": self.options(),
            },
        )

    def options(self) -> list[Message]:
        return [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]

    def say(self, text: str) -> None:
        content = {"type": "text", "text": text}
        self.update({"sessionUpdate": "agent_message_chunk", "content": content})

    def update(self, update: Message) -> None:
        params = {"sessionId": self.session, "update": update}
        self.write({"method": "session/update", "params": params})

    def call(self, method: str, params: Message) -> Message:
        """Send a request to the client; return the response."""
        self._calls += 1
        self.write({"id": self._calls, "method": method, "params": params})
        kept: list[Message] = []
        while (message := self._read()) is not None:
            if "method" not in message:
                self._waiting.extendleft(reversed(kept))
                return message
            kept.append(message)
        sys.exit()

    def write(self, message: Message) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def _read(self) -> Message | None:
        if self._waiting:
            return self._waiting.popleft()
        line = sys.stdin.readline()
        return json.loads(line) if line else None


if __name__ == "__main__":
    Agent().run()
