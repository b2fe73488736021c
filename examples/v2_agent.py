"""An agent at the level of the wire (v2): takes a prompt, then works and says when it is done."""

from __future__ import annotations

import asyncio

from accord import v2


class Counter(v2.AgentRole):
    """Counts the words of a prompt."""

    info = v2.Implementation(name="counter", version="1.0")

    def __init__(self) -> None:
        self.sessions: dict[v2.SessionId, str] = {}
        self.turns: dict[v2.SessionId, asyncio.Task[None]] = {}
        self.prompts = 0

    def new_session(
        self, params: v2.NewSessionRequest, context: v2.AgentContext
    ) -> v2.NewSessionResponse:
        session_id = f"session-{len(self.sessions) + 1}"
        self.sessions[session_id] = params.cwd
        return v2.NewSessionResponse(session_id=session_id)

    async def resume_session(
        self, params: v2.ResumeSessionRequest, context: v2.AgentContext
    ) -> v2.ResumeSessionResponse:
        await show(params.session_id, context, v2.IdleStateUpdate())
        return v2.ResumeSessionResponse()

    def list_sessions(
        self, params: v2.ListSessionsRequest, context: v2.AgentContext
    ) -> v2.ListSessionsResponse:
        sessions = [v2.SessionInfo(session_id=id_, cwd=cwd) for id_, cwd in self.sessions.items()]
        return v2.ListSessionsResponse(sessions=sessions)

    def close_session(
        self, params: v2.CloseSessionRequest, context: v2.AgentContext
    ) -> v2.CloseSessionResponse:
        self.stop(params.session_id)
        return v2.CloseSessionResponse()

    def prompt(self, params: v2.PromptRequest, context: v2.AgentContext) -> v2.PromptResponse:
        self.stop(params.session_id)
        self.prompts += 1
        message_id = f"message-{self.prompts}"
        # The response only accepts the message; the work continues after it.
        self.turns[params.session_id] = asyncio.create_task(self.work(params, message_id, context))
        return v2.PromptResponse(message_id=message_id)

    def cancel(self, params: v2.CancelSessionNotification, context: v2.AgentContext) -> None:
        self.stop(params.session_id)

    def stop(self, session_id: v2.SessionId) -> None:
        if turn := self.turns.pop(session_id, None):
            turn.cancel()

    async def work(
        self, params: v2.PromptRequest, message_id: v2.MessageId, context: v2.AgentContext
    ) -> None:
        session_id = params.session_id
        echo = v2.UserMessage(message_id=message_id, content=params.prompt)
        await show(session_id, context, echo)
        await show(session_id, context, v2.RunningStateUpdate())
        try:
            texts = [block.text for block in params.prompt if isinstance(block, v2.TextContent)]
            count = v2.ToolCallUpdate(tool_call_id="count", title="Count", status="completed")
            await show(session_id, context, count)
            text = v2.TextContent(text=f"{len(' '.join(texts).split())} words")
            answer = v2.AgentMessageChunk(message_id=f"{message_id}-answer", content=text)
            await show(session_id, context, answer)
        except asyncio.CancelledError:
            await show(session_id, context, v2.IdleStateUpdate(stop_reason="cancelled"))
            raise
        await show(session_id, context, v2.IdleStateUpdate(stop_reason="end_turn"))


async def show(
    session_id: v2.SessionId, context: v2.AgentContext, update: v2.SessionUpdate
) -> None:
    await context.client.session_update(
        v2.UpdateSessionNotification(session_id=session_id, update=update)
    )


if __name__ == "__main__":
    v2.run(Counter())
