"""What a tool call does, found from its name and arguments."""

from __future__ import annotations

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accord import AudioContent, Diff, EmbeddedResource, ImageContent, PermissionRequest
from accord_bridges.bridge import BridgedAgent
from accord_bridges.run import Run
from accord_bridges.testing import BridgeContract
from accord_bridges.tools import command_of, describe, kind_of, plan_of, shown

DATA = base64.b64encode(b"data").decode()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("read_file", "read"),
        ("ReadFile", "read"),
        ("fs.read-file", "read"),
        ("mcp__files__read_file", "read"),
        ("get_config_file", "read"),
        ("str_replace_based_edit_tool", "edit"),
        ("Write", "edit"),
        ("update_config_file", "edit"),
        ("remove_file", "delete"),
        ("rename", "move"),
        ("Grep", "search"),
        ("Bash", "execute"),
        ("run_shell_command", "execute"),
        ("python_interpreter", "execute"),
        ("WebFetch", "fetch"),
        ("visit_webpage", "fetch"),
        ("write_todos", "think"),
        ("final_answer", "think"),
        ("weather", "other"),
        ("create_invoice", "other"),
        ("", "other"),
    ],
)
def test_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "arguments", "title", "locations"),
    [
        ("read_file", {"path": "a/b.py"}, "Read a/b.py", ("/w/a/b.py",)),
        ("Read", {"file_path": "/w/a.py"}, "Read a.py", ("/w/a.py",)),
        ("Read", {"file_path": "/other/a.py"}, "Read /other/a.py", ("/other/a.py",)),
        ("bash", {"command": "ls  -l\npwd"}, "ls -l pwd", ()),
        ("exec", {"argv": ["git", "status"]}, "git status", ()),
        ("web_search", {"query": "weather"}, "Web search weather", ()),
        ("getWeather", {"city": "Oslo"}, "Get weather", ()),
        ("move_file", {"source": "a", "destination": "b"}, "Move a", ("/w/a", "/w/b")),
        ("fetch", {"url": "https://example.org/a"}, "Fetch https://example.org/a", ()),
        ("read_file", {"path": "https://example.org/a"}, "Read file", ()),
        ("note", "just text", "Note just text", ()),
        ("note", None, "Note", ()),
        ("note", ["a"], "Note", ()),
    ],
)
def test_title_and_locations(
    name: str, arguments: Any, title: str, locations: tuple[str, ...]
) -> None:
    found = describe(name, arguments, "/w")
    assert (found.title, found.locations) == (title, locations)


def test_long_title_is_cut() -> None:
    assert len(describe("bash", {"command": "x" * 500}, "/w").title) == 100


@pytest.mark.parametrize(
    ("name", "arguments", "new"),
    [
        ("write_file", {"path": "f", "content": "new"}, "new"),
        ("create", {"path": "f", "file_text": "new"}, "new"),
        ("append_file", {"path": "f", "content": "c\n"}, "a\nb\na\nc\n"),
        ("edit", {"path": "f", "old_string": "a", "new_string": "x"}, "x\nb\na\n"),
        (
            "edit",
            {"path": "f", "old_string": "a", "new_string": "x", "replace_all": True},
            "x\nb\nx\n",
        ),
        (
            "multi_edit",
            {
                "path": "f",
                "edits": [{"oldText": "a", "newText": "x"}, {"oldText": "x", "newText": "y"}],
            },
            "y\nb\na\n",
        ),
    ],
)
def test_edit_is_a_diff_of_the_file(name: str, arguments: Any, new: str, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("a\nb\na\n")
    assert describe(name, arguments, str(tmp_path)).diffs == (Diff(str(file), "a\nb\na\n", new),)


def test_edit_of_what_cannot_be_read_shows_what_was_given(tmp_path: Path) -> None:
    arguments = {"path": "f", "old_string": "a", "new_string": "x"}
    diff = Diff(str(tmp_path / "f"), "a", "x")
    assert describe("edit", arguments, str(tmp_path)).diffs == (diff,)
    (tmp_path / "f").write_bytes(b"\xff\xfe a")
    assert describe("edit", arguments, str(tmp_path)).diffs == (diff,)
    assert describe("write", {"path": "g", "content": "n"}, str(tmp_path)).diffs == (
        Diff(str(tmp_path / "g"), None, "n"),
    )
    assert not describe("edit", {"path": "f"}, str(tmp_path)).diffs


@pytest.mark.parametrize(
    ("name", "arguments", "plan"),
    [
        (
            "write_todos",
            {"todos": [{"content": "a", "status": "in_progress"}]},
            [("a", "in_progress")],
        ),
        ("TodoWrite", {"todos": [{"content": "a", "status": "completed"}]}, [("a", "completed")]),
        (
            "update_plan",
            {"plan": [{"step": "a", "status": "inProgress"}, "b"]},
            [("a", "in_progress"), ("b", "pending")],
        ),
        (
            "manage_todo_list",
            {"todoList": [{"title": "a", "status": "not-started"}]},
            [("a", "pending")],
        ),
        (
            "x__write_todos",
            {"todos": [{"content": "a", "status": "odd"}, {}, 7]},
            [("a", "pending")],
        ),
        ("write_todos", {"todos": "a"}, None),
        ("write_todos", {}, None),
        ("write_todos", None, None),
        ("write_notes", {"todos": ["a"]}, None),
    ],
)
def test_plan(name: str, arguments: Any, plan: list[tuple[str, str]] | None) -> None:
    found = plan_of(name, arguments)
    assert plan == (None if found is None else [(each.content, each.status) for each in found])


@pytest.mark.parametrize(
    ("name", "arguments", "command"),
    [
        ("bash", {"command": "ls"}, "ls"),
        ("shell", {"commands": ["a", "b"]}, "a b"),
        ("bash", {"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
        ("read", {"command": "ls"}, None),
        ("bash", "ls", None),
    ],
)
def test_command(name: str, arguments: Any, command: str | None) -> None:
    assert command_of(name, arguments) == command


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, []),
        ("", []),
        ("text", ["text"]),
        (["a", "b"], ["a", "b"]),
        ([{"type": "text", "text": "a"}, "b"], ["a", "b"]),
        ({"type": "output_text", "text": "a"}, ["a"]),
        (
            {"type": "image", "data": DATA, "mimeType": "image/png"},
            [ImageContent(b"data", "image/png")],
        ),
        (
            {"type": "image", "source": {"data": DATA, "media_type": "image/gif"}},
            [ImageContent(b"data", "image/gif")],
        ),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
            [ImageContent(b"data", "image/png")],
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            ["![image](https://example.org/a.png)"],
        ),
        (
            {"type": "audio", "data": DATA, "mime_type": "audio/wav"},
            [AudioContent(b"data", "audio/wav")],
        ),
        (
            {"type": "image", "data": "!", "mimeType": "image/png"},
            ["(image/png that cannot be decoded, 1 characters)"],
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "text": "t"}},
            [EmbeddedResource("file:///a", "t")],
        ),
        ({"type": "resource_link", "uri": "file:///a", "name": "A"}, ["[A](file:///a)"]),
        (b"abc", ["(application/octet-stream, 3 bytes)"]),
        (
            SimpleNamespace(data=b"data", media_type="image/png"),
            [ImageContent(b"data", "image/png")],
        ),
        ({"a": 1}, ['{\n  "a": 1\n}']),
        (7, ["7"]),
        ([1, "a"], ['[\n  1,\n  "a"\n]']),
    ],
)
def test_any_output_is_shown(value: Any, content: list[Any]) -> None:
    assert shown(value) == content


def test_output_that_is_no_json_is_shown_as_its_text() -> None:
    class Odd:
        def __str__(self) -> str:
            return "an odd thing"

    assert shown(Odd()) in (["an odd thing"], ['"an odd thing"'])


async def test_permission_has_no_description_that_its_title_contains():
    class Asks(BridgedAgent):
        async def answer(self, run: Run) -> None:
            for number, said in enumerate(("a.txt", "It is outside of the project")):
                await run.approve(f"call-{number}", "delete_file", {"path": "a.txt"},
                                  description=said)  # fmt: skip

    asked: list[PermissionRequest] = []

    def decide(request: PermissionRequest) -> str:
        asked.append(request)
        return "allow"

    async with BridgeContract().connected([], agent=Asks(None), permissions=decide) as client:
        await client.turn(await client.session(), "go")
    found = [(request.title, request.description) for request in asked]
    assert found == [("Delete a.txt", None), ("Delete a.txt", "It is outside of the project")]
