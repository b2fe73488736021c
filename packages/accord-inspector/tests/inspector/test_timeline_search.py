"""The text filter shows where it matched, in the list and in the message, however large it is."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from inspector.inspector_process import Inspector, go, inspecting
from inspector.recordings import chunk, message, opening, save, turn

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

LARGE = "lorem ipsum " * 425_000  # 5 MB
HTML = "<b>needle</b>"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inspector]:
    path = tmp_path_factory.mktemp("recordings") / "r.acp.jsonl"
    items = [{"name": f"item {number}"} for number in range(450)]
    deep: Any = "at the bottom"
    for _ in range(500):
        deep = [deep]
    save(
        path,
        [
            *opening(),
            *turn(
                2,
                chunk(f"{LARGE}a nEEdle in it{LARGE}"),
                chunk(f"{LARGE}nothing{LARGE}"),
                chunk(f'say "hi"\n{HTML} \u202e'),
                chunk("Straße, ÄRGER"),
                message("to_client", method="_x/needles", params={"items": items}),
                message("to_client", method="_x/deep", params={"value": deep}),
            ),
        ],
    )
    async with inspecting(str(path)) as running:
        yield running


async def search(page: Page, inspector: Inspector, text: str, matched: int) -> None:
    """Type a text into the filter."""
    await page.goto(inspector.address)
    await expect(page.locator(".list-status")).to_contain_text(re.compile("^12 messages"))
    await page.keyboard.press("/")
    await page.keyboard.type(text)
    status = page.locator(".list-status")
    await expect(status).to_contain_text(re.compile(f"^{matched} of 12 messages"))


def row(page: Page, number: int) -> Any:
    exact = page.locator(".n", has_text=re.compile(f"^{number}$"))
    return page.locator(".message-row:visible").filter(has=exact)


async def test_list_shows_an_excerpt_around_the_match(page: Page, inspector: Inspector) -> None:
    await search(page, inspector, "needle", 3)
    large = row(page, 6).locator(".summary")
    await expect(large.locator("mark")).to_have_text("nEEdle")
    await expect(large.locator(".before")).to_contain_text("lorem ipsum a")
    await expect(large.locator(".after")).to_contain_text("in it")
    assert len(await large.inner_text()) < 300
    # It is visible where the list is narrow, with what is before it.
    for width in (360, 390, 1280):
        await page.set_viewport_size({"width": width, "height": 720})
        box, mark = await large.bounding_box(), await large.locator("mark").bounding_box()
        assert box is not None
        assert mark is not None
        assert box["x"] < mark["x"]
        assert mark["x"] + mark["width"] <= box["x"] + box["width"] + 1
        assert mark["x"] + mark["width"] <= width
    await expect(row(page, 10).locator(".method mark")).to_have_text("needle")
    # What an agent sent is text.
    await expect(row(page, 8).locator(".summary")).to_contain_text(r"\n<b>needle</b>")
    assert await page.locator(".message-row b").count() == 0


@pytest.mark.parametrize("tab", ["Pretty", "Raw"])
async def test_message_of_10_megabytes_is_scrolled_to_the_match(
    page: Page, inspector: Inspector, tab: str
) -> None:
    await search(page, inspector, "needle", 3)
    await row(page, 6).click()
    await expect(page.locator("message-view")).to_contain_text("10.2 MB")
    await page.get_by_role("tab", name=tab).click()
    mark = page.locator("message-view mark.match")
    await expect(mark).to_have_text("nEEdle")
    await expect(mark).to_be_in_viewport()
    line = page.locator("message-view :is(.string, .raw)").filter(has=page.locator("mark.match"))
    await expect(line).to_contain_text("lorem ipsum a nEEdle in itlorem")
    assert len(await page.locator("message-view").inner_text()) < 600_000
    if tab == "Pretty":
        await page.get_by_role("button", name="Show 200 000 of").click()
        await expect(mark).to_have_count(1)
        await expect(page.get_by_role("button", name="Fold")).to_be_visible()


async def test_place_of_a_match_in_a_long_list_is_open(page: Page, inspector: Inspector) -> None:
    await search(page, inspector, "item 333", 1)
    await row(page, 10).click()
    mark = page.locator("message-view mark.match")
    await expect(mark).to_be_in_viewport()
    tree = page.locator(".json-tree")
    await expect(tree).to_contain_text("item 399")
    await expect(tree).not_to_contain_text("item 299")
    await page.get_by_role("button", name="300 are before").click()
    await expect(tree).to_contain_text("item 0")
    await page.get_by_role("button", name="50 are left").click()
    await expect(tree).to_contain_text("item 449")


@pytest.mark.parametrize(
    ("text", "number", "shown"),
    [
        ('say "hi"', 8, 'say "hi"'),
        ('say \\"hi', 8, 'say "hi'),
        ("ärger", 9, "ÄRGER"),
        ("<b>n", 8, "<b>n"),
        ('"text": "say', 8, '"text": "say'),
        ("at the bottom", 11, "at the bottom"),
    ],
)
async def test_every_match_of_the_filter_is_shown(
    page: Page, inspector: Inspector, text: str, number: int, shown: str
) -> None:
    await search(page, inspector, text, 1)
    await expect(row(page, number).locator(".summary mark")).to_have_text(shown)
    await row(page, number).click()
    mark = page.locator("message-view mark.match")
    raw = page.get_by_role("button", name="Show it in Raw")
    await expect(mark.or_(raw).first).to_be_visible()
    if await raw.count():
        await raw.click()
        await expect(mark.first).to_be_in_viewport()


async def test_marks_follow_the_filter(page: Page, inspector: Inspector) -> None:
    await search(page, inspector, 'say \\"hi', 1)
    await row(page, 8).click()
    mark = page.locator("message-view mark.match")
    await expect(mark).to_have_text('say "hi')
    await go(page, "/timeline/8?text=say")
    await expect(mark).to_have_text("say")
    await go(page, "/timeline/8")
    await expect(mark).to_have_count(0)
    await expect(page.locator(".message-row mark.match")).to_have_count(0)


async def test_message_is_copied_in_other_forms(page: Page, inspector: Inspector) -> None:
    await page.goto(inspector.address)
    await go(page, "/timeline/5")
    await page.get_by_text("Copy as…").click()
    for name, expected in (
        ("JSON", '"method": "session/prompt"'),
        ("Python", "MESSAGE = {"),
        ("Shell command", "printf '%s\\n' '{"),
    ):
        button = page.get_by_role("button", name=name)
        await button.click()
        await expect(button).to_have_text(f"{name}: copied")
        assert expected in await page.evaluate("navigator.clipboard.readText()")
