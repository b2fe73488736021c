"""An agent at the level of the wire (v1): shows an edit, asks for it, and streams its answer."""

from __future__ import annotations

import os
import uuid

from accord import RequestError, v1


class Upper(v1.AgentRole):
    """Writes a file of the client in capitals, if it may."""

    def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id=str(uuid.uuid4()))

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        client, session = context.client, params.session_id
        text = " ".join(block.text for block in params.prompt if isinstance(block, v1.TextContent))
        path = next(filter(os.path.isabs, text.split()), None)

        async def show(update: v1.SessionUpdate) -> None:
            await client.session_update(v1.SessionNotification(session_id=session, update=update))

        async def say(*words: str) -> v1.PromptResponse:
            for word in words:
                await show(v1.AgentMessageChunk(content=v1.TextContent(text=word)))
            return v1.PromptResponse(stop_reason="end_turn")

        if path is None:
            return await say("Give me the absolute path of a file.")
        # Not every client has files for agents: this one could as well use its own.
        if not (client.supports("read_text_file") and client.supports("write_text_file")):
            return await say("I can only edit files that the client reads and writes for me.")
        try:
            file = await client.read_text_file(
                v1.ReadTextFileRequest(session_id=session, path=path)
            )
        except RequestError as error:
            return await say(f"I cannot read {path}: {error.message}")

        # The call has what the user decides about: the whole file, before and after.
        new = file.content.upper()
        edit = v1.ToolCall(
            tool_call_id=str(uuid.uuid4()),
            title=f"Edit {path}",
            kind="edit",
            content=[v1.Diff(path=path, old_text=file.content, new_text=new)],
            locations=[v1.ToolCallLocation(path=path)],
        )
        await show(edit)
        answer = await client.request_permission(
            v1.RequestPermissionRequest(
                session_id=session,
                tool_call=v1.ToolCallDetails(
                    tool_call_id=edit.tool_call_id,
                    title=edit.title,
                    kind=edit.kind,
                    content=edit.content,
                ),
                options=[
                    v1.PermissionOption(option_id="yes", name="Do it", kind="allow_once"),
                    v1.PermissionOption(option_id="no", name="Leave it", kind="reject_once"),
                ],
            )
        )
        match answer.outcome:
            case v1.SelectedPermissionOutcome(option_id="yes"):
                pass
            case v1.SelectedPermissionOutcome():
                await show(v1.ToolCallUpdate(tool_call_id=edit.tool_call_id, status="failed"))
                return await say("I left it.")
            case _:
                await show(v1.ToolCallUpdate(tool_call_id=edit.tool_call_id, status="failed"))
                return v1.PromptResponse(stop_reason="cancelled")

        await client.write_text_file(
            v1.WriteTextFileRequest(session_id=session, path=path, content=new)
        )
        await show(v1.ToolCallUpdate(tool_call_id=edit.tool_call_id, status="completed"))
        return await say("All ", "capitals ", "now.")


if __name__ == "__main__":
    v1.run(Upper())
