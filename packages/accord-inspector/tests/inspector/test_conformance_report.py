"""The conformance report in a browser: readable on a phone, and in dark and light."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from accord_conformance.reports.formats import report_bytes
from accord_conformance.reports.report import Finding, Report, RunResult, ScenarioResult, verdict
from accord_conformance.traffic.message import Frame
from inspector.test_accessibility import AXE, problems_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = "a_very_long_word_without_any_space_" * 12


def result() -> RunResult:
    """Return a result with a finding of each kind."""
    frames = (
        Frame(1, 0.0, "client", b'{"jsonrpc":"2.0","id":1,"method":"session/list"}'),
        Frame(2, 0.1, "agent", f'{{"id":"{WIDE}"}}'.encode()),
    )
    report = Report(subject="agent", side="agent", version=1)
    for rule in ("R-GEN-06", "R-GEN-05", "R-TOOL-04", "R-BATCH-10", "R-SESS-12"):
        report.add(
            Finding(
                rule=rule,
                passed=False,
                by="agent",
                expected=f"the id {WIDE}",
                got="another id",
                frames=frames,
                where="sessions/list",
            )
        )
    for rule in ("R-INIT-05", "R-STDIO-03"):
        report.add(Finding(rule=rule, passed=True, by="agent"))
    scenarios = [
        ScenarioResult(
            scenario="permissions/reject",
            about="The user rejects the action.",
            version=1,
            outcome="advised",
            reason="the agent reports a rejected tool call with the status completed",
            advice="Send `failed` as its final status.",
            frames=frames,
        ),
        ScenarioResult(
            scenario="files/write",
            about="The agent writes a file.",
            version=1,
            outcome="not exercised",
            reason='no file was written: the tool call "Write written.txt" failed',
        ),
    ]
    return RunResult(f"my-agent --acp --with {WIDE}", [report], scenarios, {2: "error -32602"})


async def opened(browser: Browser, folder: Path, width: int, scheme: str) -> Page:
    file = folder / "report.html"
    file.write_bytes(report_bytes("html", result()))
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = await context.new_page()
    await page.goto(file.as_uri())
    await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    if pictures := os.environ.get("ACCORD_PICTURES"):
        await page.screenshot(path=f"{pictures}/report-{width}-{scheme}.png", full_page=True)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_axe_finds_nothing_serious_in_the_report(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    if not AXE.is_file():
        why = "axe-core is not installed: sh packages/accord-inspector/tests/inspector/install.sh"
        if os.environ.get("ACCORD_REQUIRE_BROWSER"):
            pytest.fail(why)
        pytest.skip(why)
    page = await opened(browser, tmp_path, width, scheme)
    await page.add_script_tag(path=AXE)
    assert await problems_of(page, "") == []
    await page.context.close()


@pytest.mark.parametrize("width", [320, 360, 1280])
async def test_report_does_not_scroll_sideways(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    page = await opened(browser, tmp_path, width, "light")
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    await page.context.close()


async def test_headline_counts_what_was_not_exercised_and_rules_link_to_their_source(
    browser: Browser, tmp_path: Path
) -> None:
    page = await opened(browser, tmp_path, 360, "light")
    unseen = len(result().not_exercised_rules())
    assert unseen > 100
    headline = await page.inner_text("p.verdict")
    assert f"{unseen} not exercised" in headline
    assert headline == verdict(result()).text
    links = await page.locator("section.failed a").evaluate_all("all => all.map(one => one.href)")
    assert "https://agentclientprotocol.com/protocol/v1/schema#requestid" in links
    assert "https://agentclientprotocol.com/protocol/v1/overview#error-handling" in links
    # On a phone, the numbers have their names.
    assert await page.locator("thead").is_visible()
    cell = page.locator("td.failed:not(.none)").first
    name = "getComputedStyle(one, '::after').content"
    assert await cell.evaluate(f"one => {name}") == '" failed"'
    await page.context.close()
