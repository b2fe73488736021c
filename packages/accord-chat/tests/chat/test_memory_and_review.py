"""Remembered permissions, and the review of changes, on the screen and in files."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from accord import Agent, Turn
from accord.client.events import PermissionRequest, ToolCall
from accord.types.tool_calls import Diff, ToolCallLocation
from accord_chat.editor import editor_command, has_own_window
from accord_chat.model.saved import (
    PermissionMemory,
    RememberedRule,
    suggested_rules,
)
from accord_chat.view.review_screen import ReviewScreen
from chat.chats import LocalAgent, open_chat


def request(cwd: str = "/w", **call: object) -> PermissionRequest:
    tool_call = ToolCall(id="1", title="t", **call)  # type: ignore[arg-type]
    return PermissionRequest(session_id="s", cwd=cwd, title="t", options=(), tool_call=tool_call)


def test_suggestions_begin_with_the_narrowest() -> None:
    edit = request(kind="edit", content=(Diff("/w/a[1].py", "", "x"),))
    assert [one.summary for one in suggested_rules("a", edit)] == ["edit /w/a[1].py", "edit /w/*"]
    run = request(kind="execute", raw_input={"command": "pytest -q"})
    assert [one.rule for one in suggested_rules("a", run)] == ["execute:pytest -q"]
    outside = request(kind="edit", locations=(ToolCallLocation("/etc/passwd"),))
    assert [one.summary for one in suggested_rules("a", outside)] == ["edit /etc/passwd"]


def test_command_of_a_shell_cannot_be_remembered() -> None:
    for command in ("a; rm -rf /", "a && b", "echo $(x)", "a > b", "x | sh"):
        asked = request(kind="execute", raw_input={"command": command})
        assert not list(suggested_rules("a", asked)), command


def test_rule_holds_for_its_agent_tool_and_path_only(tmp_path: Path) -> None:
    memory = PermissionMemory(tmp_path)
    memory.remember(RememberedRule("a", "edit:/w/x.py"))
    edit = request(kind="edit", locations=(ToolCallLocation("x.py"),))
    assert memory.decide("a", edit) is not None
    assert memory.decide("b", edit) is None
    assert memory.decide("a", request(kind="delete", locations=edit.tool_call.locations)) is None
    other = request(kind="edit", locations=(ToolCallLocation("x.py"), ToolCallLocation("y.py")))
    assert memory.decide("a", other) is None


def test_rejection_is_stronger_and_the_file_is_private(tmp_path: Path) -> None:
    memory = PermissionMemory(tmp_path)
    memory.remember(RememberedRule("a", "edit:/w/*"))
    memory.remember(RememberedRule("a", "edit:/w/x.py", "reject"))
    edit = request(kind="edit", locations=(ToolCallLocation("x.py"),))
    decided = memory.decide("a", edit)
    assert decided is not None
    assert decided.decision == "reject"
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600
    memory.forget(decided)
    assert PermissionMemory(tmp_path).rules() == [RememberedRule("a", "edit:/w/*")]


class Writer(Agent):
    """Changes two places of a file, with or without asking."""

    async def prompt(self, turn: Turn) -> None:
        path = Path(turn.session.cwd, "shop.txt")
        old = path.read_text()  # noqa: ASYNC240
        new = old.replace("line 2\n", "LINE 2\n").replace("line 18\n", "LINE 18\n")
        async with turn.tool("Change shop.txt", kind="edit", locations=[str(path)]) as call:
            await call.add_diff(str(path), old, new)
            if turn.text == "ask" and not await call.permission():
                await call.fail("Rejected")
                return
            path.write_text(new)  # noqa: ASYNC240
        await turn.say("written")


def shop(folder: Path) -> Path:
    path = folder / "shop.txt"
    path.write_text("".join(f"line {n}\n" for n in range(1, 21)))
    return path


async def test_one_hunk_is_rejected_after_the_agent_wrote_the_file(tmp_path: Path) -> None:
    file = shop(tmp_path)
    async with open_chat(LocalAgent(Writer(), version=1), folder=tmp_path) as user:
        await user.send("go")
        await user.sees("written")
        await user.press("f4")
        await user.until(lambda: isinstance(user.app.screen, ReviewScreen))
        await user.sees("shop.txt:2 · change 1 of 2", "LINE 2")
        await user.press("x")
        await user.sees("the old text is back")
        await user.press("right")
        await user.sees("shop.txt:18 · change 2 of 2")
        await user.press("a")
        await user.sees("accepted")
        await user.press("escape")
        await user.until(lambda: "I have undone your changes at shop.txt:2." in user.composer.text)
        await user.type("next")  # on a line of its own
        await user.until(lambda: user.composer.text.endswith("shop.txt:2.\nnext"))
        text = file.read_text()
        assert "line 2\n" in text
        assert "LINE 18\n" in text


class Excerpts(Agent):
    """Shows only the changed lines, as Claude's adapter does."""

    async def prompt(self, turn: Turn) -> None:
        path = Path(turn.session.cwd, "shop.txt")
        path.write_text(path.read_text().replace("line 18\n", "LINE 18\n"))  # noqa: ASYNC240
        async with turn.tool("Change shop.txt", kind="edit") as call:
            await call.add_diff(str(path), "line 17\nline 18\n", "line 17\nLINE 18\n")
        await turn.say("written")


async def test_excerpt_is_shown_at_its_place_in_the_file(tmp_path: Path) -> None:
    file = shop(tmp_path)
    before = file.read_text()
    async with open_chat(LocalAgent(Excerpts()), folder=tmp_path) as user:
        await user.send("go")
        await user.sees("written")
        await user.press("f4")
        await user.sees("shop.txt:18 · change 1 of 1", "18 + LINE 18")
        await user.press("x")
        await user.sees("the old text is back", "shop.txt:18")
        await user.press("escape")
        await user.until(lambda: "changes at shop.txt:18." in user.composer.text)
        assert file.read_text() == before


async def test_conflict_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    file = shop(tmp_path)
    async with open_chat(LocalAgent(Writer()), folder=tmp_path) as user:
        await user.send("go")
        await user.sees("written")
        changed = file.read_text().replace("LINE 2\n", "mine\n")
        file.write_text(changed)
        await user.press("f4")
        await user.sees("shop.txt:2")
        await user.press("x")
        await user.sees("not undone: these lines have been changed since")
        assert file.read_text() == changed


async def test_hunk_rejected_during_the_question_is_undone_when_it_is_written(
    tmp_path: Path,
) -> None:
    file = shop(tmp_path)
    async with open_chat(LocalAgent(Writer()), folder=tmp_path, size=(100, 40)) as user:
        await user.send("ask")
        await user.question()
        await user.press("f4")
        await user.sees("change 1 of 2")
        await user.press("x")
        await user.sees("undone as soon as")
        await user.press("escape", "f10", "y")
        await user.sees("written", "Undone: shop.txt:2")
        assert "line 2\n" in file.read_text()
        assert "LINE 18\n" in file.read_text()


async def test_remembered_permission_is_not_asked_again(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    shop(folder)
    async with open_chat(LocalAgent(Writer()), folder=folder, state=tmp_path) as user:
        await user.send("ask")
        await user.question()
        assert "Allow, and remember: edit shop.txt" in user.screen
        await user.press("r")
        await user.sees("written")
        shop(folder)
        await user.send("ask")
        await user.sees("Allowed, as remembered")
    shop(folder)
    async with open_chat(LocalAgent(Writer()), folder=folder, state=tmp_path) as user:
        await user.send("ask")
        await user.sees("Allowed, as remembered", "written")
        await user.press("alt+p")
        await user.sees("Remembered permissions", "allow edit")
        await user.press("enter")
        await user.until(lambda: not user.chat.memory.rules())


EDITORS = {
    "vim": ["vim", "+7", "/f"],
    "nano -l": ["nano", "-l", "+7", "/f"],
    "code --wait": ["code", "--wait", "--goto", "/f:7"],
    "/usr/bin/hx": ["/usr/bin/hx", "/f:7"],
    "": None,
    "'": None,
}


def test_editor_gets_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    for editor, command in EDITORS.items():
        monkeypatch.setenv("EDITOR", editor)
        assert editor_command(Path("/f"), 7) == command
        assert command is None or has_own_window(command) == editor.startswith("code")


async def test_only_files_of_the_folder_are_opened(tmp_path: Path) -> None:
    class Pointer(Agent):
        async def prompt(self, turn: Turn) -> None:
            async with turn.tool("Read", kind="read", locations=[turn.text]) as call:
                await call.start()

    async with open_chat(LocalAgent(Pointer()), folder=tmp_path) as user:
        await user.send("/etc/passwd")
        await user.sees("● Read")
        await user.press("alt+o")
        await user.sees("passwd is not a file")


class Maker(Agent):
    """Makes a file."""

    async def prompt(self, turn: Turn) -> None:
        file = Path(turn.session.cwd) / "made.txt"
        file.write_text("new\n", "utf-8")
        async with turn.tool("Write made.txt", kind="edit") as call:
            await call.add_diff(str(file), None, "new\n")
        await turn.say("made")


async def test_rejected_new_file_is_said_to_be_deleted(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Maker()), folder=tmp_path) as user:
        await user.send("go")
        await user.sees("made.txt", "  made")
        await user.press("f4")
        await user.sees("The file was created.")
        await user.press("x")
        await user.sees("rejected: the file is deleted")
        assert not (tmp_path / "made.txt").exists()
