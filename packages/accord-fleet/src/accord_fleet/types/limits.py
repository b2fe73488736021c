"""What one attempt at a task may use."""

from __future__ import annotations

from typing import Literal

import msgspec

LimitName = Literal[
    "turn_s", "wall_s", "output_bytes", "memory_bytes", "processes", "tokens", "cost"
]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one attempt; None is unlimited."""

    turn_s: float | None = None
    """Seconds that one turn may take."""
    wall_s: float | None = 3600.0
    """Seconds from the preparation of the workspace to the end of the last turn."""
    output_bytes: int | None = 64 * 2**20
    """Bytes that the agent may send."""
    memory_bytes: int | None = None
    """Memory of the agent's process and its children together."""
    processes: int | None = None
    """Processes that the agent and its children may have at the same time."""
    tokens: int | None = None
    """Tokens of all turns, as the agent reports them or the model gateway counts them."""
    cost: float | None = None
    """Cost of all turns in the currency that the agent reports."""
