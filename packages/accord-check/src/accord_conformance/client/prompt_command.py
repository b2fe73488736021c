"""Parses a prompt: scenarios to run, a list of them, or help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from accord_conformance.client.fixtures import COMMAND
from accord_conformance.harness.scenario import Scenario

_COMMAND = re.compile(rf"(?:\bcheck:|/{COMMAND}\b)[ \t]*([\w./-]*)")


class PromptCommand(Struct, frozen=True):
    """Scenarios to run, or a message."""

    scenarios: tuple[Scenario[Any], ...] = ()
    message: str = ""


def parse_prompt_command(text: str, scenarios: Sequence[Scenario[Any]]) -> PromptCommand:
    """Return the command in a prompt; a name may be that of a scenario or of an area."""
    found = _COMMAND.search(text)
    name = found[1] if found else ""
    if name == "all":
        return PromptCommand(tuple(scenarios))
    if name == "list":
        return PromptCommand(message="\n".join(f"- `{one.name}`: {one.about}" for one in scenarios))
    chosen = tuple(one for one in scenarios if name in (one.name, one.area))
    if chosen:
        return PromptCommand(chosen)
    unknown = f"Unknown scenario {name!r}. " if name else ""
    areas = ", ".join(dict.fromkeys(f"`{one.area}`" for one in scenarios))
    return PromptCommand(
        message=f"{unknown}This agent tests the client. Send `check: all`, `check: list`, or "
        f"`check:` and a scenario or one of {areas}."
    )
