"""The commands of the script agent, with the same result in both versions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from accord import (
    AudioContent,
    CommandsChanged,
    ContentChunk,
    Diff,
    EmbeddedResource,
    ImageContent,
    InternalError,
    PermissionDecided,
    Plan,
    RequestError,
    ResourceLink,
    StateChanged,
    Text,
    Thought,
    TitleChanged,
    ToolCall,
    UsageChanged,
)
from accord.client.permissions import allow, deny
from accord.script_agent.registry import COMMANDS, help_text
from script_agent.conversation import BOTH, FinishedTurn, conversation, run_prompt


@BOTH
@pytest.mark.parametrize(
    ("prompt", "text", "stop_reason"),
    [
        ("echo Hello, agent!", "Hello, agent!", "end_turn"),
        ("/echo\n two\nlines ", "two\nlines", "end_turn"),
        ("echo", "Expected TEXT.\n\nUsage: `echo TEXT`", "end_turn"),
        ("help", help_text(), "end_turn"),
        (" ", help_text(), "end_turn"),
        ("what", f"Unknown command `what`.\n\n{help_text()}", "end_turn"),
        ("stream 3", "1 2 3 ", "end_turn"),
        ("stream 2 go", "go go ", "end_turn"),
        (
            "stream x",
            "Expected a number, got `x`.\n\nUsage: `stream [N] [TEXT]`",
            "end_turn",
        ),
        ("think", "I have thought.", "end_turn"),
        ("updates", "A message.\n\nOne of each.", "end_turn"),
        ("tools", "19 tool calls: 18 completed, 1 failed.", "end_turn"),
        ("plan", "The plan is done.", "end_turn"),
        ("permission", "0 of 1 allowed.", "end_turn"),
        ("wait 0", "I have waited.", "end_turn"),
        (
            "wait long",
            "Expected seconds or `forever`, got `long`.\n\nUsage: `wait [SECONDS|forever]`",
            "end_turn",
        ),
        ("elicit", "The client does not support that.", "end_turn"),
        ("elicit url", "The client does not support that.", "end_turn"),
        (
            "elicit me",
            "Expected `form` or `url`, got `me`.\n\nUsage: `elicit [form|url]`",
            "end_turn",
        ),
        ("usage", "12000 of 200000 tokens are used.", "end_turn"),
        ("title A good one", "The title is: A good one", "end_turn"),
        ("commands", "2 commands: first, second.", "end_turn"),
        ("mode auto", "The mode is auto.", "end_turn"),
        (
            "mode mad",
            "The option `mode` cannot be `mad`.\n\nUsage: `mode ID`",
            "end_turn",
        ),
        ("option model tiny", "model is tiny.", "end_turn"),
        (
            "option colour red",
            "Unknown option `colour`: expected one of `mode`, `model`, `brief`."
            "\n\nUsage: `option ID VALUE`",
            "end_turn",
        ),
        ("stop refusal", "", "refusal"),
        ("stop max_tokens", "", "max_tokens"),
        (
            "exit 300",
            "Expected a number from 0 to 255, got `300`.\n\nUsage: `exit [N]`",
            "end_turn",
        ),
        (
            "exit 3",
            "This agent does not run in its own process.\n\nUsage: `exit [N]`",
            "end_turn",
        ),
    ],
)
async def test_agent_says(
    version: int, prompt: str, text: str, stop_reason: str, tmp_path: Path
) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, prompt)
    assert done.text == text
    assert done.stop_reason == stop_reason


def test_help_names_every_command_once() -> None:
    names = [command.name for command in COMMANDS]
    assert len(names) == len(set(names))
    for command in COMMANDS:
        assert f"- `{command.usage}`: {command.summary}" in help_text()


@BOTH
async def test_session_starts_with_options_and_commands(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        await run_prompt(session, "echo hi")
        transcript = session.transcript
        assert [command.name for command in transcript.commands] == [
            command.name for command in COMMANDS
        ]
        assert transcript.mode == "ask"
        ids = [option.id for option in transcript.options]
        assert ids[:2] == ["mode", "model"]


@BOTH
async def test_echo_returns_every_kind_of_content(version: int, tmp_path: Path) -> None:
    image = ImageContent(b"\1\2", "image/png")
    audio = AudioContent(b"\3", "audio/wav")
    resource = EmbeddedResource("file:///a.txt", "text", "text/plain")
    link = ResourceLink("file:///b.txt", "b.txt")
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, image, "echo all", audio, resource, link)
    media = [event.content for event in done.of(ContentChunk) if event.role == "agent"]
    assert media == [image, audio, resource, link]
    assert done.text.startswith("all")


@BOTH
async def test_stream_sends_chunks_of_one_message(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, "stream 50")
    pieces = done.of(Text)
    assert [piece.text for piece in pieces] == [f"{n} " for n in range(1, 51)]
    assert len({piece.message_id for piece in pieces}) == 1


@BOTH
async def test_think_sends_a_thought(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, "think about it")
    assert [thought.text for thought in done.of(Thought)] == ["about it"]


@BOTH
async def test_content_sends_each_kind_of_content(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, "content")
    kinds = [type(event.content) for event in done.of(ContentChunk) if event.role == "agent"]
    assert kinds == [ResourceLink, EmbeddedResource, EmbeddedResource, ImageContent, AudioContent]


@BOTH
async def test_updates_sends_each_kind_of_update(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, "updates")
        transcript = session.transcript
        assert transcript.title == "A title"
        assert transcript.mode == "ask"
        assert len(transcript.commands) == len(COMMANDS)
        assert transcript.usage is not None
        assert transcript.usage.used == 1000
    kinds = {type(event).__name__ for event in done.events}
    expected = {
        "CommandsChanged",
        "OptionsChanged",
        "Plan",
        "StateChanged",
        "Text",
        "Thought",
        "TitleChanged",
        "ToolCall",
        "UsageChanged",
        "UserText",
    }
    assert kinds == expected | ({"ModeChanged"} if version == 1 else set())


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def ends(done: FinishedTurn) -> dict[str, ToolCall]:
    """Return the final state of the tool calls, by title."""
    return {call.title: call for call in {call.id: call for call in done.of(ToolCall)}.values()}


@BOTH
async def test_tools_has_each_kind_and_final_status(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        calls = ends(await run_prompt(session, "tools"))
    assert len(calls) == 19
    assert {call.kind for call in calls.values()} == {
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    }
    assert calls.pop("A call that fails").status == "failed"
    assert {call.status for call in calls.values()} == {"completed"}
    places = calls["A call with locations"].locations
    assert [(place.path, place.line) for place in places] == [
        (str(tmp_path / "script/a.py"), None),
        (str(tmp_path / "script/b.py"), 3),
    ]
    assert calls["A call with raw output"].raw_output == {"status": 200, "lines": ["one", "two"]}
    assert "".join(map(str, calls["A call that streams"].content)) == "line 1\nline 2\nline 3\n"
    diffs = calls["A call with diffs"].content
    assert [Path(d.path).name for d in diffs if isinstance(d, Diff)] == [
        "added.txt",
        "changed.txt",
        "deleted.txt",
    ]
    assert [type(part) for part in calls["A call with other content"].content] == [
        ResourceLink,
        EmbeddedResource,
        ImageContent,
    ]
    assert calls["A corrected title"].raw_input == {"corrected": True}


@BOTH
async def test_plan_goes_from_step_to_step(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, "plan")
    seen = [[entry.status for entry in plan.entries] for plan in done.of(Plan)]
    assert seen[0] == ["pending"] * 3
    assert seen[1] == ["in_progress", "pending", "pending"]
    assert seen[-1] == ["completed"] * 3
    assert [entry.priority for entry in done.of(Plan)[0].entries] == ["high", "medium", "low"]


@BOTH
async def test_permission_is_requested_the_given_number_of_times(
    version: int, tmp_path: Path
) -> None:
    async with conversation(version, tmp_path, permissions=allow("edit")) as session:
        done = await run_prompt(session, "permission 3")
    assert done.text == "3 of 3 allowed."
    assert len(done.of(PermissionDecided)) == 3


@BOTH
async def test_permission_is_requested_once_after_an_always_answer(
    version: int, tmp_path: Path
) -> None:
    permissions = allow("edit", always=True)
    async with conversation(version, tmp_path, permissions=permissions) as session:
        done = await run_prompt(session, "permission 3")
    assert done.text == "3 of 3 allowed."
    assert len(done.of(PermissionDecided)) == 1


@BOTH
async def test_mode_decides_about_permissions(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path, permissions=allow("*")) as session:
        await session.set_mode("read")
        done = await run_prompt(session, "permission 2")
        assert (done.text, done.of(PermissionDecided)) == ("0 of 2 allowed.", [])
        await run_prompt(session, "mode auto")
        assert session.transcript.mode == "auto"
        done = await run_prompt(session, "permission 2")
        assert (done.text, done.of(PermissionDecided)) == ("2 of 2 allowed.", [])


@BOTH
@pytest.mark.parametrize("decision", [allow("*"), deny("*")], ids=["allowed", "denied"])
async def test_full_turn_leaves_the_folder_unchanged(
    version: int, decision: Any, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("# Title\n\nfour words of text\n")
    async with conversation(version, tmp_path, permissions=decision) as session:
        done = await run_prompt(session, "full")
    assert files_in(tmp_path) == ["README.md"]
    calls = ends(done)
    if len(calls) == 2:
        assert done.text == "Nothing has changed."
        assert calls["Write accord-demo.md"].status == "failed"
        return
    assert [call.kind for call in calls.values()] == ["read", "edit", "execute", "delete"]
    assert {call.status for call in calls.values()} == {"completed"}
    assert done.text == (
        "**README.md** has 3 lines and 6 words. The summary had 70 bytes; I have deleted it again."
    )
    (asked,) = done.of(PermissionDecided)
    assert asked.request.tool_call is not None
    shown = [part for part in calls["Write accord-demo.md"].content if isinstance(part, Diff)]
    assert len(shown) == 1
    assert {entry.status for entry in done.of(Plan)[-1].entries} == {"completed"}


@BOTH
async def test_full_turn_does_not_touch_an_existing_file(version: int, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n")
    (tmp_path / "accord-demo.md").write_text("mine")
    async with conversation(version, tmp_path, permissions=allow("*")) as session:
        done = await run_prompt(session, "full")
        assert (await run_prompt(session, "full missing.md")).text == "I cannot read missing.md."
    assert done.text == "Nothing has changed."
    assert (tmp_path / "accord-demo.md").read_text() == "mine"


@BOTH
async def test_wait_forever_ends_by_a_cancel(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        async with session.prompt("wait forever") as turn:
            async for event in turn:
                if isinstance(event, ToolCall) and event.status == "in_progress":
                    await turn.cancel()
        assert turn.stop_reason == "cancelled"
        (call,) = session.transcript.tool_calls
        assert call.status in ("cancelled", "failed")
        assert (await run_prompt(session, "echo on")).text == "on"


@BOTH
@pytest.mark.parametrize(
    ("prompt", "code"),
    [("error", -32603), ("error -32000", -32000), ("error 7", 7), ("crash", -32603)],
)
async def test_error_reaches_the_client(
    version: int, prompt: str, code: int, tmp_path: Path
) -> None:
    async with conversation(version, tmp_path) as session:
        with pytest.raises(RequestError) as caught:
            await run_prompt(session, prompt)
        assert caught.value.code == code
        if prompt == "crash":
            assert caught.value.message == InternalError.default_message
        assert (await run_prompt(session, "echo on")).text == "on"


@BOTH
async def test_files_are_read_and_written_inside_the_session(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, "fs write notes/a.txt some text")
        assert done.text == "notes/a.txt is written."
        assert (tmp_path / "notes/a.txt").read_text() == "some text\n"
        (call,) = ends(done).values()
        assert [type(part) for part in call.content] == [Diff]
        done = await run_prompt(session, "fs read notes/a.txt")
        assert done.text == "notes/a.txt has 10 characters in 1 lines."
        (call,) = ends(done).values()
        assert call.content == ("some text\n",)


@BOTH
@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("fs read a.txt", "a.txt could not be read: the file does not exist."),
        ("fs read ../a.txt", "../a.txt could not be read: permission denied."),
        ("fs read raw", "raw could not be read: it is not a text file."),
        ("fs write ../a.txt x", "../a.txt could not be written: permission denied."),
        ("fs", "Expected `read PATH` or `write PATH TEXT`."),
    ],
)
async def test_unreadable_file_is_reported(
    version: int, prompt: str, text: str, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "raw").write_bytes(b"\xff\xfe")
    async with conversation(version, folder) as session:
        done = await run_prompt(session, prompt)
    assert done.text.partition("\n")[0] == text
    assert {call.status for call in ends(done).values()} <= {"failed"}


@BOTH
async def test_terminal_runs_a_command(version: int, tmp_path: Path) -> None:
    python = sys.executable
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, f"terminal '{python}' -c 'print(\"out\"); exit(3)'")
        assert done.text == f"`{python}` ended with status 3 and 4 characters of output."
        (call,) = ends(done).values()
        assert (call.kind, call.status) == ("execute", "failed")
        done = await run_prompt(session, "terminal no-such-program-anywhere")
        assert done.text == "`no-such-program-anywhere` could not be started."
        done = await run_prompt(session, "terminal 'open")
        assert done.text.startswith("Expected a closing quotation mark.")


@BOTH
async def test_settings_reach_the_client(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, "usage")
        (usage,) = done.of(UsageChanged)
        assert (usage.usage.used, usage.usage.size, usage.usage.cost.amount) == (
            12_000,
            200_000,
            0.25,
        )
        done = await run_prompt(session, "title New")
        assert [event.title for event in done.of(TitleChanged)] == ["New"]
        done = await run_prompt(session, "commands one")
        assert [[c.name for c in event.commands] for event in done.of(CommandsChanged)] == [["one"]]
        await run_prompt(session, "option model large")
        models = {option.id: option.value for option in session.transcript.options}
        assert models["model"] == "large"


async def test_state_is_sent_in_version_2(tmp_path: Path) -> None:
    async with conversation(2, tmp_path, permissions=allow("*")) as session:
        done = await run_prompt(session, "permission")
    states = [event.state for event in done.of(StateChanged)]
    assert states == ["running", "requires_action", "running", "idle"]


async def test_both_versions_give_the_same_events(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n")
    kinds: list[list[Any]] = []
    for version in (1, 2):
        async with conversation(version, tmp_path, permissions=allow("*")) as session:
            done = await run_prompt(session, "full")
        kinds.append(
            [
                (type(event).__name__, getattr(event, "status", None), getattr(event, "text", None))
                for event in done.events
                if type(event).__name__ in ("Text", "Thought", "Plan", "ToolCall", "Permission")
            ]
        )
    assert kinds[0] == kinds[1]
