"""A client and an agent that write messages by hand, with proxies between them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from accord.proxy.stage import Stage
from proxy.ends import Ends, joined

SESSION = "s"


class Conversation:
    """Reads each message once, in order."""

    def __init__(self, ends: Ends, version: int) -> None:
        self.ends = ends
        self.version = version
        self._at_agent = 0
        self._at_client = 0
        self._ids = 0

    async def agent_gets(self) -> dict[str, Any]:
        """Return the next message at the agent."""
        self._at_agent += 1
        return json.loads((await self.ends.agent_has(self._at_agent))[self._at_agent - 1])

    async def client_gets(self) -> dict[str, Any]:
        """Return the next message at the client."""
        self._at_client += 1
        return json.loads((await self.ends.client_has(self._at_client))[self._at_client - 1])

    def ask_agent(self, method: str, params: Any) -> str:
        """Send a request of the client; return its id."""
        self._ids += 1
        self._write(self.ends.client, {"id": f"c{self._ids}", "method": method, "params": params})
        return f"c{self._ids}"

    def ask_client(self, method: str, params: Any) -> str:
        """Send a request of the agent; return its id."""
        self._ids += 1
        self._write(self.ends.agent, {"id": f"a{self._ids}", "method": method, "params": params})
        return f"a{self._ids}"

    def tell_agent(self, method: str, params: Any) -> None:
        """Send a notification of the client."""
        self._write(self.ends.client, {"method": method, "params": params})

    def tell_client(self, method: str, params: Any) -> None:
        """Send a notification of the agent."""
        self._write(self.ends.agent, {"method": method, "params": params})

    def update(self, update: Any, session: str = SESSION, **more: Any) -> None:
        """Send an update of the agent."""
        params = {"sessionId": session, "update": update, **more}
        self._write(self.ends.agent, {"method": "session/update", "params": params})

    def text(self, text: str, **more: Any) -> None:
        """Send text of the agent."""
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        if self.version == 2:
            more = {"messageId": "m", **more}
        self.update({**chunk, **more})

    def idle(self, **more: Any) -> None:
        """Send the state that ends a turn of version 2."""
        self.update({"sessionUpdate": "state_update", "state": "idle", **more})

    def agent_answers(self, asked: dict[str, Any], result: Any) -> None:
        """Respond to a request at the agent."""
        self._write(self.ends.agent, {"id": asked["id"], "result": result})

    def agent_fails(self, asked: dict[str, Any], error: Any) -> None:
        """Respond to a request at the agent with an error."""
        self._write(self.ends.agent, {"id": asked["id"], "error": error})

    def client_answers(self, asked: dict[str, Any], result: Any) -> None:
        """Respond to a request at the client."""
        self._write(self.ends.client, {"id": asked["id"], "result": result})

    @staticmethod
    def _write(end: Any, message: dict[str, Any]) -> None:
        end.write([json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()])

    async def initialize(self, **capabilities: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Shake hands; return the params at the agent, and the response at the client."""
        info = {"name": "x", "version": "1"}
        params: dict[str, Any] = {"protocolVersion": self.version}
        if self.version == 2:
            params |= {"info": info, "capabilities": capabilities}
        elif capabilities:
            params["clientCapabilities"] = capabilities
        self.ask_agent("initialize", params)
        asked = await self.agent_gets()
        result: dict[str, Any] = {"protocolVersion": self.version, "x": 1.0}
        if self.version == 2:
            result |= {"info": info, "capabilities": {"session": {"x": 2}}}
        else:
            result["agentCapabilities"] = {"loadSession": True, "x": 2}
        self.agent_answers(asked, result)
        return asked["params"], await self.client_gets()

    def prompt(self, text: str = "hello", **more: Any) -> str:
        """Send a prompt."""
        block = {"type": "text", "text": text, "x": 1.0}
        return self.ask_agent(
            "session/prompt", {"sessionId": SESSION, "prompt": [block], "y": 2, **more}
        )

    async def end_turn(self, asked: dict[str, Any], reason: str = "end_turn") -> None:
        """End the turn of a prompt at the agent."""
        if self.version == 1:
            self.agent_answers(asked, {"stopReason": reason, "z": 3})
        else:
            self.agent_answers(asked, {"messageId": "u", "z": 3})
            self.idle(stopReason=reason, z=3)

    async def turn_ended(self) -> str:
        """Return the stop reason that arrives at the client, after anything else."""
        while True:
            got = await self.client_gets()
            if self.version == 1 and "stopReason" in got.get("result", {}):
                return got["result"]["stopReason"]
            update = got.get("params", {}).get("update", {})
            if update.get("state") == "idle":
                return update["stopReason"]


@asynccontextmanager
async def conversation(
    *stages: Stage, version: int = 1, initialize: bool = True
) -> AsyncGenerator[Conversation]:
    """Connect a client and an agent by proxies."""
    async with joined(*stages) as ends:
        talk = Conversation(ends, version)
        if initialize:
            await talk.initialize()
        yield talk
