"""Two tabs that filter one recording at the same time."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from inspector.inspector_process import go, inspecting
from inspector.recordings import save_many

pytestmark = pytest.mark.asyncio(loop_scope="session")

TURNS = 60  # of 500 messages
FILTERS = {  # how many messages each selects
    "text=prompt+59": 1,
    "path=$.params.prompt": TURNS,
    "errors=1": TURNS // 20,
    "text=word+77+of&session=session-1": TURNS // 5,
}


async def filtered(page: Page, query: str) -> None:
    """Filter, and wait until every message was looked at."""
    await go(page, f"/timeline?{query}")
    status = page.locator(".list-status")
    await expect(status).to_contain_text(re.compile(f"^{FILTERS[query]} of 30 000 messages"))


async def test_each_tab_shows_what_its_own_filter_selects(page: Page, tmp_path: Path) -> None:
    path = save_many(tmp_path / "many.acp.jsonl", TURNS)
    async with inspecting(str(path)) as inspector:
        await page.goto(inspector.address)
        other = await page.context.new_page()
        await other.goto(f"{inspector.origin}/timeline")
        for mine, its in zip(FILTERS, reversed(FILTERS), strict=True):
            await asyncio.gather(filtered(page, mine), filtered(other, its))
        await asyncio.gather(filtered(page, mine), filtered(other, mine))
        await go(other, "/timeline?text=word")
        await other.close()  # while it is searched for
        await filtered(page, "errors=1")
        await page.reload()
        await filtered(page, "errors=1")
