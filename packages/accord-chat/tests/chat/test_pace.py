"""Keys come before updates, whatever the agent does: flood, silence, or one very large update."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any, cast

import pytest

from accord import Agent, Turn
from accord_chat.pace import HELD_S, KEY_S, OPEN_S, SLICE_S, Pace, collect_in_pauses
from accord_chat.view import lazy_lines
from accord_chat.view.app import FRAME_S
from accord_chat.view.lazy_lines import LongText
from chat.chats import LocalAgent, Typist, open_chat
from event_loop import drain_event_loop

LINE = "Line {} of a text with **some** words, as they come from a model.\n"
LARGE = "".join(LINE.format(n) + "\n" * (n % 5 == 4) for n in range(48_000))[:3_000_000]


class Clock:
    """A time that passes when the test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_updates_wait_for_a_key_and_then_go_on() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.wait_s() == 0.0
    pace.note_key()
    assert pace.wait_s() == pytest.approx(KEY_S)
    clock.now += KEY_S
    assert pace.wait_s() == 0.0


def test_updates_are_drawn_also_while_a_key_is_held_down() -> None:
    clock = Clock()
    pace = Pace(clock)
    drawn = waited = 0
    for _ in range(300):  # 100 keys in a second
        clock.now += 0.01
        pace.note_key()
        if pace.wait_s() == 0.0:
            drawn += 1
        else:
            waited += 1
    share = OPEN_S / (HELD_S + OPEN_S)
    assert drawn / (drawn + waited) == pytest.approx(share, rel=0.3)


async def test_updates_are_taken_over_in_slices() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.is_slice_over
    await pace.rest()
    assert not pace.is_slice_over
    clock.now += SLICE_S
    assert pace.is_slice_over
    await pace.rest()
    pace.note_key()  # ends the slice
    assert pace.is_slice_over


async def test_updates_wait_also_for_a_key_that_comes_while_they_rest() -> None:
    clock = Clock()
    pace = Pace(clock)
    resting = asyncio.ensure_future(pace.rest())
    await asyncio.sleep(0)
    pace.note_key()  # as the thread that reads keys does it
    await drain_event_loop()
    assert not resting.done()
    clock.now += KEY_S
    await resting
    assert not pace.is_slice_over


async def test_agent_that_floods_is_read_again_after_each_key(tmp_path: Path) -> None:
    agent = Counting()
    async with open_chat(LocalAgent(agent), folder=tmp_path) as user:
        timer = cast("Any", user.app.screen)._update_timer
        assert timer._interval == FRAME_S  # the screen waits only briefly before it draws a key
        await send(user, "go", "number 0")
        for number in range(1, 4):
            user.app.pace.note_key()
            agent.may_send.set()
            await user.sees(f"number {number}")
        await user.until(lambda: not user.session.is_busy)
        assert user.session.transcript.text.count("number") == 4


async def test_only_young_objects_are_collected_while_the_chat_runs() -> None:
    """A collection of older ones takes up to a tenth of a second, in the middle of a word."""
    thresholds = gc.get_threshold()
    collecting = asyncio.ensure_future(collect_in_pauses(Pace()))
    await asyncio.sleep(0)
    before = [row["collections"] for row in gc.get_stats()]
    kept = [[number] for number in range(200_000)]
    after = [row["collections"] for row in gc.get_stats()]
    collecting.cancel()
    await asyncio.wait([collecting])
    assert len(kept) == 200_000
    assert after[0] > before[0]
    assert after[1:] == before[1:]
    assert gc.get_threshold() == thresholds


def test_only_the_parts_of_a_long_text_near_the_window_are_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered: list[int] = []

    def markdown(text: str, width: int) -> Any:
        rendered.append(len(text))
        return real(text, width)

    real = lazy_lines.markdown
    monkeypatch.setattr(lazy_lines, "markdown", markdown)
    text = LongText(76)
    text.update(LARGE, is_final=False)
    end = len(text)
    assert sum(rendered) <= lazy_lines.MAX_PART
    text.measure(end - 64, end, end - 24)
    assert "".join(text[n].text for n in range(len(text) - 24, len(text))).count("Line 43") > 5
    assert sum(rendered) <= 10 * lazy_lines.MAX_PART
    assert text.made_lines < 1000
    text.measure(0, 40, 0)
    assert text[0].text.startswith("Line 0 of a text with some words")
    assert text.made_lines < 1000


def test_of_many_blocks_at_once_only_the_last_ones_are_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered: list[int] = []

    def markdown(text: str, width: int) -> Any:
        rendered.append(len(text))
        return real(text, width)

    real = lazy_lines.markdown
    monkeypatch.setattr(lazy_lines, "markdown", markdown)
    text = LongText(76)
    for end in range(0, 35_000, 7000):  # as in one frame each
        rendered.clear()
        text.update(LARGE[:end], is_final=False)
        end = len(text)
        text.measure(end - 24, end, end - 24)
        assert sum(rendered) <= 3 * lazy_lines.PART


def test_lines_do_not_depend_on_how_much_comes_at_once() -> None:
    code = "```python\n" + "value = 1\n\n" * 150 + "```\n\n"
    items = "".join(f"{n}. Item {n}\n\n" for n in range(1, 80))
    table = "| a | b |\n|---|---|\n" + "| x | y |\n" * 50 + "\n"
    source = f"# Title\n\n{LARGE[:3000]}\n\n{items}Some words\n\n{table}{code}The **end**\n"
    lines: dict[int, list[str]] = {}
    for size in (350, 5000, 7900):
        text = LongText(90)
        for end in range(size, len(source), size):
            text.update(source[:end], is_final=False)
        text.update(source, is_final=True)
        text.measure(0, 100_000, 0)
        lines[size] = [text[n].text for n in range(len(text))]
    assert [size for size, found in lines.items() if found != lines[350]] == []


def test_long_text_shows_every_line_in_order() -> None:
    source = LARGE[:60_000] + "\n\n```python\n" + "value = 1\n" * 1500 + "```\n\nThe **end**\n"
    text = LongText(90)
    text.update(source, is_final=True)
    at = 0
    shown: list[str] = []
    while at < len(text):
        text.measure(at, at + 60, at)
        shown += [text[n].text for n in range(at, min(at + 60, len(text)))]
        at += 60
    whole = "\n".join(shown)
    assert whole.count("value = 1") == 1500
    assert "```" not in whole
    assert "The end" in whole
    numbers = [
        int(word)
        for line in shown
        for word in line.split("Line ")[1:2]
        for word in [word.split()[0]]
    ]
    assert numbers == sorted(numbers)
    assert len(numbers) > 450  # the others are folded


@pytest.mark.parametrize(("size", "total"), [(100, 12_000), (5000, 40_000)])
def test_text_that_grows_keeps_the_keys_of_its_lines(size: int, total: int) -> None:
    text = LongText(76)
    keys: dict[int, str] = {}
    for end in range(size, total, size):
        text.update(LARGE[:end], is_final=False)
        text.measure(0, len(text), 0)
        for number in range(0, max(len(text) - 40, 0), 37):
            line = text[number].text
            assert keys.setdefault(text.key(number), line) == line
    first, last = min(keys), max(keys)
    found = {key: strip.text for key, strip in text.keyed(first, last)}
    assert {key: found[key] for key in keys} == keys


class Counting(Agent):
    """Sends a number whenever it may."""

    def __init__(self) -> None:
        self.may_send = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        for number in range(4):
            await turn.say(f"number {number}\n\n")
            if number < 3:
                await self.may_send.wait()
                self.may_send.clear()


class Large(Agent):
    """Sends much in one update, or without an end."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        match turn.text:
            case "text":
                await turn.say(LARGE)
            case "line":
                await turn.say("x" * len(LARGE))
            case "thought":
                await turn.think(LARGE)
            case "output":
                async with turn.tool("Output", kind="execute") as call:
                    await call.append_text(LARGE)
            case "diff":
                async with turn.tool("Diff", kind="edit") as call:
                    await call.add_diff("/file.txt", LARGE[:1_000_000], LARGE.replace("as", "if"))
            case "flood of calls":
                while True:
                    async with turn.tool("Call") as call:
                        for _ in range(20):
                            await call.append_text("word\n")
            case _:
                while True:
                    await turn.say("word\n\n")
        await self.may_end.wait()


async def send(user: Typist, what: str, mark: str) -> None:
    await user.send(what)
    await user.sees(mark)


MARKS = {
    "text": "of a text with some words",
    "line": "xxxxxxxxxx",
    "thought": "Thinking:",
    "output": "of a text with **some** words",
    "diff": "A large change: v shows all of it",
}


async def test_large_update_leaves_typing_cancelling_and_little_memory(tmp_path: Path) -> None:
    agent = Large()
    async with open_chat(LocalAgent(agent), folder=tmp_path) as user:
        for what, mark in MARKS.items():
            agent.may_end.clear()
            await send(user, what, mark)
            await user.type("still typing")
            assert user.composer.text == "still typing"
            assert user.view.made_lines < 2000, what  # a screen has 24
            user.composer.set_text("")
            await user.press("escape")
            await user.until(lambda: user.session.state == "cancelling" or not user.session.is_busy)
            agent.may_end.set()
            await user.until(lambda: not user.session.is_busy)


@pytest.mark.parametrize(("what", "mark"), [("flood", "word"), ("flood of calls", "Call")])
async def test_flood_leaves_typing_and_cancelling(tmp_path: Path, what: str, mark: str) -> None:
    async with open_chat(LocalAgent(Large()), folder=tmp_path) as user:
        await send(user, what, mark)
        await user.type("still typing")
        await user.until(lambda: user.composer.text == "still typing")
        await user.press("escape")
        await user.until(lambda: not user.session.is_busy)
