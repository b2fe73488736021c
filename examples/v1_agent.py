"""An agent at the level of the wire (v1): asks before it edits, and streams its answer."""

from __future__ import annotations

from accord import v1


class Upper(v1.AgentRole):
    """Writes a file of the client in capitals, if it may."""

    def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id="session-1")

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        client, session = context.client, params.session_id
        path = "".join(block.text for block in params.prompt if isinstance(block, v1.TextContent))

        async def show(update: v1.SessionUpdate) -> None:
            await client.session_update(v1.SessionNotification(session_id=session, update=update))

        await show(v1.ToolCall(tool_call_id="edit", title=f"Edit {path}", kind="edit"))
        answer = await client.request_permission(
            v1.RequestPermissionRequest(
                session_id=session,
                tool_call=v1.ToolCallDetails(tool_call_id="edit"),
                options=[
                    v1.PermissionOption(option_id="yes", name="Do it", kind="allow_once"),
                    v1.PermissionOption(option_id="no", name="Leave it", kind="reject_once"),
                ],
            )
        )
        match answer.outcome:
            case v1.SelectedPermissionOutcome(option_id="yes"):
                pass
            case _:
                await show(v1.ToolCallUpdate(tool_call_id="edit", status="failed"))
                return v1.PromptResponse(stop_reason="end_turn")

        # Not every client has files for agents: this one could as well use its own.
        if not (client.supports("read_text_file") and client.supports("write_text_file")):
            await show(v1.ToolCallUpdate(tool_call_id="edit", status="failed"))
            text = "I can only edit files that the client reads and writes for me."
            await show(v1.AgentMessageChunk(content=v1.TextContent(text=text)))
            return v1.PromptResponse(stop_reason="end_turn")

        file = await client.read_text_file(v1.ReadTextFileRequest(session_id=session, path=path))
        await client.write_text_file(
            v1.WriteTextFileRequest(session_id=session, path=path, content=file.content.upper())
        )
        await show(v1.ToolCallUpdate(tool_call_id="edit", status="completed"))
        for word in ("All ", "capitals ", "now."):
            await show(v1.AgentMessageChunk(content=v1.TextContent(text=word)))
        return v1.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    v1.run(Upper())
