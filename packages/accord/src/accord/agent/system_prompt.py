"""The system prompt of a client, for agents that accept one (unstable)."""

from __future__ import annotations

from typing import Any

from accord.errors import InvalidParams
from accord.types.session import SystemPrompt


def system_prompt_from(found: Any, text_type: type[Any], modes: frozenset[str]) -> SystemPrompt:
    """Return a client's system prompt; raise `InvalidParams` for an invalid one (R-SYSP-03)."""
    if found.mode != "append" and found.mode not in modes:
        raise InvalidParams("Unknown mode of a system prompt", data={"mode": found.mode})
    if not found.content or not all(isinstance(block, text_type) for block in found.content):
        raise InvalidParams("A system prompt consists of text")  # R-SYSP-05
    return SystemPrompt(tuple(block.text for block in found.content), found.mode)
