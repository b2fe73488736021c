"""A session that the chat opens again has the mode that the user saw last."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accord_chat.source import GivenOptions, OwnAgent, SourceSetup
from chat.chats import open_chat
from project import ROOT
from versions import only

AGENT = ROOT / "packages/accord-terminal/tests/sessions_named/default_mode_agent.py"
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def source(version: int, *modes: str, **setup: str) -> OwnAgent:
    words = [sys.executable, str(AGENT), str(version), *modes]
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


@VERSIONS
async def test_mode_that_is_gone_is_a_warning(tmp_path: Path, version: int) -> None:
    async with open_chat(source(version, mode="read-only"), folder=tmp_path) as user:
        await user.send("mode?")
        await user.sees("  read-only, thinking")
    agent = source(version, "write", "plan")
    async with open_chat(agent, folder=tmp_path, restores=True) as user:
        await user.sees("Not as before: Mode: the agent no longer has 'read-only'; it is Write")


@VERSIONS
async def test_mode_of_the_command_line_counts_more_than_the_earlier_one(
    tmp_path: Path, version: int
) -> None:
    async with open_chat(source(version, mode="write"), folder=tmp_path) as user:
        await user.send("mode?")
        await user.sees("  write, thinking")
    agent = source(version, given="read-only")
    async with open_chat(agent, folder=tmp_path, restores=True) as user:
        await user.until(lambda: user.session.state == "idle")
        await user.send("mode?")
        await user.sees("  read-only, thinking")
