"""What chats consist of: queue, search, files, mentions, saved chats, timelines."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from accord.client.events import Notice, Text, Thought, ToolCall
from accord.client.transcript import Message, Transcript
from accord_chat.model.conversation import Remark, Timeline
from accord_chat.model.prompts import (
    PromptQueue,
    best_matches,
    mention_before,
    mention_text,
    mentions,
)
from accord_chat.model.saved import SavedChat, SavedChats, SavedTab
from accord_chat.model.turn_changes import FolderFiles
from accord_chat.view.lazy_lines import LongText


def test_queued_prompts_leave_in_order_and_can_be_withdrawn() -> None:
    queue = PromptQueue()
    first, second, third = (queue.add(text) for text in ("one", "two", "three"))
    assert queue.withdraw(second.number) == second
    assert queue.withdraw(second.number) is None
    assert queue.withdraw_last() == third
    assert queue.take_next() == first
    assert queue.take_next() is None
    queue.put_back(first)
    assert [prompt.text for prompt in queue] == ["one"]


def test_search_prefers_the_name_of_a_file() -> None:
    paths = ["docs/app-notes.md", "src/application/main.py", "src/app.py", "map.txt"]
    assert best_matches("app.py", paths, 10)[0] == "src/app.py"
    assert best_matches("map", paths, 10)[0] == "map.txt"
    assert best_matches("zzz", paths, 10) == []
    assert best_matches("", paths, 2) == paths[:2]


def test_mentions_of_a_prompt_are_found() -> None:
    for text, paths in (
        ("see @src/a.py and @b.md", ["src/a.py", "b.md"]),
        ('read @"my file.txt"!', ["my file.txt"]),
        ("is it in @src/a.py?", ["src/a.py?", "src/a.py"]),
        ("mail me@example.com", []),
        ("@a @a", ["a"]),
    ):
        assert list(mentions(text)) == paths, text


def test_unfinished_mention_is_what_is_before_the_cursor() -> None:
    found = mention_before("look at @src/ma")
    assert found is not None
    assert (found.start, found.query) == (8, "src/ma")
    assert mention_before("look at @src/main.py ") is None
    assert mention_before("someone@home") is None
    assert mention_text("my file") == '@"my file"'


def test_files_that_git_ignores_are_not_listed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("build/\n")
    for name in ("a.py", "build/made.py", "src/deep/b.py", "späße.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert FolderFiles(tmp_path).refresh() == (".gitignore", "a.py", "späße.txt", "src/deep/b.py")


def test_files_are_listed_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in ("a.py", ".hidden/x", "node_modules/x.js", "src/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert FolderFiles(tmp_path).refresh() == ("a.py", "src/b.py")


def test_only_files_inside_the_folder_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "secret").write_text("")
    (folder / "a.py").write_text("")
    (folder / "link").symlink_to(tmp_path / "secret")
    files = FolderFiles(folder)
    assert files.find("a.py") == folder / "a.py"
    for outside in ("../secret", "link", str(tmp_path / "secret"), ".", "missing", "bad\0name"):
        assert files.find(outside) is None


def test_saved_chat_is_for_its_user_only_and_for_one_program(tmp_path: Path) -> None:
    first, second = SavedChats(tmp_path, tmp_path / "s"), SavedChats(tmp_path, tmp_path / "s")
    assert first.acquire()
    assert not second.acquire()
    chat = SavedChat(tabs=[SavedTab(agent="a", session_id="1", draft="d", queue=["q"])])
    first.save(chat)
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    second.save(SavedChat())  # without the lock nothing is written
    assert first.problem is None
    assert second.problem == "Another accord chat runs in this folder"
    first.release()
    assert second.acquire()
    assert second.load() == chat
    second.release()


def applied(timeline: Timeline, *events: object) -> None:
    for event in events:
        timeline.transcript.apply(event)  # type: ignore[arg-type]
        timeline.apply(event)  # type: ignore[arg-type]
    timeline.sync()


def test_timeline_marks_only_what_has_changed() -> None:
    timeline = Timeline(Transcript())
    applied(timeline, Thought("hm"), Text("a", "1"), ToolCall(id="t", title="T"), Text("b", "2"))
    assert timeline.take_changed() == {0, 1, 2, 3}
    applied(timeline, Text(" more", "2"))
    assert timeline.take_changed() == {3}
    applied(timeline, ToolCall(id="t", title="U", status="completed"), Text(" late", "1"))
    assert timeline.take_changed() == {1, 2, 3}  # the last message may have grown without an id
    call = timeline.entries[2].content
    assert isinstance(call, ToolCall)
    assert call.title == "U"


def test_remarks_stay_where_they_were_made() -> None:
    timeline = Timeline(Transcript())
    applied(timeline, Text("a"), Notice("warning", "Careful", "details"), Text("b"))
    applied(timeline, ToolCall(id="t"))
    kinds = [type(entry.content) for entry in timeline.entries]
    assert kinds == [Message, Remark, ToolCall]
    timeline.continue_with(Transcript())
    applied(timeline, Text("new"))
    assert isinstance(timeline.entries[-1].content, Message)
    assert timeline.entries[-1].content.text == "new"


SOURCE = """# Title

A paragraph with **bold** and a [link](https://real.example/).

- one
- two

```python
def f():
    return 1
```

The end
"""


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_text_that_grows_ends_like_text_that_comes_at_once(size: int) -> None:
    at_once = LongText(60)
    at_once.update(SOURCE, is_final=True)
    whole = [strip.text for strip in at_once]
    growing = LongText(60)
    for end in range(size, len(SOURCE) + size, size):
        growing.update(SOURCE[:end], is_final=False)
    growing.update(SOURCE, is_final=True)
    assert [strip.text for strip in growing] == whole
    assert any("link (https://real.example/)" in line for line in whole)


def test_very_long_block_is_shown_as_it_was_written() -> None:
    text = "x" * 500_000
    growing = LongText(50)
    growing.update(text[:300_000], is_final=False)
    growing.update(text, is_final=True)
    growing.measure(0, len(text), 0)
    assert sum(len(strip.text) for strip in growing) == len(text)
