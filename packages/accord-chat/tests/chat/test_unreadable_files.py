"""Saved chats and remembered permissions that cannot be read: nothing of them is lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from accord.client.events import PermissionRequest, ToolCall
from accord.types.tool_calls import ToolCallLocation
from accord_chat.model.saved import (
    PermissionMemory,
    RememberedRule,
    SavedChat,
    SavedChats,
    SavedTab,
)
from chat.chats import LocalAgent, open_chat
from chat.line_chats import LinesChat
from chat.test_memory_and_review import Writer, shop

DAMAGED = {
    "empty": b"",
    "cut": b'{"version":1,"tabs":[{"agent":"script","draft":"half',
    "not-text": bytes(range(150, 200)),
    "zeros": bytes(300),
    "wrong-type": b'{"version":1,"tabs":3}',
}
NEWER = json.dumps({"version": 99, "sessions": [{"draft": "of a newer one"}]}).encode()
CONTENTS = {**DAMAGED, "newer-format": NEWER}
SIZE = (200, 50)  # each remark is one line
TAB = SavedTab(agent="script", draft="mine")


def asides(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.unreadable-*")}


def test_saved_chat_that_cannot_be_read_is_kept_under_another_name(tmp_path: Path) -> None:
    for name, content in CONTENTS.items():
        folder = tmp_path / name
        saved = SavedChats(tmp_path, folder)
        assert saved.acquire()
        saved.path.write_bytes(content)
        assert saved.load() == SavedChat(), name
        saved.save(SavedChat(tabs=[TAB]))
        assert asides(folder) == {f"{saved.path.name}.unreadable-1": content}
        remark = saved.take_remark()
        assert str(folder / f"{saved.path.name}.unreadable-1") in remark
        assert ("another version of Accord has written it" in remark) == (content == NEWER)
        assert saved.take_remark() == ""
        assert saved.load().tabs == [TAB]
        saved.path.write_bytes(b"again")
        saved.load()
        assert asides(folder) == {
            f"{saved.path.name}.unreadable-1": content,
            f"{saved.path.name}.unreadable-2": b"again",
        }
        saved.release()


def test_saved_chat_that_cannot_be_read_nor_renamed_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = SavedChats(tmp_path, tmp_path)
    assert saved.acquire()
    saved.path.write_bytes(b"{")

    def refuse(_self: Path, _target: Path) -> Path:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        assert saved.load() == SavedChat()
    saved.save(SavedChat(tabs=[TAB]))
    assert saved.path.read_bytes() == b"{"
    assert saved.problem is not None
    assert str(saved.path) in saved.problem
    assert "Operation not permitted" in saved.problem
    saved.release()


def test_what_is_no_file_is_put_aside_too(tmp_path: Path) -> None:
    saved = SavedChats(tmp_path, tmp_path)
    assert saved.acquire()
    saved.path.mkdir()
    assert saved.load() == SavedChat()
    saved.save(SavedChat(tabs=[TAB]))
    assert saved.load().tabs == [TAB]
    saved.release()


async def test_the_screen_says_where_the_unreadable_chat_is(tmp_path: Path) -> None:
    saved = SavedChats(tmp_path, tmp_path / ".state")
    saved.path.parent.mkdir()
    saved.path.write_bytes(DAMAGED["cut"])
    async with open_chat(LocalAgent(Writer()), folder=tmp_path, restores=True, size=SIZE) as user:
        await user.sees("What was open here cannot be read", "unreadable-1")
        await user.type("new draft")
        await user.until(lambda: saved.path.exists() and b"new draft" in saved.path.read_bytes())
    assert [*asides(saved.path.parent).values()] == [DAMAGED["cut"]]
    async with open_chat(LocalAgent(Writer()), folder=tmp_path, restores=True, size=SIZE) as user:
        await user.until(lambda: user.composer.text == "new draft")
        assert "cannot be read" not in user.screen


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_lines_say_where_the_unreadable_chat_is(tmp_path: Path) -> None:
    state = tmp_path / "state" / "accord" / "chat"
    path = SavedChats(tmp_path / "work", state).path
    state.mkdir(parents=True)
    path.write_bytes(DAMAGED["cut"])
    with LinesChat(tmp_path, "--agent", "script") as chat:
        chat.sees("Note: What was open here cannot be read", f"{path}.unreadable-1")
        chat.end_input()
        assert chat.status() == 0
    assert [*asides(state).values()] == [DAMAGED["cut"]]
    with LinesChat(tmp_path, "--agent", "script") as chat:
        chat.end_input()
        assert chat.status() == 0
        assert "cannot be read" not in chat.text


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_lines_say_that_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    with LinesChat(tmp_path, "--agent", "script") as chat:
        chat.sees("Warning: sessions and drafts here are not kept. ", "Not a directory.")
        chat.type("echo on")
        chat.sees("Agent: on")
        chat.end_input()
        assert chat.status() == 0
        assert chat.text.count("Warning: sessions") == 1


def test_rules_that_cannot_be_read_are_kept_under_another_name(tmp_path: Path) -> None:
    places = (ToolCallLocation("/w/x.py"),)
    call = ToolCall(id="1", title="t", kind="edit", locations=places)
    edit = PermissionRequest(session_id="s", cwd="/w", title="t", options=(), tool_call=call)
    for name, content in CONTENTS.items():
        memory = PermissionMemory(tmp_path / name)
        memory.path.parent.mkdir()
        memory.path.write_bytes(content)
        assert memory.decide("a", edit) is None, name
        assert memory.problem is not None
        assert memory.path.read_bytes() == content  # nothing was changed yet
        rule = RememberedRule("a", "edit:/w/x.py")
        aside = memory.remember(rule)
        assert aside == tmp_path / name / "permissions.json.unreadable-1"
        assert aside.read_bytes() == content
        assert memory.rules() == [rule]
        assert memory.problem is None
        assert memory.remember(RememberedRule("b", "edit:/w/x.py")) is None


async def test_the_chat_says_that_remembered_permissions_do_not_decide(tmp_path: Path) -> None:
    file = shop(tmp_path)
    state = tmp_path / ".state"
    state.mkdir()
    (state / "permissions.json").write_text("[{")
    async with open_chat(LocalAgent(Writer()), folder=tmp_path, size=SIZE) as user:
        await user.send("ask")
        await user.until(lambda: user.session.questions)
        await user.sees("Remembered permissions do not decide", "permissions.json cannot be read")
        await user.press("f10", "r")
        await user.sees("The permissions that cannot be read are kept in", "written")
        assert "LINE 2" in file.read_text()
        assert [*asides(state).values()] == [b"[{"]
        file.write_text(file.read_text().lower())
        await user.send("ask")
        await user.sees("Allowed, as remembered")
