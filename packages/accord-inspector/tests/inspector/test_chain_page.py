"""The page of a recording that `accord chain --trace` has made of two proxies."""

from __future__ import annotations

import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

import accord
from inspector.inspector_process import SCRIPT_AGENT, go, inspecting
from project import ROOT

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

PROGRAMS = ROOT / "packages/accord/tests/proxy/programs"
NAMES = ["Client", "Proxy(0)", "Proxy(1)", "Agent"]


async def record_chain(path: Path) -> None:
    """Run a turn through two proxies."""
    proxy = str(PROGRAMS / "pass_proxy.py")
    chain = (sys.executable, "-m", "accord", "chain", "--trace", str(path))
    command = [*chain, proxy, proxy, shlex.join(SCRIPT_AGENT)]
    async with accord.connect(command) as agent:
        session = await agent.new_session("/")
        async with session.prompt("hello proxies") as turn:
            async for _ in turn:
                pass


async def middle(element: Locator) -> float:
    box = await element.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2


async def ends(page: Page, text: str) -> list[tuple[str, str]]:
    """Return the columns between which the arrows of a method are, from sender to receiver."""
    heads = page.locator(".sequence-heads .component")
    middles = [await middle(head) for head in await heads.all()]
    found: list[tuple[str, str]] = []
    for arrow in await page.locator(f".sequence-row:visible .arrow:has-text('{text}')").all():
        box = await arrow.bounding_box()
        assert box is not None
        left, right = (
            NAMES[min(range(len(NAMES)), key=lambda at: abs(middles[at] - x))]
            for x in (box["x"], box["x"] + box["width"])
        )
        classes = await arrow.get_attribute("class") or ""
        found.append((left, right) if "right" in classes else (right, left))
    return found


async def test_chain_has_a_column_for_each_proxy(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "chain.acp.jsonl"
    await record_chain(path)
    await page.set_viewport_size({"width": 1280, "height": 1600})
    async with inspecting(str(path)) as inspector:
        await page.goto(inspector.address)
        await go(page, "/timeline?view=sequence&method=session/prompt")
        heads = page.locator(".sequence-heads .component")
        await expect(heads).to_have_text(NAMES)
        await expect(page.locator(".sequence-row:visible")).to_have_count(6)
        there = list(pairwise(NAMES))
        back = [(to, sender) for sender, to in reversed(there)]
        assert await ends(page, "session/prompt") == there + back
        # An arrow opens its message, which says between whom it was sent.
        await page.locator(".sequence-row:visible .arrow").nth(1).click()
        await expect(page.locator("message-view")).to_contain_text("Proxy(0) → Proxy(1)")
        await page.get_by_role("link", name="Its response").click()
        await expect(page.locator("message-view")).to_contain_text("Proxy(0) ← Proxy(1)")
        # What passes three hops is one conversation, and no hop breaks a rule.
        await go(page, "/conversation")
        await expect(page.locator(".entry.user")).to_have_count(1)
        await expect(page.locator(".entry.user")).to_contain_text("hello proxies")
        await expect(page.locator(".entry.agent")).to_have_count(1)
        await go(page, "/timeline")
        await expect(page.locator(".list-status")).to_have_text(
            re.compile(r"^\d+ messages · no broken rules$")
        )
        await expect(page.locator("header .broken")).to_be_hidden()
