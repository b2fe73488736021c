"""The last messages of the protocol, and what the agent wrote to stderr."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accord.cli.ask.safe_text import one_line
from accord.cli.ask.screen.rows import Row
from accord_chat.agent_link import SeenFrame
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.viewer_screen import ViewerScreen

__all__ = ("TRAFFIC",)

MAX_CHARACTERS = 4000  # of a message


def _show_traffic(screen: ChatScreen) -> None:
    link = screen.session.link
    rows = list(_frame_rows(tuple(link.frames)))
    if link.output:
        rows.append(Row("stderr of the agent:", "bold"))
        rows += [Row(one_line(line, 2000), "dim", "  ") for line in link.output]
    viewer = ViewerScreen("Messages of the protocol, the last ones", rows)
    screen.program.push_screen(viewer)


def _frame_rows(frames: Iterable[SeenFrame]) -> Iterator[Row]:
    """Yield the messages of a connection, one row for each."""
    for frame in frames:
        arrow, style = ("→", "cyan") if frame.direction == "sent" else ("←", "green")
        text = frame.data[: 4 * MAX_CHARACTERS].decode("utf-8", "replace").strip()
        lead = f"{arrow} {frame.time:%H:%M:%S} "
        shown = one_line(text, MAX_CHARACTERS)
        yield Row(shown, "", lead, lead_style=style, whole_words=False)


TRAFFIC = Command("traffic", "alt+t", "Alt+T", "Show the messages of the protocol", _show_traffic)
