"""What is wrong with a program that is not a working agent, in plain words, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from accord.errors import ConnectionLost, RequestError
from accord.transports.process_group import exit_text
from accord_inspector.json_words import json_words
from accord_inspector.strange_lines import StrangeLines

SLOW_S = 5.0  # for `initialize`; later, the page says that the program has not responded
_SHOWN_LINES = 8
_SHOWN_CHARACTERS = 200

_ARGUMENTS = (
    "Check the command: many programs are an agent only with an argument such as acp or --acp."
)
_ADDRESS = "Check the address, and that the agent is reachable there."
_STDOUT = (
    "An agent writes only messages to stdout: JSON objects, one on each line. Its log goes to "
    "stderr."
)
_AGAIN = "Correct the cause, then press “Start again”."


class Seen(Struct, frozen=True, kw_only=True):
    """What is known of the program; `state` is that of `LiveInspection`.

    `why` is how it ended or failed, `seconds` how long ago it was started. A remote agent is not a
    program of this machine.
    """

    state: str
    why: str
    seconds: float
    is_program: bool
    is_restartable: bool
    lines: StrangeLines
    stderr: Sequence[str]


def why_ended(error: BaseException | None, name: str, *, is_connected: bool) -> str:
    """Return in a sentence how an agent ended, or why it cannot be used."""
    if isinstance(error, TimeoutError):
        return f"{name} did not respond to initialize in time, and was stopped"
    if isinstance(error, RequestError):
        return f"{name} refused initialize: {error}"
    text = "" if error is None else json_words(str(error) or type(error).__name__)
    if not isinstance(error, ConnectionLost) or is_connected:
        return text
    if error.exit_status is not None:
        last = (error.stderr or "").strip().rpartition("\n")[2].strip()[:_SHOWN_CHARACTERS]
        text = f"{name} {exit_text(error.exit_status)} before it responded to initialize"
        return f"{text}: {last}" if last else text
    if error.stderr is not None:
        return f"{name} closed its stdout before it responded to initialize, and was stopped"
    return text.replace("The peer", name)


def trouble_of(seen: Seen) -> dict[str, Any] | None:
    """Return what the page shows of a problem; None while nothing is wrong.

    It has a `text` and one about the `lines` that are not messages, which may be empty, the
    `advice`, and the last lines of `stderr`.
    """
    is_over = seen.state in ("ended", "failed")
    text = ""
    advice: list[str] = []
    if seen.lines.echoes and seen.state != "running":
        text = "the program sends back what it receives, so it is not an agent"
    elif is_over:
        text = seen.why
    elif seen.state == "starting" and seen.seconds >= SLOW_S:
        text = "it has not responded to initialize yet"
        advice.append("It may need longer to start, wait for something, or not be an agent.")
    if not text and not seen.lines.count:
        return None
    if seen.state in ("starting", "failed"):
        advice.append(_ARGUMENTS if seen.is_program else _ADDRESS)
    if seen.lines.count:
        advice.append(_STDOUT)
    if is_over and seen.is_restartable:
        advice.append(_AGAIN)
    stderr = [line for line in seen.stderr if line.strip()][-_SHOWN_LINES:]
    lines = _lines_text(seen.lines) if seen.lines.count else ""
    return {"text": text, "lines": lines, "advice": advice, "stderr": stderr}


def _lines_text(lines: StrangeLines) -> str:
    if lines.count == 1:
        return f"The program writes a line to stdout that is not a message: “{lines.first}”"
    count = f"{lines.count:,}".replace(",", " ")
    shown = f", of which the timeline shows {lines.recorded}"
    shown = shown if lines.recorded < lines.count else ""
    return (
        f"The program writes lines to stdout that are not messages: “{lines.first}” … "
        f"({count} lines{shown})"
    )
