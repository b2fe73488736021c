"""What a prompt asks the kit for: scenarios, a list of them, or help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from accord_conformance.client.fixtures import COMMAND
from accord_conformance.harness.scenario import Scenario

__all__ = ("PromptCommand", "parse_prompt_command")

_COMMAND = re.compile(rf"(?:\bcheck:|/{COMMAND}\b)[ \t]*([\w./-]*)")


class PromptCommand(Struct, frozen=True):
    """Scenarios to play, or what to say instead."""

    scenarios: tuple[Scenario[Any], ...] = ()
    message: str = ""


def parse_prompt_command(text: str, scenarios: Sequence[Scenario[Any]]) -> PromptCommand:
    """Return what a user wants who writes this; a name may be that of a whole area."""
    found = _COMMAND.search(text)
    name = found[1] if found else ""
    if name == "all":
        return PromptCommand(tuple(scenarios))
    if name == "list":
        return PromptCommand(message="\n".join(f"- `{one.name}`: {one.about}" for one in scenarios))
    chosen = tuple(one for one in scenarios if name in (one.name, one.area))
    if chosen:
        return PromptCommand(chosen)
    unknown = f"There is no scenario {name!r}. " if name else ""
    areas = ", ".join(dict.fromkeys(f"`{one.area}`" for one in scenarios))
    return PromptCommand(
        message=f"{unknown}I check this client. Say `check: all`, `check: list`, or `check:` and a "
        f"scenario or one of {areas}."
    )
