"""The waterfall: requests by session and turn, with bars for their time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from inspector.inspector_process import Inspector, go, inspecting

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

HEADER = '{"type":"header","version":1,"t":"2026-01-01T00:00:00.000000Z","program":"test"}\n'
MANY = 20_000  # turns


def line(ts: float, kind: str, to: str, number: int, head: str, body: str, session: str) -> str:
    ends = '"from":"Client","to":"Agent"' if to == "to_agent" else '"from":"Agent","to":"Client"'
    named = f'"session":"{session}",' if session else ""
    return (
        f'{{"type":"{kind}","ts":{ts},"protocol":"acp",{ends},"id":{number},{head},'
        f'{named}"dir":"{to}","conn":"1","bytes":90,{body}}}\n'
    )


def request(ts: float, to: str, number: int, method: str, session: str = "") -> str:
    params = f'"params":{{"sessionId":"{session}"}}' if session else '"params":{}'
    return line(ts, "request", to, number, f'"method":"{method}"', params, session)


def response(ts: float, to: str, number: int, session: str = "", error: bool = False) -> str:
    payload = '"payload":{"code":-1,"message":"no"}' if error else '"payload":{}'
    head = f'"is_error":{str(error).lower()}'
    return line(ts, "response", to, number, head, payload, session)


def one_turn(ts: float, number: int, session: str) -> Iterator[str]:
    yield request(ts, "to_agent", number, "session/prompt", session)
    yield request(ts + 0.1, "to_client", number, "fs/read_text_file", session)
    yield response(ts + 0.3, "to_agent", number, session, error=number % 2 == 0)
    yield response(ts + 0.8, "to_client", number, session)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inspector]:
    path = tmp_path_factory.mktemp("recordings")
    lines = [
        request(0.0, "to_agent", 0, "initialize"),
        response(1.0, "to_client", 0),
        *one_turn(1.0, 1, "first"),
        *one_turn(2.0, 2, "second"),
        request(3.0, "to_agent", 3, "session/set_mode", "first"),
        response(3.5, "to_client", 3, "first"),
        request(4.0, "to_agent", 4, "session/prompt", "first"),
        request(5.0, "to_client", 5, "session/request_permission", "first"),
    ]
    (path / "few.acp.jsonl").write_text(HEADER + "".join(lines))
    with (path / "many.acp.jsonl").open("w") as file:
        file.write(HEADER)
        for number in range(MANY):
            file.writelines(one_turn(float(number), number, f"session-{number % 7}"))
    async with inspecting(str(path)) as running:
        yield running


async def shown(page: Page, inspector: Inspector, name: str = "few", rest: str = "") -> None:
    await page.goto(inspector.address)
    await go(page, f"/waterfall?recording={name}.acp.jsonl{rest}")
    await expect(page.locator("#fall-0 .took")).not_to_be_empty()


async def bar(page: Page, row: int) -> tuple[float, float]:
    """Return where a bar begins and ends, as parts of the time that is shown."""
    # The page draws a row again in a frame of its own, and drops the old one.
    found: Any = await page.evaluate(
        """async row => {
          const frame = () => new Promise(requestAnimationFrame);
          let bar = null;
          for (let frames = 0; frames < 3 || (bar === null && frames < 300); frames++) {
            await frame();
            bar = document.querySelector(`#fall-${row} .fall-bar`);
          }
          const [a, b] = [bar, bar.parentElement].map((one) => one.getBoundingClientRect());
          return [(a.left - b.left) / b.width, (a.right - b.left) / b.width];
        }""",
        row,
    )
    return found[0], found[1]


async def test_requests_are_below_their_session_and_turn(page: Page, inspector: Inspector) -> None:
    await shown(page, inspector)
    await expect(page.locator("view-waterfall .list-status")).to_have_text("8 requests")
    names = [
        "Without a session 1",
        "#1 initialize",
        "Session first 5",
        "#3 session/prompt",
        "#4 fs/read_text_file ← agent",
        "#11 session/set_mode",
        "#13 session/prompt",
        "#14 session/request_permission ← agent",
        "Session second 2",
        "#7 session/prompt",
        "#8 fs/read_text_file ← agent",
    ]
    for number, name in enumerate(names):
        await expect(page.locator(f"#fall-{number} .name")).to_have_text(name)
    depths = {3: "1", 4: "2", 5: "1", 6: "1", 7: "2"}
    for number, depth in depths.items():
        await expect(page.locator(f"#fall-{number}")).to_have_class(re.compile(f"depth-{depth}"))
    await expect(page.locator("#fall-10")).to_have_class(re.compile("error"))
    await expect(page.locator("#fall-7 .took")).to_have_text("no response")


async def test_bars_are_where_the_time_was(page: Page, inspector: Inspector) -> None:
    await shown(page, inspector)
    for row, start, end in ((1, 0.0, 1.0), (3, 1.0, 1.8), (4, 1.1, 1.3), (7, 5.0, 5.0)):
        found = await bar(page, row)
        assert found[0] == pytest.approx(start / 5, abs=0.02), row
        assert found[1] == pytest.approx(end / 5, abs=0.02), row
    await expect(page.locator("#fall-3 .took")).to_have_text("800 ms")
    await expect(page.locator("#fall-3 .took")).to_have_attribute("title", "from 1.00 s to 1.80 s")


async def test_keyboard_moves_zooms_and_opens(page: Page, inspector: Inspector) -> None:
    await shown(page, inspector)
    await page.locator(".viewport").focus()
    for _ in range(3):
        await page.keyboard.press("ArrowDown")
    active = page.locator(".viewport")
    await expect(active).to_have_attribute("aria-activedescendant", "fall-3")
    await page.keyboard.press("z")
    start, end = await bar(page, 3)
    assert start == pytest.approx(0.045, abs=0.02)
    assert end == pytest.approx(0.955, abs=0.02)
    await expect(page.locator("#fall-1 .fall-bar")).to_have_count(1)  # ends when this begins
    await expect(page.locator("#fall-7 .fall-bar")).to_have_count(0)
    await page.keyboard.press("a")
    await expect(page.locator("#fall-7 .fall-bar")).to_have_count(1)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/timeline/4\?recording=few"))


async def test_one_session_is_chosen(page: Page, inspector: Inspector) -> None:
    await shown(page, inspector)
    await page.get_by_label("Session").select_option("second")
    await expect(page.locator("view-waterfall .list-status")).to_have_text("2 requests")
    await expect(page).to_have_url(re.compile("session=second"))
    await expect(page.locator("#fall-0 .name")).to_have_text("Session second 2")


async def test_many_requests_have_few_elements(page: Page, inspector: Inspector) -> None:
    await shown(page, inspector, "many")
    status = page.locator("view-waterfall .list-status")
    await expect(status).to_have_text(f"{2 * MANY:,} requests".replace(",", " "))
    assert await page.locator(".fall-row").count() < 80
    await page.locator(".viewport").press("End")
    last = 2 * MANY + 6  # and a heading for each of 7 sessions
    await expect(page.locator(f"#fall-{last} .method")).to_have_text("fs/read_text_file")
    assert await page.locator(".fall-row").count() < 80
    await page.set_viewport_size({"width": 360, "height": 640})
    assert await page.evaluate("document.documentElement.scrollWidth") == 360
    await expect(page.locator(f"#fall-{last} .fall-bar")).to_be_visible()


@pytest.mark.parametrize("query", ["from=x", "count=1.5"])
async def test_mistake_in_the_address_is_explained(
    page: Page, inspector: Inspector, query: str
) -> None:
    await page.goto(inspector.address)
    answer = await page.request.get(
        f"{inspector.origin}/api/waterfall?recording=few.acp.jsonl&{query}"
    )
    assert answer.status == 400
    assert "whole numbers" in (await answer.json())["error"]
