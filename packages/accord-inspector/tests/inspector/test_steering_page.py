"""What the user says while a turn runs, on the inspector's page in a real browser."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from inspector.inspector_process import SCRIPT_AGENT, inspecting
from inspector.test_conversation_page import open_session, prompt, wait_for_answer

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

CANNOT = """
import asyncio
from accord import Agent, Turn

class Worker(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"[{turn.text}]")
        if turn.text == "work":
            await asyncio.Event().wait()

Worker().run()
"""


async def say(page: Page, button: str, text: str) -> None:
    """Say something while a turn runs."""
    await expect(page.get_by_role("button", name=button, exact=True)).to_be_enabled()
    box = page.locator("textarea.prompt")
    await box.fill(text)
    await box.press("Enter")
    await expect(box).to_have_value("")


async def photograph(page: Page, name: str) -> None:
    """Keep pictures at two widths, if a folder for them is named."""
    folder = os.environ.get("ACCORD_PICTURES")
    if folder is None:
        return
    for width in (1200, 420):
        await page.set_viewport_size({"width": width, "height": 800})
        await page.screenshot(path=Path(folder) / f"{name}-{width}.png")


async def test_running_turn_is_steered_from_the_page(page: Page, tmp_path: Path) -> None:
    async with inspecting("--", *SCRIPT_AGENT, cwd=tmp_path) as inspector:
        await open_session(page, inspector)
        await prompt(page, "listen")
        await wait_for_answer(page, "I am listening.")
        await say(page, "Steer", "leave the slow ones")
        await wait_for_answer(page, "I heard: leave the slow ones")
        steer = page.locator(".entry.steer")
        await expect(steer).to_contain_text("The agent has it in the running turn")
        await expect(page.locator(".entry.user").last).to_contain_text("leave the slow ones")
        await expect(page.locator(".said")).to_contain_text("in the running turn")
        await photograph(page, "steered")
        await say(page, "Steer", "stop")
        await expect(page.locator(".entry.end")).to_contain_text("Turn ended")
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
        await steer.first.locator(".message-link").click()
        await expect(page).to_have_url(re.compile(r"/timeline/\d+"))


async def test_message_for_an_agent_that_cannot_be_steered_is_queued(
    page: Page, tmp_path: Path
) -> None:
    (tmp_path / "worker.py").write_text(CANNOT)
    agent = (sys.executable, "worker.py")
    async with inspecting("--", *agent, cwd=tmp_path) as inspector:
        await open_session(page, inspector)
        await prompt(page, "work")
        await wait_for_answer(page, "[work]")
        await say(page, "Queue", "later")
        await expect(page.locator(".said")).to_contain_text(
            "Queued by the agent, it follows the running turn: the agent runs it after the prompt"
        )
        await photograph(page, "queued")
        await page.get_by_role("button", name="Cancel the turn").click()
        await expect(page.locator(".entry.end").last).to_contain_text("cancelled")
        await expect(page.locator(".entry.failure")).to_contain_text(
            "Not run, because the turn ended first: later"
        )
        await photograph(page, "unsent")
