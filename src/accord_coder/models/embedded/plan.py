"""Carries out what was understood: one request at once, several as a plan."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from accord_coder.models.embedded.kit import could_not, plural
from accord_coder.models.embedded.page import REAL_MODEL, not_understood
from accord_coder.models.embedded.recipe import Recipe, Say, Steps, Think, use
from accord_coder.models.embedded.request import Asked
from accord_coder.models.embedded.table import FAMILIES
from accord_coder.models.embedded.understanding import Understood

__all__ = ("recipe_for",)

_HARMLESS = ("none", "read")


def recipe_for(understood: Understood, tools: frozenset[str], *, planning: bool = False) -> Recipe:
    """Return how to do what a prompt asks for, with the tools there are.

    When `planning`, nothing is changed before the user has approved of the plan.
    """
    if understood.problem:
        yield Say(f"{understood.problem}\n\n`help` says what I understand. {REAL_MODEL}")
        return False
    steps = [replace(step, tools=tools, table=FAMILIES) for step in understood.steps]
    unclear = [step for step in steps if step.request.asks_back]
    if unclear and len(steps) > 1:
        # Who does not know what one step is about does not begin with the others.
        return (yield from _one(unclear[0]))
    for step in steps:
        if step.request.doubt is not None and (question := step.request.doubt(step)):
            yield Say(question)
            return False
    changes = [step for step in steps if step.request.effect not in _HARMLESS]
    if understood.unknown and (changes or not steps):
        yield Say(not_understood(FAMILIES, understood.unknown, done=False))
        return False
    if not steps:
        yield Say("There was nothing to do in that. Say `help` for what I understand.")
        return False
    if changes and planning and not (yield from _approved(steps)):
        return False
    done = yield from _one(steps[0]) if len(steps) == 1 else _several(steps)
    if understood.unknown:
        yield Say(not_understood(FAMILIES, understood.unknown, done=True))
    return done


def _approved(steps: Sequence[Asked]) -> Recipe:
    """Ask for approval of the plan, where nothing may be changed without."""
    plan = "\n".join(f"{number}. {step.shown}" for number, step in enumerate(steps, 1))
    result = yield from use("exit_plan", plan=plan)
    if result.failed:
        yield could_not("begin", result)
        return False
    return True


def _one(step: Asked) -> Recipe:
    return (yield from step.request.recipe(step))


def _several(steps: list[Asked]) -> Recipe:
    yield Think(f"{plural(len(steps), 'request')}, one after the other.")
    failed = False
    for at, step in enumerate(steps):
        yield from _show(steps, at)
        done = yield from step.request.recipe(step)
        if done or step.request.effect == "read":
            failed |= not done
            continue
        left = len(steps) - at - 1
        yield from _show(steps, at, stopped=True)
        if left:
            rest = "; ".join(step.shown for step in steps[at + 1 :])
            yield Say(
                f"I stopped at step {at + 1} of {len(steps)}; {left} "
                f"{'was' if left == 1 else 'were'} not begun: {rest}."
            )
        return False
    yield from _show(steps, len(steps))
    return not failed


def _show(steps: Sequence[Asked], now: int, *, stopped: bool = False) -> Steps:
    """Show the plan with the step that is worked on; what was not done stays pending."""
    entries = [
        {"content": step.shown, "status": _status(at, now, stopped=stopped), "priority": "medium"}
        for at, step in enumerate(steps)
    ]
    yield from use("plan", entries=entries)


def _status(at: int, now: int, *, stopped: bool) -> str:
    if at < now:
        return "completed"
    return "in_progress" if at == now and not stopped else "pending"
