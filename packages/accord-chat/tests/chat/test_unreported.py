"""Changes that an agent makes without reporting them: shown, and undone hunk by hunk."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Turn
from accord.client.events import ToolCall
from accord.client.transcript import Transcript
from accord.client.v2 import SharedSequence, appended
from accord.transports.base import Transport
from accord.types.tool_calls import Diff, ToolCallLocation, ToolContent
from accord_chat.model import turn_changes
from accord_chat.model.conversation import Timeline
from accord_chat.model.turn_changes import (
    FolderFiles,
    FolderState,
    TurnChanges,
    changes_between,
    state_of,
)
from chat.chats import HandAgent, LocalAgent, open_chat
from project import ROOT
from raw_peer import RawPeer

RECORDINGS = ROOT / "tests/recordings"
LINES = "".join(f"line {number}\n" for number in range(1, 41))


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the files also on a machine that is busy with other things."""
    monkeypatch.setattr(turn_changes, "_LOOK_S", 20.0)


class Silent(Agent):
    """Writes a file itself."""

    async def prompt(self, turn: Turn) -> None:
        file = Path(turn.session.cwd, "a.txt")
        new = LINES.replace("line 2\n", "line two\n").replace("line 30\n", "line thirty\n")
        file.write_text(new)  # noqa: ASYNC240
        await turn.say("Done.")


@pytest.mark.parametrize("has_git", [True, False])
def test_created_changed_and_deleted_files_are_found(tmp_path: Path, has_git: bool) -> None:
    if has_git:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        (tmp_path / ".gitignore").write_text("ignored\n")
    for name in ("changed", "deleted", "touched", "same", "reported"):
        (tmp_path / name).write_text("old\n")
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    (tmp_path / ".agent").mkdir()
    folder = FolderFiles(tmp_path)
    before = state_of(folder)
    for name in ("changed", "created", "reported", ".agent/session.json"):
        (tmp_path / name).write_text("new\n")
    (tmp_path / "deleted").unlink()
    (tmp_path / "binary").write_bytes(b"\xff\x01\x02")
    os.utime(tmp_path / "touched", (1, 1))
    if has_git:
        (tmp_path / "ignored").write_text("x")
    after = state_of(folder, before)
    assert after.files["same"] is before.files["same"]
    found = changes_between(before, after, str(tmp_path), {str(tmp_path / "reported")})
    assert found.diffs == (
        Diff(str(tmp_path / "changed"), "old\n", "new\n"),
        Diff(str(tmp_path / "created"), None, "new\n"),
        Diff(str(tmp_path / "deleted"), "old\n", None),
    )
    assert found.others == ("binary",)


def test_large_files_are_named_and_links_are_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "work"
    inside.mkdir()
    (tmp_path / "secret").write_text("old\n")
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "large").write_text("x" * 600_000)
    os.mkfifo(inside / "pipe")
    folder = FolderFiles(inside)
    before = state_of(folder)
    (tmp_path / "secret").write_text("new\n")
    (inside / "large").write_text("y" * 600_000)
    found = changes_between(before, state_of(folder, before), str(inside), ())
    assert (found.diffs, found.others) == ((), ("large",))


async def test_unreported_change_is_shown_and_rejected_by_hunk(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(LINES)
    async with open_chat(LocalAgent(Silent(), version=1), folder=tmp_path) as user:
        await user.until(lambda: user.session.state == "idle")
        (tmp_path / "b.txt").write_text("of the user\n")  # between two turns
        await user.send("Change it")
        await user.sees("Not reported by the agent: a.txt")
        assert {one.hunk.path for one in user.session.reviewed_hunks()} == {str(file)}
        await user.press("f4")
        await user.sees("line two", "change 1 of 2")
        await user.press("x")
        await user.until(lambda: "line 2\n" in file.read_text())
    assert file.read_text() == LINES.replace("line 30\n", "line thirty\n")


class Editor(Agent):
    """Changes a.txt itself, and reports it as the prompt says: JSON of tool calls to send."""

    async def prompt(self, turn: Turn) -> None:
        file = Path(turn.session.cwd, "a.txt")
        new = LINES.replace("line 2\n", "line two\n")
        how = json.loads(turn.text)
        locations = [ToolCallLocation(str(file))] if how.get("located") else ()
        async with turn.tool(
            "write",
            kind=how.get("kind", "edit"),
            locations=locations,
            raw_input=how.get("input"),
        ) as call:
            if how.get("diff"):
                await call.add_diff(str(file), LINES, new)
            if how.get("asks"):
                await call.permission()
            file.write_text(new)  # noqa: ASYNC240
            if how.get("replaced"):
                await call.replace_content("Wrote the file.")
            if how.get("fails"):
                await call.fail("It did not work")
        await turn.say("Done.")


CHANGED, UNREPORTED = "Changed by the agent: a.txt", "Not reported by the agent: a.txt"
REJECTED = "Changed although you rejected it: a.txt"


REPORTS: tuple[tuple[dict[str, object], str | None], ...] = (
    ({"located": True}, CHANGED),
    ({"input": {"filePath": "a.txt"}}, CHANGED),
    ({"input": {"edits": [{"path": "./a.txt", "text": "\0"}]}}, CHANGED),
    ({"diff": True, "replaced": True}, CHANGED),
    ({"diff": True, "asks": "y", "replaced": True}, CHANGED),
    ({"located": True, "asks": "n"}, REJECTED),
    ({"diff": True, "asks": "n"}, REJECTED),
    ({"kind": "read", "located": True, "input": {"path": "a.txt"}}, UNREPORTED),
    ({"kind": "execute", "input": {"path": "a.txt"}}, UNREPORTED),
    ({"input": {"path": "b.txt"}}, UNREPORTED),
    ({"located": True, "fails": True}, UNREPORTED),
    ({}, UNREPORTED),
    ({"diff": True}, None),
    ({"diff": True, "asks": "y"}, None),
)


async def test_change_is_reported_if_a_call_named_its_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    async with open_chat(LocalAgent(Editor()), folder=tmp_path) as user:
        for count, (how, shown) in enumerate(REPORTS, 1):
            file.write_text(LINES)
            await user.until(lambda: user.session.state == "idle")
            first = len(user.session.timeline.entries)
            await user.send(json.dumps(how))
            if key := how.get("asks"):
                await user.question()
                await user.press(str(key))
            await user.until(
                lambda count=count: user.session.transcript.text.count("Done.") == count
            )
            await user.until(lambda: not user.session.queue and user.session.state == "idle")
            contents = [entry.content for entry in user.session.timeline.entries[first:]]
            titles = [one.title for one in contents if isinstance(one, ToolCall)]
            assert titles == ["write", *([] if shown is None else [shown])], how
            assert [one.hunk.path for one in user.session.reviewed_hunks()]  # to be rejected


class OpenCode(HandAgent):
    """Edits notes.txt with the messages of the recorded OpenCode."""

    def __init__(self, folder: Path) -> None:
        super().__init__(1, {"session/new": {"sessionId": "s"}})
        recording = (RECORDINGS / "opencode.acp.jsonl").read_text().replace("/project", str(folder))
        messages = [json.loads(line) for line in recording.splitlines()]
        self._file = folder / "notes.txt"
        updates = (message.get("params", {}).get("update", {}) for message in messages)
        edit = next(update["toolCallId"] for update in updates if update.get("kind") == "edit")
        self._params = [
            {**message["params"], "sessionId": "s"}
            for message in messages
            if message.get("dir") == "to_client" and f'"{edit}"' in json.dumps(message)
        ]

    async def _serve(self, transport: Transport) -> None:
        self.raw = raw = RawPeer(transport)
        await transport.start(raw)
        while True:
            message = await raw.get()
            match message.get("method"):
                case "session/prompt":
                    for params in self._params:
                        if "options" in params:
                            raw.ask("q", "session/request_permission", params)
                            assert (await raw.get())["result"]["outcome"]["optionId"] == "once"
                            self._file.write_text("Written by a recording.\n")
                        else:
                            raw.tell("session/update", params)
                    raw.answer(message["id"], {"stopReason": "end_turn"})
                case method if method in self.results:
                    raw.answer(message["id"], self.results[method])
                case _:
                    pass


class CountedParts(list[ToolContent]):
    """A list that counts how often its items are looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[ToolContent]:
        for item in super().__iter__():
            self.looks += 1
            yield item


def test_each_appended_part_is_looked_at_a_few_times_not_with_each_chunk(tmp_path: Path) -> None:
    changes = TurnChanges(FolderFiles(tmp_path), Timeline(Transcript()))
    parts = CountedParts()
    content = SharedSequence[ToolContent](parts, 0)
    count = 400
    for number in range(count):
        content = content.plus(f"part {number}")
        changes.note(call := ToolCall(id="a", content=content))
        assert not changes.names_file(call)
    assert parts.looks <= 4 * count
    changes.note(call := ToolCall(id="a", content=content.plus(Diff("/a.txt", "", "new"))))
    assert changes.names_file(call)
    changes.note(call := ToolCall(id="a", content=call.content, status="completed"))
    assert changes.names_file(call)
    changes.note(call := ToolCall(id="a", content=("replaced",)))
    assert not changes.names_file(call)
    assert parts.looks <= 4 * count + 8


@pytest.mark.parametrize("replaced_by", ["tuple", "appended"])
async def test_paths_of_content_that_was_replaced_are_kept(
    tmp_path: Path, replaced_by: str
) -> None:
    timeline = Timeline(Transcript())
    changes = TurnChanges(FolderFiles(tmp_path), timeline)
    await changes.begin()
    call = ToolCall(id="a", content=appended(("first",), Diff(f"{tmp_path}/a.txt", "", "a")))
    changes.note(call)
    content: Sequence[ToolContent] = ("no", Diff(f"{tmp_path}/b.txt", "", "b"), "more")
    if replaced_by == "appended":  # to another list than before, which is longer
        content = appended(content, "and more")
    changes.note(ToolCall(id="a", content=content))
    for name in ("a.txt", "b.txt", "other.txt"):
        (tmp_path / name).write_text("new\n")
    await changes.end()
    shown = [entry.content for entry in timeline.entries]
    titles = [one.title for one in shown if isinstance(one, ToolCall)]
    assert titles == ["Changed by the agent: a.txt, b.txt", "Not reported by the agent: other.txt"]


async def test_edit_of_opencode_is_reported_and_can_be_undone(tmp_path: Path) -> None:
    async with open_chat(OpenCode(tmp_path), folder=tmp_path) as user:
        await user.send("Write notes.txt")
        await user.question()
        await user.press("y")
        await user.sees("Changed by the agent: notes.txt")
        assert "Not reported" not in user.screen
        (one,) = user.session.reviewed_hunks()
        assert one.hunk.path == str(tmp_path / "notes.txt")


async def test_folder_that_cannot_be_read_in_time_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_changes, "_LOOK_S", 0.0)
    (tmp_path / "a.txt").write_text(LINES)
    async with open_chat(LocalAgent(Silent()), folder=tmp_path) as user:
        for _ in range(2):
            await user.send("Change it")
            await user.until(lambda: user.session.state == "idle")
        await user.sees("unreported changes are not shown")
        assert user.screen.count("unreported changes are not shown") == 1


async def test_prompt_is_in_the_queue_while_the_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    (tmp_path / "a.txt").write_text(LINES)

    def slow(folder: FolderFiles, earlier: FolderState | None = None) -> FolderState:
        assert may_go_on.wait(20)
        return state_of(folder, earlier)

    async with open_chat(LocalAgent(Silent()), folder=tmp_path) as user:
        await user.until(lambda: user.session.state == "idle")
        monkeypatch.setattr(turn_changes, "state_of", slow)
        await user.send("Change it")
        await user.until(lambda: user.session.queue)
        await user.pilot.pause()
        assert [one.text for one in user.session.queue] == ["Change it"]
        may_go_on.set()
        await user.sees("Not reported by the agent: a.txt")
