"""A fleet's report in a browser: accessible, narrow and wide, and agents only write text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from accord_fleet.report.aggregate import report_of
from accord_fleet.report.page import report_page
from fleet.sample_results import sample_results
from inspector.test_accessibility import AXE, problems_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPEN = "[...document.querySelectorAll('details')].slice(0, 8).forEach((one) => { one.open = true })"
WIDTHS = """() => [...document.querySelectorAll("pre, svg, figure, details, .rates")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right
    > document.documentElement.clientWidth)
  .map((one) => one.outerHTML.slice(0, 80))"""


@pytest.fixture
def address(tmp_path: Path) -> str:
    page = tmp_path / "report.html"
    report = report_of(lambda: sample_results(5, attempts=2), "runs/nightly")
    page.write_text("".join(report_page(report)), "utf-8")
    return page.as_uri()


async def opened(browser: Browser, address: str, width: int, scheme: str) -> Page:
    context = await browser.new_context(
        bypass_csp=True,  # for axe
        viewport={"width": width, "height": 800},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = await context.new_page()
    await page.goto(address)
    await page.evaluate(OPEN)
    return page


async def test_axe_finds_nothing_serious_in_the_report(browser: Browser, address: str) -> None:
    if not AXE.is_file():
        why = "axe-core is not installed: sh packages/accord-inspector/tests/inspector/install.sh"
        if os.environ.get("ACCORD_REQUIRE_BROWSER"):
            pytest.fail(why)
        pytest.skip(why)
    page = await opened(browser, address, 320, "dark")
    await page.add_script_tag(path=AXE)
    assert await problems_of(page, "") == []
    await page.emulate_media(color_scheme="light")
    assert await problems_of(page, "runOnly: ['color-contrast']") == []
    await page.context.close()


@pytest.mark.parametrize("width", [320, 3840])
async def test_the_report_does_not_scroll_sideways(
    browser: Browser, address: str, width: int
) -> None:
    page = await opened(browser, address, width, "light")
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    assert await page.evaluate(WIDTHS) == []
    await page.context.close()


async def test_text_of_agents_makes_no_elements_in_the_report(
    browser: Browser, address: str
) -> None:
    page = await opened(browser, address, 800, "light")
    assert await page.locator("img, script").count() == 0
    answer = page.locator("pre", has_text="<img src=x")
    assert await answer.count()
    assert "\\u202egnp.exe\\u202c\\x1b[31m</pre><script>" in (
        await answer.first.text_content() or ""
    )
    await page.context.close()
