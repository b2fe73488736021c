"""A session that the chat opens again has the mode that the user saw last."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from accord_chat.sources import GivenOptions, OwnAgent, SourceSetup
from chat.chats import open_chat
from chat.forked import started_command
from project import ROOT
from versions import only

AGENT = ROOT / "packages/accord-terminal/tests/sessions_named/default_mode_agent.py"
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def source(version: int, *modes: str, **setup: str) -> OwnAgent:
    words = started_command(str(AGENT), str(version), *modes)
    protocol = only(version)[0]
    given = GivenOptions(mode=setup.pop("given", None))
    return OwnAgent("defaults", words, SourceSetup(protocol=protocol, given=given, **setup))  # type: ignore[arg-type]


@VERSIONS
async def test_mode_that_was_set_is_set_again_after_a_restart(tmp_path: Path, version: int) -> None:
    async with open_chat(source(version, mode="read-only"), folder=tmp_path) as user:
        await user.send("mode?")
        await user.sees("  read-only, thinking")
    async with open_chat(source(version), folder=tmp_path, restores=True) as user:
        await user.sees("Set again: Mode: Read-Only")
        await user.send("mode?")
        await user.sees("  read-only, thinking")


@VERSIONS
async def test_mode_is_set_again_when_the_agent_is_started_again(
    tmp_path: Path, version: int
) -> None:
    async with open_chat(source(version), folder=tmp_path) as user:
        await user.send("mode?")
        await user.sees("  write, thinking")
        await user.session.set_option("mode", "read-only")
        await user.session.link.aclose()
        await user.sees("Set again: Mode: Read-Only")
        await user.send("mode?")
        await user.sees("  read-only, thinking")


async def test_mode_that_is_gone_is_a_warning(tmp_path: Path) -> None:
    async with open_chat(source(1, mode="read-only"), folder=tmp_path) as user:
        await user.send("mode?")
        await user.sees("  read-only, thinking")
    agent = source(1, "write", "plan")
    async with open_chat(agent, folder=tmp_path, restores=True) as user:
        await user.sees("Not as before: Mode: the agent no longer has 'read-only'; it is Write")


async def test_mode_of_the_command_line_counts_more_than_the_earlier_one(tmp_path: Path) -> None:
    async with open_chat(source(2, mode="write"), folder=tmp_path) as user:
        await user.send("mode?")
        await user.sees("  write, thinking")
    agent = source(2, given="read-only")
    async with open_chat(agent, folder=tmp_path, restores=True) as user:
        await user.until(lambda: user.session.state == "idle")
        await user.send("mode?")
        await user.sees("  read-only, thinking")


async def test_mode_of_the_command_line_counts_for_a_tab_without_a_conversation(
    tmp_path: Path,
) -> None:
    async with open_chat(source(1), folder=tmp_path) as user:
        await user.until(lambda: user.session.state == "idle")
        await user.session.set_option("mode", "write")
        await user.type("a draft")
    agent = source(1, mode="read-only", given="read-only")
    async with open_chat(agent, folder=tmp_path, restores=True) as user:
        await user.until(lambda: user.session.state == "idle")
        assert user.composer.text == "a draft"
        user.composer.set_text("")
        await user.send("mode?")
        await user.sees("  read-only, thinking")


@pytest.mark.parametrize(
    ("version", "words"), [(1, ("write", "plan")), (2, ("-",))], ids=["gone", "silent"]
)
async def test_queued_prompts_wait_if_the_mode_is_lost(
    tmp_path: Path, version: int, words: tuple[str, ...]
) -> None:
    program = tmp_path / "agent"

    def write(*modes: str) -> None:
        words = shlex.join(started_command(str(AGENT), str(version), *modes))
        program.write_text(f"#!/bin/sh\nexec {words}\n")
        program.chmod(0o700)

    write()
    setup = SourceSetup(protocol=only(version)[0], mode="read-only")
    agent = OwnAgent("defaults", [str(program)], setup)
    async with open_chat(agent, folder=tmp_path) as user:
        await user.send("mode?")
        await user.sees("  read-only, thinking")
        write(*words)
        await user.until(lambda: user.session.state == "idle")
        await user.session.link.aclose()
        user.session.send("unseen")
        await user.sees("Queued prompts wait until you send another one")
        assert len(user.session.queue) == 1
        await user.send("go on")
        await user.until(lambda: not user.session.queue and not user.session.is_busy)
