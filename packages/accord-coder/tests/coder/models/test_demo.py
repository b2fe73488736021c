"""The demonstration model: its commands, and its reply to other prompts."""

from __future__ import annotations

import contextlib
import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord import EmbeddedResource, ImageContent, RequestError, ResourceLink, Text
from accord.installed import install_command
from accord_coder.models.demo import COMMANDS, DemoModel, InvalidPrompt, help_text, parse_prompt
from accord_coder.settings import Settings
from coder.harness import BOTH, CoderHarness, coder_session


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("import os\n\n# TODO: more (*)\nprint(os)\n")
    (tmp_path / "notes.txt").write_text("one two\ntwo three\n")
    return tmp_path


def demo(project: Path, version: int = 2, **more: Any) -> Any:
    return coder_session(version, cwd=project, model=DemoModel(), **more)


async def failed_prompt(harness: CoderHarness, *content: Any) -> tuple[str, str]:
    """Send a prompt whose turn fails; return the agent's text and the error."""
    before = len(harness.events)
    with pytest.raises(RequestError) as caught:
        await harness.prompt(*content)
    text = "".join(event.text for event in harness.events[before:] if isinstance(event, Text))
    return text, str(caught.value)


def kinds(harness: CoderHarness) -> list[str]:
    return [call.kind for call in harness.calls]


def test_model_has_ten_commands_with_examples_that_are_valid() -> None:
    names = "help list find read replace create append delete move run"
    assert [command.name for command in COMMANDS] == names.split()
    for command in COMMANDS:
        (step,) = parse_prompt((command.example,))
        assert step.command is command
        assert f"`{command.example}`" in help_text()


async def test_directories_and_files_are_listed(project: Path) -> None:
    async with demo(project) as harness:
        assert await harness.prompt("list") == "```\nnotes.txt\nsrc/\n```"
        assert "src/app.py" in await harness.prompt("LIST '**/*.py'")
        assert "app.py" in await harness.prompt("list src")
        assert harness.asked == []


async def test_text_is_found_literally(project: Path) -> None:
    async with demo(project) as harness:
        assert await harness.prompt("find 'more (*)'") == "```\nsrc/app.py:3: # TODO: more (*)\n```"
        assert "[no matches]" in await harness.prompt("find zebra src")


async def test_file_and_some_of_its_lines_are_read(project: Path) -> None:
    (project / "long.txt").write_text("x\n" * 5000)
    async with demo(project) as harness:
        assert await harness.prompt("read notes.txt") == "`notes.txt` has 2 lines."
        assert "two three\n[lines 2-2 of 2]" in await harness.prompt("read notes.txt 2")
        assert "one two\ntwo three\n" in await harness.prompt("read notes.txt 1-2")
        assert await harness.prompt("read long.txt") == "`long.txt` has 5000 lines."
        assert await harness.prompt("read notes.txt 2-1") == "`2-1` is not a range of lines."
        assert "not a range" in await harness.prompt("read notes.txt all")
        assert "none.txt" in await harness.prompt("read none.txt")
        assert harness.call.status == "failed"


async def test_attached_files_are_arguments(project: Path) -> None:
    path = project / "my notes.txt"
    path.write_text("x\n")
    async with demo(project) as harness:
        said = await harness.prompt("read", ResourceLink(path.as_uri(), "my notes.txt"))
        assert said == f"`{path}` has 1 line."
        said = await harness.prompt("read", EmbeddedResource(path.as_uri(), "x\n"))
        assert said == f"`{path}` has 1 line."


async def test_file_is_changed_with_permission(project: Path) -> None:
    async with demo(project) as harness:
        assert "2 replacements" in await harness.prompt("replace notes.txt two 'tw o'")
        assert (project / "notes.txt").read_text() == "one tw o\ntw o three\n"
        assert "Created new/a.txt" in await harness.prompt('create new/a.txt "line one"')
        await harness.prompt("append new/a.txt 'line \"two\"'")
        assert (project / "new" / "a.txt").read_text() == 'line one\nline "two"\n'
        assert "Moved" in await harness.prompt("move new/a.txt b.txt")
        assert "Deleted" in await harness.prompt("delete b.txt")
        assert not (project / "b.txt").exists()
        assert len(harness.asked) == 5
        assert all(call.content for call in harness.calls if call.kind == "edit")


async def test_command_runs_as_typed(project: Path) -> None:
    async with demo(project) as harness:
        assert await harness.prompt("run cat notes.txt | head -n 1") == "```\none two\n```"
        assert await harness.prompt("run 'echo a; echo b'") == "```\na\nb\n```"
        assert await harness.prompt('run echo "a  b"') == "```\na  b\n```"
        assert "[exit status 3]" in await harness.prompt("run 'exit 3'")
        assert [request.tool_call.kind for request in harness.asked] == ["execute"] * 4


@BOTH
async def test_several_commands_are_a_plan(version: int, project: Path) -> None:
    async with demo(project, version) as harness:
        said = await harness.prompt("read notes.txt; create a.txt hello\nrun cat a.txt")
        assert said.startswith("`notes.txt` has 2 lines.")
        assert said.endswith("```\nhello\n```")
        entries = harness.session.transcript.plan.entries
        assert [(entry.content, entry.status) for entry in entries] == [
            ("read notes.txt", "completed"),
            ("create a.txt hello", "completed"),
            ("run cat a.txt", "completed"),
        ]
        assert [kind for kind in kinds(harness) if kind != "think"] == ["read", "edit", "execute"]


async def test_plan_stops_at_the_first_failure(project: Path) -> None:
    async with demo(project) as harness:
        said = await harness.prompt("read none.txt; create a.txt; delete notes.txt")
        assert "Stopped at step 1 of 3. Not run: create a.txt; delete notes.txt." in said
        statuses = [entry.status for entry in harness.session.transcript.plan.entries]
        assert statuses == ["pending"] * 3
    assert not (project / "a.txt").exists()
    assert (project / "notes.txt").exists()


async def test_rejected_change_is_reported_and_not_made(project: Path) -> None:
    async with demo(project, allow="reject") as harness:
        said = await harness.prompt("delete notes.txt; list")
        assert "the client rejected the request" in said
        assert "Not run: list." in said
    assert (project / "notes.txt").exists()


UNKNOWN = [
    ("Could you list the files, please?", "`Could you list the files, please?` is not"),
    ("lst", "Did you mean `list`?"),
    ("delete notes.txt; fix the bug", "`fix the bug` is not a command"),
    ("replace notes.txt one", "write `replace FILE OLD NEW`"),
    ("list the TODOs in this folder", "write `list [DIRECTORY | PATTERN]`"),
    ("create 'a.txt", "No closing quotation"),
    ("run", "write `run COMMAND`"),
    ("Run the command `touch ran.txt`.", "write `run COMMAND`"),
    ("run my tests", "write `run COMMAND`"),
    ("  ;\n ", "contains no text"),
    ("x" * 200_001, "more than 200,000 characters"),
]


async def test_unknown_prompt_explains_the_commands_and_changes_nothing(project: Path) -> None:
    async with demo(project) as harness:
        for prompt, reason in UNKNOWN:
            said, error = await failed_prompt(harness, prompt)
            assert said == help_text()
            assert reason in error
        assert harness.calls == []
        assert "notes.txt" in await harness.prompt("list")
    assert (project / "notes.txt").exists()


async def test_help_explains_how_to_use_a_language_model(project: Path) -> None:
    async with demo(project) as harness:
        said = await harness.prompt("help")
    for part in (
        "ANTHROPIC_API_KEY",
        "--login PROVIDER",
        "--model local",
        "Ollama",
        install_command("coder"),
    ):
        assert part in said


async def test_images_need_a_language_model(project: Path) -> None:
    async with demo(project) as harness:
        image = ImageContent(b"x", "image/png")
        _, error = await failed_prompt(harness, "read notes.txt", image)
        assert "Images and audio need a language model." in error


async def test_changes_require_approval_in_plan_mode(project: Path) -> None:
    answers = iter(["plan", "default", "allow_once"])

    def allow(request: Any) -> Any:
        answer = next(answers)
        return next(option for option in request.options if option.id == answer)

    settings = Settings(mode="plan")
    async with demo(project, settings=settings, allow=allow) as harness:
        assert await harness.prompt("read notes.txt") == "`notes.txt` has 2 lines."
        said = await harness.prompt("create a.txt hello; run cat a.txt")
        assert "did not approve the plan" in said
        assert not (project / "a.txt").exists()
        await harness.prompt("create a.txt hello")
        assert (project / "a.txt").read_text() == "hello\n"
        assert harness.state.mode == "default"


async def test_turn_continues_where_a_cancelled_one_does_not(project: Path) -> None:
    async with demo(project) as harness:
        async with harness.session.prompt("run sleep 100; delete notes.txt") as turn:
            async for _ in turn:
                if harness.calls and harness.call.kind == "execute":
                    break
            await turn.cancel()
        assert turn.stop_reason == "cancelled"
        assert await harness.prompt("read notes.txt") == "`notes.txt` has 2 lines."
    assert (project / "notes.txt").exists()


def test_quotes_keep_separators() -> None:
    steps = parse_prompt(("create a 'x; y\nz' ;find \"a;b\"; run echo a\\;b",))
    assert [step.arguments for step in steps] == [("a", "x; y\nz"), ("a;b",), ("echo a\\;b",)]


@given(st.text(st.sampled_from("ab ;\n'\"\\|"), max_size=40))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        steps = parse_prompt((f"find {text}",))
    except InvalidPrompt:
        return
    assert all(step.arguments for step in steps if step.command.name == "find")


def test_parsing_is_fast_for_any_prompt() -> None:
    for piece in ["'", '"', "\\", ";", "a'", '"\\', "'\"", "\n", "read "]:
        text = "".join(itertools.islice(itertools.cycle(piece), 200_000))
        began = time.process_time()
        with contextlib.suppress(InvalidPrompt):
            parse_prompt((text,))
        assert time.process_time() - began < 5, piece
