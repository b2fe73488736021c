"""The conversation on the inspector's page, with real agents in a real browser."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, Route, expect

from inspector.inspector_process import MODULE, SCRIPT_AGENT, Inspector, go, inspecting
from requirement import requirement
from sample_recordings import one_turn

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

HOSTILE_AGENT = Path(__file__).parent / "hostile_agent.py"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inspector]:
    """The inspector of a script agent, whose sessions are in a folder with one file."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "notes.txt").write_text("the notes")
    (folder / "outside").symlink_to("/etc/hostname")
    async with inspecting("--", *SCRIPT_AGENT, cwd=folder) as running:
        yield running


async def open_session(page: Page, inspector: Inspector) -> None:
    """Open the conversation and a new session in it."""
    await page.goto(inspector.address)
    await page.get_by_role("link", name="Conversation").click()
    # Until the new one is open, the page shows the session of an earlier test.
    async with page.expect_response("**/api/conversation/new") as answer:
        await page.get_by_role("button", name="New session").click()
    session = quote((await (await answer.value).json())["result"], safe="!~*'()")
    await expect(page).to_have_url(f"{inspector.origin}/conversation/{session}")
    await expect(page.get_by_label("Prompt", exact=True).first).to_be_visible()
    await expect(page.locator(".session-head .status")).to_have_text("idle")


async def prompt(page: Page, text: str) -> None:
    """Send a prompt by keyboard."""
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    box = page.locator("textarea.prompt")
    await box.fill(text)
    await box.press("Escape")  # the list of commands
    await box.press("Enter")


async def wait_for_answer(page: Page, text: str) -> None:
    await expect(page.locator(".entry.agent .parts").last).to_contain_text(text)


async def test_turn_is_shown_as_in_an_editor_and_links_to_its_messages(
    page: Page, inspector: Inspector
) -> None:
    await open_session(page, inspector)
    await prompt(page, "tools")
    await wait_for_answer(page, "18 completed, 1 failed")
    await expect(page.locator(".entry.user")).to_contain_text("tools")
    await expect(page.locator(".entry.tool.failed")).to_have_count(1)
    await expect(page.locator(".diff tr.added .code").first).to_contain_text("+")
    await expect(page.locator(".entry.end")).to_contain_text("Turn ended")
    await prompt(page, "usage")
    await expect(page.get_by_role("meter")).to_have_attribute("aria-label", re.compile("tokens"))
    await prompt(page, "plan")
    await expect(page.locator(".entry.plan li.completed")).to_have_count(3)
    await prompt(page, "think Hm **m**")
    await page.locator(".entry.thought summary").last.click()
    await expect(page.locator(".entry.thought strong").last).to_have_text("m")
    link = page.locator(".entry.plan .message-link").first
    number = (await link.inner_text()).removeprefix("#")
    await link.click()
    await expect(page).to_have_url(f"{inspector.origin}/timeline/{number}")


@requirement("R-PERM-01")
async def test_permission_is_answered_by_click_and_by_keyboard(
    page: Page, inspector: Inspector
) -> None:
    await open_session(page, inspector)
    await prompt(page, "permission")
    card = page.locator(".question.permission")
    await expect(card).to_contain_text("Do thing 1")
    await card.get_by_role("button", name="Allow allows this once").click()
    await expect(card).to_have_count(0)
    await wait_for_answer(page, "1 of 1 allowed")
    await prompt(page, "permission")
    await expect(card.get_by_role("button", name="Reject rejects this once")).to_be_enabled()
    # Its place is below the conversation, which it does not cover.
    places = [await page.locator(name).bounding_box() for name in (".session .log", ".question")]
    assert places[0] is not None
    assert places[1] is not None
    assert places[0]["y"] + places[0]["height"] <= places[1]["y"]
    await page.keyboard.press("Alt+p")
    await expect(card).to_be_focused()
    await page.keyboard.press("3")
    await expect(card).to_have_count(0)
    await wait_for_answer(page, "0 of 1 allowed")
    await expect(page.locator(".entry.permission").last).to_contain_text("Answer: Reject")


@requirement("R-CANCEL-05")
async def test_turn_is_cancelled(page: Page, inspector: Inspector) -> None:
    await open_session(page, inspector)
    await prompt(page, "wait forever")
    await expect(page.locator(".entry.tool.in_progress")).to_have_count(1)
    await page.get_by_role("button", name="Cancel the turn").click()
    await expect(page.locator(".entry.end")).to_contain_text("Turn ended: cancelled")
    await expect(page.locator(".entry.tool.cancelled, .entry.tool.failed")).to_have_count(1)


@requirement("R-TCAN-01")
async def test_one_tool_call_is_cancelled(page: Page, inspector: Inspector) -> None:
    await open_session(page, inspector)
    await prompt(page, "alone forever")
    await page.get_by_role("button", name="Cancel this tool call").click()
    await expect(page.locator(".entry.tool.cancelled")).to_have_count(1)
    await wait_for_answer(page, "the turn continues")


async def test_prompt_without_a_response_is_visible(page: Page, tmp_path: Path) -> None:
    waiting = one_turn()
    request = {"sessionId": "s", "prompt": [{"type": "text", "text": "Anybody there?"}]}
    waiting.to_agent(30.0, id=99, method="session/prompt", params=request)
    waiting.save(tmp_path / "r.acp.jsonl")
    async with inspecting(str(tmp_path / "r.acp.jsonl")) as inspector:
        await page.goto(inspector.address)
        await go(page, "/conversation/s")
        await expect(page.locator(".waiting")).to_contain_text("was never answered")


async def test_diffs_are_side_by_side_on_wide_screens(page: Page, inspector: Inspector) -> None:
    await open_session(page, inspector)
    await prompt(page, "tools")
    await wait_for_answer(page, "18 completed, 1 failed")
    diff = page.locator("diff-table", has=page.locator(".removed")).first
    await expect(diff.locator("thead th")).to_have_count(3)
    await page.set_viewport_size({"width": 1800, "height": 900})
    await expect(diff.locator("thead th")).to_have_count(4)
    row = diff.locator("tr", has=page.locator(".removed")).first
    await expect(row.locator("td.code")).to_have_count(2)


async def test_reload_in_the_middle_of_a_turn_keeps_everything(
    page: Page, inspector: Inspector
) -> None:
    await open_session(page, inspector)
    await prompt(page, "stream 30 Hello")
    await wait_for_answer(page, "Hello")
    await prompt(page, "permission")
    await expect(page.locator(".question.permission")).to_have_count(1)
    await expect(page.locator(".entry.permission")).to_have_count(1)
    before = await page.locator(".entries").inner_text()
    await page.reload()
    await expect(page.locator(".question.permission")).to_contain_text("Do thing 1")
    await expect(page.locator(".entries")).to_have_text(before, use_inner_text=True)
    await expect(page.get_by_role("button", name="Cancel the turn")).to_be_visible()
    await page.get_by_role("button", name="Allow allows this once").click()
    await wait_for_answer(page, "1 of 1 allowed")


async def test_what_changes_while_the_page_asks_for_changes_is_asked_for_again(
    page: Page, inspector: Inspector
) -> None:
    await page.goto(inspector.address)
    asked: asyncio.Queue[Route] = asyncio.Queue()
    await page.route(re.compile("/api/conversation/session.*only-here"), asked.put)
    await page.evaluate(
        f"""async () => {{
          const {{ SessionEntries }} = await ({MODULE})("conversation_store");
          const entries = new SessionEntries("only-here", "");
          entries.refresh();
          entries.refresh();
        }}"""
    )
    nothing = {"epoch": 0, "now": 1, "first": 0, "total": 0, "entries": [], "terminals": {}}
    async with asyncio.timeout(20):
        for _ in range(2):
            await (await asked.get()).fulfill(json=nothing)


async def test_answer_in_one_tab_removes_the_card_in_the_other(
    context: BrowserContext, page: Page, inspector: Inspector
) -> None:
    await open_session(page, inspector)
    other = await context.new_page()
    await other.goto(page.url)
    await prompt(page, "permission")
    await expect(page.locator(".question")).to_have_count(1)
    await expect(other.locator(".question")).to_have_count(1)
    await other.get_by_role("button", name="Always allow").click()
    await expect(page.locator(".question")).to_have_count(0)
    await expect(other.locator(".question")).to_have_count(0)
    await wait_for_answer(page, "1 of 1 allowed")
    await wait_for_answer(other, "1 of 1 allowed")


async def test_sessions_are_listed_where_there_is_room(page: Page, inspector: Inspector) -> None:
    for width, is_open in ((780, True), (320, False)):
        await page.set_viewport_size({"width": width, "height": 800})
        await page.goto(inspector.address)
        await page.goto(f"{inspector.origin}/conversation")
        new = page.get_by_role("button", name="New session")
        await expect(page.locator("view-conversation summary").first).to_be_visible()
        await expect(new).to_be_visible(visible=is_open)


async def test_small_screen_has_no_horizontal_scrolling_and_follows_the_end(
    page: Page, inspector: Inspector
) -> None:
    await page.set_viewport_size({"width": 320, "height": 568})
    await page.goto(inspector.address)
    await page.get_by_role("link", name="Conversation").click()
    sessions = page.get_by_text("Sessions", exact=True)
    await sessions.click()
    await page.get_by_role("button", name="New session").click()
    await sessions.click()
    await prompt(page, "tools")
    await expect(page.locator(".entry.end")).to_be_in_viewport()
    await prompt(page, "permission")
    card = page.locator(".question.permission")
    await expect(card).to_be_in_viewport()
    assert await page.evaluate("document.documentElement.scrollWidth") == 320
    main = page.locator("main")
    assert await main.evaluate("main => main.scrollWidth <= main.clientWidth")
    await card.get_by_role("button", name="Reject rejects this once").click()
    await expect(card).to_have_count(0)


async def test_elicitations_are_answered(page: Page, inspector: Inspector) -> None:
    await open_session(page, inspector)
    await prompt(page, "elicit form")
    card = page.locator(".question.form")
    await card.get_by_label("Name").fill("Ada")
    await card.get_by_role("button", name="Send").click()
    await expect(card).to_have_count(0)
    await wait_for_answer(page, "Ada")
    await prompt(page, "elicit url")
    card = page.locator(".question.url")
    await expect(card.locator(".address")).to_contain_text("http")
    await card.get_by_role("button", name="Decline").click()
    await expect(page.locator(".entry.elicitation").last).to_contain_text("decline")


async def test_commands_are_completed_and_options_set(page: Page, inspector: Inspector) -> None:
    await open_session(page, inspector)
    box = page.locator("textarea.prompt")
    await box.press_sequentially("/ec")
    await expect(page.get_by_role("option", name="/echo")).to_have_attribute(
        "aria-selected", "true"
    )
    await box.press("Enter")
    await expect(box).to_have_value("/echo ")
    await page.get_by_label("Mode", exact=True).select_option(label="Auto")
    await expect(page.get_by_label("Mode", exact=True)).to_have_value("auto")
    await prompt(page, "mode read")
    await expect(page.get_by_label("Mode", exact=True)).to_have_value("read")


async def test_files_are_attached_from_the_session_folder_only(
    page: Page, inspector: Inspector
) -> None:
    await open_session(page, inspector)
    await page.locator("input[type=file]").set_input_files(
        [{"name": "up.txt", "mimeType": "text/plain", "buffer": b"uploaded text"}]
    )
    await expect(page.get_by_role("list", name="Attachments")).to_contain_text("up.txt")
    await prompt(page, "echo with a file")
    await expect(page.locator(".entry.user")).to_contain_text("File attachment:///up.txt")
    await page.get_by_role("button", name="Link a path").click()
    await page.get_by_label("Path of a file to link").fill("notes.txt")
    await page.keyboard.press("Enter")
    await prompt(page, "echo with a link")
    await expect(page.locator(".entry.user").last).to_contain_text("notes.txt")
    for path in ("outside", "../x", "/etc/hostname"):
        await page.get_by_role("button", name="Link a path").click()
        await page.get_by_label("Path of a file to link").fill(path)
        await page.keyboard.press("Enter")
        await page.locator("textarea.prompt").press("Enter")
        await expect(page.locator(".composer [role=alert]")).to_contain_text("not in the folder")
        await page.get_by_role("button", name=f"Remove {path}").click()


async def test_stored_sessions_are_listed_and_loaded(page: Page, inspector: Inspector) -> None:
    await open_session(page, inspector)
    await prompt(page, "title My stored session")
    await expect(page.locator(".session-head .title")).to_have_text("My stored session")
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator(".session-head .status")).to_have_text("closed")
    await expect(page.locator("textarea.prompt")).to_be_hidden()
    await page.get_by_role("button", name="List stored sessions").click()
    await page.get_by_role("button", name="Load My stored session").click()
    await expect(page.locator("textarea.prompt")).to_be_visible()
    await expect(page.locator(".entry.user").first).to_contain_text("title My stored session")
    await prompt(page, "echo loaded")
    await wait_for_answer(page, "loaded")
    before = page.url
    await page.get_by_role("button", name="Fork", exact=True).click()
    await expect(page).not_to_have_url(before)
    await prompt(page, "echo forked")
    await wait_for_answer(page, "forked")
    # A closed session is resumed without its messages, and another one is deleted.
    await prompt(page, "title To resume")
    await expect(page.locator(".session-head .title")).to_have_text("To resume")
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator(".session-head .status")).to_have_text("closed")
    await page.get_by_role("button", name="List again").click()
    await page.get_by_role("button", name="Resume To resume").click()
    await expect(page.locator("textarea.prompt")).to_be_visible()
    await prompt(page, "echo resumed")
    await wait_for_answer(page, "resumed")
    delete = page.get_by_role("button", name="Delete To resume")
    await delete.click()
    await expect(delete).to_have_text("Really delete?")
    await delete.click()
    await expect(delete).to_have_count(0)


async def test_login_and_mistakes_in_the_form_are_shown(page: Page, inspector: Inspector) -> None:
    await open_session(page, inspector)
    await page.get_by_text("MCP servers").click()
    await page.get_by_label("As JSON").fill('{"mcpServers": {"x": {"command": "no-such-program"}}}')
    await page.get_by_role("button", name="New session").click()
    alert = page.locator(".setup > [role=alert]")
    await expect(alert).to_contain_text("mcpServers.x.command: program not found")
    await page.get_by_label("As JSON").fill("")
    await page.get_by_label("Folder").fill("no-such-folder")
    await page.get_by_role("button", name="New session").click()
    await expect(alert).to_contain_text("is not a folder")
    await prompt(page, "logout")
    await wait_for_answer(page, "logged out")
    await prompt(page, "echo refused")
    await expect(page.locator(".entry.end").last).to_contain_text("-32000")
    await page.get_by_text("Login", exact=True).click()
    await page.get_by_role("button", name="Log in: Log in without success").click()
    await expect(alert).to_contain_text("always fails")
    await page.get_by_role("button", name="Log in: Log in", exact=True).click()
    await expect(alert).to_be_empty()
    await prompt(page, "echo accepted")
    await wait_for_answer(page, "accepted")


@requirement("R-TOOL-24")
async def test_coder_asks_before_it_changes_a_file_and_shows_the_diff(
    page: Page, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("hello\nworld\n")
    command = (sys.executable, "-m", "accord", "agent", "coder", "--model", "demo")
    data = ("--data", str(tmp_path / "data"))
    async with inspecting("--", *command, *data, cwd=tmp_path) as inspector:
        await open_session(page, inspector)
        await prompt(page, "replace notes.txt hello 'good morning'")
        card = page.locator(".question.permission")
        await expect(card.locator(".diff tr.removed")).to_contain_text("hello")
        await expect(card.locator(".diff tr.added")).to_contain_text("good morning")
        assert (tmp_path / "notes.txt").read_text() == "hello\nworld\n"
        await card.get_by_role("button", name="allows this once").click()
        await expect(page.locator(".entry.end")).to_contain_text("Turn ended")
        await expect(page.locator(".entries .diff tr.added")).to_contain_text("good morning")
    assert (tmp_path / "notes.txt").read_text() == "good morning\nworld\n"


async def test_agent_that_dies_ends_the_turn_and_the_question_with_the_reason(
    page: Page, inspector: Inspector
) -> None:
    await open_session(page, inspector)
    await prompt(page, "permission")
    await expect(page.locator(".question.permission")).to_have_count(1)
    answer = await page.request.get(f"{inspector.origin}/api/inspection")
    assert answer.ok
    pid = await page.evaluate(f"async () => (await ({MODULE})('api')).live.state.process.pid")
    os.kill(pid, signal.SIGKILL)
    card = page.locator(".question.ended")
    await expect(card).to_contain_text("SIGKILL")
    await expect(page.locator(".entry.connection")).to_contain_text("Agent disconnected")
    await expect(page.locator(".session-head .status")).to_have_text("closed")
    await card.get_by_role("button", name="Dismiss").click()
    await expect(card).to_have_count(0)
    await page.get_by_role("button", name="Start again").click()
    await expect(page.get_by_role("button", name="New session")).to_be_enabled()


async def test_version_1_reads_files_and_runs_terminals_only_if_the_user_allows_it(
    page: Page, inspector: Inspector
) -> None:
    await page.goto(inspector.address)
    await page.get_by_role("link", name="Conversation").click()
    await page.get_by_text("Access and protocol").click()
    await page.get_by_label("Protocol", exact=True).select_option("1")
    await page.get_by_role("button", name="Apply: start the agent again").click()
    await expect(page.locator(".setup .about")).to_contain_text("protocol version 1")
    await page.get_by_role("button", name="New session").click()
    await prompt(page, "fs read notes.txt")
    await wait_for_answer(page, "9 characters")
    await prompt(page, "fs write notes.txt changed")
    await expect(page.locator(".entry.end")).to_have_count(2)
    await expect(page.locator(".entry.agent").last).not_to_contain_text("Wrote")
    await page.get_by_label("Files", exact=True).select_option("rw")
    await page.get_by_label("Run commands in terminals").check()
    await page.get_by_role("button", name="Apply: start the agent again").click()
    await expect(page.locator("textarea.prompt")).to_be_hidden()
    await expect(page.get_by_role("button", name="New session")).to_be_enabled()
    await page.get_by_role("button", name="New session").click()
    await prompt(page, f"terminal {sys.executable} -c 'print(6*7)'")
    await expect(page.locator(".terminal .output")).to_contain_text("42")
    await prompt(page, "fs write new.txt changed")
    await expect(page.locator(".entry.end")).to_have_count(2)


@requirement("R-SEC-12")
async def test_hostile_agent_runs_nothing_and_imitates_nothing(page: Page, tmp_path: Path) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("dialog", lambda dialog: requests.append(dialog.message))
    async with inspecting("--", sys.executable, str(HOSTILE_AGENT), cwd=tmp_path) as inspector:
        await open_session(page, inspector)
        await prompt(page, "go")
        await expect(page.locator(".entry.end")).to_contain_text("Failed")
        await page.evaluate(
            "() => { for (const item of document.querySelectorAll('details')) item.open = true }"
        )
        await page.locator("textarea.prompt").fill("/")
        shown = await page.locator("body").inner_text()
        assert not set("\x1b\x07\u202e\u2066") & set(shown)
        assert "\\u202eevil" in shown
        assert "<script>document.title='owned'</script>" in shown
        assert await page.title() != "owned"
        view = page.locator("view-conversation")
        assert (
            await view.locator("script, style, iframe, [onerror], [onclick], [style]").count() == 0
        )
        assert await view.locator("img").count() == 0
        for link in await view.locator("a").all():
            address = await link.get_attribute("href") or ""
            assert address.startswith(("https://evil.example/", "/")), address
        # The question is outside the entries, and its text is text.
        assert await page.locator(".entries .question").count() == 0
        for path in ("timeline", "capabilities", "process", "statistics"):
            await go(page, f"/{path}")
            view = page.locator(f"view-{path}")
            await expect(view.get_by_text("evil").first).to_be_attached()
            shown = await page.locator("body").inner_text()
            assert not set("\x1b\x07\u202e\u2066") & set(shown), path
            assert await view.locator("script, style, iframe, img, [onerror]").count() == 0
            assert "owned" not in await page.title()
        assert {url for url in requests if not url.startswith((inspector.origin, "data:"))} == set()


async def test_recordings_show_their_conversations_without_an_input(
    page: Page, tmp_path: Path
) -> None:
    one_turn().save(tmp_path / "r.acp.jsonl")
    long = one_turn()
    for number in range(300):
        call = {"toolCallId": f"c{number}", "title": f"Call {number}", "status": "completed"}
        long.update(10.0 + number, sessionUpdate="tool_call", **call)
    long.save(tmp_path / "long.acp.jsonl")
    async with inspecting(str(tmp_path)) as inspector:
        await page.goto(inspector.address)
        conversation = f"{inspector.origin}/conversation/s?recording="
        await page.goto(f"{conversation}r.acp.jsonl")
        await expect(page.locator(".entry.agent")).to_contain_text("Hello world")
        await expect(page.locator(".entry.end")).to_contain_text("30 tokens")
        await expect(page.locator("textarea.prompt")).to_be_hidden()
        await expect(page.get_by_role("button", name="New session")).to_be_hidden()
        # Of a long session the end is sent, and the rest when the user scrolls up.
        await page.goto(f"{conversation}long.acp.jsonl")
        await expect(page.locator(".entry").last).to_contain_text("Call 299")
        await expect(page.locator(".entry.tool").last).to_be_in_viewport()
        await expect(page.locator(".entry")).to_have_count(100)
        await page.get_by_role("log").evaluate("log => log.scrollTo(0, 0)")
        await expect(page.locator(".entry")).to_have_count(200)
        await expect(page.get_by_role("heading", name="Call 201")).to_be_in_viewport()
        await expect(page.get_by_role("button", name="Go to the end")).to_be_visible()
