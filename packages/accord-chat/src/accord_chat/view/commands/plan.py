"""All plans of the agent, whole."""

from __future__ import annotations

from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.plan_lines import whole_plan_rows
from accord_chat.view.viewer_screen import ViewerScreen


def _show_plan(screen: ChatScreen) -> None:
    plans = list(screen.session.transcript.plans.values())
    if plans:
        rows = [row for plan in plans for row in whole_plan_rows(plan)]
        screen.program.push_screen(ViewerScreen("Plan", rows))
    else:
        screen.notify("The agent has no plan.")


PLAN = Command("plan", "f5", "F5", "Show the whole plan", _show_plan)
