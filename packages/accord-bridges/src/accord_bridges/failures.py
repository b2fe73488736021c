"""What an exception of a framework means for the turn: its stop reason, and a reason to read.

Frameworks raise the exceptions of many providers, so these are known by what they have in common:
the status of HTTP, the names of their classes, and the words of providers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from accord.errors import AccordError, InternalError, RequestError
from accord.types.session import StopReason


class Failure(Struct, frozen=True):
    """How a turn ends that an exception has ended."""

    text: str
    """What the user reads, one paragraph; never a traceback."""
    stop_reason: StopReason | None = None
    """The stop reason of the turn; None if the prompt fails with an error."""

    def error(self) -> RequestError:
        """Return the error that answers the prompt."""
        return InternalError(self.text)


_NO_KEY = re.compile(
    r"api[ _-]?key|(?:missing|invalid|no) credentials|unauthorized"
    r"|not logged in|default credentials|could not resolve authentication",
    re.IGNORECASE,
)
_KEY_NAME = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN|AUTH_TOKEN)\b")
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|prompt is too long|too many tokens"
    r"|token limit|input is too long|max_tokens", re.IGNORECASE,
)  # fmt: skip
_REFUSED = re.compile(
    r"content[ _-]?(?:filter|policy|management)|refus(?:al|ed to answer)|safety|blocked by",
    re.IGNORECASE,
)
_STEPS = frozenset(
    ("GraphRecursionError", "MaxTurnsExceeded", "UsageLimitExceeded", "AgentMaxStepsError",
     "LlmCallsLimitExceededError", "MaxIterationsExceeded", "ModelRetryLimitExceeded")
)  # fmt: skip
_REFUSALS = frozenset(
    ("ContentFilterError", "ContentFilterFinishReasonError", "ModelRefusalError", "RefusalError")
)
_TRIPWIRES = frozenset(
    ("InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered")
)  # fmt: skip
_UNREACHABLE = ("ConnectError", "APIConnectionError", "ConnectionRefusedError", "ConnectTimeout",
                "ClientConnectorError", "APITimeoutError", "ReadTimeout")  # fmt: skip
_MAX_TEXT = 2000


def explain(error: BaseException) -> Failure:
    """Return what the failure of a framework means; the first cause that is known decides."""
    inner = _inner(error)
    if inner:
        found = [explain(each) for each in inner]
        reasons = "\n\n".join(dict.fromkeys(each.text for each in found))
        return next((each for each in found if each.stop_reason), Failure(reasons))
    chain = list(_chain(error))
    names = {cls.__name__ for each in chain for cls in type(each).__mro__}
    text = _text(error)
    everything = " ".join([text, *(str(each) for each in chain)])
    status = next((s for each in chain if (s := _status(each)) is not None), None)
    if names & _TRIPWIRES:
        return Failure(f"A guardrail of the agent has stopped the turn: {text}", "refusal")
    if names & _STEPS:
        return Failure(f"Stopped after too many steps: {text}", "max_turn_requests")
    if names & _REFUSALS or (
        status in (None, 400) and _REFUSED.search(everything) and status == 400
    ):
        return Failure(f"The model refused: {text}", "refusal")
    if status == 429 or "RateLimitError" in names:
        return Failure(f"The model's provider limits the rate of requests: {text}{_retry(chain)}")
    if status in (400, 413, None) and _TOO_LONG.search(everything):
        return Failure(f"The conversation is too long for the model: {text}", "max_tokens")
    if status in (401, 403) or (status is None and _NO_KEY.search(everything)):
        key = _KEY_NAME.search(everything)
        name = key.group() if key else "the key of the model's provider"
        advice = f"Set {name} in the environment of the agent: in your shell, or in your editor."
        return Failure(f"The model cannot be used without a valid key: {text}\n\n{advice}")
    if names.intersection(_UNREACHABLE):
        return Failure(f"The model's provider cannot be reached: {text}")
    if status is not None and status >= 500:
        return Failure(f"The model's provider has failed (status {status}): {text}")
    kind = "" if isinstance(error, AccordError) else f"{type(error).__name__}: "
    return Failure(f"{kind}{text}")


def is_bad_request(error: BaseException) -> bool:
    """Return whether the provider refuses what was sent, so that it must not be sent again."""
    status = next((s for each in _chain(error) if (s := _status(each)) is not None), None)
    return status is not None and 400 <= status < 500 and status not in (401, 403, 408, 429)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, each once."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        for each in _inner(at):
            yield from _chain(each)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)


def _inner(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions of a group; none for others."""
    found: Any = getattr(error, "exceptions", ())
    return found if isinstance(error, BaseExceptionGroup) else ()


def _status(error: BaseException) -> int | None:
    for name in ("status_code", "status", "code", "http_status"):
        value: Any = getattr(error, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    response: Any = getattr(error, "response", None)
    value = getattr(response, "status_code", None)
    return value if isinstance(value, int) else None


def _retry(chain: list[BaseException]) -> str:
    for each in chain:
        headers: Any = getattr(getattr(each, "response", None), "headers", None)
        try:
            after = headers.get("retry-after") if headers is not None else None
        except (AttributeError, TypeError):
            after = None
        if after:
            return f" Try again in {after} s."
    return " Try again later."


def _text(error: BaseException) -> str:
    """Return the message, in one paragraph; the name of the class if it has none."""
    message: Any = getattr(error, "message", None)
    text = message if isinstance(message, str) and message else str(error)
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
