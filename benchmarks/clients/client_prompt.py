"""A client on `accord.connect` that looks at the events of its turns."""

from __future__ import annotations

import contextlib

from harness import Bench, main

from accord import Text, connect


class PromptBench(Bench):
    """One agent and its session."""

    async def start(self, argv: list[str]) -> None:
        self.stack = contextlib.AsyncExitStack()
        self.agent = await self.stack.enter_async_context(connect(argv))

    async def new_session(self) -> str:
        self.session = await self.agent.new_session("/")
        return self.session.id

    async def prompt(self, session_id: str, *texts: str) -> str:
        async with self.session.prompt(*texts) as turn:
            async for event in turn:
                if isinstance(event, Text):
                    self.on_text(session_id, event.text)
        assert turn.stop_reason is not None
        return turn.stop_reason

    async def stop(self) -> None:
        await self.stack.aclose()


main(PromptBench)
