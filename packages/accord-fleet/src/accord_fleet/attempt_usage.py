"""Tokens and cost of one attempt, from what the agent reports and the gateway counts."""

from __future__ import annotations

from accord import ContextUsage, TokenUsage
from accord_fleet.types.limits import LimitName, Limits
from accord_fleet.types.result import Usage


class AttemptUsage:
    """Adds up the turns. What the gateway has counted replaces what the agent reports."""

    def __init__(self) -> None:
        self._input = 0
        self._output = 0
        self._total = 0
        self._is_reported = False
        self._cost: float | None = None
        self._currency: str | None = None
        self._gateway: Usage | None = None

    @property
    def tokens(self) -> int:
        """All tokens so far; 0 if nothing was reported."""
        return self.total().total_tokens or 0

    @property
    def cost(self) -> float:
        """The cost so far; 0 if nothing was reported."""
        return self.total().cost or 0.0

    def on_context(self, usage: ContextUsage) -> None:
        """Take the cost of the session so far."""
        if usage.cost is not None:
            self._cost, self._currency = usage.cost.amount, usage.cost.currency

    def on_turn_end(self, usage: TokenUsage | None) -> None:
        """Add the tokens of a turn."""
        if usage is not None:
            self._is_reported = True
            self._input += usage.input
            self._output += usage.output
            self._total += usage.total

    def on_gateway(self, usage: Usage) -> None:
        """Take what the gateway has counted in this attempt."""
        self._gateway = usage

    def reached(self, limits: Limits) -> tuple[LimitName, str] | None:
        """Return the limit that is exceeded, and a sentence about it."""
        if limits.tokens is not None and self.tokens > limits.tokens:
            return "tokens", f"The turns used {self.tokens} tokens of {limits.tokens}"
        if limits.cost is not None and self.cost > limits.cost:
            return "cost", f"The turns cost {self.cost:g} of {limits.cost:g}"
        return None

    def total(self) -> Usage:
        """Return the sum."""
        gateway = self._gateway
        if gateway is not None and gateway.total_tokens is not None:
            return Usage(
                input_tokens=gateway.input_tokens,
                output_tokens=gateway.output_tokens,
                total_tokens=gateway.total_tokens,
                cost=self._cost if gateway.cost is None else gateway.cost,
                currency=self._currency if gateway.cost is None else gateway.currency,
            )
        if not self._is_reported:
            return Usage(cost=self._cost, currency=self._currency)
        return Usage(
            input_tokens=self._input,
            output_tokens=self._output,
            total_tokens=self._total,
            cost=self._cost,
            currency=self._currency,
        )
