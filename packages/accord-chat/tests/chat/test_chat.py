"""A chat on the screen: prompts, answers, questions, options, tabs."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from textual.events import Key
from textual.geometry import Region

from accord import Agent, MemoryStore, Turn
from accord.script_agent.agent import ScriptAgent
from accord_chat.view import chat_screen
from accord_chat.view.app import ChatApp
from accord_chat.view.form_panel import FormPanel, PagePanel
from accord_chat.view.main_screen import MainScreen
from accord_chat.view.permission_panel import PermissionPanel
from accord_chat.view.pick_screen import PickScreen
from accord_chat.view.prompt_area import CompletionList
from accord_chat.view.question_area import LoginPanel
from accord_chat.view.text_views import RowsView
from chat.chats import LocalAgent, open_chat

VERSIONS = pytest.mark.parametrize("version", [1, 2])


def script(version: int = 2) -> LocalAgent:
    return LocalAgent(ScriptAgent(), version=version)


async def test_answer_is_shown_as_markdown_and_folded_again(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path, size=(100, 30)) as user:
        words = " ".join(f"word{n}" for n in range(12))
        await user.type(f"echo **bold** {words}")
        await user.press("enter")
        await user.sees("▌ echo **bold** ", "  bold word0", "word11")
        assert user.composer.text == ""
        await user.pilot.resize_terminal(40, 20)
        await user.until(lambda: user.view.size.width == 40 and "word11" in user.screen)
        assert all(len(line) <= 40 for line in user.screen.split("\n"))


@VERSIONS
async def test_action_is_allowed_or_rejected_but_not_with_enter_alone(
    tmp_path: Path, version: int
) -> None:
    async with open_chat(script(version), folder=tmp_path) as user:
        await user.send("permission")
        await user.question()
        assert "Do thing 1" in user.screen
        await user.press("enter", "enter")
        assert user.session.questions
        await user.press("y")
        await user.sees("1 of 1 allowed.")
        await user.until(lambda: not user.app.screen.query(PermissionPanel))
        await user.until(lambda: user.composer.has_focus)
        await user.send("permission")
        await user.question()
        await user.press("n")
        await user.sees("0 of 1 allowed.", "Rejected: Do thing 1")


async def test_keys_that_were_meant_for_the_prompt_do_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is, this is typed without a pause.
    monkeypatch.setattr(chat_screen, "TYPING_S", 60.0)
    async with open_chat(script(), folder=tmp_path) as user:
        user.composer.set_text("permission")
        user.app.post_message(Key("enter", None))
        await user.type("by the way")  # before the question can come
        await user.until(lambda: user.app.screen.query(PermissionPanel))
        await user.type(", yes")
        assert user.composer.text == "by the way, yes"
        assert user.composer.has_focus
        assert user.session.questions
        await user.press("f10", "y")
        await user.sees("1 of 1 allowed.")
        assert user.composer.text == "by the way, yes"


async def test_next_question_takes_the_keyboard_from_the_one_before(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.send("permission 3")
        for number in (1, 2, 3):
            await user.sees(f"┃ Do thing {number}")
            await user.question()
            await user.press("y")
        await user.sees("3 of 3 allowed.")
        assert user.composer.has_focus


async def test_long_diff_leaves_room_for_the_answers(tmp_path: Path) -> None:
    class Rewriter(Agent):
        """Asks whether it may rewrite a long file."""

        async def prompt(self, turn: Turn) -> None:
            old, new = ("".join(f"{word} {n}\n" for n in range(400)) for word in ("old", "new"))
            async with turn.tool("Rewrite a.txt", kind="edit") as call:
                await call.add_diff("/a.txt", old, new)
                await call.permission()

    async with open_chat(LocalAgent(Rewriter()), folder=tmp_path, size=(200, 60)) as user:
        await user.send("rewrite")
        for size in ((200, 60), (80, 24), (40, 20)):
            await user.pilot.resize_terminal(*size)
            await user.until(lambda size=size: user.app.screen.size == size)
            await user.question()
            await user.sees("┃  y  ", "┃  a  ", "┃  n  ", "┃  d  ", "┃     1 - old 0")


async def test_keys_that_were_typed_before_the_start_are_a_draft(tmp_path: Path) -> None:
    def type_early(app: ChatApp) -> None:
        for letter in "hi":
            app.post_message(Key(letter, letter))

    async with open_chat(script(), folder=tmp_path, at_start=type_early) as user:
        await user.until(lambda: user.composer.text == "hi")


@VERSIONS
async def test_cancel_ends_the_turn_with_its_question_and_keeps_the_session(
    tmp_path: Path, version: int
) -> None:
    async with open_chat(script(version), folder=tmp_path) as user:
        await user.send("wait forever")
        await user.sees("Wait forever", "working")
        session_id = user.session.session_id
        await user.press("escape")
        await user.sees("Cancelled")
        await user.send("permission")
        await user.question()
        await user.press("ctrl+c")
        await user.until(lambda: user.screen.count("Cancelled") == 2)
        await user.until(lambda: not user.app.screen.query(PermissionPanel))
        await user.send("echo again")
        await user.sees("  again")
        assert user.session.session_id == session_id


async def test_question_that_is_removed_while_a_frame_is_drawn_is_blank(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.send("permission")
        panel = await user.question()
        rows = panel.query_one(RowsView)
        await panel.remove()
        assert [line.text for line in rows.render_lines(Region(0, 0, 4, 2))] == [" " * 4] * 2


async def test_ctrl_c_does_not_overtake_enter(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        user.composer.set_text("wait forever")
        for key in ("enter", "ctrl+c"):  # at once, as one read of a terminal
            user.app.post_message(Key(key, None))
        await user.sees("▌ wait forever")


async def test_prompts_wait_while_the_agent_works_and_are_taken_back(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.send("wait forever")
        await user.sees("working")
        for number in ("one", "two", "three", "four"):
            await user.send(f"echo {number}")
        await user.sees("4 queued")
        await user.press("f7")
        await user.sees("Queued prompts")
        await user.type("one")
        await user.press("enter")
        await user.until(lambda: user.composer.text == "echo one")
        user.composer.set_text("")
        await user.press("alt+up")
        assert user.composer.text == "echo four"
        assert [prompt.text for prompt in user.session.queue] == ["echo two", "echo three"]
        await user.press("ctrl+c")  # cancels
        await user.until(lambda: not user.session.is_busy and not user.session.queue)
        await user.sees("  two", "  three")
        assert "▌ echo four" not in user.screen


@VERSIONS
async def test_options_are_chosen_from_one_list(tmp_path: Path, version: int) -> None:
    async with open_chat(script(version), folder=tmp_path) as user:
        await user.sees("Ask · Small")
        await user.press("f2")
        await user.until(lambda: isinstance(user.app.screen, PickScreen))
        await user.type("large")
        await user.press("enter")
        await user.sees("Ask · Large")
        await user.press("shift+tab")
        await user.sees("Auto · Large")


async def test_commands_and_files_are_completed_and_files_attached(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)  # noqa: ASYNC221
    (folder / ".gitignore").write_text("ignored.py\n")
    (folder / "ignored.py").write_text("")
    for name in ("shop.py", "shop.py.old"):
        (folder / name).write_text("the price\n")
    async with open_chat(script(), folder=folder, state=tmp_path) as user:
        shown = user.app.screen.query_one(CompletionList)
        await user.until(lambda: user.session.transcript.commands)
        await user.type("/perm")
        await user.sees("/permission")
        await user.press("tab")
        assert user.composer.text == "/permission "
        assert not shown.is_open
        user.composer.set_text("")
        await user.type("echo @")
        await user.sees("shop.py")
        assert "ignored.py" not in user.screen
        await user.type("sh")
        await user.press("tab")
        assert user.composer.text == "echo @shop.py "
        user.composer.set_text("")
        await user.type("echo @shop")
        await user.until(lambda: shown.is_open)
        await user.press("down", "enter")
        assert user.composer.text == "echo @shop.py.old "
        user.composer.set_text("")
        await user.type("echo @shop.py")
        await user.until(lambda: shown.is_open)
        await user.press("enter")  # sends what is typed in full
        await user.sees("→ shop.py")
        assert not shown.is_open
        assert "the price" in user.session.transcript.items[0].text  # type: ignore[union-attr]


async def test_thoughts_and_calls_are_folded_with_keyboard_and_mouse(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path, size=(80, 60)) as user:
        await user.send("think line one\nline two is long")
        await user.sees("▸ Thought: line one")
        await user.press("f6", "home", "up", "up", "up", "down", "enter")
        await user.sees("▾ Thought", "line two is long")
        await user.press("escape")
        assert user.composer.has_focus
        await user.send("tools")
        await user.sees("A call with diffs", "2 - two", "2 + 2", "Call that fails".lower()[:4])
        lines = user.screen.split("\n")
        row = next(n for n, line in enumerate(lines) if "A call with diffs" in line)
        await user.pilot.click(offset=(5, row))
        await user.until(lambda: "2 - two" in user.screen)


@VERSIONS
async def test_form_is_filled_in(tmp_path: Path, version: int) -> None:
    async with open_chat(script(version), folder=tmp_path) as user:
        await user.send("elicit form")
        panel = await user.until(lambda: next(iter(user.app.screen.query(FormPanel)), None))
        await user.until(lambda: panel.has_focus_within)
        await user.press("ctrl+s")  # the name is required
        await user.sees("Name", "enter a value")
        await user.type("Ann")
        await user.press("ctrl+s")
        await user.sees('"name":"Ann"')


async def test_form_and_page_are_declined(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.send("elicit form")
        form = await user.until(lambda: next(iter(user.app.screen.query(FormPanel)), None))
        await user.until(lambda: form.has_focus_within)
        await user.press("escape")
        await user.sees("The form was not filled in.")
        await user.send("elicit url")
        page = await user.until(lambda: next(iter(user.app.screen.query(PagePanel)), None))
        await user.sees("https://example.com/sign-in")
        await user.until(lambda: page.has_focus_within)
        await user.press("escape")
        await user.sees("The page was not opened.")


async def test_login_is_asked_for_and_the_prompt_sent_again(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.send("logout")
        await user.until(lambda: not user.session.is_busy and user.session.timeline.entries)
        await user.send("echo back again")
        panel = await user.until(lambda: next(iter(user.app.screen.query(LoginPanel)), None))
        await user.sees(" 1  Log in  Always succeeds")
        await user.press("f10")
        await user.until(lambda: panel.has_focus_within)
        await user.press("1")
        await user.sees("Logged in", "  back again")


async def test_sessions_in_tabs_are_marked_when_they_need_the_user(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.send("echo one")
        await user.sees("  one")
        await user.press("f8")
        await user.until(lambda: len(user.chat.sessions) == 2 and user.session.state == "idle")
        await user.send("permission")
        await user.press("ctrl+pageup")
        await user.sees("  one", "2? permission")
        await user.press("alt+2")
        await user.question()
        await user.press("y")
        await user.sees("1 of 1 allowed.")
        await user.press("f12")
        await user.until(lambda: len(user.chat.sessions) == 1)
        await user.sees("  one")


async def test_earlier_session_is_listed_and_opened_with_its_history(tmp_path: Path) -> None:
    source = script()
    async with open_chat(source, folder=tmp_path) as user:
        await user.send("echo the first session")
        await user.sees("  the first session")
        await user.press("f8")
        await user.until(lambda: len(user.chat.sessions) == 2 and user.session.state == "idle")
        await user.press("ctrl+pageup", "f12")
        await user.until(lambda: len(user.chat.sessions) == 1)
        await user.press("f3")
        await user.sees("Sessions of this folder")
        first = next(n for n, one in enumerate(user.screen.split("\n")) if "session-" in one)
        await user.pilot.click(offset=(12, first))
        await user.until(lambda: user.session.state == "idle")
        await user.until(lambda: user.session.title == "echo the first session")


async def test_sessions_and_drafts_come_back_after_a_restart(tmp_path: Path) -> None:
    agent = ScriptAgent()
    agent.store = MemoryStore()
    async with open_chat(LocalAgent(agent), folder=tmp_path) as user:
        await user.send("echo remember this")
        await user.sees("  remember this")
        await user.type("half a tho")
    async with open_chat(LocalAgent(agent), folder=tmp_path, restores=True) as user:
        await user.sees("▌ echo remember this", "  remember this", "half a tho")
        await user.send("echo and on")
        await user.sees("  and on")


async def test_frame_that_is_due_when_the_program_ends_is_not_drawn(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        screen = user.app.screen
        assert isinstance(screen, MainScreen)
        user.app._running = False  # as at the beginning of the end
        await screen.conversation.remove()
        screen._draw_frame()


async def test_whole_turn_fits_every_size(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Shop\n\nA small shop.\n")
    source = script()
    async with open_chat(source, folder=tmp_path, size=(200, 60)) as user:
        await user.send("full")
        for size in ((200, 60), (80, 24), (40, 20)):
            await user.pilot.resize_terminal(*size)
            await user.until(lambda size=size: user.app.screen.size == size)
            await user.question()
            assert "Write accord-demo.md" in user.screen
        await user.press("y")
        await user.until(lambda: not user.session.is_busy)
        await user.sees("deleted", "2.4k/200k")
        await user.pilot.resize_terminal(80, 24)
        await user.sees("deleted", "2.4k/200k")
        await source.lose()
        await user.sees("Ctrl+R starts it again")
        await user.press("ctrl+r")
        await user.until(lambda: user.session.state == "idle")
        await user.send("echo after")
        await user.sees("deleted", "  after")


async def test_keys_are_listed_and_commands_found_by_name(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.press("f1")
        await user.sees("While you type", "Ctrl+J")
        await user.press("escape", "ctrl+p")
        await user.sees("Commands")
        await user.type("new session")
        await user.press("enter")
        await user.until(lambda: len(user.chat.sessions) == 2)


async def test_long_conversation_keeps_few_lines_in_memory(tmp_path: Path) -> None:
    class Chatterbox(Agent):
        async def prompt(self, turn: Turn) -> None:
            for number in range(800):
                async with turn.tool(f"Call {number}") as call:
                    await call.start()
                await turn.say(f"Message {number}")

    async with open_chat(LocalAgent(Chatterbox()), folder=tmp_path) as user:
        await user.send("go")
        async with asyncio.timeout(50):
            while "Message 799" not in user.screen:
                await user.pilot.pause(0.1)
        assert len(user.session.timeline.entries) >= 1600
        assert user.view.cached_entries <= 400
        await user.press("f6", "home")
        await user.sees("▌ go", "Message 1")
        assert user.view.cached_entries <= 400
        await user.press("ctrl+end")
        await user.sees("Message 799")
