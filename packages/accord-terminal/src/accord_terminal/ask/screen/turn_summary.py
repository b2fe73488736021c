"""The summary line of a turn: model, session, tokens, cost and time."""

from __future__ import annotations

from accord.client.transcript import Transcript
from accord.types.session import SelectOption, TokenUsage
from accord_terminal.toolkit.safe_text import one_line


def summary_line(
    transcript: Transcript, tokens: TokenUsage | None, session_id: str, elapsed_s: float
) -> str:
    """Return the summary line, without unknown values."""
    session = one_line(session_id, 100)
    if not session.startswith("session"):
        session = f"session {session}"
    parts = [_model_name(transcript), session]
    if tokens is not None:
        parts.append(f"{tokens.total:,} tokens ({tokens.input:,} in, {tokens.output:,} out)")
    usage = transcript.usage
    if usage is not None and usage.size > 0:
        parts.append(f"context {100 * usage.used / usage.size:.0f}% full")
    if usage is not None and usage.cost is not None:
        parts.append(f"{usage.cost.amount:.2f} {one_line(usage.cost.currency, 10)}")
    parts.append(_format_time(elapsed_s))
    return " · ".join(part for part in parts if part)


def _model_name(transcript: Transcript) -> str:
    for option in transcript.options:
        if isinstance(option, SelectOption) and "model" in (option.category, option.id):
            names = {choice.value: choice.name for choice in option.choices}
            return one_line(names.get(option.value, option.value), 60)
    return ""


def _format_time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s"
