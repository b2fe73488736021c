"""Recorded conversations between Accord's client and the script agent."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import accord
from accord.client.elicitation import ElicitationForm, UrlElicitationRequest
from accord.client.permissions import allow
from accord_conformance.traffic.message import Side
from versions import only

AGENT = (sys.executable, "-W", "error", "-m", "accord", "agent", "script")
Recorded = list[tuple[float, Side, bytes]]

# One prompt for each feature of the script agent that ends normally.
PROMPTS = (
    "help",
    "echo hello",
    "stream 3",
    "think hm",
    "content",
    "updates",
    "full README.md",
    "tools",
    "plan",
    "permission 2",
    "elicit form",
    "elicit url",
    "fs write note.txt hello",
    "fs read note.txt",
    "terminal echo done",
    "usage",
    "title A title",
    "commands",
    "option model tiny",
    "stop max_tokens",
    "error -32000",
    "crash",
)


async def record(version: int, cwd: Path, prompts: Iterable[str] = PROMPTS) -> Recorded:
    """Return all frames of a conversation that uses every feature, and a cancelled turn."""
    frames: Recorded = []
    begun = time.monotonic()

    def show(direction: str, frame: bytes | bytearray) -> None:
        sender: Side = "client" if direction == "sent" else "agent"
        frames.append((time.monotonic() - begun, sender, bytes(frame)))

    (cwd / "README.md").write_text("A file.\nOf two lines.\n")
    async with (
        asyncio.timeout(50),
        accord.connect(
            AGENT,
            versions=only(version),
            permissions=allow("*"),
            files="rw",
            terminals=True,
            on_elicit_form=_form,
            on_elicit_url=_url,
            observers=[show],
        ) as agent,
    ):
        session = await agent.new_session(cwd)
        for prompt in prompts:
            await _tell(session, prompt)
        async with session.prompt("wait forever") as turn:
            async for event in turn:
                if isinstance(event, accord.ToolCall):
                    await turn.cancel()
        other = await agent.new_session(cwd)
        await _tell(other, "echo the second session")
        _ = [listing async for listing in agent.list_sessions(cwd)]
        await other.close()
        loaded = await agent.load_session(session.id, cwd)
        await _tell(loaded, "echo again")
    return frames


async def _tell(session: Any, prompt: str) -> None:
    try:
        async with session.prompt(prompt) as turn:
            async for _ in turn:
                pass
    except accord.RequestError:
        pass


async def _form(form: ElicitationForm) -> dict[str, Any]:
    texts = {field.name: "some" for field in form.fields if field.required and field.kind == "text"}
    given = {field.name: field.default for field in form.fields if field.default is not None}
    return texts | given


async def _url(page: UrlElicitationRequest) -> bool:
    return True
