"""Following the agent to the files that it works on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from accord import Agent, Turn
from accord.client.events import ToolCall
from accord.local.files import Roots
from accord.types.tool_calls import Diff, ToolCallLocation
from accord_chat.model.changes import MAX_LINES, FollowedFile, place_of, read_place
from accord_chat.view.file_pane import FilePane, FileView
from chat.chats import LocalAgent, Typist, open_chat

OLD = "".join(f"line {n}\n" for n in range(1, 101))
NEW = OLD.replace("line 50\n", "line fifty\n")


def followed(folder: Path, *parts: Diff, **more: object) -> FollowedFile:
    call = ToolCall(id="c", title="Edit", content=parts, **more)  # type: ignore[arg-type]
    place = place_of(call)
    assert place is not None
    return read_place(place, Roots([str(folder)]))


def shown(file: FollowedFile) -> list[str]:
    """Return the lines around the place."""
    near = file.lines[max(0, file.at - 1) : file.at + 3]
    return [f"{line.number or ''}{line.sign}{line.text}" for line in near]


def test_proposed_change_is_shown_in_the_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(OLD)
    file = followed(tmp_path, Diff(str(tmp_path / "a.txt"), OLD, NEW))
    assert file.change == "proposed"
    assert shown(file) == ["49 line 49", "50-line 50", "+line fifty", "51 line 51"]


def test_change_is_marked_when_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a line before\n" + NEW)
    file = followed(tmp_path, Diff(str(tmp_path / "a.txt"), OLD, NEW))
    assert file.change == "made"
    assert shown(file) == ["50 line 49", "-line 50", "51+line fifty", "52 line 51"]


def test_last_of_several_changes_is_the_place(tmp_path: Path) -> None:
    new = NEW.replace("line 90\n", "")
    (tmp_path / "a.txt").write_text(new)
    file = followed(tmp_path, Diff(str(tmp_path / "a.txt"), OLD, new))
    assert shown(file) == ["89 line 89", "-line 90", "90 line 91", "91 line 92"]
    assert [line.text for line in file.lines if line.sign == "+"] == ["line fifty"]


def test_change_that_is_not_in_the_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("quite different\n")
    file = followed(tmp_path, Diff(str(tmp_path / "a.txt"), OLD, NEW))
    assert file.change == "gone"
    assert [line.text for line in file.lines] == ["quite different"]


def test_created_file_is_shown_before_and_after(tmp_path: Path) -> None:
    diff = Diff(str(tmp_path / "new.txt"), None, "one\ntwo\n")
    file = followed(tmp_path, diff)
    assert (file.change, [line.text for line in file.lines]) == ("proposed", ["one", "two"])
    (tmp_path / "new.txt").write_text("one\ntwo\n")
    file = followed(tmp_path, diff)
    assert (file.change, [line.sign for line in file.lines]) == ("made", ["+", "+"])


def test_line_of_a_location_is_shown_with_what_is_around(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("".join(f"{n}\n" for n in range(1, 10_001)))
    file = followed(tmp_path, locations=(ToolCallLocation("big.txt", 5000),))
    assert file.lines[file.at].text == "5000"
    assert len(file.lines) == MAX_LINES
    assert (file.before, file.after) == (4799, 4801)
    file = followed(tmp_path, locations=(ToolCallLocation("big.txt", 10**9),))
    assert file.lines[file.at].text == "10000"


@pytest.mark.parametrize("kind", ["outside", "link", "folder link", "pipe", "binary", "huge"])
def test_only_texts_in_the_folder_are_read(tmp_path: Path, kind: str) -> None:
    folder, other = tmp_path / "work", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "secret.txt").write_text("secret")
    path = folder / "a.txt"
    match kind:
        case "outside":
            path = other / "secret.txt"
        case "link":
            path.symlink_to(other / "secret.txt")
        case "folder link":
            (folder / "inner").symlink_to(other)
            path = folder / "inner" / "secret.txt"
        case "pipe":
            os.mkfifo(path)
        case "binary":
            path.write_bytes(b"\xff\x00\xff")
        case _:
            with path.open("wb") as file:
                file.truncate(10**9)
    file = followed(folder, locations=(ToolCallLocation(str(path), 1),))
    assert file.problem
    assert file.lines == ()


class Worker(Agent):
    """Changes a line of a file, and waits before and after it does."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Queue[None]()

    async def prompt(self, turn: Turn) -> None:
        path = Path(turn.session.cwd) / "shop.py"
        async with turn.tool("Look around", kind="read") as call:
            await call.update(locations=[ToolCallLocation(str(path), 7)])
            await self.may_go_on.get()
        async with turn.tool("Change the price", kind="edit") as call:
            await call.add_diff(str(path), OLD, NEW)
            await self.may_go_on.get()
            path.write_text(NEW)
        await turn.say("Done.")

    def go_on(self) -> None:
        self.may_go_on.put_nowait(None)


def left(user: Typist) -> str:
    """Return what is at the left of the file."""
    pane = user.app.screen_stack[-1].query_one(FileView)
    return "\n".join(line[: pane.region.x - 1] for line in user.screen.split("\n"))


async def test_file_is_shown_beside_the_conversation(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(OLD)
    agent = Worker()
    async with open_chat(LocalAgent(agent, version=1), folder=tmp_path, size=(160, 50)) as user:
        await user.press("alt+w")
        await user.sees("⇢ The agent has not named a file · Alt+W stops following")
        await user.send("go")
        await user.sees("⇢ shop.py:7", "7 › line 7", "Look around")
        agent.go_on()
        await user.sees("⇢ shop.py:50 · a proposed change", "50 - line 50", "+ line fifty")
        agent.go_on()
        await user.sees("⇢ shop.py:50 · changed", "- line 50", "50 + line fifty")
        assert "Done." in left(user)
        await user.press("alt+w")
        await user.until(lambda: "⇢" not in user.screen)


async def test_narrow_screen_has_one_line(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(OLD)
    agent = Worker()
    async with open_chat(LocalAgent(agent), folder=tmp_path) as user:
        await user.send("go")
        await user.sees("Look around")
        assert "⇢" not in user.screen
        await user.press("alt+w")
        await user.sees("⇢ shop.py:7 · Look around")
        assert "line 7" not in user.screen
        agent.go_on()
        await user.sees("⇢ shop.py:50 · a proposed change · Change the price")
        await user.pilot.resize_terminal(160, 50)
        await user.sees("⇢ shop.py:50", "50 - line 50")
        await user.pilot.resize_terminal(80, 24)
        pane = user.app.screen_stack[-1].query_one(FilePane)
        await user.until(lambda: not pane.has_class("open") and "⇢ shop.py" in user.screen)
        agent.go_on()
        await user.sees("⇢ shop.py:50 · changed")


async def test_scrolling_stops_following_until_the_next_switch(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(OLD)
    agent = Worker()
    async with open_chat(LocalAgent(agent), folder=tmp_path, size=(160, 50)) as user:
        await user.press("alt+w")
        await user.send("go")
        await user.sees("7 › line 7")
        await user.pilot.resize_terminal(160, 30)  # is not scrolling
        await user.pilot.resize_terminal(160, 50)
        await user.press("f6", "f6", "pagedown")
        await user.sees("stopped, Alt+W follows again", "60   line 60")
        agent.go_on()
        await user.until(lambda: "Change the price" in left(user))
        assert "⇢ shop.py:7" in user.screen
        await user.press("alt+w")
        await user.sees("⇢ shop.py:50 · a proposed change", "+ line fifty")
        await user.press("escape")
        await user.until(lambda: user.composer.has_focus)
        agent.go_on()


async def test_lines_of_the_file_are_copied_with_the_mouse_and_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(OLD)
    opened: list[tuple[Path, int | None]] = []
    async with open_chat(LocalAgent(Worker()), folder=tmp_path, size=(160, 50)) as user:

        def open_editor(file: Path, line: int | None) -> None:
            opened.append((file, line))

        monkeypatch.setattr(user.app, "open_editor", open_editor)
        await user.press("alt+w")
        await user.send("go")
        await user.sees("7 › line 7", "8   line 8")
        lines = user.screen.split("\n")
        row = next(number for number, line in enumerate(lines) if "7 › line 7" in line)
        column = lines[row].index("line 7")
        await user.pilot.mouse_down(offset=(column, row))
        await user.pilot.hover(offset=(column + 6, row + 1))
        await user.pilot.mouse_up(offset=(column + 6, row + 1))
        assert user.app.screen.get_selected_text() == "line 7\nline 8"
        assert "stopped" not in user.screen
        user.app.screen.clear_selection()
        user.composer.focus()
        await user.press("f6", "f6", "o")
        await user.until(lambda: opened)
    assert opened == [((tmp_path / "shop.py").resolve(), 7)]


async def test_file_outside_of_the_folder_is_not_shown(tmp_path: Path) -> None:
    class Intruder(Agent):
        async def prompt(self, turn: Turn) -> None:
            place = ToolCallLocation(str(tmp_path / "secret.txt"), 1)
            async with turn.tool("Read it", locations=[place]) as call:
                await call.start()
            await turn.say("Done.")

    (tmp_path / "secret.txt").write_text("the secret")
    folder = tmp_path / "work"
    folder.mkdir()
    async with open_chat(LocalAgent(Intruder()), folder=folder, size=(160, 50)) as user:
        await user.press("alt+w")
        await user.send("go")
        await user.sees("Done.", "outside")
        assert "the secret" not in user.screen
