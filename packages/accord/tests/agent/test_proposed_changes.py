"""`edit`, `delete` and `run` of a tool call: the user sees what will be done, then it is done."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accord import FileChanged, MemoryStore, Turn, v1
from accord.agent import ToolCallHandle, tool_call
from accord.agent.files_and_terminals import means_missing_file
from accord.errors import MethodNotFound, RequestError, ResourceNotFound
from accord.local.files import OutsideRoots
from accord.wire.base import UNSET
from agent.harness import BOTH, V1, V2, AgentHarness, ClientV1, FunctionAgent, connect_client
from quirk import quirk
from requirement import requirement

NOT_DONE = {V1: "failed", V2: "cancelled"}  # the final status of a call that was not allowed


class Editor(ClientV1):
    """Reads and writes `harness.files`; a missing file is the error `harness.missing`."""

    missing: RequestError = ResourceNotFound()

    def read_text_file(
        self, params: v1.ReadTextFileRequest, context: v1.ClientContext
    ) -> v1.ReadTextFileResponse:
        if params.path not in self.harness.files:
            raise self.missing
        return v1.ReadTextFileResponse(content=self.harness.files[params.path])

    def write_text_file(
        self, params: v1.WriteTextFileRequest, context: v1.ClientContext
    ) -> v1.WriteTextFileResponse:
        self.harness.files[params.path] = params.content
        return v1.WriteTextFileResponse()


def asked_details(client: AgentHarness, at: int = -1) -> Any:
    """Return the tool call in a permission request, by default in the last one."""
    request = client.asked[at]
    return request.tool_call if client.version == V1 else request.subject.tool_call


def texts(call: dict[str, Any]) -> str:
    """Return the text content of an accumulated tool call."""
    parts = [getattr(item, "content", None) for item in call["content"]]
    return "".join(part.text for part in parts if part is not None)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Changes.


@BOTH
@requirement("R-TOOL-04", "R-PERM-01")
async def test_user_sees_a_change_before_it_is_made(version: int, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\r\n")
    seen: list[tuple[dict[str, Any], bytes]] = []

    async def work(turn: Turn) -> None:
        async with turn.tool("Change it") as call:
            assert await call.edit("a.txt", "two\r\n")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:

        def allow(_request: object) -> str:
            seen.append((client.tool(), file.read_bytes()))
            return "allow_once"

        client.allow = allow
        assert await client.prompt("go") == "end_turn"
        [(call, before)] = seen
        assert before == b"one\r\n"
        assert (call["kind"], call["status"]) == ("edit", "pending")
        assert [place.path for place in call["locations"]] == [str(file)]
        [diff] = call["content"]
        details = asked_details(client)
        assert (details.kind, details.locations[0].path) == ("edit", str(file))
        assert details.content == [diff]  # a client may show the request alone
        if version == V1:
            assert (diff.old_text, diff.new_text) == ("one\r\n", "two\r\n")
        else:
            assert "-one\r\n+two\r\n" in diff.patch.text
        assert file.read_bytes() == b"two\r\n"
        assert client.statuses() == ["pending", "in_progress", "completed"]
        assert client.tool()["content"] == [diff]


@BOTH
async def test_rejected_change_is_not_made_and_its_call_never_runs(
    version: int, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one")

    async def work(turn: Turn) -> None:
        async with turn.tool("Edit") as call:
            assert await call.edit("a.txt", "two") is False
        assert await turn.edit("new/b.txt", "x") is False
        assert await turn.delete("a.txt") is False
        assert await turn.run("touch", "c.txt") is None

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        client.allow = lambda _request: "reject_once"
        assert await client.prompt("go") == "end_turn"
        assert len(client.asked) == 4
        assert client.statuses() == ["pending", NOT_DONE[version]] * 4
        assert names_in(tmp_path) == ["a.txt"]
        assert (tmp_path / "a.txt").read_text() == "one"


@BOTH
async def test_new_file_is_shown_as_new_and_created_with_its_directories(
    version: int, tmp_path: Path
) -> None:
    async def work(turn: Turn) -> None:
        assert await turn.edit("new/a.txt", "x\n")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        assert (tmp_path / "new" / "a.txt").read_text() == "x\n"
        call = client.tool()
        assert call["title"] == "Edit new/a.txt"
        [diff] = call["content"]
        if version == V1:
            assert diff.old_text is None
        else:
            assert diff.changes[0].path == str(tmp_path / "new" / "a.txt")
            assert "new file mode" in diff.patch.text


@requirement("R-FS-02", "R-FS-04")
async def test_v1_change_is_proposed_and_written_in_the_editor(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("saved")

    async def work(turn: Turn) -> None:
        assert await turn.edit(path, "new")
        assert await turn.edit("b.txt", "made")

    async with connect_client(FunctionAgent(work), V1, cwd=str(tmp_path), client=Editor) as client:
        client.files[path] = "unsaved"
        assert await client.prompt("go") == "end_turn"
        first, second = (request.tool_call.content[0] for request in client.asked)
        assert (first.old_text, second.old_text) == ("unsaved", None)
        assert client.files == {path: "new", str(tmp_path / "b.txt"): "made"}
        assert (tmp_path / "a.txt").read_text() == "saved"


@BOTH
@pytest.mark.parametrize("change", ["text", "created", "deleted", "bytes"])
async def test_file_that_changes_while_the_user_reads_is_not_overwritten(
    version: int, change: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    if change != "created":
        file.write_text("one")

    def meanwhile(_request: object) -> str:
        match change:
            case "deleted":
                file.unlink()
            case "bytes":
                file.write_bytes(b"\xff")
            case _:
                file.write_text("the user's")
        return "allow_once"

    async def work(turn: Turn) -> None:
        await turn.edit("a.txt", "two")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        client.allow = meanwhile
        if version == V1:
            with pytest.raises(RequestError, match=r"a\.txt has changed .* nothing was written"):
                await client.prompt("go")
        else:
            assert await client.prompt("go") == "error"
            assert "has changed" in client.ends()[-1].error.message
        left = {"deleted": None, "bytes": b"\xff"}.get(change, b"the user's")
        assert (file.read_bytes() if file.exists() else None) == left
        assert client.statuses()[-1] == "failed"
        assert "nothing was written" in texts(client.tool())


async def test_v1_text_typed_while_the_user_reads_is_not_overwritten(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    caught: list[FileChanged] = []

    async def work(turn: Turn) -> None:
        try:
            await turn.edit(path, "two")
        except FileChanged as error:
            caught.append(error)

    async with connect_client(FunctionAgent(work), V1, cwd=str(tmp_path), client=Editor) as client:
        client.files[path] = "one"

        def types_on(_request: object) -> str:
            client.files[path] = "one, typed"
            return "allow_once"

        client.allow = types_on
        assert await client.prompt("go") == "end_turn"
        assert client.files[path] == "one, typed"
        assert len(caught) == 1


@BOTH
async def test_file_with_that_text_needs_no_permission(version: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")

    async def work(turn: Turn) -> None:
        assert await turn.edit("a.txt", "one")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        assert not client.asked
        assert client.statuses() == ["pending", "completed"]


@BOTH
async def test_several_changes_in_one_call_are_asked_and_shown_one_by_one(
    version: int, tmp_path: Path
) -> None:
    done: list[bool] = []
    argv = (sys.executable, "-c", "print('hi')")

    async def work(turn: Turn) -> None:
        async with turn.tool("Rename it", kind="edit") as call:
            done.extend([await call.edit(name, "x\n") for name in "abc"])
            assert await call.run(*argv) is not None
            done.append(await call.delete("a", title="Delete it again?"))

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        answers = iter(["allow_once", "reject_once", "allow_once", "allow_once", "reject_once"])
        client.allow = lambda _request: next(answers)
        await client.prompt("go")
        assert done == [True, False, True, False]
        assert names_in(tmp_path) == ["a", "c"]
        call = client.tool()
        assert [Path(place.path).name for place in call["locations"]] == ["a", "b", "c"]
        assert (call["title"], call["status"]) == ("Rename it", "completed")
        assert "Not allowed: Edit b\n" in texts(call)
        assert "Not allowed: Delete a\n" in texts(call)
        # Each question names what is asked now.
        titles = [r.tool_call.title if version == V1 else r.title for r in client.asked]
        line = shlex.join(argv)
        assert titles == ["Rename it", "Edit b", "Edit c", line, "Delete it again?"]
        kinds = [asked_details(client, at).kind for at in range(5)]
        assert kinds == ["edit", "edit", "edit", "execute", "delete"]
        assert asked_details(client, 3).raw_input["command"] == line
        assert "command" not in asked_details(client, 4).raw_input


@BOTH
async def test_always_applies_to_changes_and_to_one_command_only(
    version: int, tmp_path: Path
) -> None:
    print_a = (sys.executable, "-c", "print('a')")

    async def work(turn: Turn) -> None:
        assert await turn.edit("a.txt", "1")
        assert await turn.edit("b.txt", "2")
        assert await turn.run(*print_a)
        assert await turn.run(*print_a)
        assert await turn.run(sys.executable, "-c", "print('b')")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        client.allow = lambda _request: "allow_always"
        assert await client.prompt("go") == "end_turn"
        assert len(client.asked) == 3
        names = [[option.name for option in request.options] for request in client.asked]
        assert names[0][1] == "Always allow"
        assert names[1][1] == "Always allow this command"


@BOTH
@pytest.mark.parametrize("decided", [True, False])
async def test_agent_can_decide_by_what_will_be_done(
    version: int, decided: bool, tmp_path: Path
) -> None:
    class Deciding(FunctionAgent):
        async def decide_permission(self, call: ToolCallHandle) -> bool | None:
            decisions.append((call.kind, [place.path for place in call.locations], call.raw_input))
            return decided

    decisions: list[Any] = []
    argv = (sys.executable, "-c", "")

    async def work(turn: Turn) -> None:
        assert await turn.edit("a.txt", "1") is decided
        assert (await turn.run(*argv) is not None) is decided

    async with connect_client(Deciding(work), version, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
        assert not client.asked
        assert decisions[0] == ("edit", [str(tmp_path / "a.txt")], None)
        kind, _, raw_input = decisions[1]
        assert (kind, raw_input["cwd"]) == ("execute", str(tmp_path))
        assert (tmp_path / "a.txt").exists() is decided


@BOTH
async def test_what_cannot_be_done_is_not_asked(version: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "data.bin").write_bytes(b"\xff\x00")
    (tmp_path / "secret").write_text("secret")
    raised: list[type[Exception]] = []

    async def work(turn: Turn) -> None:
        for attempt in (
            turn.edit("../secret", "x"),
            turn.edit("folder", "x"),
            turn.edit("data.bin", "x"),
            turn.edit("a.txt", "\ud800"),
            turn.delete("../secret"),
            turn.delete("folder"),
            turn.delete("missing"),
            turn.run("ls", cwd="/"),
            turn.run(),
        ):
            try:
                await attempt
            except (OSError, ValueError) as error:
                raised.append(type(error))

    async with connect_client(FunctionAgent(work), version, cwd=str(root)) as client:
        assert await client.prompt("go") == "end_turn"
        assert raised == [
            OutsideRoots,
            IsADirectoryError,
            UnicodeDecodeError,
            UnicodeEncodeError,
            OutsideRoots,
            IsADirectoryError,
            FileNotFoundError,
            OutsideRoots,
            ValueError,
        ]
        assert not client.asked
        assert (tmp_path / "secret").read_text() == "secret"


@BOTH
async def test_huge_change_is_shown_in_part_with_its_size(version: int, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"line {n}\n" for n in range(60_000)))

    async def work(turn: Turn) -> None:
        text = await turn.files.read("a.txt")
        assert await turn.edit("a.txt", text.replace("line 7\n", "line ```\u202e7\n"))
        assert await turn.edit("a.txt", text.upper())

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        ids = list(dict.fromkeys(update.tool_call_id for update in client.of("ToolCallUpdate")))
        small, large = (texts(client.tool(name)) for name in ids)
        assert small.startswith("````diff\n")
        assert "-line 7\n+line ```\\u202e7\n" in small
        assert "not shown" not in small
        assert len(large) < 250_000
        assert "more lines of the change are not shown" in large
        assert file.read_text().startswith("LINE 0\n")


@pytest.mark.parametrize(("version", "stop_reason"), [(V1, "cancelled"), (V2, "end_turn")])
@requirement("R-PERM-18")
async def test_change_whose_question_is_cancelled_is_not_made(
    version: int, stop_reason: str, tmp_path: Path
) -> None:
    done: list[Any] = []

    async def work(turn: Turn) -> None:
        done.append(await turn.edit("a.txt", "1"))

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        client.allow = lambda _request: None
        assert await client.prompt("go") == stop_reason
        assert done == ([] if version == V1 else [False])
        assert client.tool()["status"] == NOT_DONE[version]
        assert not (tmp_path / "a.txt").exists()


@BOTH
async def test_ended_call_does_nothing_more(version: int, tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Edit") as call:
            await call.fail("No.")
            with pytest.raises(RuntimeError, match="has ended"):
                await call.edit("a.txt", "1")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
        assert not names_in(tmp_path)


async def test_change_is_kept_in_the_history(tmp_path: Path) -> None:
    class Kept(FunctionAgent):
        store = MemoryStore()

    async def work(turn: Turn) -> None:
        await turn.edit("a.txt", "1")

    async with connect_client(agent := Kept(work), V1, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        [session] = agent.sessions.values()
        kept = [update for update in await session.history() if "diff" in repr(update).lower()]
        assert "a.txt" in repr(kept)


@BOTH
async def test_request_repeats_all_content_or_leaves_it_as_it_is(version: int) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Look", kind="edit") as call:
            await call.add_content("one")
            await call.replace_content("two", "three")
            await call.permission()
            await call.append_text("streamed")
            await call.permission()

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        first, second = (asked_details(client, at).content for at in range(2))
        assert [part.content.text for part in first] == ["two", "three"]
        if version == V2:
            assert second is UNSET
        assert texts(client.tool()) == "twothreestreamed"


# Deletions.


@BOTH
async def test_deleted_file_is_shown_first(version: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("gone\n")
    (tmp_path / "b.bin").write_bytes(b"\xff" * 1234)

    async def work(turn: Turn) -> None:
        assert await turn.delete("a.txt")
        assert await turn.delete(str(tmp_path / "b.bin"))

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        assert not names_in(tmp_path)
        assert [asked_details(client).kind, len(client.asked)] == ["delete", 2]
        ids = list(dict.fromkeys(u.tool_call_id for u in client.of("ToolCallUpdate")))
        [diff] = client.tool(ids[0])["content"]
        if version == V1:
            assert diff.old_text == "gone\n"
        else:
            assert "deleted file mode" in diff.patch.text
        assert "1,234 bytes that are not text" in texts(client.tool(ids[1]))
        assert client.tool(ids[1])["title"] == "Delete b.bin"


@BOTH
async def test_file_that_changes_while_the_user_reads_is_not_deleted(
    version: int, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")

    def meanwhile(_request: object) -> str:
        file.write_text("something new")
        return "allow_once"

    async def work(turn: Turn) -> None:
        with pytest.raises(FileChanged):
            await turn.delete("a.txt")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        client.allow = meanwhile
        assert await client.prompt("go") == "end_turn"
        assert file.read_text() == "something new"
        assert client.statuses()[-1] == "failed"


@pytest.mark.skipif(os.name == "nt", reason="Windows asks for a right to make links")
@BOTH
async def test_link_is_deleted_and_its_target_stays(version: int, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("text")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")

    async def work(turn: Turn) -> None:
        assert await turn.delete("link")
        assert await turn.delete("dangling")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
        assert names_in(tmp_path) == ["target"]


# Commands.


@BOTH
async def test_user_sees_a_command_before_it_runs(version: int, tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import sys; open('made', 'w'); print('hi'); sys.exit(3)")
    results: list[Any] = []

    async def work(turn: Turn) -> None:
        async with turn.tool("Run the tests") as call:
            results.append(await call.run(*argv, title="May I?"))

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:

        def allow(_request: object) -> str:
            assert not (tmp_path / "made").exists()
            assert "sys.exit(3)" in texts(client.tool())
            return "allow_once"

        client.allow = allow
        assert await client.prompt("go") == "end_turn"
        details = asked_details(client)
        assert details.kind == "execute"
        assert details.raw_input["cwd"] == str(tmp_path)
        assert "sys.exit(3)" in details.raw_input["command"]
        assert (results[0].exit_code, results[0].output.strip()) == (3, "hi")
        assert client.statuses() == ["pending", "in_progress", "completed"]


@BOTH
async def test_call_of_its_own_fails_with_the_command(version: int, tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        result = await turn.run(sys.executable, "-c", "raise SystemExit(1)")
        assert result is not None
        assert not result.ok

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.statuses()[-1] == "failed"
        assert client.tool()["title"].endswith("-c 'raise SystemExit(1)'")


@BOTH
async def test_change_in_a_subagent_is_shown_and_asked_as_what_it_is(
    version: int, tmp_path: Path
) -> None:
    async def work(turn: Turn) -> None:
        async with turn.subagent("Reviewer") as reviewer:
            assert await reviewer.edit("a.txt", "1\n")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
        details = asked_details(client)
        assert (details.kind, details.locations[0].path) == ("edit", str(tmp_path / "a.txt"))
        [diff] = [part for part in client.tool()["content"] if type(part).__name__ == "Diff"]
        assert details.tool_call_id == client.of("ToolCall", "ToolCallUpdate")[0].tool_call_id
        if version == V1:
            assert diff in details.content
        assert (tmp_path / "a.txt").read_text() == "1\n"


# The warning.


async def _deletes(call: ToolCallHandle) -> None:
    await call.permission()


async def _with_text(call: ToolCallHandle) -> None:
    await call.add_content("It deletes build/.")
    await call.permission()


async def _with_description(call: ToolCallHandle) -> None:
    await call.permission(description="It deletes build/.")


@BOTH
@pytest.mark.parametrize(
    ("kind", "raw_input", "ask", "cure"),
    [
        ("edit", None, _deletes, "await call.edit(path, text)"),
        ("delete", None, _deletes, "await call.delete(path)"),
        ("execute", None, _deletes, "await call.run(program, …)"),
        ("edit", {"path": "a"}, _deletes, None),
        ("edit", None, _with_text, None),
        ("edit", None, _with_description, "await call.edit(path, text)"),
        ("read", None, _deletes, None),
        ("other", None, _deletes, None),
    ],
)
async def test_request_that_shows_nothing_is_logged_once(
    version: int,
    kind: str,
    raw_input: Any,
    ask: Callable[[ToolCallHandle], Any],
    cure: str | None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_call, "_warned", [])
    caplog.set_level(logging.WARNING, "accord.agent")

    async def work(turn: Turn) -> None:
        for _ in range(2):
            async with turn.tool("Clean up", kind=kind, raw_input=raw_input) as call:
                await ask(call)

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        assert len(client.asked) == 2
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == (0 if cure is None else 1)
    for text in warnings:
        assert f"`{cure}`" in text
        assert "'Clean up'" in text


# A missing file of the client.

ENOENT = "ENOENT: no such file or directory, open '/project/a.txt'"
MISSING = [
    ResourceNotFound(),
    RequestError("whatever", code=-32002),
    RequestError(ENOENT, code=-32603),
    RequestError("Internal error", code=-32603, data=ENOENT),
    RequestError("Internal error", code=-32603, data={"details": ENOENT}),
    RequestError("Internal error", code=-32603, data={"error": {"code": "ENOENT"}}),
    RequestError("Internal error", code=-32603, data=[{"message": "File not found"}]),
    RequestError("File /project/a.txt does not exist", code=-32602),
    RequestError("[Errno 2] No such file or directory: 'a.txt'", code=-32000),
    RequestError("The system cannot find the file specified. (os error 2)", code=-32603),
]
OTHER = [
    MethodNotFound(),
    RequestError("Method not found", code=-32603),
    RequestError("Session not found", code=-32603),
    RequestError("Internal error", code=-32603),
    RequestError("Permission denied", code=-32603, data={"path": "/project/a.txt"}),
    RequestError("EACCES: permission denied, open '/project/not found/x'", code=-32603),
    RequestError("Internal error", code=-32603, data=[[[[{"deep": 2}]]]] * 1000),
]


@quirk("missing-file-code")
@pytest.mark.parametrize("error", MISSING, ids=str)
def test_missing_file_is_recognized(error: RequestError) -> None:
    error = RequestError.of(error.code, error.message, error.data)
    assert means_missing_file(error, "/project/a.txt")


@pytest.mark.parametrize("error", OTHER, ids=str)
def test_another_error_is_not_taken_for_a_missing_file(error: RequestError) -> None:
    error = RequestError.of(error.code, error.message, error.data)
    assert not means_missing_file(error, "/project/not found/x")


@quirk("missing-file-code")
@requirement("R-FS-04")
@pytest.mark.parametrize("error", [MISSING[4], OTHER[3]], ids=["missing", "unclear"])
async def test_v1_new_file_is_written_whatever_the_read_of_it_answers(
    error: RequestError, tmp_path: Path
) -> None:
    class Odd(Editor):
        missing = error

    async def work(turn: Turn) -> None:
        assert await turn.edit("a.txt", "1")
        async with turn.tool("Write", kind="edit"):
            await turn.files.write("b.txt", "2")
        if error is MISSING[4]:
            with pytest.raises(FileNotFoundError):
                await turn.files.read("c.txt")
        else:
            with pytest.raises(RequestError):
                await turn.files.read("c.txt")

    async with connect_client(FunctionAgent(work), V1, cwd=str(tmp_path), client=Odd) as client:
        assert await client.prompt("go") == "end_turn"
        assert list(client.files.values()) == ["1", "2"]
        assert client.asked[0].tool_call.content[0].old_text is None


async def test_v1_text_on_disk_is_shown_if_the_client_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("on disk")

    class Odd(Editor):
        missing = OTHER[3]

    async def work(turn: Turn) -> None:
        assert await turn.edit("a.txt", "1")

    async with connect_client(FunctionAgent(work), V1, cwd=str(tmp_path), client=Odd) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.asked[0].tool_call.content[0].old_text == "on disk"


@requirement("R-FS-04")
async def test_v1_error_of_the_write_counts(tmp_path: Path) -> None:
    class ReadOnly(Editor):
        missing = OTHER[3]

        def write_text_file(
            self, params: v1.WriteTextFileRequest, context: v1.ClientContext
        ) -> v1.WriteTextFileResponse:
            raise RequestError("The disk is full", code=-32010)

    errors: list[RequestError] = []

    async def work(turn: Turn) -> None:
        try:
            await turn.edit("a.txt", "1")
        except RequestError as error:
            errors.append(error)

    make = ReadOnly
    async with connect_client(FunctionAgent(work), V1, cwd=str(tmp_path), client=make) as client:
        assert await client.prompt("go") == "end_turn"
        assert [error.code for error in errors] == [-32010]
        assert client.statuses()[-1] == "failed"


async def test_changes_in_the_background_ask_and_write(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def later(call: ToolCallHandle) -> None:
        assert await call.edit("a.txt", "1")
        ended.set()

    async def work(turn: Turn) -> None:
        await turn.run_in_background("Later", later)

    async with connect_client(FunctionAgent(work), V2, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        await ended.wait()
        assert (tmp_path / "a.txt").read_text() == "1"
