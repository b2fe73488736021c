"""Running commands on this machine or in the client's terminals; none is left running."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accord.types.tool_calls import TerminalView
from accord_coder.tool_results import cut_middle
from coder.harness import BOTH, coder_session, scripted
from coder.scripted_model import ScriptedModel

pytestmark = pytest.mark.skipif(os.name == "nt", reason="commands of POSIX")

# v1 with and without terminals of the client, and v2.
EVERYWHERE = pytest.mark.parametrize(
    ("version", "terminals"), [(1, False), (1, True), (2, False)], ids=["v1", "terminals", "v2"]
)


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


@EVERYWHERE
async def test_output_and_exit_status_are_returned(
    version: int, terminals: bool, tmp_path: Path
) -> None:
    async with scripted(tmp_path, version, terminals=terminals) as harness:
        ran = await harness.use("execute", command="echo hello")
        assert (ran.text, ran.failed) == ("hello\n", False)
        assert harness.call.kind == "execute"
        assert harness.call.title == "echo hello"
        assert harness.call.status == "completed"
        shows = [type(part) for part in harness.call.content]
        assert shows == ([TerminalView] if terminals or version == 2 else [str])
        failed = await harness.use("execute", command=python("print('x', end=''); exit(3)"))
        assert (failed.text, failed.failed) == ("x\n[exit status 3]", True)
        assert harness.call.status == "failed"
        assert harness.call.raw_output == {
            "output": "x\n[exit status 3]",
            "exit_code": 3,
            "signal": None,
            "timed_out": False,
        }


@EVERYWHERE
async def test_rejected_command_does_not_run(version: int, terminals: bool, tmp_path: Path) -> None:
    async with scripted(tmp_path, version, terminals=terminals, allow="reject") as harness:
        assert (await harness.use("execute", command="touch made")).failed
        assert os.listdir(tmp_path) == []  # noqa: PTH208  # of an async function
        assert harness.call.status == ("failed" if version == 1 else "cancelled")


@EVERYWHERE
async def test_shell_syntax_runs_in_a_shell(version: int, terminals: bool, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("b\na\n")
    async with scripted(tmp_path, version, terminals=terminals) as harness:
        assert (await harness.use("execute", command="sort < a.txt | head -1")).text == "a\n"
        assert (await harness.use("execute", command="cd .. && pwd")).text == f"{tmp_path.parent}\n"
        assert (await harness.use("execute", command="exit 4")).text == "[exit status 4]"
        assert (await harness.use("execute", command="echo '$HOME | x'")).text == "$HOME | x\n"


@EVERYWHERE
async def test_command_is_ended_on_timeout(version: int, terminals: bool, tmp_path: Path) -> None:
    async with scripted(tmp_path, version, terminals=terminals) as harness:
        command = "echo begun; sleep 1000"
        ran = await harness.use("execute", command=command, timeout_s=1)
        assert ran.text == "begun\n[timed out after 1 s]"
        assert harness.call.status == "failed"


@EVERYWHERE
async def test_cancel_ends_the_command_and_its_children(
    version: int, terminals: bool, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = "sleep 1000 & echo $! $$ > pipe; wait"
    async with scripted(tmp_path, version, terminals=terminals) as harness:
        async with harness.using("execute", command=command) as turn:
            pids = [int(pid) for pid in (await asyncio.to_thread(pipe.read_text)).split()]
            await turn.cancel()
        assert harness.stop_reason == "cancelled"
        assert harness.call.status in ("cancelled", "failed")
    for pid in pids:
        await gone(pid)


async def test_command_is_stopped_individually_and_the_turn_continues(tmp_path: Path) -> None:
    pipe, model = tmp_path / "pipe", ScriptedModel()
    os.mkfifo(pipe)
    async with coder_session(2, cwd=tmp_path, model=model) as harness:
        async with harness.using("execute", command="echo $$ > pipe; sleep 1000"):
            pid = int(await asyncio.to_thread(pipe.read_text))
            assert harness.call.cancellable
            await harness.session.cancel_tool_call(harness.call.id)
        assert harness.stop_reason == "end_turn"
        assert harness.call.status == "cancelled"
        assert model.results[0].text == "The user cancelled it."
        assert model.results[0].failed
    await gone(pid)


async def gone(pid: int) -> None:
    """Wait for the end of a process."""
    if not hasattr(os, "pidfd_open"):
        pytest.skip("only Linux reports the end of a process that is not a child")
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(process, ended.set)
    try:
        async with asyncio.timeout(20):
            await ended.wait()
    finally:
        loop.remove_reader(process)
        os.close(process)


async def test_commands_do_not_receive_api_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("HARMLESS", "yes")
    async with scripted(tmp_path) as harness:
        ran = await harness.use("execute", command="env")
        assert "secret" not in ran.text
        assert "HARMLESS=yes" in ran.text


@EVERYWHERE
async def test_long_output_is_cut_between_characters(
    version: int, terminals: bool, tmp_path: Path
) -> None:
    async with scripted(tmp_path, version, terminals=terminals) as harness:
        ran = await harness.use("execute", command=python("print('✓' * 200_000 + 'end')"))
        assert ran.text.startswith("[… the beginning is left out …]\n✓")
        assert ran.text.endswith("✓end\n")
        assert "�" not in ran.text
        assert len(ran.text) < 31_000


async def test_directory_must_be_in_the_session(tmp_path: Path) -> None:
    (tmp_path / "here" / "sub").mkdir(parents=True)
    async with scripted(tmp_path / "here") as harness:
        assert (await harness.use("execute", command="pwd", cwd="sub")).text.endswith("/here/sub\n")
        outside = await harness.use("execute", command="pwd", cwd="..")
        assert outside.failed
        assert "outside" in outside.text
        assert len(harness.asked) == 1  # for what can be done alone
        missing = await harness.use("execute", command="pwd", cwd="none")
        assert "does not exist" in missing.text


@BOTH
@pytest.mark.parametrize(
    "command",
    [f"echo {'a' * 200}; touch bad", "echo 1 # harmless\ntouch bad", "echo \x1b[8m; touch bad"],
    ids=["long", "lines", "escape"],
)
async def test_permission_request_shows_the_complete_command(
    version: int, tmp_path: Path, command: str
) -> None:
    async with scripted(tmp_path, version, allow="reject") as harness:
        await harness.use("execute", command=command)
        (asked,) = harness.asked
        assert asked.tool_call is not None
        assert len(asked.title) <= 120
        shown = str(asked.tool_call.content)
        assert "touch bad" in shown
        assert "\x1b" not in asked.title + "".join(map(str, asked.tool_call.content))


async def test_missing_program_is_named(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        ran = await harness.use("execute", command="no-such-program --x")
        assert ran.text.startswith("Cannot start no-such-program: not found")
        assert harness.call.status == "failed"
        assert (await harness.use("execute", command="  ")).text == "The command is empty."


def test_middle_of_a_long_text_is_omitted() -> None:
    assert cut_middle("abc", 3) == "abc"
    assert cut_middle("a" * 10 + "z" * 90, 30) == (
        f"{'a' * 10}\n[… 70 characters left out …]\n{'z' * 20}"
    )


GIT = pytest.mark.skipif(shutil.which("git") is None, reason="runs git")


def git(folder: Path, *words: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, env=env)


@GIT
@EVERYWHERE
async def test_nested_repository_runs_nothing(
    version: int, terminals: bool, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q")
    bare = tmp_path / "docs"
    bare.mkdir()
    git(bare, "init", "-q", "--bare")
    made = tmp_path / "made"
    (tmp_path / "evil.sh").write_text(f"#!/bin/sh\ntouch {made}\n")
    (tmp_path / "evil.sh").chmod(0o755)
    git(bare, "config", "core.bare", "false")
    git(bare, "config", "core.worktree", "..")
    git(bare, "config", "core.fsmonitor", str(tmp_path / "evil.sh"))
    async with scripted(tmp_path, version, terminals=terminals) as harness:
        for command in ("git status", "git diff", "git ls-files -m"):
            ran = await harness.use("execute", command=command, cwd="docs")
            assert ran.failed
            await harness.use("execute", command=f"git -C docs {command[4:]}")
        assert not made.exists()


@GIT
@EVERYWHERE
async def test_git_runs_no_hooks_monitors_or_pagers(
    version: int, terminals: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    made = tmp_path / "made"
    evil = tmp_path / ".git" / "hooks" / "pre-commit"
    evil.parent.mkdir(exist_ok=True)
    evil.write_text(f"#!/bin/sh\ntouch {made}\n")
    evil.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager"):
        git(tmp_path, "config", name, str(evil))
    git(tmp_path, "config", "user.name", "x")
    git(tmp_path, "config", "user.email", "x@example.org")
    for name, value in (("COUNT", "1"), ("KEY_0", "alias.st"), ("VALUE_0", "status --short")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    (tmp_path / "a.txt").write_text("a\n")
    async with scripted(tmp_path, version, terminals=terminals) as harness:
        for command in ("git add a.txt", "git commit -qm x", "git --paginate log", "git st"):
            ran = await harness.use("execute", command=command)
            assert not ran.failed, ran.text
        assert not made.exists()


async def test_command_rejected_by_a_rule_is_not_reported_as_rejected_by_the_user(
    tmp_path: Path,
) -> None:
    async with scripted(tmp_path, allow="reject") as harness:
        ran = await harness.use("execute", command="touch made")
        assert ran.text == "Permission was not given: the client rejected the request."
        assert not (tmp_path / "made").exists()
