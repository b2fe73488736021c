"""A permission question in lines: the whole action, and numbered answers."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from accord.client.events import Decision
from accord.client.permissions import command_of, is_distinct
from accord.text.excerpt import visible
from accord.types.permission import PermissionOption
from accord_chat.lines import words
from accord_chat.lines.printer import Printer
from accord_chat.model.permission_memory import RememberedRule
from accord_chat.model.questions import PermissionQuestion, option_keys
from accord_terminal.toolkit.questions import KINDS, MAX_OPTIONS
from accord_terminal.toolkit.text import one_line, relative_title

MAX_LINES = 40  # of an action; `m` shows the rest


class Answer(Struct, frozen=True):
    """What the user can choose: an option of the agent, or a rule to remember."""

    number: str
    key: str
    label: str
    choice: PermissionOption | RememberedRule


def answers(question: PermissionQuestion) -> list[Answer]:
    """Return all answers in their order."""
    request = question.request
    found: list[tuple[str, str, PermissionOption | RememberedRule]] = []
    options = request.options[:MAX_OPTIONS]
    for key, option in zip(option_keys(options), options, strict=False):
        name = one_line(option.name, 120) or one_line(option.id, 120)
        kind = KINDS.get(option.kind) or one_line(str(option.kind), 40)
        found.append((key, f"{name} ({kind})", option))
    for key, rule in question.remembering():
        word = "Allow" if rule.decision == "allow" else "Reject"
        what = relative_title(rule.summary, request.cwd)
        if what.endswith((" *", "/*")):
            what = f"{what.partition(' ')[0]}, all files of this folder"
        found.append((key, f"{word}, and remember for this agent: {what}", rule))
    return [
        Answer(str(number), key if key.isalpha() else "", label, choice)
        for number, (key, label, choice) in enumerate(found, 1)
    ]


def show_permission(question: PermissionQuestion, printer: Printer, *, whole: bool = False) -> None:
    """Print a question and its answers."""
    request = question.request
    call = request.tool_call
    title = relative_title(request.title or (call.title if call else ""), request.cwd)
    agent = one_line(question.agent_name, 40)
    printer.say(f"Question: {agent} asks for permission: {title or 'May I continue?'}")
    action = list(_action(question))
    shown = action if whole else action[:MAX_LINES]
    printer.below(shown)
    if len(shown) < len(action):
        left = words.count(len(action) - len(shown), "more line")
        printer.say(f"Note: the action has {left}; m shows them.")
    possible = answers(question)
    for one in possible:
        keys = f"{one.number} or {one.key}" if one.key else one.number
        printer.say(f"Answer {keys}: {one.label}")
    if possible:
        printer.say("Type the number or the letter of an answer.")
    else:
        printer.say("Note: the agent sent no options to choose from. c cancels the request.")


def answer(question: PermissionQuestion, text: str) -> bool:
    """Answer a question with a number or a letter; return whether it is one."""
    text = text.strip().lower()
    chosen = next(
        (one for one in answers(question) if text in (one.number, one.key) and text), None
    )
    if chosen is None:
        if text == "c" and not question.request.options:
            question.answer("cancel")
            return True
        return False
    decision: Decision
    if isinstance(chosen.choice, RememberedRule):
        question.rule = chosen.choice
        decision = chosen.choice.decision
    elif is_distinct(chosen.choice, question.request.options):
        decision = chosen.choice
    else:  # the agent cannot distinguish this option from another one
        decision = "cancel"
    question.answer(decision)
    return True


def _action(question: PermissionQuestion) -> Iterator[str]:
    request = question.request
    call, cwd = request.tool_call, request.cwd
    if request.description:
        yield from visible(request.description).split("\n")
    command = command_of(request)
    if command is not None:
        first, *rest = visible(command).split("\n")
        yield f"Command: {first}"
        yield from (f"  {line}" for line in rest)
    if call is None:
        return
    yield from words.whole_call(call, (), cwd)
    if command is None and not call.content and call.raw_input is not None:
        yield from visible(words.json_text(call.raw_input)).split("\n")
