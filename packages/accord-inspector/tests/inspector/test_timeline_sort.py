"""The timeline is sorted by a column: by the headings, by the form, by the address."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from accord_trace import Recording
from inspector.inspector_process import Inspector, go, inspecting
from inspector.recordings import chunk, message, opening, save_many, turn

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def recording(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Recording]:
    path = tmp_path_factory.mktemp("recordings") / "r.acp.jsonl"
    with Recording(path) as recording:
        yield recording


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector(recording: Recording) -> AsyncIterator[Inspector]:
    hop = recording.hop()
    recording.add(hop, [*opening(), *turn(2, *(chunk("x" * n) for n in (500, 5000, 50)))])
    recording.add(hop, turn(3, chunk("a", session="b"), session="b"))
    async with inspecting(str(recording.path)) as running:
        yield running


async def column(page: Page, name: str) -> list[str]:
    """Return the cells of a column, from top to bottom."""
    rows = page.locator(".message-row:visible:not(.heading)")
    cells: list[tuple[float, str]] = []
    for row in await rows.all():
        box = await row.bounding_box()
        assert box is not None
        cells.append((box["y"], await row.locator(f".{name}").inner_text()))
    return [text for _, text in sorted(cells)]


async def test_heading_sorts_and_sorts_the_other_way_round(
    page: Page, inspector: Inspector
) -> None:
    await page.goto(inspector.address)
    await expect(page.locator(".list-status")).to_contain_text(re.compile("^12 messages"))
    head = page.get_by_role("columnheader", name="Size")
    first = page.locator("#row-0 .n")
    await head.get_by_role("button").click()
    await expect(head).to_have_attribute("aria-sort", "descending")
    await expect(first).to_have_text("7")
    assert (await column(page, "n"))[:2] == ["7", "6"]
    await head.get_by_role("button").press("Enter")
    await expect(head).to_have_attribute("aria-sort", "ascending")
    await expect(page.locator("#row-11 .n")).to_have_text("7")
    await expect(page).to_have_url(re.compile(r"\?sort=bytes$"))
    await head.get_by_role("button").press(" ")
    await expect(first).to_have_text("1")
    assert "sort" not in page.url
    assert await column(page, "n") == [str(number) for number in range(1, 13)]


@pytest.mark.parametrize("sort", ["latency", "-latency"])
async def test_messages_without_a_value_are_last_in_both_orders(
    page: Page, inspector: Inspector, sort: str
) -> None:
    await page.goto(inspector.address)
    await page.get_by_label("Sort").select_option(sort)
    await expect(page).to_have_url(re.compile(f"sort={sort}"))
    await expect(page.locator("#row-11 .latency")).to_have_text("")
    await expect(page.locator("#row-0 .latency")).not_to_have_text("")
    assert [bool(text) for text in await column(page, "latency")] == [True] * 8 + [False] * 4


async def test_sessions_and_methods_are_in_the_order_of_their_names(
    page: Page, inspector: Inspector
) -> None:
    await page.goto(inspector.address)
    await go(page, "/timeline?sort=session")
    await expect(page.locator("#row-0 .session")).to_have_text("b")
    sessions = await column(page, "session")
    assert sessions == sorted(sessions, key=lambda text: (not text, text))
    await go(page, "/timeline?sort=-method&direction=to_agent")
    await expect(page.locator("#row-0 .method")).to_contain_text("session/prompt")
    await expect(page.locator(".list-status")).to_contain_text("4 of 12 messages")
    methods = await column(page, "method")
    assert methods == sorted(methods, reverse=True)
    # The open message is found in this order; the sequence diagram keeps that of time.
    await go(page, "/timeline/5?sort=-bytes")
    await expect(page.locator(".message-row.chosen .n")).to_have_text("5")
    await go(page, "/timeline?sort=-bytes&view=sequence")
    await expect(page.locator("#row-0 .label")).to_contain_text("initialize")


async def test_unknown_column_is_explained(page: Page, inspector: Inspector) -> None:
    await page.goto(inspector.address)
    await go(page, "/timeline?sort=colour")
    await expect(page.locator(".list-status")).to_contain_text(
        "sort: expected one of: way, session, method, bytes, latency, got 'colour'"
    )


async def test_what_comes_later_is_sorted_too(
    page: Page, inspector: Inspector, recording: Recording
) -> None:
    await page.goto(inspector.address)
    await go(page, "/timeline?sort=-bytes")
    await expect(page.locator("#row-0 .n")).to_have_text("7")
    params = {"text": "y" * 90_000}
    recording.add(recording.hop(), [message("to_client", method="_x/large", params=params)])
    await expect(page.locator("#row-0 .method")).to_contain_text("_x/large")


async def test_many_messages_are_sorted(
    page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = save_many(tmp_path_factory.mktemp("many") / "many.acp.jsonl", 200)
    async with inspecting(str(path)) as inspector:
        await page.goto(inspector.address)
        await expect(page.locator(".list-status")).to_contain_text(re.compile("^100 000 messages"))
        await page.get_by_role("columnheader", name="Method").get_by_role("button").click()
        await expect(page.locator("#row-0 .method")).to_contain_text("session/prompt")
        await page.locator(".viewport").press("End")
        await expect(page.locator("#row-99999 .method")).to_contain_text("session/update")
