"""A page whose server was started again at the same port continues where it was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import BrowserContext, Page, expect

from inspector.inspector_process import SCRIPT_AGENT, go, inspecting
from inspector.recordings import chunk, opening, save, turn

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

LOST = "The inspector has ended or does not respond"
AGAIN = "The inspector was started again"


def again(address: str) -> tuple[str, str]:
    """Return the option for the port of an address."""
    return "--port", str(urlsplit(address).port)


@pytest.mark.parametrize("way", ["pasted", "other tab", "token"])
async def test_page_finds_a_server_that_was_started_again(
    context: BrowserContext, tmp_path: Path, way: str
) -> None:
    path = save(tmp_path / "r.acp.jsonl", [*opening(), *turn(2, chunk("hello"))])
    page = await context.new_page()
    state = page.locator("header .state")
    async with inspecting(str(path)) as first:
        await page.goto(first.address)
        await go(page, "/timeline/6?text=hello")
        await expect(page.locator("message-view mark.match")).to_have_text("hello")
        await page.evaluate("window.isSame = true")
    await expect(state).to_have_text(LOST)
    save(path, [*opening(), *turn(2, chunk("hello")), *turn(3, chunk("hello again"))])
    async with inspecting(str(path), *again(first.address)) as second:
        await expect(state).to_have_text(AGAIN)
        form = page.get_by_role("form", name="Log in again")
        field = form.get_by_role("textbox")
        await field.fill(first.address)
        await field.press("Enter")
        await expect(form).to_contain_text("Not the token of this inspector")
        await field.fill("http://127.0.0.1:1/?token=x")
        await field.press("Enter")
        await expect(form).to_contain_text("open the other address in a new tab")
        if way == "other tab":
            other = await context.new_page()
            await other.goto(second.address)
        else:
            token = second.address.partition("token=")[2]
            await field.fill(token if way == "token" else f" {second.address} ")
            await field.press("Enter")
        await expect(form).to_be_hidden()
        await expect(state).to_have_text("")
        # The filter and the message are the same, the list has what is recorded now.
        await expect(page.locator(".list-status")).to_contain_text(re.compile("^4 of 10 messages"))
        await expect(page.locator("message-view mark.match")).to_have_text("hello")
        assert await page.evaluate("window.isSame")
        assert "token" not in page.url


async def test_prompt_that_was_not_sent_is_kept_when_the_view_is_left(
    page: Page, tmp_path: Path
) -> None:
    async with inspecting("--", *SCRIPT_AGENT, cwd=tmp_path) as inspector:
        await page.goto(inspector.address)
        await page.get_by_role("link", name="Conversation").click()
        await page.get_by_role("button", name="New session").click()
        prompt = page.locator("textarea.prompt")
        await expect(prompt).to_be_focused()
        await page.keyboard.type("not sent yet")
        await page.get_by_role("link", name="Process").click()
        await page.get_by_role("link", name="Conversation").click()
        await expect(prompt).to_have_value("not sent yet")
        await prompt.press("Enter")
        await expect(prompt).to_have_value("")
        await page.get_by_role("link", name="Process").click()
        await page.get_by_role("link", name="Conversation").click()
        await expect(prompt).to_have_value("")


async def test_another_recording_at_the_same_port_is_named(
    context: BrowserContext, tmp_path: Path
) -> None:
    one = save(tmp_path / "one.acp.jsonl", [*opening(), *turn(2, chunk("hello"))])
    two = save(tmp_path / "two.acp.jsonl", opening())
    page = await context.new_page()
    async with inspecting(str(one)) as first:
        await page.goto(first.address)
        await expect(page.locator(".list-status")).to_contain_text(re.compile("^7 messages"))
    async with inspecting(str(two), *again(first.address)) as second:
        await expect(page.locator("header .state")).to_have_text(AGAIN)
        await page.locator("#new-address").fill(second.address)
        await page.locator("#new-address").press("Enter")
        await expect(page.locator(".problem[role=alert]")).to_contain_text("with two.acp.jsonl")
        await expect(page.locator(".list-status")).to_contain_text(re.compile("^4 messages"))
        await expect(page.locator("header .title")).to_have_text("two.acp.jsonl")


async def test_lost_connection_to_the_same_server_changes_nothing(
    page: Page, tmp_path: Path
) -> None:
    path = save(tmp_path / "r.acp.jsonl", [*opening(), *turn(2, chunk("hello"))])
    async with inspecting(str(path)) as inspector:
        await page.goto(inspector.address)
        await expect(page.locator(".list-status")).to_contain_text(re.compile("^7 messages"))
        script = """async () => {
          const { live } = await import(
            document.querySelector('script[type=module]').src.replace('app', 'api'));
          window.view = document.querySelector('view-timeline');
          const found = new Promise((resolve) => live.on('connection', (on) => on && resolve()));
          live.socket.close();
          await found;
        }"""
        await page.evaluate(script)
        same: Any = await page.evaluate("window.view === document.querySelector('view-timeline')")
        assert same
