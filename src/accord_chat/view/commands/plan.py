"""All plans of the agent, whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accord.cli.ask.safe_text import printable
from accord.cli.ask.screen.rows import Row
from accord.cli.ask.screen.tool_rows import plan_rows
from accord.client.events import Plan
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.viewer_screen import ViewerScreen

__all__ = ("PLAN",)


def _show_plan(screen: ChatScreen) -> None:
    plans = list(screen.session.transcript.plans.values())
    if plans:
        screen.program.push_screen(ViewerScreen("Plan", _rows(plans)))
    else:
        screen.notify("The agent has no plan.")


def _rows(plans: Iterable[Plan]) -> Iterator[Row]:
    for plan in plans:
        if plan.markdown is not None:
            yield from (Row(line) for line in printable(plan.markdown).split("\n"))
        else:
            yield from plan_rows(plan)


PLAN = Command("plan", "f5", "F5", "Show the whole plan", _show_plan)
