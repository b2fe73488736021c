"""The page of a tap, while an editor uses the agent through it."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

import accord
from inspector.inspector_process import SCRIPT_AGENT, START_S

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def test_conversation_of_the_editor_fills_while_it_talks(page: Page, tmp_path: Path) -> None:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def said(line: str) -> None:
        if (found := re.search(r"http://\S+", line)) and not address.done():
            address.set_result(found[0])

    command = (sys.executable, "-m", "accord", "inspect", "--tap", "--no-open", "--port", "0")
    async with accord.connect([*command, "--", *SCRIPT_AGENT], on_stderr=said) as agent:
        session = await agent.new_session(cwd=str(tmp_path))
        await page.goto(await asyncio.wait_for(address, START_S))
        await page.get_by_role("link", name="Conversation").click()
        answers = page.locator(".entry.agent .parts")
        for word in ("Hello", "Again"):
            async with session.prompt(f"echo {word}") as turn:
                await turn.wait()
            assert turn.text.strip() == word
            await expect(answers.last).to_contain_text(word)
            await expect(page.locator(".entry.user").last).to_contain_text(word)
        await expect(answers).to_have_count(2)
