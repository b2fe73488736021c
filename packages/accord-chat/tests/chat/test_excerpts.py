"""The line numbers of changes of which the agent sends only the changed lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from textual.strip import Strip

from accord import Agent, Turn
from accord.client.events import ToolCall
from accord.types.tool_calls import Diff
from accord_chat.lines.words import status_word, whole_call
from accord_chat.model.conversation import Entry
from accord_chat.view import entry_lines
from accord_chat.view.entry_lines import EntryLines
from accord_chat.view.lazy_lines import Lines
from accord_chat.view.pictures import Previews
from accord_terminal.toolkit.tool_rows import lines_before_diff, title_rows, tool_call_parts
from chat.chats import LocalAgent, open_chat

VERSIONS = pytest.mark.parametrize("version", [1, 2])
OLD = "line 17\nline 18\n"
NEW = "line 17\nLINE 18\n"


class Excerpts(Agent):
    """Asks before it changes a line, as Claude's adapter does."""

    async def prompt(self, turn: Turn) -> None:
        path = Path(turn.session.cwd, "shop.txt")
        async with turn.tool("Change shop.txt", kind="edit") as call:
            await call.add_diff(str(path), OLD, NEW)
            if not await call.permission():
                await call.fail("Rejected")
                return
            path.write_text(path.read_text().replace(OLD, NEW))  # noqa: ASYNC240
        await turn.say("written")


def shop(folder: Path) -> Path:
    path = folder / "shop.txt"
    path.write_text("".join(f"line {n}\n" for n in range(1, 21)))
    return path


async def test_question_and_conversation_have_the_numbers_of_the_file(tmp_path: Path) -> None:
    file = shop(tmp_path)
    async with open_chat(LocalAgent(Excerpts(), version=1), folder=tmp_path, size=(80, 40)) as user:
        await user.send("go")
        panel = await user.question()
        await user.until(lambda: user.screen.count("   18 + LINE 18") == 2)
        assert "    2 +" not in user.screen
        await user.press("f10", "y")
        await user.sees("written")
        assert not panel.is_attached
        # The place is kept when the file changes later, and when the window is resized.
        file.write_text("another text\n")
        await user.pilot.resize_terminal(60, 40)
        await user.until(lambda: user.app.screen.size.width == 60)
        await user.sees("   18 - line 18", "   18 + LINE 18")


@VERSIONS
async def test_excerpt_of_a_file_that_has_changed_has_no_numbers(
    tmp_path: Path, version: int
) -> None:
    shop(tmp_path).write_text("another text\n")
    async with open_chat(LocalAgent(Excerpts(), version=version), folder=tmp_path) as user:
        await user.send("go")
        await user.question()
        # In version 2 it comes as a patch, which has the numbers that the agent says.
        await user.sees("      + LINE 18" if version == 1 else "    2 + LINE 18")


def test_place_is_searched_again_only_if_the_file_or_the_call_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[str] = []

    def search(diff: Diff, call: ToolCall, folder: str | None) -> int | None:
        searches.append(call.status)
        return lines_before_diff(diff, call, folder)

    monkeypatch.setattr(entry_lines, "lines_before_diff", search)
    file = tmp_path / "shop.txt"
    call = ToolCall(id="c", title="Change", content=(Diff(str(file), OLD, NEW),))
    entry = Entry(content=call)
    lines = EntryLines(entry, 60, Previews(), lambda: None)

    def show(status: str) -> str:
        """Show two further versions of the call; return the lines of the last."""
        strips: Lines | list[Strip] = []
        for title in ("Change", "Change it"):
            entry.content = structs.replace(call, title=title, status=status)
            entry.version += 1
            strips = lines.lines(str(tmp_path), joins=True)
        return "\n".join(strips[number].text for number in range(len(strips)))

    assert "      + LINE 18" in show("pending")
    file.write_text("another text\n")
    assert "      + LINE 18" in show("pending")
    assert searches == ["pending"] * 2
    assert "      + LINE 18" in show("completed")
    file.write_text(f"more text\n{NEW}")
    assert "    3 + LINE 18" in show("completed")
    assert searches == ["pending"] * 2 + ["completed"] * 2


def test_lines_name_the_numbers_of_the_file(tmp_path: Path) -> None:
    file = shop(tmp_path)
    call = ToolCall(id="c", title="Change", content=(Diff(str(file), OLD, NEW),))
    assert list(whole_call(call, (), str(tmp_path)))[-4:] == [
        "Change of shop.txt:",
        "line 17: line 17",
        "line 18 removed: line 18",
        "line 18 added: LINE 18",
    ]
    file.write_text("another text\n")
    assert list(whole_call(call, (), str(tmp_path)))[-3:] == [
        "same: line 17",
        "removed: line 18",
        "added: LINE 18",
    ]


def test_rows_say_that_a_call_is_not_finished() -> None:
    call = ToolCall(id="a", title="Edit", status="in_progress", unfinished=True)
    for text in (
        status_word(call),
        "".join(row.text for row in title_rows(call, None)),
        "\n".join(tool_call_parts(call, "/")),
    ):
        assert text.count("not finished by the agent") == 1
