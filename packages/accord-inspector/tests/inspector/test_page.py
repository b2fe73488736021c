"""The inspector's page in a browser: frame, addresses, restart, reload, tabs, folders."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
import pytest_asyncio

from inspector.inspector_process import MODULE, SCRIPT_AGENT, Inspector, go, inspecting
from sample_recordings import one_turn

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

playwright = pytest.importorskip("playwright.async_api")
expect = playwright.expect

pytestmark = pytest.mark.asyncio(loop_scope="session")
STREAMED = 150_000
AGENT = (sys.executable, str(Path(__file__).parent / "flooding_agent.py"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector() -> AsyncIterator[Inspector]:
    """The inspector of an agent that these tests share; each leaves it running."""
    async with inspecting("--", *AGENT) as running:
        yield running


async def opened(page: Page, inspector: Inspector, path: str = "/timeline") -> Page:
    """Log in, and open an address."""
    await page.goto(inspector.address)
    await expect(page.locator("header .state")).to_be_attached()
    await go(page, path)
    return page


async def prompt(page: Page, text: str, session: str = "s") -> Any:
    """Send a prompt by hand, as the page does; return without waiting for the response."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    request = {"direction": "to_agent", "kind": "request", "method": "session/prompt"}
    return await page.evaluate(
        f"async (request) => (await ({MODULE})('api')).post('/api/send', request)",
        {**request, "params": params},
    )


async def sees(page: Page, matched: int, **wanted: Any) -> None:
    """Wait until the server pushes so many messages to the page."""
    await page.evaluate(f"async (wanted) => (await ({MODULE})('api')).live.watch(wanted)", wanted)
    await page.wait_for_function(
        f"async (n) => (await ({MODULE})('api')).live.messages?.matched === n", arg=matched
    )


async def test_address_opens_the_page_without_the_token(page: Page) -> None:
    async with inspecting("--", *SCRIPT_AGENT) as inspector:
        await page.goto(inspector.address)
        await expect(page.get_by_role("status")).to_have_text("Agent running")
        assert page.url == f"{inspector.origin}/timeline"
        await expect(page.locator(".message-row.request").first).to_contain_text("initialize")
        await expect(page.locator("header .counts")).to_contain_text("2 messages")


async def test_wrong_token_shows_what_to_do(browser: Browser, inspector: Inspector) -> None:
    page = await browser.new_page()
    await page.goto(f"{inspector.origin}/?token=wrong")
    await expect(page.get_by_role("heading")).to_have_text("This browser is not logged in")
    await expect(page.locator("main")).to_contain_text("accord inspect")
    await page.close()


async def test_agent_that_dies_is_shown_and_started_again(page: Page, inspector: Inspector) -> None:
    await opened(page, inspector)
    state = page.locator("header .state")
    await expect(state).to_have_text("Agent running")
    await prompt(page, "die", session="dies")
    await expect(state).to_contain_text("Agent ended")
    await expect(state).to_contain_text("the agent dies")
    # What it has sent can still be read, and it can be started again.
    await page.reload()
    await expect(state).to_contain_text("Agent ended")
    await sees(page, 1, session="dies")
    await page.get_by_role("button", name="Start again").click()
    await expect(state).to_have_text("Agent running")


async def test_reload_in_the_middle_of_a_turn_loses_nothing(
    page: Page, inspector: Inspector, tmp_path: Path
) -> None:
    go_on = tmp_path / "go"
    await opened(page, inspector)
    await expect(page.locator("header .state")).to_have_text("Agent running")
    await prompt(page, f"wait {go_on}", session="reloaded")
    await sees(page, 2, session="reloaded")
    await page.reload()
    await sees(page, 2, session="reloaded")
    go_on.touch()
    await sees(page, 4, session="reloaded")


async def test_tabs_are_independent(
    page: Page, context: BrowserContext, inspector: Inspector
) -> None:
    await opened(page, inspector, "/timeline?method=initialize")
    other = await opened(await context.new_page(), inspector, "/timeline?text=tabs")
    await expect(page.locator("header .state")).to_have_text("Agent running")
    await prompt(page, "hello you", session="tabs")
    await sees(page, 3, session="tabs")
    await sees(other, 2, session="tabs", text="hello")
    await other.close()
    await prompt(page, "more", session="tabs")
    await sees(page, 6, session="tabs")


async def test_folder_lists_its_recordings(page: Page, tmp_path: Path) -> None:
    one_turn().save(tmp_path / "one.acp.jsonl")
    one_turn(2).save(tmp_path / "two.acp.jsonl")
    (tmp_path / "broken.acp.jsonl").write_text("nothing\n")
    async with inspecting(str(tmp_path)) as inspector:
        await opened(page, inspector, "/")
        await expect(page).to_have_url(f"{inspector.origin}/recordings")
        await expect(page.get_by_role("alert")).to_be_hidden()
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(3)
        one = rows.filter(has_text="one.acp.jsonl")
        await expect(one).to_contain_text("Fix it")
        await expect(one.locator("[data-head=Turns]")).to_have_text("1")
        await expect(rows.filter(has_text="broken")).to_contain_text("Expected a recording")
        await one.get_by_role("link").click()
        await expect(page).to_have_url(re.compile(r"/timeline\?recording=one\.acp\.jsonl"))
        await expect(page.locator("header .counts")).to_contain_text("15 messages")


async def test_page_says_what_of_a_recording_is_not_shown(page: Page, tmp_path: Path) -> None:
    path = one_turn().save(tmp_path / "cut.acp.jsonl")
    path.write_bytes(path.read_bytes()[:-30])
    async with inspecting(str(path)) as inspector:
        await opened(page, inspector)
        problem = page.get_by_role("alert").filter(has_text="Not all of cut.acp.jsonl is shown")
        await expect(problem).to_contain_text("the last line is incomplete")
        await expect(page.locator("header .counts")).to_contain_text("14 messages")


async def test_recordings_in_inner_folders_are_narrowed_and_linked(
    page: Page, tmp_path: Path
) -> None:
    for task in ("task-1", "task-2", "task-3"):
        (tmp_path / task).mkdir()
        one_turn().save(tmp_path / task / "a%2Fb-1.acp.jsonl")
    async with inspecting(str(tmp_path)) as inspector:
        await opened(page, inspector, "/recordings?name=task-*")
        status = page.get_by_role("main").get_by_role("status")
        await expect(status).to_have_text("3 of 3 recordings")
        names = page.get_by_label("Names of recordings")
        await expect(names).to_have_value("task-*")
        await names.fill("none")
        await expect(status).to_have_text("No name of 3 recordings matches none")
        await names.fill("K-2/a")
        await expect(status).to_have_text("1 of 3 recordings")
        await expect(page).to_have_url(re.compile(r"/recordings\?name=K-2%2Fa$"))
        (row,) = await page.locator("tbody tr").all()
        await expect(row).to_contain_text("task-2/a%2Fb-1.acp.jsonl")
        await row.get_by_role("link").click()
        await expect(page.locator("header .title")).to_contain_text("task-2/a%2Fb-1.acp.jsonl")
        await expect(page.locator("header .counts")).to_contain_text("15 messages")
        # The address of a message is enough for another tab, also after a reload.
        await page.locator(".message-row", has_text="initialize").first.click()
        await expect(page).to_have_url(re.compile(r"/timeline/\d+\?recording=task-2%2Fa%252Fb"))
        other = await page.context.new_page()
        await other.goto(page.url)
        shown = other.locator(".message-head")
        await expect(shown).to_contain_text("#1 initialize")
        await other.reload()
        await expect(shown).to_contain_text("#1 initialize")
        await other.goto(f"{inspector.origin}/timeline?recording=task-9%2Fr.acp.jsonl")
        await expect(other.get_by_text("Expected a recording in").first).to_be_visible()


async def test_keys_and_links_change_the_view(page: Page, tmp_path: Path) -> None:
    one_turn().save(tmp_path / "one.acp.jsonl")
    async with inspecting(str(tmp_path / "one.acp.jsonl")) as inspector:
        await opened(page, inspector)
        current = page.get_by_role("navigation", name="Views").locator("[aria-current=page]")
        await expect(current).to_have_text("Timeline")
        await page.keyboard.press("2")
        await expect(current).to_have_text("Conversation")
        # The view adds the session as soon as it knows it.
        await expect(page).to_have_url(re.compile(r"/conversation(/[^/]+)?$"))
        await page.get_by_role("link", name="Statistics").click()
        await expect(current).to_have_text("Statistics")
        await page.go_back()
        await expect(current).to_have_text("Conversation")


async def test_request_that_is_withdrawn_while_its_body_is_read_has_no_answer(
    page: Page, inspector: Inspector
) -> None:
    await opened(page, inspector)
    script = f"""async () => {{
        const api = await ({MODULE})("api");
        const fetched = window.fetch;
        const withdrawn = new AbortController();
        window.fetch = async (...words) => {{
            const response = await fetched(...words);
            withdrawn.abort();
            return response;
        }};
        const asked = api.get("/api/process", {{}}, withdrawn.signal);
        window.fetch = fetched;
        return asked.then(JSON.stringify, (error) => error.name);
    }}"""
    assert await page.evaluate(script) == "AbortError"


@pytest.mark.parametrize(
    ("address", "title", "shown"),
    [
        ("/timeline/1?method=initialize&show=raw", "Timeline", "message-view pre.raw"),
        ("/timeline?view=sequence&direction=to_client", "Timeline", ".sequence-row.response"),
        ("/conversation/links", "Conversation", ".entry.agent:has-text('hello links')"),
        ("/send?method=session/prompt", "Send", "#param-prompt-0-text"),
        ("/send?raw=1", "Send", "#send-raw"),
        ("/faults", "Faults", ".fault-list"),
        ("/capabilities", "Capabilities", "table.capabilities"),
        ("/process", "Process", "view-process dd:has-text('flooding_agent.py')"),
        ("/statistics", "Statistics", "view-statistics .facts"),
    ],
)
async def test_address_of_a_view_survives_a_reload(
    page: Page, inspector: Inspector, address: str, title: str, shown: str
) -> None:
    await opened(page, inspector)
    await expect(page.locator("header .state")).to_have_text("Agent running")
    await prompt(page, "hello links", session="links")
    await page.goto(inspector.origin + address)
    for _ in range(2):
        await expect(page.locator(shown).first).to_be_visible()
        await expect(page.locator("nav a[aria-current]")).to_have_text(title)
        # The page may write the parameters in another way.
        assert unquote(page.url) == inspector.origin + address
        await page.reload()
    if "method=initialize" in address:
        await expect(page.get_by_label("Method")).to_have_value("initialize")
        await expect(page.get_by_role("tab", name="Raw")).to_have_attribute("aria-selected", "true")


async def test_page_says_that_the_inspector_has_ended(page: Page) -> None:
    async with inspecting("--", *AGENT) as inspector:
        await opened(page, inspector)
        await expect(page.locator("header .state")).to_have_text("Agent running")
        assert await inspector.interrupt() == 0
        await expect(page.locator("header .state")).to_contain_text("has ended")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_fast_stream_is_sampled_and_the_page_says_so(page: Page) -> None:
    async with inspecting("--", *AGENT) as inspector:
        await opened(page, inspector)
        await expect(page.locator("header .state")).to_have_text("Agent running")
        await prompt(page, f"stream {STREAMED}")
        counts = page.locator("header .counts")
        await expect(counts).to_contain_text(re.compile(r"/s · sampled: they come faster"))
        # The page works while they come; among all messages, the row would move under the pointer.
        await go(page, "/timeline?method=session/prompt")
        await page.locator(".message-row:visible", has_text="session/prompt").click()
        await expect(page.locator("message-view")).to_contain_text(f"stream {STREAMED}")
        await page.get_by_role("link", name="Process").click()
        await expect(page.get_by_role("heading", name="Process")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="Process")).to_be_visible()
        # Nothing was lost, and the page says so no longer.
        all_of_them = re.compile(r"^150 0\d\d messages$")
        await expect(counts).to_have_text(all_of_them, timeout=60_000)


@pytest.mark.parametrize("width", [360, 1280, 2560])
async def test_no_view_has_anything_beside_the_screen(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    recording = one_turn().save(tmp_path / "r.acp.jsonl")
    async with inspecting(str(recording)) as one:
        page = await browser.new_page(viewport={"width": width, "height": 740})
        await opened(page, one)
        for view in ("timeline", "capabilities", "statistics", "waterfall", "compare"):
            await go(page, f"/{view}")
            await expect(page.locator(f"view-{view}")).to_be_visible()
            if view == "capabilities":
                await expect(page.locator("table.capabilities")).to_have_count(2)
            if view == "statistics":
                await expect(page.locator("[aria-label='Methods: table']")).to_be_visible()
            wide = await page.evaluate(
                """() => [...document.querySelectorAll("main, main .scroll")]
                    .filter((one) => one.scrollWidth > one.clientWidth)
                    .map((one) => one.getAttribute("aria-label") ?? one.tagName)"""
            )
            # On a phone, the nine columns of this table are scrolled in their own region.
            own = ["Methods: table"] if view == "statistics" and width == 360 else []
            assert wide == own, view
        if width > 360:  # there the filters are folded
            await go(page, "/timeline")
            cut = await page.evaluate(
                """() => [...document.querySelectorAll("view-timeline .filter select")]
                    .filter((one) => {
                        const before = one.offsetWidth;
                        one.style.maxWidth = "none";
                        return one.offsetWidth > before;
                    })
                    .map((one) => one.value || one.ariaLabel)"""
            )
            assert cut == []
        await page.close()
