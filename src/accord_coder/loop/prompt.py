"""What a prompt sets off: the conversation so far is there, commands are done, the model works."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from accord import Content, Image, Link, Resource, Turn
from accord.agent.updates import UsageReport
from accord_coder.commands.base import asked_for
from accord_coder.loop.history import messages_from
from accord_coder.loop.messages import repaired

if TYPE_CHECKING:
    from accord_coder.agent import Coder
    from accord_coder.loop.session_state import Work

__all__ = ("title_of", "work_on")

_MOST = 60  # characters of a title


async def work_on(turn: Turn, work: Work, coder: Coder) -> str | None:
    """Work on a prompt; return why it stopped."""
    await _restore(turn, work)
    content = turn.content
    asked = asked_for(content)
    if asked is not None:
        from accord_coder.commands.registry import run_command

        told = await run_command(asked, turn, work)
        if told is None:
            return None
        content = told
    if turn.session.title_now is None and (title := title_of(turn.content)):
        await turn.title(title)
    from accord_coder.loop.instructions import instructions_for
    from accord_coder.loop.turn import take_turn

    model = await coder.model_of(work)
    instructions = await asyncio.to_thread(instructions_for, work)
    return await take_turn(turn, work, model, instructions, content)


async def _restore(turn: Turn, work: Work) -> None:
    """Read the conversation again, if the session was opened again since."""
    if work.restored:
        return
    work.restored = True
    reports = await work.session.history()
    cwd = work.session.cwd

    def reread(content: tuple[Content, ...]) -> tuple[Content, ...] | None:
        if asked_for(content) is None:
            return content
        from accord_coder.commands.registry import reread

        return reread(content, cwd)

    for report in reports:
        if isinstance(report, UsageReport):
            work.cost = report.usage.cost
    before = messages_from(reports, reread, until=turn.message_id)
    work.messages = repaired([*before, *work.messages])


def title_of(content: tuple[Content, ...]) -> str:
    """Return a title for a session that begins with this: its first line, or what came with it."""
    for part in content:
        match part:
            case str() if line := next(filter(str.strip, part.splitlines()), ""):
                words = " ".join(line.split())
                if len(words) <= _MOST:
                    return words
                cut = words[:_MOST]
                return f"{(cut.rpartition(' ')[0] or cut).rstrip(',;:')}…"
            case Link(name=name):
                return name
            case Resource(uri=uri):
                return uri.rstrip("/").rpartition("/")[2]
            case Image():
                return "Image"
            case _:
                pass
    return ""
