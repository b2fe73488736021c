"""Every view is accessible: axe finds nothing serious, and narrow and wide pages work."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from inspector.inspector_process import SCRIPT_AGENT, Inspector, inspecting

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
# The views, and an element that is there once a view has its content.
VIEWS = {
    "/timeline/2?show=explained": "message-view .panel",
    "/timeline?view=sequence": ".sequence-row.response",
    "/conversation": "view-conversation h2, view-conversation h3",
    "/send?method=session/prompt": ".schema-form",
    "/send?raw=1": "#send-raw",
    "/faults": ".fault-list table",
    "/capabilities": "table.capabilities",
    "/process": "view-process svg",
    "/statistics": "view-statistics .facts",
}
# A turn with a tool call, so that every view has content.
TURN = """async () => {
  const send = (method, params) => fetch("/api/send", {
    method: "POST", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({direction: "to_agent", kind: "request", method, params}),
  }).then((response) => response.json());
  const response = async (n) => {
    for (;;) {
      const { row } = await fetch(`/api/messages/${n}`).then((found) => found.json());
      if (row?.pair) return fetch(`/api/messages/${row.pair}`).then((found) => found.json());
    }
  };
  const { value } = await response((await send("session/new", {cwd: "/", mcpServers: []})).n);
  const prompt = [{type: "text", text: "tool read"}];
  await response((await send("session/prompt", {sessionId: value.result.sessionId, prompt})).n);
  const fault = {kind: "delay", direction: "to_client", method: "none", delay_ms: 5};
  await fetch("/api/faults", {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(fault),
  });
}"""
# Elements that can be reached by Tab, of those that a mouse can use.
UNREACHABLE = """() => [
  ...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
  .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex < 0
    && one.getAttribute("role") !== "tab")
  .map((one) => one.outerHTML.slice(0, 80))"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector() -> AsyncIterator[Inspector]:
    async with inspecting("--", *SCRIPT_AGENT) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def talked(browser: Browser, inspector: Inspector) -> dict[str, Any]:
    """The cookies of a page that had a turn with the agent."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(inspector.address)
    await expect(page.locator("header .state")).to_have_text("Agent running")
    await page.evaluate(TURN)
    state = await context.storage_state()
    await context.close()
    return dict(state)


async def opened(browser: Browser, talked: dict[str, Any], **options: Any) -> Page:
    context = await browser.new_context(storage_state=talked, bypass_csp=True, **options)  # type: ignore[arg-type]
    return await context.new_page()


async def shown(page: Page, inspector: Inspector, view: str) -> None:
    """Open a view, and wait for its content."""
    await page.goto(inspector.origin + view)
    await expect(page.locator(VIEWS[view]).first).to_be_visible()


async def problems_of(page: Page, options: str) -> list[str]:
    """Return what axe finds that is serious."""
    found = await page.evaluate(f"axe.run(document, {{resultTypes: ['violations'], {options}}})")
    assert found["passes"]
    return [
        f"{one['id']}: {node['html'][:120]}: {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("view", VIEWS)
async def test_axe_finds_nothing_serious_in_dark_and_light(
    browser: Browser, inspector: Inspector, talked: dict[str, Any], view: str
) -> None:
    if not AXE.is_file():
        why = "axe-core is not installed: sh tests/inspector/install.sh"
        if os.environ.get("ACCORD_REQUIRE_BROWSER"):
            pytest.fail(why)
        pytest.skip(why)
    page = await opened(browser, talked, color_scheme="dark")
    await shown(page, inspector, view)
    await page.add_script_tag(path=AXE)
    assert await problems_of(page, "") == []
    assert await page.evaluate(UNREACHABLE) == []
    await page.emulate_media(color_scheme="light")
    assert await problems_of(page, "runOnly: ['color-contrast']") == []
    await page.context.close()


async def test_the_page_does_not_scroll_sideways_at_320_pixels_and_at_4k(
    browser: Browser, inspector: Inspector, talked: dict[str, Any]
) -> None:
    page = await opened(browser, talked)
    widths = "[document.documentElement.scrollWidth, document.querySelector('main').scrollWidth]"
    for view in VIEWS:
        await page.set_viewport_size({"width": 320, "height": 640})
        await shown(page, inspector, view)
        assert max(await page.evaluate(widths)) <= 320, view
        await page.set_viewport_size({"width": 3840, "height": 2160})
        assert max(await page.evaluate(widths)) <= 3840, view
    await page.context.close()


async def test_the_views_are_used_by_keyboard(
    browser: Browser, inspector: Inspector, talked: dict[str, Any]
) -> None:
    page = await opened(browser, talked)
    await shown(page, inspector, "/timeline?view=sequence")
    await page.keyboard.press("4")
    await expect(page.get_by_role("heading", name="Faults", exact=True)).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")
    for _ in range(20):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.type") == "submit":
            break
    await page.keyboard.press("Enter")
    await expect(page.locator("faults-bar")).to_contain_text("2 faults are on")
    await page.context.close()
