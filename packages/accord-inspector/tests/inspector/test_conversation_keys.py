"""The keyboard in a conversation: the focus after a session opens, digits, keys switched off."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Locator, Page, Route, WebSocketRoute, expect

from inspector.inspector_process import SCRIPT_AGENT, Inspector, inspecting

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inspector]:
    folder = tmp_path_factory.mktemp("session")
    async with inspecting("--", *SCRIPT_AGENT, cwd=folder) as running:
        yield running


async def conversation(page: Page, inspector: Inspector) -> Locator:
    """Show the conversation; return the button that opens sessions."""
    await page.goto(inspector.address)
    await page.get_by_role("link", name="Conversation").click()
    new = page.get_by_role("button", name="New session")
    await expect(new).to_be_enabled()
    return new


async def new_session(page: Page, inspector: Inspector) -> Locator:
    """Open a session by keyboard; return its prompt, which has the focus."""
    new = await conversation(page, inspector)
    async with page.expect_response("**/api/conversation/new"):
        await new.press("Enter")
    prompt = page.locator("textarea.prompt")
    await expect(prompt).to_be_focused()
    return prompt


async def sessions(page: Page) -> int:
    return await page.locator(".sessions a").count()


async def ask(page: Page, prompt: Locator, text: str = "permission") -> Locator:
    """Let the agent ask; return the question, which takes answers."""
    await prompt.fill(text)
    await prompt.press("Enter")
    card = page.locator(".question.permission")
    await expect(card.get_by_role("button", name="Reject rejects this once")).to_be_enabled()
    return card


async def test_typing_after_new_session_is_a_prompt(page: Page, inspector: Inspector) -> None:
    await new_session(page, inspector)
    before = await sessions(page)
    await page.keyboard.type("echo one two three four five six seven")
    await page.keyboard.press("Enter")
    await expect(page.locator(".entry.agent .parts").last).to_contain_text("two three four")
    assert await sessions(page) == before


async def test_typing_while_a_session_opens_is_the_beginning_of_the_prompt(
    page: Page, inspector: Inspector
) -> None:
    new = await conversation(page, inspector)
    asked: list[Route] = []

    async def hold(route: Route) -> None:
        asked.append(route)

    await page.route("**/api/conversation/new", hold)
    async with page.expect_request("**/api/conversation/new"):
        await new.click()
    await expect(page.get_by_role("button", name="Opening a session…")).to_be_focused()
    await page.keyboard.type("echo 1 2x")
    await page.keyboard.press("Backspace")
    await page.keyboard.press("Enter")
    assert len(asked) == 1
    await asked[0].continue_()
    prompt = page.locator("textarea.prompt")
    await expect(prompt).to_be_focused()
    await expect(prompt).to_have_value("echo 1 2")
    assert "/conversation/" in page.url


async def test_typing_until_the_prompt_is_visible_is_kept_and_opens_one_session(
    page: Page, inspector: Inspector
) -> None:
    held: list[str | bytes] | None = None  # what the server pushes
    routes: list[WebSocketRoute] = []

    def route(socket: WebSocketRoute) -> None:
        routes.append(socket)
        server = socket.connect_to_server()
        server.on_message(lambda sent: socket.send(sent) if held is None else held.append(sent))

    await page.route_web_socket("**", route)
    new = await conversation(page, inspector)
    before = await sessions(page)
    held = []
    async with page.expect_response("**/api/conversation/new"):
        await new.click()
    await page.keyboard.type("echo 1 2x")
    await page.keyboard.press("Backspace")
    await page.keyboard.press("Enter")
    pushed, held = held, None
    for sent in pushed:
        routes[-1].send(sent)
    prompt = page.locator("textarea.prompt")
    await expect(prompt).to_be_focused()
    await expect(prompt).to_have_value("echo 1 2")
    await expect(page.get_by_role("button", name="New session")).to_be_enabled()
    assert await sessions(page) == before + 1


async def test_focus_stays_in_a_field_in_which_the_user_types_meanwhile(
    page: Page, inspector: Inspector
) -> None:
    new = await conversation(page, inspector)
    asked: list[Route] = []

    async def hold(route: Route) -> None:
        asked.append(route)

    await page.route("**/api/conversation/new", hold)
    async with page.expect_request("**/api/conversation/new"):
        await new.click()
    folder = page.get_by_label("Folder", exact=True)
    await folder.focus()
    async with page.expect_response("**/api/conversation/new") as response:
        await asked[0].continue_()
    opened = (await (await response.value).json())["result"]
    await expect(page.locator(f".sessions a[data-id='{opened}']")).to_have_attribute(
        "aria-current", "page"
    )
    await expect(page.locator("textarea.prompt")).to_be_visible()
    await expect(folder).to_be_focused()


async def test_forked_and_loaded_sessions_have_the_focus_in_the_prompt(
    page: Page, inspector: Inspector
) -> None:
    prompt = await new_session(page, inspector)
    await prompt.fill("title Kept")
    await prompt.press("Enter")
    await expect(page.locator(".session-head .title")).to_have_text("Kept")
    await page.get_by_role("button", name="Fork", exact=True).press("Enter")
    await expect(prompt).to_be_focused()
    await page.get_by_role("button", name="Close", exact=True).press("Enter")
    await expect(page.locator(".session-head .status")).to_have_text("closed")
    await page.get_by_role("button", name="List stored sessions").press("Enter")
    await page.get_by_role("button", name="Load Kept").first.press("Enter")
    await expect(prompt).to_be_focused()


async def test_new_session_on_a_phone_shows_its_prompt(page: Page, inspector: Inspector) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(inspector.address)
    await page.get_by_role("link", name="Conversation").click()
    await page.get_by_text("Sessions", exact=True).click()
    await page.get_by_role("button", name="New session").click()
    await expect(page.locator("textarea.prompt")).to_be_focused()
    await expect(page.locator("textarea.prompt")).to_be_in_viewport()
    await expect(page.get_by_role("button", name="New session")).to_be_hidden()


@pytest.mark.parametrize("focus", ["body", ".log", "a[href='/timeline']", ".sessions a"])
async def test_digit_answers_the_question_wherever_the_focus_is(
    page: Page, inspector: Inspector, focus: str
) -> None:
    prompt = await new_session(page, inspector)
    card = await ask(page, prompt)
    if focus == "body":
        await prompt.blur()
    else:
        await page.locator(focus).first.focus()
    await page.keyboard.press("3")
    await expect(card).to_have_count(0)
    await expect(page.locator(".entry.permission").last).to_contain_text("Answer: Reject")
    assert "/conversation/" in page.url
    # Without a question, a digit is a view again.
    await prompt.blur()
    await page.keyboard.press("5")
    await expect(page).to_have_url(re.compile("/capabilities"))


async def test_digit_in_a_field_is_text_and_others_are_views(
    page: Page, inspector: Inspector
) -> None:
    prompt = await new_session(page, inspector)
    card = await ask(page, prompt)
    await prompt.press("3")
    await expect(prompt).to_have_value("3")
    await expect(card).to_have_count(1)
    await prompt.blur()
    await page.keyboard.press("7")  # more than there are options
    await expect(page).to_have_url(re.compile("/statistics"))
    await page.keyboard.press("2")
    await expect(card.get_by_role("button", name="Reject rejects this once")).to_be_enabled()
    await page.keyboard.press("3")
    await expect(card).to_have_count(0)


async def test_single_keys_are_switched_off_and_stay_off(
    context: BrowserContext, inspector: Inspector
) -> None:
    page = await context.new_page()
    prompt = await new_session(page, inspector)
    await page.get_by_role("button", name="Keys").click()
    switch = page.get_by_label("Single keys are shortcuts")
    await switch.uncheck()
    await page.keyboard.press("Escape")
    await page.reload()
    card = await ask(page, prompt)
    await prompt.blur()
    address = page.url
    for key in ("3", "5", "?"):
        await page.keyboard.press(key)
    await expect(card).to_have_count(1)
    assert page.url == address
    await expect(page.locator("dialog")).to_have_count(0)
    # The question that has the focus takes digits: they are active only there.
    await page.keyboard.press("Alt+p")
    await page.keyboard.press("3")
    await expect(card).to_have_count(0)
    await page.get_by_role("link", name="Timeline", exact=True).click()
    await expect(page.locator(".message-row .n").nth(1)).to_have_text("1")
    await page.locator(".viewport").focus()
    for key in ("f", "v", "j", "/"):
        await page.keyboard.press(key)
    await expect(page.get_by_role("button", name="Follow")).to_have_attribute(
        "aria-pressed", "false"
    )
    assert "view=" not in page.url
    await expect(page.locator(".viewport")).to_be_focused()
    await page.keyboard.press("ArrowDown")  # is not a character
    await expect(page.locator(".message-row.active .n")).to_have_text("2")
    await page.get_by_role("button", name="Keys").click()
    await expect(switch).not_to_be_checked()
    await switch.check()
    await page.keyboard.press("Escape")
    await page.keyboard.press("5")
    await expect(page).to_have_url(re.compile("/capabilities"))
