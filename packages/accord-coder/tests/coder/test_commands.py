"""Slash commands, through a client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accord import Diff, PermissionRequest, SessionStore
from accord.agent.store import MemoryStore
from accord_coder.commands import BUILTIN_COMMANDS, custom_commands, expand, scan_commands
from accord_coder.commands.builtin import CommandCall, parse_command
from accord_coder.commands.for_model import findings, format_review
from accord_coder.models.base import Prompt
from accord_coder.settings import Settings
from coder.harness import BOTH, CoderHarness, coder_session, scripted
from coder.scripted_model import ScriptedModel, tool_prompt

DEMO = Settings(model="demo")


def prompts(harness: CoderHarness) -> list[str]:
    """Return the prompts that the model received."""
    assert isinstance(harness.model, ScriptedModel)
    last = harness.model.requests[-1].messages
    return [str(part) for m in last if isinstance(m, Prompt) for part in m.content]


def put(folder: Path, name: str, text: str) -> None:
    path = folder / ".accord" / "commands" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_command_is_a_word_after_a_slash() -> None:
    for text, asked in [
        ("/help", CommandCall("help")),
        ("/Mode  plan ", CommandCall("mode", "plan")),
        ("/do-it a\nb", CommandCall("do-it", "a\nb")),
        ("  /help\n", CommandCall("help")),
        ("/etc/hosts is odd", None),
        ("/", None),
        ("// note", None),
        ("what is /help", None),
        ("", None),
    ]:
        assert parse_command((text,)) == asked, (text, asked)


@BOTH
async def test_commands_are_advertised_and_listed(version: int, tmp_path: Path) -> None:
    put(tmp_path, "greet.md", "---\ndescription: Says hello\nhint: whom\n---\nGreet $ARGUMENTS.\n")
    async with scripted(tmp_path, version) as harness:
        await harness.prompt("hello")
        offered = {command.name: command for command in harness.session.transcript.commands}
        assert {act.name for act in BUILTIN_COMMANDS} < set(offered)
        assert offered["greet"].description == "Says hello"
        assert offered["greet"].hint == "whom"
        listed = await harness.prompt("/help")
        for name in offered:
            assert f"`/{name}" in listed


async def test_command_file_is_a_prompt(tmp_path: Path) -> None:
    put(tmp_path, "greet.md", "Greet $ARGUMENTS twice: $ARGUMENTS")
    put(tmp_path, "plain.md", "# Do\n\nthe thing")
    async with scripted(tmp_path) as harness:
        await harness.prompt("/greet the world")
        await harness.prompt("/plain with care")
        await harness.prompt("/plain")
        assert prompts(harness) == [
            "Greet the world twice: the world",
            "# Do\n\nthe thing\n\nwith care",
            "# Do\n\nthe thing",
        ]


async def test_unknown_command_shows_help_without_the_model(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        said = await harness.prompt("/reviw the code")
        assert "Unknown command `/reviw`" in said
        assert "Did you mean `/review`?" in said
        assert isinstance(harness.model, ScriptedModel)
        assert harness.model.requests == []


async def test_prompt_that_starts_with_a_path_is_not_a_command(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        await harness.prompt("/etc/hosts is odd")
        assert prompts(harness) == ["/etc/hosts is odd"]


@BOTH
async def test_mode_is_shown_and_switched(version: int, tmp_path: Path) -> None:
    async with scripted(tmp_path, version) as harness:
        assert "The mode is `default`" in await harness.prompt("/mode")
        assert "is now `plan`" in await harness.prompt("/mode Plan")
        assert harness.state.mode == "plan"
        assert harness.session.transcript.mode == "plan"
        assert "Unknown mode `bypassPermissions`" in await harness.prompt("/mode bypassPermissions")
        assert harness.state.mode == "plan"


async def test_model_is_shown(tmp_path: Path) -> None:
    async with coder_session(cwd=tmp_path, settings=DEMO) as harness:
        assert "The model is `demo`" in await harness.prompt("/model")
        assert "is now `demo`" in await harness.prompt("/model demo")
        assert "Unknown model `x:y`" in await harness.prompt("/model x:y")


async def test_demo_model_has_nothing_to_compact(tmp_path: Path) -> None:
    async with coder_session(cwd=tmp_path, settings=DEMO) as harness:
        assert "Nothing to compact" in await harness.prompt("/compact")


async def test_rules_are_added_and_removed(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        assert "There are none." in await harness.prompt("/permissions")
        assert "Added" in await harness.prompt("/permissions allow execute git status *")
        assert "1. allow `execute git status *`" in await harness.prompt("/permissions")
        assert "Unknown rule 2" in await harness.prompt("/permissions remove 2")
        assert "Removed" in await harness.prompt("/permissions remove 1")
        assert "There are none." in await harness.prompt("/permissions")
        for wrong in ("allow fly x", "allow edit", "forbid", "remove"):
            assert "`/permissions remove NUMBER`" in await harness.prompt(f"/permissions {wrong}")


@pytest.fixture
def store() -> SessionStore:
    return MemoryStore()


@BOTH
async def test_conversation_is_exported(version: int, tmp_path: Path, store: SessionStore) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    async with scripted(tmp_path, version, store=store) as harness:
        await harness.prompt(tool_prompt([("read", {"path": "notes.txt"})]))
        assert "`harness.md`" in await harness.prompt("/export harness.md")
        assert harness.asked[-1].tool_call.kind == "edit"
    text = (tmp_path / "harness.md").read_text()
    [diff] = harness.asked[-1].tool_call.content  # the user saw it before it was written
    assert isinstance(diff, Diff)
    assert (diff.new == text) if version == 1 else ("## User" in (diff.patch or ""))
    assert "## User" in text
    assert "**Read notes.txt** (completed)" in text
    assert text.endswith("## Agent\n\ndone\n")


async def test_conversation_is_exported_as_a_page(tmp_path: Path, store: SessionStore) -> None:
    async with scripted(tmp_path, store=store) as harness:
        await harness.prompt("Say <b>hello</b>.")
        assert "`harness.html`" in await harness.prompt("/export harness.html")
    text = (tmp_path / "harness.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "<h2>User</h2>\n<p>Say &lt;b&gt;hello&lt;/b&gt;.</p>" in text


async def test_export_does_not_report_a_rejected_write_as_made(
    tmp_path: Path, store: SessionStore
) -> None:
    def only_exports(request: PermissionRequest) -> str:
        call = request.tool_call
        return "allow" if call is not None and "Export" in (call.title or "") else "reject"

    async with scripted(tmp_path, store=store, allow=only_exports) as harness:
        await harness.use("write", path="a.txt", text="new\n")
        await harness.prompt("/export harness.md")
        text = (tmp_path / "harness.md").read_text()
        assert f"Not changed: `{tmp_path / 'a.txt'}`." in text
        assert "Changed `" not in text
        assert "+new" not in text


async def test_export_requires_permission_and_stays_inside(
    tmp_path: Path, store: SessionStore
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with scripted(project, store=store, allow="reject") as harness:
        await harness.prompt("hello")
        for path in ("harness.md", "../harness.md"):
            await harness.prompt(f"/export {path}")
            assert harness.call.status == "failed"
    assert list(tmp_path.rglob("*.md")) == []  # noqa: ASYNC240  # nothing else runs


async def test_session_that_is_not_stored_is_not_exported(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        assert "not stored" in await harness.prompt("/export harness.md")


async def test_init_writes_what_it_detects(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Thing\n\nCounts sheep. And more.\n")
    (tmp_path / "Makefile").write_text("X := 1\ntest:  ## Run all tests\n\tpytest\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("")
    async with coder_session(cwd=tmp_path, settings=DEMO) as harness:
        await harness.prompt("/init mind the gap")
        assert harness.asked[-1].tool_call.kind == "edit"
        text = (tmp_path / "AGENTS.md").read_text()
        for part in (
            "Counts sheep.",
            "Python (1 file)",
            "`make test` — Run all tests",
            "mind the gap",
        ):
            assert part in text
        assert "already exists and was not changed" in await harness.prompt("/init")
        assert (tmp_path / "AGENTS.md").read_text() == text


async def test_init_and_review_prompt_a_language_model(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        await harness.prompt("/init")
        await harness.prompt("/review the locks")
        init, review = prompts(harness)
        assert init.startswith("Write AGENTS.md")
        assert review.startswith("Review the changes")
        assert review.endswith("Look above all at: the locks\n")


def git(folder: Path, *words: str) -> None:
    name = ("-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True)


async def test_review_lists_changes_and_suspicious_patterns(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "x")
    async with coder_session(cwd=tmp_path, settings=DEMO) as harness:
        assert "No changes since" in await harness.prompt("/review")
        (tmp_path / "a.py").write_text("one\ntwo\nbreakpoint()\n")
        said = await harness.prompt("/review")
        assert harness.asked[-1].tool_call.kind == "execute"
        assert "`a.py`: +1 −1" in said
        assert "`a.py:3`: a debugger is started" in said
        assert "no test" in said


async def test_review_outside_of_git_is_an_error(tmp_path: Path) -> None:
    async with coder_session(cwd=tmp_path, settings=DEMO) as harness:
        assert "Cannot read the changes" in await harness.prompt("/review")


DIFF = """\
diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,2 +1,4 @@
 one
+# TODO
-two
+password = "hunter2hunter2"
+++ b/x
"""


def test_review_findings_have_line_numbers_of_the_new_file() -> None:
    assert [(f.path, f.line, f.message) for f in findings(DIFF)] == [
        ("a.py", 2, "something is left to do"),
        ("a.py", 3, "it looks like a secret"),
    ]
    assert "`a.py`: +2 −1" in format_review(DIFF)


def test_invalid_command_files_are_not_commands(tmp_path: Path) -> None:
    put(tmp_path, "Good.md", '\ufeff---\r\nDescription: "It"\r\n---\r\nDo it\r\n')
    put(tmp_path, "no spaces.md", "x")
    put(tmp_path, "empty.md", "---\ndescription: x\n---\n")
    put(tmp_path, "large.md", "x" * 70_000)
    (tmp_path / ".accord" / "commands" / "bytes.md").write_bytes(b"\xff\xfe")
    (good,) = custom_commands(str(tmp_path))
    assert (good.name, good.description) == ("good", "It")
    assert expand(good, "") == "Do it"


def test_invalid_command_file_is_reported_with_the_reason(tmp_path: Path) -> None:
    put(tmp_path, "large.md", "x" * 70_000)
    put(tmp_path, "latin.md", "")
    (tmp_path / ".accord" / "commands" / "latin.md").write_bytes(b"caf\xe9")
    commands, wrong = scan_commands(str(tmp_path))
    assert commands == []
    assert wrong == ["large.md is larger than 64 KiB.", "latin.md is not text in UTF-8."]


async def test_invalid_command_file_is_logged_once_and_shown_in_help(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "large.md", "x" * 70_000)
    async with scripted(tmp_path) as harness:
        for _ in range(2):
            assert "- large.md is larger than 64 KiB." in await harness.prompt("/help")
    assert caplog.text.count("large.md is larger than 64 KiB.") == 1


def test_descriptions_have_no_control_characters(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "---\ndescription: \x1b]0;x\x07Says\u202e hi\nhint: wh\x1bom\n---\nDo\n")
    put(tmp_path, "b.md", "Do\x9b it\n")
    one, two = custom_commands(str(tmp_path))
    assert (one.description, one.hint) == ("]0;xSays hi", "whom")
    assert two.description == "Do it"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_link_out_of_the_project_is_not_a_command(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("x")
    project = tmp_path / "project"
    put(project, "a.md", "a")
    (project / ".accord" / "commands" / "b.md").symlink_to(tmp_path / "secret.md")
    assert [command.name for command in custom_commands(str(project))] == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
async def test_linked_command_is_read_only_with_permission(tmp_path: Path) -> None:
    commands = tmp_path / ".accord" / "commands"
    commands.mkdir(parents=True)
    (tmp_path / ".env").write_text("KEY=hidden")
    (commands / "leak.md").symlink_to("../../.env")
    (commands / "plain.md").write_text("plain text")
    allowed = iter(["reject", "allow"])
    async with scripted(tmp_path, allow=lambda _: next(allowed)) as harness:
        shown = {command.name: command for command in harness.session.transcript.commands}
        assert shown["leak"].description == "A link to .env"
        assert "hidden" not in await harness.prompt("/help")
        await harness.prompt("/plain")
        assert len(harness.asked) == 0
        await harness.prompt("/leak")
        assert len(harness.asked) == 1
        assert isinstance(harness.model, ScriptedModel)
        assert "hidden" not in str(harness.model.requests)
        await harness.prompt("/leak")
        assert "hidden" in str(harness.model.requests)
    settings = Settings(mode="dontAsk")
    async with scripted(tmp_path, settings=settings) as harness:
        await harness.prompt("/leak")
        assert isinstance(harness.model, ScriptedModel)
        assert harness.model.requests == []
