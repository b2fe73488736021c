"""The inspector's page in a browser: frame, addresses, restart, reload, tabs."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from inspector.inspector_process import SCRIPT_AGENT, inspecting

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_address_opens_the_page_without_the_token(page: Page) -> None:
    async with inspecting("--", *SCRIPT_AGENT) as inspector:
        await page.goto(inspector.address)
        await expect(page.get_by_role("status")).to_have_text("Agent running")
        assert page.url == f"{inspector.origin}/timeline"
        await expect(page.locator(".message-row.request").first).to_contain_text("initialize")
