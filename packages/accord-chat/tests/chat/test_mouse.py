"""The mouse: selecting and copying text, the wheel, tabs, folded entries, answers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from textual import events
from textual.strip import Strip
from textual.widgets import OptionList

from accord import Agent, Turn
from accord_chat.view.pick_screen import Field
from accord_chat.view.transcript_view import TranscriptView
from chat.chats import LocalAgent, Typist, open_chat

OUTPUT = "".join(f"line {n}\n" for n in range(1, 21))


class Worker(Agent):
    """Does what the prompt says."""

    def __init__(self) -> None:
        self.streams = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        match turn.text:
            case "run":
                async with turn.tool("Count", kind="execute") as call:
                    await call.append_text(OUTPUT)
            case "stream":
                await turn.say("the beginning\n\n")
                await self.streams.wait()
                for n in range(200):
                    await turn.say(f"part {n}\n\n")
                await asyncio.Event().wait()  # until it is cancelled
            case "ask":
                async with turn.tool("Delete it", kind="delete") as call:
                    answer = await call.permission()
                await turn.say(f"The answer: {answer}")
            case text:
                await turn.say(text)


def place(user: Typist, text: str, *, at: int = 0) -> tuple[int, int]:
    """Return the column and the line where a text is on the screen."""
    lines = user.screen.split("\n")
    (found,) = [number for number, line in enumerate(lines) if text in line]
    return lines[found].index(text) + at, found


async def drag(user: Typist, start: tuple[int, int], end: tuple[int, int]) -> None:
    await user.pilot.mouse_down(offset=start)
    await user.pilot.hover(offset=end)
    await user.pilot.mouse_up(offset=end)


async def test_dragged_over_text_is_copied_without_the_margin(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Worker()), folder=tmp_path) as user:
        await user.send("first words 漢字 here\n\nsecond line\n\nthird one")
        await user.sees("  third one")
        await user.until(lambda: not user.session.is_busy)
        # The prompt is above the answer, with the same words.
        lines = user.screen.split("\n")
        first = max(n for n, line in enumerate(lines) if "first words" in line)
        third = max(n for n, line in enumerate(lines) if "third one" in line)
        await drag(user, (8, first), (6, third))
        assert user.app.screen.get_selected_text() == "words 漢字 here\n\nsecond line\n\nthird"
        await user.press("ctrl+c")
        await user.sees("Copied.")
        assert user.app.clipboard == "words 漢字 here\n\nsecond line\n\nthird"
        assert not user.app.screen.selections


async def test_lines_are_drawn_again_only_if_they_change(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Worker()), folder=tmp_path) as user:
        await user.send("\n\n".join(f"line {n}" for n in range(60)))
        await user.sees("  line 59")
        await user.until(lambda: not user.session.is_busy)

        def drawn(text: str) -> Strip:
            lines = user.view.render_lines(user.view.size.region)
            return next(line for line in lines if text in line.text)

        def marked(text: str) -> str:
            colour = user.app.screen.get_component_rich_style("screen--selection").bgcolor
            parts = (part for part in drawn(text) if part.style and part.style.bgcolor == colour)
            return "".join(part.text for part in parts)

        before = [part.style for part in drawn("line 55")]
        unmoved = user.view.render_line(4)
        user.view.scroll_relative(y=-2, animate=False, immediate=True)
        assert user.view.render_line(6) is unmoved
        column, row = place(user, "line 55")
        await drag(user, (column, row), (column + 3, row))
        assert marked("line 55") == "line"
        user.app.screen.clear_selection()
        await user.pilot.pause()
        assert not marked("line 55")
        user.app.action_theme()
        await user.pilot.pause()
        assert [part.style for part in drawn("line 55")] != before


async def test_text_of_a_screen_is_copied_while_its_field_has_the_focus(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Worker()), folder=tmp_path) as user:
        await user.press("alt+t")
        await user.sees("← session/new", "stderr: 0 lines")
        await user.press("slash")
        field = user.app.screen.query_one(Field)
        await user.until(lambda: field.has_focus and field.region.height)
        await drag(user, place(user, "stderr: 0 lines"), place(user, "stderr: 0 lines", at=5))
        assert field.has_focus
        assert user.app.screen.get_selected_text() == "stderr"
        await user.press("ctrl+c")
        await user.until(lambda: user.app.clipboard == "stderr")
        await user.type("new")
        await user.press("shift+home", "ctrl+c")
        await user.until(lambda: user.app.clipboard == "new")


async def test_two_clicks_select_a_word_and_one_a_tab(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Worker()), folder=tmp_path) as user:
        await user.send("see src/main.py:12 please")
        await user.until(lambda: not user.session.is_busy)
        await user.sees("  see src/main.py:12 please")
        lines = user.screen.split("\n")
        line = max(n for n, text in enumerate(lines) if "src/main.py" in text)
        await user.pilot.click(TranscriptView, offset=(10, line - 1), times=2)
        assert user.app.screen.get_selected_text() == "src/main.py:12"
        first = user.session
        await user.press("f8")
        await user.until(lambda: user.session is not first)
        await user.sees(" 2 ")
        await user.pilot.click("#tabs", offset=(3, 0))
        await user.until(lambda: user.session is first)


async def test_text_stands_still_while_it_is_selected(tmp_path: Path) -> None:
    worker = Worker()
    async with open_chat(LocalAgent(worker), folder=tmp_path) as user:
        await user.send("stream")
        await user.sees("  the beginning")
        column, line = place(user, "the beginning")
        await user.pilot.mouse_down(offset=(column, line))
        worker.streams.set()
        await user.until(lambda: user.view.hidden_below > 100)
        assert "  the beginning" in user.screen
        await user.pilot.hover(offset=(column + 2, line))
        await user.pilot.mouse_up(offset=(column + 2, line))
        assert user.app.screen.get_selected_text() == "the"
        assert not user.view.is_following
        await user.press("escape")  # removes the selection, and cancels nothing
        assert user.session.state == "running"
        await user.press("ctrl+end", "escape")
        await user.sees("part 199", "Cancelled")


async def test_click_without_a_selection_goes_on_following(tmp_path: Path) -> None:
    worker = Worker()
    async with open_chat(LocalAgent(worker), folder=tmp_path) as user:
        await user.send("stream")
        await user.sees("  the beginning")
        await user.pilot.mouse_down(offset=(5, 3))
        worker.streams.set()
        await user.until(lambda: user.view.hidden_below > 100)
        await user.pilot.mouse_up(offset=(5, 3))
        await user.sees("part 199")
        await user.press("escape")


async def test_click_opens_an_entry_and_the_keyboard_stays(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Worker()), folder=tmp_path, size=(80, 40)) as user:
        await user.send("run")
        await user.sees("line 18", "line 20")
        await user.until(lambda: not user.session.is_busy)
        assert "line 1\n" not in user.screen
        await drag(user, place(user, "line 18"), place(user, "line 20", at=6))  # no gutter
        assert user.app.screen.get_selected_text() == "line 18\nline 19\nline 20"
        user.app.screen.clear_selection()
        await user.pilot.click(offset=place(user, "line 20"))
        await user.sees("│ line 1\n", "line 20")
        await user.pilot.click(offset=place(user, "line 20"))  # reading must not fold it
        await user.type("yes")
        assert user.composer.text == "yes"
        assert "│ line 1\n" in user.screen
        await user.pilot.click(offset=place(user, "Count"))
        await user.until(lambda: "│ line 1\n" not in user.screen)


async def test_wheel_continues_where_the_conversation_is(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Worker()), folder=tmp_path) as user:
        await user.send("\n\n".join(f"paragraph {n}" for n in range(60)))
        await user.sees("paragraph 59")
        await user.until(lambda: not user.session.is_busy)
        end = user.view.scroll_offset.y
        assert end > 100
        await user.pilot._post_mouse_events([events.MouseScrollUp], TranscriptView)
        await user.until(lambda: user.view.scroll_offset.y < end)
        await user.until(lambda: not user.view.is_following)
        await user.sees("(Ctrl+End)")
        assert end - user.view.scroll_offset.y < 10
        assert user.view.vertical_scrollbar.position > 100


async def test_click_answers_only_when_the_question_has_been_there(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Worker()), folder=tmp_path) as user:
        await user.send("ask")
        panel = await user.question()
        panel.in_place_since_s = time.monotonic() + 60.0  # as if it had just appeared
        option = panel.query_one(OptionList)
        await user.pilot.click(option, offset=(8, 0))
        await user.sees("click again to answer")
        assert user.session.questions
        panel.in_place_since_s = 0.0
        await user.pilot.click(option, offset=(8, 0))
        await user.sees("The answer: ")
        assert not user.session.questions


async def test_question_that_moves_is_not_answered_by_a_click(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Worker()), folder=tmp_path) as user:
        await user.send("ask")
        panel = await user.question()
        await user.until(lambda: panel.region.height > 3)
        panel.in_place_since_s = 0.0
        before = panel.region
        user.composer.insert("one\ntwo\nthree")
        await user.until(lambda: panel.region != before)
        await user.pilot.click(panel.query_one(OptionList), offset=(8, 0))
        await user.sees("click again to answer")
        assert user.session.questions
