"""What the chat in lines asks the user: permissions, forms, pages, and the review of changes.

A permission is shown as a whole with numbered answers; its answer is one line. Forms, pages and the
review ask for several lines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from msgspec import Struct

from accord.client.events import Decision
from accord.client.permissions import command_of, is_distinct
from accord.text.excerpt import visible
from accord.types.permission import PermissionOption
from accord_chat.lines import words
from accord_chat.lines.words import Printer
from accord_chat.live_session import LiveSession
from accord_chat.model.changes import ReviewedHunk
from accord_chat.model.questions import FormQuestion, PageQuestion, PermissionQuestion, option_keys
from accord_chat.model.saved import RememberedRule
from accord_terminal.toolkit.questions import (
    KINDS,
    MAX_OPTIONS,
    FormDeclined,
    fill_in_form,
    offer_url,
)
from accord_terminal.toolkit.text import one_line, relative_path, relative_title

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


# Returns the next line of the user; None if the user leaves, or the input has ended.
ReadLine = Callable[[], Awaitable[str | None]]

VERDICTS = {
    "open": "not decided",
    "accepted": "accepted",
    "rejected": "rejected, the old text is back",
    "waiting": "rejected, and undone as soon as the agent has made it",
    "conflict": "not undone",
}
ENDED = "end of input"  # or Ctrl-C
REVIEW_HELP = (
    "a accepts, x rejects, A or X does it for the whole file, n next, p previous, o opens the file "
    "in your editor, q leaves."
)


async def ask_form(question: FormQuestion | PageQuestion, printer: Printer, read: ReadLine) -> None:
    """Ask for the fields of a form one after another, or whether a page is to be opened."""

    def show(text: str, _style: str) -> None:
        if text.startswith(" "):
            printer.below([text.strip()])
        else:
            printer.say(f"Question: {text}")

    async def ask(prompt: str) -> str | None:
        printer.say(f"Field: {prompt.strip()}" if isinstance(question, FormQuestion) else prompt)
        return await read()

    if isinstance(question, PageQuestion):
        agreed = await offer_url(question.page, question.agent_name, show, ask)
        question.answer(agreed)
        printer.say("Note: agreed." if agreed else "Note: declined.")
        return
    try:
        values = await fill_in_form(question.form, question.agent_name, show, ask)
    except FormDeclined as reason:
        printer.say(f"Note: declined: {reason}." if str(reason) != ENDED else "Note: declined.")
        question.answer(None)
    else:
        question.answer(values)
        printer.say("Note: sent.")


async def review(session: LiveSession, printer: Printer, read: ReadLine) -> list[str]:
    """Go through the changes, hunk by hunk; return the places of those that were undone."""
    undone: list[str] = []
    hunks = session.reviewed_hunks()
    if not hunks:
        printer.say("Note: the agent has shown no changes of files.")
        return undone
    at = next((n for n, one in enumerate(hunks) if one.verdict == "open"), 0)
    printer.say(f"Review: {words.count(len(hunks), 'change')}. {REVIEW_HELP}")
    _show_hunk(session, hunks, at, printer)
    while True:
        line = await read()
        hunks = session.reviewed_hunks()
        at = min(at, len(hunks) - 1)
        one = hunks[at]
        in_file = [
            other for other in hunks if other.hunk.path == one.hunk.path and other.verdict == "open"
        ]
        match None if line is None else line.strip():
            case None | "q" | ":q" | ":quit":
                printer.say("Review: left.")
                return undone
            case "a" | "A" as key:
                for each in in_file if key == "A" else [one]:
                    session.review.accept(each)
            case "x" | "X" | "r" as key:
                wanted = in_file[::-1] if key == "X" else [one]
                undone += [_place(session, each) for each in wanted if _reject(session, each)]
            case "n" | "":
                at = min(at + 1, len(hunks) - 1)
                _show_hunk(session, hunks, at, printer)
                continue
            case "p":
                at = max(at - 1, 0)
                _show_hunk(session, hunks, at, printer)
                continue
            case "o":
                session.wants_editor(one.hunk.path, session.review.changed_line(one.hunk))
                continue
            case _:
                printer.say(f"Review: {REVIEW_HELP}")
                continue
        before, hunks = at, session.reviewed_hunks()
        _show_verdict(session, hunks[at], printer)
        still_open = [n for n, other in enumerate(hunks) if other.verdict == "open"]
        if not still_open:
            printer.say("Review: all changes are decided. n and p read them again, q leaves.")
            continue
        at = next((n for n in still_open if n > before), still_open[0])
        _show_hunk(session, hunks, at, printer)


def _reject(session: LiveSession, one: ReviewedHunk) -> bool:
    """Undo a hunk; return whether that has changed anything."""
    return one.verdict != "rejected" and session.review.reject(one) == "rejected"


def _place(session: LiveSession, one: ReviewedHunk) -> str:
    path = one_line(relative_path(one.hunk.path, str(session.cwd)), 200)
    return f"{path}:{session.review.changed_line(one.hunk)}"


def _show_hunk(session: LiveSession, hunks: list[ReviewedHunk], at: int, printer: Printer) -> None:
    one = hunks[at]
    path = one_line(relative_path(one.hunk.path, str(session.cwd)), 200)
    verdict = _verdict(one)
    line = session.review.changed_line(one.hunk)
    printer.say(f"Change {at + 1} of {len(hunks)}: {path}, line {line}, {verdict}")
    if one.hunk.kind != "changed":
        printer.below([f"The file was {one.hunk.kind}."])
    before = session.review.lines_before(one.hunk)
    printer.below(words.diff_words(one.hunk.lines, before))


def _show_verdict(session: LiveSession, one: ReviewedHunk, printer: Printer) -> None:
    why = f": {one_line(one.why)}" if one.why else ""
    printer.say(f"Review: {_place(session, one)}: {_verdict(one)}{why}")


def _verdict(one: ReviewedHunk) -> str:
    if one.verdict == "rejected" and one.hunk.kind == "created":
        return "rejected, the file is deleted"
    return VERDICTS[one.verdict]
