"""The wire form of steering: a further message of the user for a turn that runs.

It is an extension, which real agents have, and all of it that is written is here: the request
`_session/steering`, what it answers, and what `initialize` advertises. The message is a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

STEERING = "_session/steering"

SteeringOutcome: TypeAlias = Literal["injected", "startedNewTurn", "promptRequired"]
OUTCOMES: tuple[SteeringOutcome, ...] = ("injected", "startedNewTurn", "promptRequired")

ADVERTISED: dict[str, Any] = {"steering": {"supported": True}}
"""The `_meta` of the response to `initialize` of an agent that can be steered."""

PROMPT_REQUIRED: dict[str, Any] = {"steering": {"idleBehavior": "promptRequired"}}
"""The `_meta` of a request: without a turn nothing runs, and the client sends a prompt."""


def _steering(meta: object) -> Mapping[str, Any]:
    found = cast("Mapping[str, Any]", meta).get("steering") if isinstance(meta, Mapping) else None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def is_advertised(meta: object) -> bool:
    """Return whether the `_meta` of a response to `initialize` advertises steering."""
    return _steering(meta).get("supported") is True


def requires_prompt(meta: object) -> bool:
    """Return whether the client sends a prompt if no turn runs, from the `_meta` of a request."""
    return _steering(meta).get("idleBehavior") == "promptRequired"


def result(outcome: SteeringOutcome) -> dict[str, Any]:
    """Return the result of a request."""
    if outcome == "promptRequired":
        return {"outcome": outcome, "reason": "noRunningTurn"}
    return {"outcome": outcome}


def outcome_of(found: object) -> SteeringOutcome | None:
    """Return what became of a message; None if the result does not say it.

    One agent answers `{}` to each request that it does not know: then nothing was delivered.
    """
    if not isinstance(found, Mapping):
        return None
    outcome = cast("Mapping[str, Any]", found).get("outcome")
    return outcome if outcome in OUTCOMES else None
