"""What an attempt has used of models, and what it may use."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from accord_fleet.gateway.providers import Provider
from accord_fleet.gateway.usage import TokenCount
from accord_fleet.types.limits import LimitName, Limits
from accord_fleet.types.result import Usage

OnLimit = Callable[[LimitName, str], None]
"""Is called with the limit that was reached, and a sentence with its value."""

_MILLION = 1_000_000


class Account(msgspec.Struct, kw_only=True):
    """Counts the requests, tokens and cost of one attempt."""

    provider: Provider
    limits: Limits = Limits()
    on_limit: OnLimit | None = None
    requests: int = 0
    uncounted: int = 0
    """Requests whose response had no count: their tokens are an estimate."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    def add(self, model: str, count: TokenCount, *, estimated: bool = False) -> None:
        """Count a response."""
        self.requests += 1
        self.uncounted += estimated
        self.input_tokens += count.input
        self.output_tokens += count.output
        if (price := self.provider.price(model)) is not None:
            cached = min(count.cached, count.input)
            rate = price.input if price.cached is None else price.cached
            cost = (count.input - cached) * price.input + cached * rate
            self.cost = (self.cost or 0.0) + (cost + count.output * price.output) / _MILLION
        if (reached := self.reached()) is not None and self.on_limit is not None:
            self.on_limit(*reached)

    def reached(self) -> tuple[LimitName, str] | None:
        """Return the limit that is used up, and a sentence about it."""
        used = self.input_tokens + self.output_tokens
        most, most_cost = self.limits.tokens, self.limits.cost
        if most is not None and used >= most:
            return "tokens", f"The attempt has used {used:,} of {most:,} tokens"
        if most_cost is not None and self.cost is not None and self.cost >= most_cost:
            currency = self.provider.currency
            return "cost", f"The attempt has cost {self.cost:.4f} of {most_cost:.4f} {currency}"
        return None

    def usage(self) -> Usage:
        """Return the counts; None where nothing was counted."""
        if not self.requests:
            return Usage()
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            total_tokens=self.input_tokens + self.output_tokens,
            cost=self.cost,
            currency=None if self.cost is None else self.provider.currency,
        )
