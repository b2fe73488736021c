"""How a turn has ended, and what failed, as words."""

from __future__ import annotations

from accord.client.session import ClientTurn

_STOPS = {
    "cancelled": "Cancelled",
    "max_tokens": "Stopped: the model's limit of tokens is reached",
    "max_turn_requests": "Stopped: the limit of requests to the model is reached",
    "refusal": "The agent refused to continue",
}


def end_words(turn: ClientTurn, seconds: float) -> str:
    """Return why a turn has ended, unless it is done, how long it took, and its tokens."""
    reason = turn.stop_reason or "end_turn"
    parts = [f"{seconds:.0f} s"]
    if turn.token_usage is not None:
        parts.append(f"{turn.token_usage.total:,} tokens")
    words = _STOPS.get(reason, "" if reason == "end_turn" else f"Stopped: {reason}")
    return " · ".join([words, *parts] if words else parts)


def error_words(error: BaseException) -> str:
    """Return the text of an error for the user."""
    if isinstance(error, TimeoutError) and not str(error):
        return "The agent did not respond in time"
    return str(error) or type(error).__name__
