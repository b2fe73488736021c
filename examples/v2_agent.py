"""An agent at the level of the wire (v2): takes a prompt, then works and says when it is done."""

from __future__ import annotations

import asyncio

from accord import v2


class Counter(v2.Agent):
    """Counts the words of a prompt."""

    def new_session(
        self, params: v2.NewSessionRequest, context: v2.AgentContext
    ) -> v2.NewSessionResponse:
        return v2.NewSessionResponse(session_id="session-1")

    async def prompt(self, params: v2.PromptRequest, context: v2.AgentContext) -> v2.PromptResponse:
        context.start(self.work(params, context))
        return v2.PromptResponse(message_id="message-1")

    async def work(self, params: v2.PromptRequest, context: v2.AgentContext) -> None:
        async def show(update: v2.SessionUpdate) -> None:
            await context.client.session_update(
                v2.UpdateSessionNotification(session_id=params.session_id, update=update)
            )
            await asyncio.sleep(0)

        texts = [block.text for block in params.prompt if isinstance(block, v2.TextContent)]
        words = " ".join(texts).split()
        await show(v2.UserMessage(message_id="message-1", content=params.prompt))
        await show(v2.RunningStateUpdate())
        await show(v2.ToolCallUpdate(tool_call_id="count", title="Count", status="completed"))
        await show(
            v2.AgentMessageChunk(
                message_id="message-2", content=v2.TextContent(text=f"{len(words)} words")
            )
        )
        await show(v2.IdleStateUpdate(stop_reason="end_turn"))


if __name__ == "__main__":
    v2.run(Counter())
