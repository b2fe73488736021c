"""The views Send and Faults in a browser, with a real agent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, Route, expect

from inspector.inspector_process import SCRIPT_AGENT, Inspector, go, inspecting

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector() -> AsyncIterator[Inspector]:
    """The inspector of an agent that these tests share; each leaves it running."""
    async with inspecting("--", *SCRIPT_AGENT) as running:
        yield running


async def opened(page: Page, inspector: Inspector, path: str) -> None:
    await page.goto(inspector.address)
    await expect(page.locator("header .state")).to_have_text("Agent running")
    await go(page, path)


async def test_a_request_from_its_form_is_answered_and_is_in_the_timeline(
    page: Page, inspector: Inspector
) -> None:
    await opened(page, inspector, "/send?method=session/new")
    await page.get_by_role("button", name="Send", exact=True).click()
    answers = page.locator(".answers")
    await expect(answers.locator("li").first).to_contain_text("answered after")
    session = re.search(r'"sessionId": "([^"]+)"', await answers.inner_text())
    assert session is not None

    # The form of the next method knows the session; both editors show the same value.
    await page.get_by_label("Method").select_option("session/prompt")
    params = page.get_by_label("Params as JSON")
    await expect(params).to_have_value(re.compile(session[1]))
    await page.get_by_label("text", exact=True).fill("echo by hand")
    await expect(params).to_have_value(re.compile("echo by hand"))
    # An optional field is added, and removed again.
    await page.get_by_label("Add a field to prompt[0]").select_option("annotations")
    await expect(params).to_have_value(re.compile('"annotations"'))
    await page.get_by_role("button", name="Remove annotations").click()
    await page.get_by_label("Variant of prompt[0]").select_option(label="ResourceLink")
    await expect(params).to_have_value(re.compile('"type": "resource_link"'))

    # A mistake in the JSON is marked in the form at its place, and can be sent anyway.
    wrong = {"sessionId": session[1], "prompt": [{"type": "text", "text": 3}]}
    await params.fill(json.dumps(wrong))
    problem = page.locator(".field-problem")
    await expect(problem).to_have_text("Expected `str`, got `int`")
    await expect(page.locator("#param-prompt-0-text")).to_have_attribute("aria-invalid", "true")
    await params.fill("{")
    await expect(page.locator("#send-json-problem")).to_contain_text("Not JSON")
    await params.fill(json.dumps(wrong))
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(answers.locator("li").first).to_contain_text("error after")
    href = await page.locator(".result a").get_attribute("href")
    assert href is not None

    # Deep links: from a message of the timeline, and from the history after a reload.
    await page.goto(f"{inspector.origin}/send?message={href.rpartition('/')[2]}")
    await expect(params).to_have_value(re.compile('"text": 3'))
    await expect(page).to_have_url(re.compile(r"method=session%2Fprompt"))
    await page.locator(".history .entry", has_text="session/new").click()
    await expect(params).to_have_value(re.compile('"cwd"'))
    # The inspector keeps it, too: a browser that has kept nothing shows it.
    await page.evaluate("localStorage.clear()")
    await page.reload()
    await expect(page.locator(".history .entry", has_text="session/new")).to_be_visible()
    await page.get_by_role("button", name="Clear").click()
    await page.reload()
    await expect(page.locator(".history")).to_have_text("Nothing was sent yet.")


async def test_a_form_that_is_loaded_late_is_not_shown(page: Page, inspector: Inspector) -> None:
    held: asyncio.Queue[Route] = asyncio.Queue()
    await opened(page, inspector, "/send?method=session/new")
    await expect(page.locator(".schema-form")).to_be_visible()
    await page.route(re.compile("/api/form\\?"), held.put)
    send = page.get_by_role("button", name="Send", exact=True)
    async with asyncio.timeout(20):
        await page.get_by_label("Method").select_option("session/prompt")
        first = await held.get()
        await page.get_by_label("Method").select_option("session/list")
        second = await held.get()
        async with page.expect_response(re.compile("/api/form.*prompt")):
            await first.continue_()
    await page.evaluate("() => new Promise(requestAnimationFrame)")
    await expect(send).to_have_count(0)  # the form of the method that is chosen is not there
    await second.continue_()
    await send.click()
    await expect(page.locator(".result")).to_contain_text("Sent session/list")
    await expect(page.get_by_label("Params as JSON")).not_to_have_value(re.compile("prompt"))


async def test_raw_frames_are_sent_as_they_are(page: Page, inspector: Inspector) -> None:
    await opened(page, inspector, "/send?raw=1")
    frame = page.get_by_label("Frame", exact=True)
    send = page.get_by_role("button", name="Send", exact=True)
    await page.get_by_label("Example").select_option(label="Not JSON")
    await send.click()
    await expect(page.locator(".result")).to_contain_text("Sent as message")
    # A line in two parts: the first has no end.
    await frame.fill('{"jsonrpc":"2.0","id":"inspect-two",')
    await page.get_by_label("End with a newline").uncheck()
    await send.click()
    await expect(page.locator(".answers li")).to_have_count(2)
    await frame.fill('"method":"session/list\\u002dx","params":{}}')
    await page.get_by_label("End with a newline").check()
    await page.get_by_label("Replace").check()
    await send.click()
    await expect(page.locator(".answers li")).to_have_count(3)
    await frame.fill("\\q")
    await send.click()
    await expect(page.locator(".result")).to_contain_text("Unknown escape '\\q'")
    # The agent has answered the line that was put together.
    rows = (await page.evaluate("fetch('/api/messages').then(r => r.json())"))["rows"]
    assert any(row["kind"] == "invalid" and row["dir"] == "to_agent" for row in rows)
    answers = [row for row in rows if row["kind"] == "response" and "inspect-two" in row["id"]]
    assert [row["error"] for row in answers] == [True]


async def test_a_fault_is_shown_on_every_view_until_all_are_off(
    page: Page, inspector: Inspector
) -> None:
    await opened(page, inspector, "/faults")
    await page.get_by_role("combobox", name="Fault", exact=True).select_option(label="Drop")
    await page.get_by_label("Only this method").fill("session/list")
    await page.get_by_role("button", name="Switch on").click()
    bar = page.locator("faults-bar")
    await expect(bar).to_contain_text("1 fault is on")
    await expect(bar).to_contain_text("Drop, session/list")

    await page.get_by_role("link", name="Send").click()
    await page.get_by_label("Method").select_option("session/list")
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(bar).to_contain_text("1 fault is on")
    await page.get_by_role("link", name="Faults").click()
    row = page.locator("tr", has=page.get_by_role("rowheader", name="Drop, session/list"))
    await expect(row.locator("td.number").first).to_have_text("1")  # the response
    await page.get_by_role("link", name="Timeline").click()
    dropped = page.locator(".message-row.response", has_text="↯ dropped")
    await expect(dropped).to_contain_text("session/list")
    await dropped.click()
    await expect(page.locator("message-view")).to_contain_text("dropped")
    await page.get_by_role("link", name="Faults").click()

    await page.get_by_role("combobox", name="Fault", exact=True).select_option(
        label="Suspend the process"
    )
    await page.get_by_role("button", name="Switch on").first.click()
    await expect(bar).to_contain_text("2 faults are on")
    await bar.get_by_role("button", name="All off").click()
    await expect(bar).to_be_hidden()
    await expect(row).to_contain_text("off")

    # A cut ends the agent; it can be started again.
    await page.get_by_role("combobox", name="Fault", exact=True).select_option(label="Cut")
    await page.get_by_role("button", name="Switch on").first.click()
    await expect(page.locator("header .state")).to_contain_text("has cut the connection")
    await page.get_by_role("button", name="Start again").click()
    await expect(page.locator("header .state")).to_have_text("Agent running")


async def test_panels_show_capabilities_process_and_statistics(
    page: Page, inspector: Inspector
) -> None:
    await opened(page, inspector, "/capabilities")
    agent = page.get_by_role("region", name="Agent", exact=True)
    offered = agent.locator("tr", has=page.get_by_text("session.prompt.image", exact=True))
    await expect(offered).to_contain_text("yes")
    await page.get_by_role("link", name="Process").click()
    await expect(page.locator("view-process svg").first).to_have_attribute(
        "aria-label", re.compile("Memory: [0-9]+ values")
    )
    await page.get_by_text("Environment:").click()
    await expect(page.get_by_role("region", name="Environment")).to_contain_text("PATH")
    await page.get_by_role("link", name="Statistics").click()
    await expect(page.get_by_role("region", name="Methods", exact=True)).to_contain_text(
        "initialize"
    )
