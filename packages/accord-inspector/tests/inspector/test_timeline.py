"""The timeline in a browser: list, filters, message, keyboard, pause, sequence diagram."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from accord_trace import Recording
from inspector.inspector_process import MODULE, Inspector, go, inspecting
from inspector.recordings import Direction, chunk, message, opening, save, turn

if TYPE_CHECKING:
    from inspector.conftest import Profile

pytestmark = pytest.mark.asyncio(loop_scope="session")

BIDI = "abc\u202edef\u202c \u2066x"
HTML = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
ANSI = "\x1b[31mred\x1b[0m\x07"
HOSTILE = f"{HTML} {BIDI} {ANSI}"


def _plain() -> list[tuple[Direction, bytes]]:
    """Return a conversation with an error at 7, and an update for an unknown session at 8."""
    wrong = {"sessionId": "s1", "prompt": [{"type": "text", "txt": "x"}]}
    return [
        *opening(),
        message("to_agent", id=2, method="session/prompt", params=wrong),
        chunk("hello"),
        chunk("x" * 5000),
        message("to_client", id=2, error={"code": -32602, "message": "wrong"}),
        chunk("lost", session="unknown"),
        *turn(3, *(chunk(f"word {n}") for n in range(200)), text="again"),
    ]


def _hostile() -> list[tuple[Direction, bytes]]:
    key = {"sessionUpdate": HOSTILE, HOSTILE: HOSTILE, "_meta": {HOSTILE: [HOSTILE]}}
    return [
        *opening(session=HOSTILE),
        *turn(2, chunk(HOSTILE, session=HOSTILE), text=HOSTILE, session=HOSTILE),
        message("to_client", method=HOSTILE, params={"sessionId": HOSTILE, "update": key}),
        message("to_client", id=HOSTILE, method=HOSTILE, params=HOSTILE),
        message("to_agent", id=HOSTILE, error={"code": 1, "message": HOSTILE, "data": HOSTILE}),
        ("to_client", HOSTILE.encode()),
        ("to_client", b"\xff\xfe{"),
    ]


def _chain(path: Path) -> None:
    """Record what passes a chain of two proxies."""
    with Recording(path) as recording:
        names = ("Client", "Proxy(0)", "Proxy(1)", "Agent")
        hops = [recording.hop(*ends) for ends in pairwise(names)]
        for direction, frame in [*opening(), *turn(2, chunk("hello"))]:
            for hop in hops if direction == "to_agent" else reversed(hops):
                recording.add(hop, [(direction, frame)])


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings")
    save(path / "plain.acp.jsonl", _plain())
    save(path / "hostile.acp.jsonl", _hostile())
    number = message("to_client", id=2**63 - 1, method="_x", params={"n": -(2**60) - 1, "f": 1e300})
    save(path / "numbers.acp.jsonl", [*opening(), number])
    _chain(path / "chain.acp.jsonl")
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shown(folder: Path) -> AsyncIterator[Inspector]:
    async with inspecting(str(folder)) as inspector:
        yield inspector


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tab(profile: Profile, shown: Inspector) -> AsyncIterator[Page]:
    """A tab that is logged in; the tests of this module share it."""
    page = await profile.context.new_page()
    await page.goto(shown.address)
    yield page
    await page.close()


@pytest_asyncio.fixture(loop_scope="session")
async def timeline(tab: Page, profile: Profile, shown: Inspector) -> AsyncIterator[Timeline]:
    """The tab, with the list of recordings."""
    profile.problems.clear()
    await tab.set_viewport_size({"width": 1280, "height": 720})
    await go(tab, "/recordings")
    await expect(tab.get_by_role("heading", name="Recordings")).to_be_visible()
    yield Timeline(tab, shown.origin)
    assert not profile.problems, profile.problems


class Timeline:
    """A page with the timeline."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin

    async def load(self, path: str) -> None:
        """Open an address as a bookmark does."""
        await self.page.goto(f"{self.origin}{path}?recording=plain.acp.jsonl")

    async def open(self, path: str, recording: str = "plain.acp.jsonl") -> None:
        mark = "&" if "?" in path else "?"
        await go(self.page, f"{path}{mark}recording={recording}")

    @property
    def status(self) -> Locator:
        return self.page.locator(".list-status")

    @property
    def rows(self) -> Locator:
        return self.page.locator(".viewport .spacer > :visible")

    def row(self, n: int) -> Locator:
        exact = self.page.locator(".n", has_text=re.compile(f"^{n}$"))
        return self.page.locator(".message-row").filter(has=exact)

    @property
    def message(self) -> Locator:
        return self.page.locator("message-view")

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.page.keyboard.press(key)


async def test_row_has_every_column(timeline: Timeline) -> None:
    await timeline.open("/timeline")
    await expect(timeline.status).to_contain_text(re.compile("^211 messages"))
    row = timeline.row(5)
    await expect(row.locator(".way")).to_have_text("Client → Agent")
    await expect(row.locator(".session")).to_have_text("s1")
    await expect(row.locator(".method")).to_have_text("req session/prompt")
    await expect(row.locator(".bytes")).to_have_text(re.compile(r"\d+ B"))
    await expect(row.locator(".latency")).to_have_text(re.compile(r"[µm]?s$"))
    await expect(timeline.row(6).locator(".summary")).to_contain_text("agent_message_chunk")
    await expect(timeline.row(8).locator(".marks")).to_contain_text("error")
    await expect(timeline.row(9).locator(".marks")).to_contain_text("R-SESS-02")


FILTERS = (
    ("errors=1", 1, "8"),
    ("text=WORD+199", 1, "210"),
    ("method=session/prompt", 4, "5"),
    ("method=init*&direction=to_client", 1, "2"),
    ("session=unknown", 1, "9"),
    ("path=$.params.prompt[0].txt", 1, "5"),
    ("rule=R-SESS-02", 1, "9"),
    ("rule=any&direction=to_agent", 1, "5"),
)


async def test_filter_is_in_the_address(timeline: Timeline) -> None:
    for query, count, first in FILTERS:
        await timeline.open(f"/timeline?{query}")
        await expect(timeline.status).to_contain_text(re.compile(f"^{count} of 211 messages"))
        await expect(timeline.rows.first.locator(".n")).to_have_text(first)


async def test_filter_bar_changes_the_address(timeline: Timeline) -> None:
    await timeline.open("/timeline")
    await expect(timeline.status).to_contain_text(re.compile("^211 messages"))
    await timeline.press("/")
    await timeline.page.keyboard.type("word 17")
    await expect(timeline.status).to_contain_text(re.compile("^11 of 211 messages"))
    await expect(timeline.page).to_have_url(re.compile(r"text=word\+17"))
    await timeline.page.get_by_label("Direction").select_option("to_agent")
    await expect(timeline.status).to_contain_text(re.compile("^0 of 211 messages"))
    await timeline.page.get_by_role("button", name="Clear").click()
    await expect(timeline.status).to_contain_text(re.compile("^211 messages"))


async def test_wrong_filter_is_explained(timeline: Timeline) -> None:
    await timeline.open("/timeline?path=$[")
    await expect(timeline.status).to_contain_text("JSONPath")


async def test_deep_link_opens_a_message_and_shows_its_row(timeline: Timeline) -> None:
    await timeline.load("/timeline/151")
    await expect(timeline.message).to_contain_text("#151")
    await expect(timeline.page.locator(".message-row.chosen .n")).to_have_text("151")


async def test_differences_and_broken_rules_are_marked_in_place(timeline: Timeline) -> None:
    await timeline.open("/timeline/5")
    wrong = timeline.message.locator(".wrong")
    await expect(wrong).to_have_count(2)
    await expect(wrong.first).to_contain_text("txt")
    await expect(wrong.last).to_contain_text("text: ✖ missing")
    rule = timeline.message.get_by_label("Broken rules")
    await expect(rule).to_contain_text("R-CONT-01 By the client: expected the key `text`")
    await expect(rule).to_contain_text("The rule: Content blocks have the form that MCP defines")
    link = rule.get_by_role("link", name="R-CONT-01")
    await expect(link).to_have_attribute("href", re.compile("^https://agentclientprotocol.com/"))


async def test_fields_are_explained_by_keyboard(timeline: Timeline) -> None:
    await timeline.open("/timeline/6")
    await timeline.message.locator("[role=treeitem]").first.focus()
    for _ in range(8):
        await timeline.press("ArrowDown")
    field = timeline.message.locator(".field-doc")
    await expect(field).to_contain_text("$.params.update.content.type")
    await timeline.press("ArrowLeft")
    await expect(field).to_contain_text("Text, read as Markdown.")
    content = timeline.message.locator("[data-path='$.params.update.content']")
    await expect(content).to_have_attribute("aria-expanded", "true")
    await timeline.press("ArrowLeft")
    await expect(content).to_have_attribute("aria-expanded", "false")


async def test_large_numbers_are_exact(timeline: Timeline) -> None:
    await timeline.open("/timeline/5", "numbers.acp.jsonl")
    values = timeline.message.locator(".value:is(.bigint, .number)")
    await expect(values).to_have_text(["9223372036854775807", "-1152921504606846977", "1e+300"])


async def test_long_strings_are_folded(timeline: Timeline) -> None:
    await timeline.open("/timeline/7")
    text = timeline.message.locator(".value.string").last
    await expect(text).to_contain_text("Show all 5 000 characters")
    assert len(await text.inner_text()) < 500
    await text.get_by_role("button").click()
    assert len(await text.inner_text()) > 5000


async def test_jump_to_the_pair_and_back_by_keyboard(timeline: Timeline) -> None:
    await timeline.open("/timeline/8")
    await expect(timeline.row(5)).to_have_class(re.compile(r"\bpair\b"))
    await timeline.press("p")
    await expect(timeline.message).to_contain_text("#5 session/prompt request")
    await timeline.message.get_by_role("link", name="Its response").click()
    await expect(timeline.message).to_contain_text("#8 session/prompt response")
    await timeline.page.go_back()
    await expect(timeline.message).not_to_contain_text("#8")


async def test_everything_by_keyboard(timeline: Timeline) -> None:
    await timeline.open("/timeline")
    await expect(timeline.status).to_have_text(re.compile(r"^211 messages · \d broken rules$"))
    await timeline.page.locator(".viewport").focus()
    active = timeline.page.locator(".active .n")
    await expect(active).to_have_text("1")
    await timeline.press("j", "ArrowDown", "j", "k")
    await expect(active).to_have_text("3")
    await timeline.press("End")
    await expect(active).to_have_text("211")
    await timeline.press("PageUp")
    await expect(active).not_to_have_text("211")
    await timeline.press("Home", "e")
    await expect(active).to_have_text("8")
    await timeline.press("r", "Enter")
    await expect(timeline.message).to_contain_text("#9")
    await timeline.press("k")
    await expect(timeline.message).to_contain_text("#8")
    await timeline.press("e")
    await expect(timeline.status).to_contain_text("no further error")
    await timeline.press("Escape")
    await expect(timeline.message).to_be_hidden()
    await timeline.press("?")
    await expect(timeline.page.get_by_role("dialog")).to_contain_text("Jump to the response")
    await timeline.press("Escape", "v")
    await expect(timeline.page.locator(".sequence-row").first).to_be_visible()
    assert "view=sequence" in timeline.page.url


async def test_hostile_text_is_only_text(timeline: Timeline) -> None:
    for view in ("", "&view=sequence"):
        await timeline.open(f"/timeline?{view}", "hostile.acp.jsonl")
        await expect(timeline.status).to_contain_text(re.compile("^12 messages"))
        await expect(timeline.rows.and_(timeline.page.locator(":not(.loading)"))).to_have_count(12)
        text = await timeline.page.locator(".viewport").inner_text()
        assert "<script>" in text
        _assert_visible(text)
    await timeline.open("/timeline/8", "hostile.acp.jsonl")
    for n in range(8, 12):
        await expect(timeline.message).to_contain_text(f"#{n}")
        _assert_visible(await timeline.message.inner_text())
        for tab in ("Raw", "Explained"):
            await timeline.message.get_by_role("tab", name=tab).click()
            _assert_visible(await timeline.message.inner_text())
        await timeline.message.get_by_role("tab", name="Pretty").click()
        await timeline.message.get_by_role("link", name="Next").click()
    assert await timeline.page.locator("view-timeline :is(img, script, iframe)").count() == 0
    assert "broken" not in await timeline.page.title()


def _assert_visible(text: str) -> None:
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text
    )


async def test_copy_is_the_exact_text(timeline: Timeline) -> None:
    await timeline.open("/timeline/6", "hostile.acp.jsonl")
    await timeline.message.get_by_role("button", name="Copy").click()
    await expect(timeline.message.get_by_role("button", name="Copied")).to_be_visible()
    copied: Any = await timeline.page.evaluate("() => navigator.clipboard.readText()")
    assert copied.encode() == chunk(HOSTILE, session=HOSTILE)[1]


async def test_growing_recording_can_be_paused_and_followed_and_is_judged(
    timeline: Timeline, folder: Path
) -> None:
    with Recording(folder / "growing.acp.jsonl") as recording:
        hop = recording.hop()
        recording.add(hop, opening())
        await timeline.open("/timeline", "growing.acp.jsonl")
        await expect(timeline.rows).to_have_count(4)
        await timeline.page.get_by_role("button", name="Pause").click()
        recording.add(hop, turn(2, chunk("hello")))
        waiting = timeline.page.get_by_role("button", name="Continue: 3 new")
        await expect(waiting).to_be_visible()
        await expect(timeline.rows).to_have_count(4)
        await waiting.click()
        await expect(timeline.rows).to_have_count(7)
        await timeline.page.get_by_role("button", name="Follow").click()
        recording.add(hop, turn(3, *(chunk(f"word {n}") for n in range(200))))
        await expect(timeline.row(209)).to_be_in_viewport()
        recording.add(hop, [message("to_client", id=3, result={"stopReason": "end_turn"})])
        await expect(timeline.row(210).locator(".marks")).to_contain_text("R-GEN-06")
        await timeline.page.locator(".viewport").hover()
        await timeline.page.mouse.wheel(0, -500)
        follow = timeline.page.get_by_role("button", name="Follow")
        await expect(follow).to_have_attribute("aria-pressed", "false")


async def test_session_stays_visible_while_a_message_is_open(timeline: Timeline) -> None:
    await timeline.open("/timeline/5")
    await expect(timeline.page.locator("message-view")).to_contain_text("#5")
    session = timeline.row(5).locator(".session")
    await expect(session).to_be_visible()
    await expect(session).to_have_text("s1")
    await timeline.page.set_viewport_size({"width": 780, "height": 720})
    await timeline.open("/timeline")
    await expect(timeline.row(5).locator(".session")).to_be_visible()


async def test_request_without_a_response_is_marked(timeline: Timeline, folder: Path) -> None:
    waiting = message("to_agent", id=2, method="session/close", params={"sessionId": "s1"})
    save(folder / "silent.acp.jsonl", [*opening(), waiting])
    await timeline.open("/timeline", "silent.acp.jsonl")
    await expect(timeline.row(5).locator(".mark.bad").first).to_have_text("✖ never answered")
    await expect(timeline.row(3).locator(".mark")).to_have_count(0)


async def test_sequence_diagram_has_a_column_for_each_component(timeline: Timeline) -> None:
    await timeline.open("/timeline?view=sequence", "chain.acp.jsonl")
    heads = timeline.page.locator(".sequence-heads .component")
    await expect(heads).to_have_text(["Client", "Proxy(0)", "Proxy(1)", "Agent"])
    arrows = timeline.page.locator(".sequence-row:visible .arrow")
    await expect(arrows.nth(0)).to_contain_text("initialize")
    starts = [await _ends(heads, arrows, number) for number in range(6)]
    assert starts == [(0, 1), (1, 2), (2, 3), (3, 2), (2, 1), (1, 0)]


async def _ends(heads: Locator, arrows: Locator, number: int) -> tuple[int, int]:
    """Return the columns between which an arrow is, by its place on the screen."""
    box = await arrows.nth(number).bounding_box()
    assert box is not None
    middles: list[float] = []
    for head in await heads.all():
        place = await head.bounding_box()
        assert place is not None
        middles.append(place["x"] + place["width"] / 2)
    ends = [
        min(range(len(middles)), key=lambda at: abs(middles[at] - x))
        for x in (box["x"], box["x"] + box["width"])
    ]
    classes = await arrows.nth(number).get_attribute("class") or ""
    return (ends[0], ends[1]) if "right" in classes else (ends[1], ends[0])


async def test_list_fits_a_phone(timeline: Timeline) -> None:
    await timeline.page.set_viewport_size({"width": 320, "height": 600})
    for path in ("/timeline", "/timeline/5"):
        await timeline.open(path)
        await expect(timeline.status).to_contain_text(re.compile("^211 messages"))
        width: Any = await timeline.page.evaluate("() => document.documentElement.scrollWidth")
        assert width == 320
        if path == "/timeline":
            parts = timeline.row(9).locator(".summary, .marks")
            ends = [await part.bounding_box() for part in await parts.all()]
            assert all(box and box["width"] > 40 and box["x"] + box["width"] <= 320 for box in ends)
    await expect(timeline.page.locator(".viewport")).to_be_hidden()
    await timeline.message.get_by_role("button", name="Close").click()
    await expect(timeline.page.locator(".viewport")).to_be_visible()


@pytest.mark.parametrize("name", ["0", "abc", "1.5"])
async def test_address_of_no_message_says_so(timeline: Timeline, name: str) -> None:
    await timeline.open(f"/timeline/{name}")
    await expect(timeline.message).to_contain_text(f"There is no message {name}")
    await timeline.message.get_by_role("button", name="Close").click()
    await expect(timeline.message).to_be_hidden()


async def test_counts_of_an_earlier_filter_are_ignored(timeline: Timeline) -> None:
    await timeline.open("/timeline")
    await expect(timeline.status).to_contain_text(re.compile("^211 messages"))
    counts = {"total": 1, "matched": 1, "complete": True}
    received = f"async (counts) => {{ const {{ live }} = await ({MODULE})('api');"
    await timeline.page.evaluate(
        received + "live.received({messages: {...counts, watch: live.watches - 1}}) }", counts
    )
    await expect(timeline.status).to_contain_text(re.compile("^211 messages"))
    said = await timeline.status.evaluate(
        received.replace("(counts)", "(status, counts)")
        + "live.received({messages: {...counts, watch: live.watches}});"
        + "return status.textContent }",
        counts,
    )
    assert said.startswith("1 message")


@pytest.mark.parametrize(
    ("judged", "finished", "said"),
    [(5, True, "checking the rules: 50 %"), (10, False, "checking the rules: 100 %")],
)
async def test_page_never_says_no_broken_rules_of_what_was_not_judged(
    timeline: Timeline, judged: int, finished: bool, said: str
) -> None:
    script = f"""async (judged) => {{
      const {{ statusText }} = await ({MODULE})("timeline-status");
      return statusText({{ total: 10, matched: 10, isComplete: true }}, false, judged, "");
    }}"""
    state = {"judged": judged, "total": judged, "found": 0, "problem": "", "finished": finished}
    text: Any = await timeline.page.evaluate(script, state)
    assert text == f"10 messages · {said}"
    state = {**state, "judged": 10, "finished": True}
    assert await timeline.page.evaluate(script, state) == "10 messages · no broken rules"
