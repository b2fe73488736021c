"""Subagents: the tree with their states, the conversation of one, and cancelling it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from accord import Agent, Turn
from accord.script_agent.agent import ScriptAgent
from accord_chat.view.subagent_screens import SubagentConversation, SubagentTree
from chat.chats import LocalAgent, open_chat
from requirement import requirement

VERSIONS = pytest.mark.parametrize("version", [1, 2])


class Manager(Agent):
    """Has a subagent, which has one, too; both go on when they may."""

    unstable = True

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        async with turn.subagent("Plan the work", description="Looks around") as child:
            await child.say("I begin.")
            async with child.subagent("Count the files") as grandchild:
                await grandchild.say("One, two.")
                await self.may_go_on.wait()
                await grandchild.say("Three.")
        await turn.say("Everything is done.")


@requirement("R-SUBAG-03", "R-SUBAG-05")
@VERSIONS
async def test_one_subagent_is_cancelled_and_the_turn_goes_on(tmp_path: Path, version: int) -> None:
    source = LocalAgent(ScriptAgent(), version=version)
    async with open_chat(source, folder=tmp_path) as user:
        await user.press("alt+a")
        await user.sees("The agent has no subagents.")
        await user.send("subagent forever")
        await user.until(lambda: user.session.transcript.subagents)
        await user.press("alt+a")
        await user.sees("└ ◐ working  A subagent  It says what it is told")
        await user.press("c")
        await user.sees("└ ⊘ cancelled  A subagent")
        await user.press("escape")
        await user.sees("The subagent was cancelled; the turn continues.")


async def test_tree_shows_the_states_while_they_change(tmp_path: Path) -> None:
    agent = Manager()
    async with open_chat(LocalAgent(agent), folder=tmp_path) as user:
        await user.send("go")
        await user.until(lambda: user.session.transcript.subagents)
        await user.press("alt+a")
        await user.sees("└ ◐ working  Plan the work", "  └ ◐ working  Count the files")
        await user.press("down", "enter")
        await user.until(lambda: isinstance(user.app.screen, SubagentConversation))
        await user.sees("Subagent: Count the files", "◐ working", "One, two.")
        agent.may_go_on.set()
        await user.sees("Three.", "● finished")  # it is shown as it happens
        await user.press("escape")
        await user.until(lambda: isinstance(user.app.screen, SubagentTree))
        await user.sees("└ ● finished  Plan the work", "  └ ● finished  Count the files")


@requirement("R-SUBAG-05")
@VERSIONS
async def test_subagent_that_cannot_be_cancelled_is_not_asked(tmp_path: Path, version: int) -> None:
    agent = Manager()
    async with open_chat(LocalAgent(agent, version=version), folder=tmp_path) as user:
        await user.send("go")
        await user.until(lambda: user.session.transcript.subagents)
        await user.press("alt+a")
        await user.sees("working  Plan the work")
        await user.press("c")
        await user.sees("does not offer")
        await user.press("enter")
        await user.sees("◐ working · the agent does not offer to cancel it", "I begin.")
        agent.may_go_on.set()
