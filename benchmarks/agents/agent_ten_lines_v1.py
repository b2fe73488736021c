"""As little as an agent on `accord.v1` can be: what `agent_ten_lines.py` is held against."""

from accord import v1


class Hello(v1.AgentRole):
    def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id="s1")

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        return v1.PromptResponse(stop_reason="end_turn")


v1.run(Hello())
