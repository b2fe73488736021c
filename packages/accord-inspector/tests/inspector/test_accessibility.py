"""Every view is accessible: axe finds nothing serious, and narrow and wide pages work."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from inspector.inspector_process import SCRIPT_AGENT, Inspector, go, inspecting

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
# The views, and an element that is there once a view has its content.
VIEWS = {
    "/timeline/2?show=explained": "message-view .panel",
    "/timeline?view=sequence": ".sequence-row.response",
    "/timeline/2?text=version&sort=-bytes": "message-view mark.match",
    "/waterfall": ".fall-bar",
    "/compare": "form.compare",
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
async def tab(browser: Browser, inspector: Inspector) -> AsyncIterator[Page]:
    """A tab in which axe can run, after a turn with the agent."""
    page = await browser.new_page(bypass_csp=True)
    await page.goto(inspector.address)
    await expect(page.locator("header .state")).to_have_text("Agent running")
    await page.evaluate(TURN)
    if AXE.is_file():
        await page.add_script_tag(path=AXE)
    yield page
    await page.close()


async def shown(page: Page, view: str) -> None:
    """Open a view, and wait for its content."""
    await go(page, view)
    await expect(page.locator(VIEWS[view]).first).to_be_visible()


def require_axe() -> None:
    """Skip the test without axe, unless ACCORD_REQUIRE_BROWSER."""
    if not AXE.is_file():
        why = "axe-core is not installed: sh packages/accord-inspector/tests/inspector/install.sh"
        if os.environ.get("ACCORD_REQUIRE_BROWSER"):
            pytest.fail(why)
        pytest.skip(why)


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
async def test_axe_finds_nothing_serious_in_dark_and_light(tab: Page, view: str) -> None:
    require_axe()
    await tab.emulate_media(color_scheme="dark")
    await shown(tab, view)
    assert await problems_of(tab, "") == []
    assert await tab.evaluate(UNREACHABLE) == []
    await tab.emulate_media(color_scheme="light")
    assert await problems_of(tab, "runOnly: ['color-contrast']") == []


async def test_axe_finds_nothing_serious_about_a_program_that_is_not_an_agent(
    browser: Browser,
) -> None:
    require_axe()
    script = "import sys; print('usage: …'); sys.stderr.write('fatal: no key\\n'); sys.exit(3)"
    async with inspecting("--", sys.executable, "-c", script) as inspector:
        page = await browser.new_page(bypass_csp=True, color_scheme="dark")
        await page.goto(inspector.address)
        await page.add_script_tag(path=AXE)
        await go(page, "/conversation")
        await expect(page.locator("agent-trouble pre")).to_contain_text("no key")
        await expect(page.locator("header .broken")).to_be_visible()
        assert await problems_of(page, "") == []
        await page.emulate_media(color_scheme="light")
        assert await problems_of(page, "runOnly: ['color-contrast']") == []
        await page.set_viewport_size({"width": 320, "height": 640})
        assert await page.evaluate("document.documentElement.scrollWidth") <= 320
        await page.close()


async def test_the_page_does_not_scroll_sideways_at_320_pixels_and_at_4k(tab: Page) -> None:
    widths = "[document.documentElement.scrollWidth, document.querySelector('main').scrollWidth]"
    for width, height in ((320, 640), (3840, 2160)):
        await tab.set_viewport_size({"width": width, "height": height})
        for view in VIEWS:
            await shown(tab, view)
            assert max(await tab.evaluate(widths)) <= width, view
    await tab.set_viewport_size({"width": 1280, "height": 720})


async def test_the_views_are_used_by_keyboard(tab: Page) -> None:
    await shown(tab, "/timeline?view=sequence")
    await tab.locator("body").evaluate("body => document.activeElement?.blur()")
    await tab.keyboard.press("4")
    await expect(tab.get_by_role("heading", name="Faults", exact=True)).to_be_visible()
    await tab.get_by_role("link", name="Skip to the content").focus()
    await tab.keyboard.press("Enter")
    for _ in range(20):
        await tab.keyboard.press("Tab")
        if await tab.evaluate("document.activeElement.type") == "submit":
            break
    await tab.keyboard.press("Enter")
    await expect(tab.locator("faults-bar")).to_contain_text("2 faults are on")
