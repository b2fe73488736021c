"""The timeline with very many messages: counts, filters, memory, frame times.

With 300 000 messages the list is higher than a browser allows, so its scroll bar is scaled.
`ACCORD_TURNS=2000` makes it a million.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.async_api import Page, expect

from inspector.inspector_process import go, inspecting
from inspector.recordings import save_many

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow,
    pytest.mark.timeout(240),  # other tests run at the same time
]

log = logging.getLogger(__name__)

TURNS = int(os.environ.get("ACCORD_TURNS", "600"))  # of 500 messages
TOTAL = TURNS * 500
PAGE_MB = 300
FRAME_MS = 250  # half of the frames, on a busy machine

# Drags the scroll bar through the list; returns the times of the frames.
SCROLL = """async () => {
  const list = document.querySelector(".viewport");
  const room = list.scrollHeight - list.clientHeight;
  const times = [];
  for (let step = 0; step <= 100; step++) {
    const before = performance.now();
    list.scrollTop = (room * step) / 100;
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - before);
  }
  return times;
}"""


async def test_very_many_messages(page: Page, tmp_path: Path) -> None:
    shown = f"{TOTAL:,}".replace(",", " ")
    path = save_many(tmp_path / "many.acp.jsonl", TURNS)
    async with inspecting(str(path)) as inspector:
        await page.goto(inspector.address)
        status = page.locator(".list-status")
        await expect(status).to_contain_text(re.compile(f"^{shown} messages · "), timeout=60_000)
        times: Any = await page.evaluate(SCROLL)
        ordered = sorted(times)
        log.info("frames: median %.0f ms, slowest %.0f ms", ordered[len(ordered) // 2], ordered[-1])
        assert ordered[len(ordered) // 2] < FRAME_MS
        last = page.locator(".message-row", has_text=str(TOTAL - 1))
        await expect(last).to_be_in_viewport()
        await page.locator(".viewport").focus()
        await page.keyboard.press("Home")
        await page.mouse.move(300, 400)
        await page.mouse.wheel(0, 280)  # ten rows, also where the scroll bar is scaled
        await expect(page.locator(".message-row:has-text('10')").first).to_be_in_viewport()

        await page.keyboard.press("/")
        await page.get_by_label("Text in messages").fill(f"prompt {TURNS - 1}")
        await expect(status).to_contain_text(
            re.compile(f"^1 of {shown} messages · "), timeout=60_000
        )
        await expect(page.locator(".message-row:visible .n").last).to_have_text(str(TOTAL - 499))
        await go(page, "/timeline/123457?errors=1")
        await expect(status).to_contain_text(
            re.compile(f"^{TURNS // 20} of {shown} messages · "), timeout=60_000
        )
        await expect(page.locator("message-view")).to_contain_text("#123457")
        used = await _renderer_mb(page)
        log.info("renderer: %.0f MB", used)
        assert used < PAGE_MB


async def _renderer_mb(page: Page) -> float:
    """Return the memory of the largest renderer of the browser."""
    browser = page.context.browser
    assert browser is not None
    session = await browser.new_browser_cdp_session()
    found: Any = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    pids = [one["id"] for one in found["processInfo"] if one["type"] == "renderer"]
    return max(psutil.Process(pid).memory_info().rss for pid in pids) / 1e6
