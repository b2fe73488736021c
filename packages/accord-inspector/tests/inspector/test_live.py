"""What is left of a page that has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from accord.remote.access import NetworkTransport
from accord.transports.base import Frame, NullReceiver
from accord.transports.memory import pair
from accord_inspector.inspection import Hub, MessageWatcher
from accord_inspector.json_http import filter_of
from accord_inspector.judged import Judged
from accord_inspector.messages import Messages
from accord_trace.selection import Selection
from inspector.recordings import opening, save


class _Shown(NullReceiver):
    """Waits until a page is told about what it asked for."""

    def __init__(self) -> None:
        self.is_told = asyncio.Event()
        self.is_complete = asyncio.Event()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            counts = msgspec.json.decode(frame).get("messages")
            if counts is not None:
                self.is_told.set()
                if counts["complete"]:
                    self.is_complete.set()


@asynccontextmanager
async def _hub(messages: Messages) -> AsyncIterator[Hub]:
    hub = Hub(
        lambda: MessageWatcher(
            lambda _: messages, lambda given, _: filter_of(given), lambda _: Judged()
        )
    )
    try:
        yield hub
    finally:
        await hub.aclose()
        messages.close()


@asynccontextmanager
async def tab(hub: Hub, text: str) -> AsyncIterator[_Shown]:
    """Open a tab that searches for a text; close it, and wait until the hub knows."""
    page, end = pair()
    shown = _Shown()
    serving = asyncio.create_task(hub.serve(cast("NetworkTransport", end)))
    try:
        async with asyncio.timeout(30):
            await page.start(shown)
            page.write([msgspec.json.encode({"watch": {"text": text}, "number": 1})])
            await shown.is_told.wait()
            yield shown
    finally:
        await page.aclose()
        async with asyncio.timeout(30):
            await serving


async def test_search_goes_on_between_what_a_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord_inspector.inspection._WORK_S", 0)  # one step
    monkeypatch.setattr("accord_inspector.messages._TEXT_BYTES", 1)
    watch = MessageWatcher.watch

    def watched(self: MessageWatcher, request: dict[str, Any]) -> None:
        monkeypatch.setattr("accord_inspector.inspection.INTERVAL_S", 3600)
        watch(self, request)

    monkeypatch.setattr(MessageWatcher, "watch", watched)
    messages = Messages(save(tmp_path / "r.acp.jsonl", opening()))
    messages.read_written()
    assert len(messages) > 1
    async with _hub(messages) as hub, tab(hub, "a") as shown, asyncio.timeout(30):
        await shown.is_complete.wait()


async def test_search_rests_when_the_last_tab_with_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rested: list[str] = []
    monkeypatch.setattr(Selection, "rest", lambda self: rested.append(self.wanted.text))
    messages = Messages(save(tmp_path / "r.acp.jsonl", opening()))
    async with _hub(messages) as hub:
        async with tab(hub, "a"):
            async with tab(hub, "a"), tab(hub, "b"):
                assert rested == []
            assert rested == ["b"]
        assert rested == ["b", "a"]
        async with tab(hub, "a"):  # a later page
            pass
        assert rested == ["b", "a", "a"]
