"""v1 agent on the official Python SDK whose sessions can be loaded."""

from typing import Any

import acp
from acp.schema import AgentCapabilities, AgentMessageChunk, TextContentBlock

COUNT = 20


class Stored(acp.Agent):
    client: acp.Client

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=True),
        )

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id="stored-1")

    async def load_session(self, session_id: str, **_: Any) -> acp.LoadSessionResponse:
        await self.say(session_id, "first")
        return acp.LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        await self.say(session_id, prompt[0].text)
        return acp.PromptResponse(stop_reason="end_turn")

    async def say(self, session_id: str, text: str) -> None:
        for number in range(COUNT):
            block = TextContentBlock(type="text", text=f"{text} {number}, ")
            chunk = AgentMessageChunk(session_update="agent_message_chunk", content=block)
            await self.client.session_update(session_id, chunk)
