"""Questions and the input of prompts never cover each other, whatever else takes room."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from inspector.inspector_process import Inspector, inspecting

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

WORDY_AGENT = Path(__file__).parent / "wordy_agent.py"
SIZES = ((1280, 720), (1280, 560), (1024, 768), (390, 844), (360, 740), (360, 640), (2560, 1440))
# Points of the box of the questions, on a screen, at which something else is on top.
COVERED = """() => {
  const box = document.querySelector(".questions");
  const { left, right, top, bottom } = box.getBoundingClientRect();
  const main = document.querySelector("main").getBoundingClientRect();
  const found = [];
  const [start, end] = [Math.max(top, main.top), Math.min(bottom, main.bottom)];
  for (const down of [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98]) {
    for (const along of [0.1, 0.3, 0.5, 0.7, 0.9]) {
      const [x, y] = [left + along * (right - left), start + down * (end - start)];
      const hit = document.elementFromPoint(x, y);
      if (!box.contains(hit)) found.push([x, y, hit?.className ?? ""]);
    }
  }
  return { found, height: end - start };
}"""
ON_TOP = """(element) => {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return element.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector() -> AsyncIterator[Inspector]:
    async with inspecting("--", sys.executable, str(WORDY_AGENT)) as running:
        yield running


async def asked(page: Page, inspector: Inspector, questions: str) -> None:
    """Let the agent ask in a session with a long title, below a notice."""
    await page.goto(inspector.address)
    await page.get_by_role("link", name="Conversation").click()
    await page.get_by_role("button", name="New session").click()
    prompt = page.locator("textarea.prompt")
    await expect(prompt).to_be_focused()
    await prompt.fill(questions)
    await prompt.press("Enter")
    await expect(page.locator(".question.permission")).to_have_count(int(questions))
    await expect(page.locator("agent-trouble .what").last).to_be_visible()
    await expect(page.locator(".session-head .title")).to_contain_text("Refactor")
    await expect(page.locator(".waiting")).to_be_visible()


@pytest.mark.parametrize("questions", ["1", "3"])
async def test_nothing_covers_a_question(page: Page, inspector: Inspector, questions: str) -> None:
    await asked(page, inspector, questions)
    option = page.locator(".question").first.locator("button.option").first
    prompt = page.locator("textarea.prompt")
    for width, height in SIZES:
        await page.set_viewport_size({"width": width, "height": height})
        await option.scroll_into_view_if_needed()
        await expect(option).to_be_in_viewport(ratio=0.9)
        assert await option.evaluate(ON_TOP), (width, height)
        covered: Any = await page.evaluate(COVERED)
        assert covered["found"] == [], (width, height)
        assert covered["height"] > 150, (width, height)
        # The prompt is not lost: it is scrolled into view.
        await prompt.evaluate("prompt => prompt.scrollIntoView({block: 'nearest'})")
        assert await prompt.evaluate(ON_TOP), (width, height)
        assert await page.evaluate("document.documentElement.scrollWidth") == width
    await page.set_viewport_size({"width": 1280, "height": 720})
    # What the user types into stays visible when a question takes its room.
    await expect(prompt).to_be_focused()
    await expect(prompt).to_be_in_viewport()
    assert await prompt.evaluate(ON_TOP)
    await page.keyboard.press("Alt+p")
    for _ in range(int(questions)):
        await page.keyboard.press("Alt+p")
        card = page.locator(".question").first
        number = await card.get_attribute("data-number")
        await expect(card.locator("button.option").first).to_be_enabled()
        await page.keyboard.press("1")
        await expect(page.locator(f".question[data-number='{number}']")).to_have_count(0)


async def test_conversation_with_a_long_diff_ends_with_its_last_entry(
    page: Page, inspector: Inspector
) -> None:
    await asked(page, inspector, "1")
    await page.keyboard.press("Alt+p")
    await expect(page.locator("button.option").first).to_be_enabled()
    await page.keyboard.press("1")
    await expect(page.locator(".entry.end").last).to_be_in_viewport()
