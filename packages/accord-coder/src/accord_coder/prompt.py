"""Handles a prompt: loads the stored conversation, runs a command, or runs the model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from accord import ContentBlock, EmbeddedResource, ImageContent, ResourceLink, Turn
from accord.agent import ContextUsageUpdate
from accord_coder.commands import expand_prompt, run_command
from accord_coder.commands.builtin import parse_command
from accord_coder.instructions import instructions_for
from accord_coder.models.base import repair
from accord_coder.session import messages_from
from accord_coder.tools import Tool
from accord_coder.tools.ask_user import Ask, ExitPlan, Plan
from accord_coder.tools.edit import Delete, Edit, Move, Write
from accord_coder.tools.fetch import Fetch
from accord_coder.tools.grep import Grep
from accord_coder.tools.read import Glob, List, Read
from accord_coder.tools.run_command import Execute
from accord_coder.turn import run_turn

if TYPE_CHECKING:
    from accord_coder.session import CoderSession

_MAX_TITLE = 60  # characters of a title


async def handle_prompt(turn: Turn, state: CoderSession) -> str | None:
    """Handle a prompt; return the stop reason."""
    await _restore(turn, state)
    content = turn.content
    asked = parse_command(content)
    if asked is not None:
        told = await run_command(asked, turn, state)
        if told is None:
            return None
        content = told
    if turn.session.title is None and (title := title_of(turn.content)):
        await turn.set_title(title)
    model = await state.hooks.session_model(state)
    instructions = await asyncio.to_thread(instructions_for, state)
    return await run_turn(turn, state, model, instructions, content, _is_command)


def _is_command(content: tuple[ContentBlock, ...]) -> bool:
    return parse_command(content) is not None


async def _restore(turn: Turn, state: CoderSession) -> None:
    """Load the stored conversation with the first prompt."""
    if state.history_loaded:
        return
    state.history_loaded = True
    updates = await turn.history()
    cwd = state.session.cwd

    def reread(content: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...] | None:
        if parse_command(content) is None:
            return content
        return expand_prompt(content, cwd)

    for update in updates:
        if isinstance(update, ContextUsageUpdate):
            state.cost = update.usage.cost
    state.messages = repair([*messages_from(updates, reread), *state.messages])


def title_of(content: tuple[ContentBlock, ...]) -> str:
    """Return a title for a session with this first prompt: its first line or its attachment."""
    for part in content:
        match part:
            case str() if line := next(filter(str.strip, part.splitlines()), ""):
                words = " ".join(line.split())
                if len(words) <= _MAX_TITLE:
                    return words
                cut = words[:_MAX_TITLE]
                return f"{(cut.rpartition(' ')[0] or cut).rstrip(',;:')}…"
            case ResourceLink(name=name):
                return name
            case EmbeddedResource(uri=uri):
                return uri.rstrip("/").rpartition("/")[2]
            case ImageContent():
                return "Image"
            case _:
                pass
    return ""


TOOLS: tuple[Tool[Any], ...] = (
    Read(),
    Edit(),
    Write(),
    List(),
    Glob(),
    Grep(),
    Move(),
    Delete(),
    Execute(),
    Fetch(),
    Plan(),
    Ask(),
    ExitPlan(),
)


def tools_for(context: CoderSession) -> dict[str, Tool[Any]]:
    """Return the tools of a session by name, for its current settings."""
    return {tool.name: tool for tool in TOOLS if tool.name != "fetch" or context.settings.fetch}
