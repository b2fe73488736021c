"""`/permissions`: shows and changes the rules of the project."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from accord import ContentBlock
from accord_coder.permissions.rules import KINDS, Rule, rules_from, rules_to

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.commands.base import CommandCall
    from accord_coder.loop.coder_session import CoderSession
    from accord_coder.permissions.project_rules import EffectiveRules


_USAGE = f"""\
- `/permissions allow KIND PATTERN`, `/permissions reject KIND PATTERN` add a rule
- `/permissions remove NUMBER` removes a rule
- `/permissions trust` accepts the rules of others that allow something

A KIND is {", ".join(f"`{kind}`" for kind in KINDS[:-1])} or `{KINDS[-1]}`: `edit src/**`, \
`execute git status *`, `fetch docs.python.org`, `mcp github/search_*`."""


async def run(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Change the rules if requested, and show them."""
    verb, _, rest = asked.arguments.partition(" ")
    rest = rest.strip()
    match verb:
        case "":
            pass
        case "allow" | "reject":
            await turn.say(await _add(verb, rest, state))
        case "remove":
            await turn.say(await _remove(rest, state))
        case "trust" if not rest:
            count = await asyncio.to_thread(state.rules.trust_all)
            await turn.say(f"Accepted {count} rules.\n\n" if count else "There were none.\n\n")
        case _:
            await turn.say(f"Unknown arguments `{asked.arguments}`.\n\n{_USAGE}")
            return None
    known = await asyncio.to_thread(state.rules.read)
    await turn.say(_format_rules(known, state))
    return None


async def _add(effect: str, rest: str, state: CoderSession) -> str:
    kind, _, pattern = rest.partition(" ")
    pattern = pattern.strip().strip("`")
    if kind not in KINDS or not pattern:
        return f"A rule needs a kind and a pattern.\n\n{_USAGE}\n\n"
    rule = Rule("allow" if effect == "allow" else "reject", kind, pattern)
    try:
        rules_from(rules_to([rule]))
    except ValueError as exc:
        return f"The rule was not added: {exc}\n\n"
    problem = await asyncio.to_thread(state.rules.add, rule)
    if problem is not None:
        return f"The rule applies until the session ends; it could not be saved: {problem}\n\n"
    return f"Added: `{effect} {kind} {pattern}`\n\n"


async def _remove(number: str, state: CoderSession) -> str:
    known = await asyncio.to_thread(state.rules.read)
    rules = (*known.rules, *known.untrusted)
    if not number.isdecimal() or not 1 <= int(number) <= len(rules):
        return f"Unknown rule {number}.\n\n" if number else f"{_USAGE}\n\n"
    rule = rules[int(number) - 1]
    try:
        await asyncio.to_thread(state.rules.remove, rule)
    except (OSError, ValueError) as exc:
        return f"The rule could not be removed: {exc}\n\n"
    return f"Removed: `{rule}`\n\n"


def _format_rules(known: EffectiveRules, state: CoderSession) -> str:
    lines = [f"Mode: `{state.mode}`. Rules of this project, in `.accord/permissions.toml`:", ""]
    if known.error is not None:
        lines.append(f"The file cannot be used, so nothing is allowed by it: {known.error}")
    elif not known.rules and not known.untrusted:
        lines.append("There are none.")
    for number, rule in enumerate((*known.rules, *known.untrusted), 1):
        mark = " (not accepted by you: it does not apply)" if rule in known.untrusted else ""
        lines.append(f"{number}. {rule.effect} `{rule.kind} {rule.pattern}`{mark}")
    return "\n".join([*lines, "", _USAGE])
