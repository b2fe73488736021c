"""The cost of a step does not grow with earlier steps. Calls are counted; nothing is timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from accord import Agent, ImageContent, Turn
from accord.agent import v1 as agent_v1
from accord.agent.v1 import ToolContentBuffer, ToolContentBuffers
from agent.harness import V1, connect_client


def _calls(act: Callable[[], object]) -> int:
    """Return how many functions a call calls."""
    count = 0

    def profile(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def _nothing(_session_id: str, _tool_id: str) -> None:
    pass


@pytest.mark.parametrize("others", [1, 2000])
async def test_v1_unsent_content_is_looked_up_in_one_session_only(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_v1, "MIN_INTERVAL_S", 1000.0)  # nothing is sent yet
    tools = ToolContentBuffers(_nothing)
    for index in range(others):
        session_id = f"other-{index}"
        tools.take_content(session_id, "tool-1")
        assert not tools.add(session_id, "tool-1", "text", continues=True)
    tools.take_content("mine", "tool-1")
    tools.add("mine", "tool-1", "text", continues=True)
    assert _calls(lambda: tools.unsent("mine")) < 8
    assert tools.unsent("mine") == ("tool-1",)
    for index in range(others):
        tools.drop_session(f"other-{index}")
    tools.drop_session("mine")


@pytest.mark.parametrize("kind", ["text", "image"])
async def test_v1_content_is_not_resent_with_every_item(kind: str) -> None:
    item = "x" * 100 if kind == "text" else ImageContent(b"x" * 100, "image/png")

    class Shows(Agent):
        async def prompt(self, turn: Turn) -> None:
            async with turn.tool("Run") as call:
                for _ in range(1000):
                    await call.add_content(item)

    async with connect_client(Shows(), V1) as client:
        await client.prompt("go")
        assert len(client.tool()["content"]) == 1000
        # All content is resent each time, so at most a few times a second.
        assert len(client.of("ToolCallUpdate")) < 50


async def test_v1_larger_tool_calls_are_sent_less_often() -> None:
    waits: list[float] = []
    for size in (10_000_000, 20_000_000):
        tool = ToolContentBuffer()
        tool.mark_sent()
        tool.add("x" * size, continues=True)
        assert tool.postpone(lambda: None)
        assert tool._timer is not None
        waits.append(tool._timer.when())
        tool.cancel_timer()
    assert waits[1] - waits[0] > 5
