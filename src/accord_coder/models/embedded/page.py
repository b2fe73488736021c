"""What is said about the requests: `help`, the answer to what is not understood, the docs."""

from __future__ import annotations

from difflib import SequenceMatcher

from accord_coder.models.embedded.request import Request, Table

__all__ = ("REAL_MODEL", "WHAT_IT_IS", "help_text", "nearest", "not_understood", "page")

WHAT_IT_IS = (
    "I am the embedded model: no language model, just a program without network that carries out"
    " plain requests, the same way every time."
)
REAL_MODEL = (
    "For a language model, choose one with `/model` or start with `--model PROVIDER:NAME`; with a"
    " key in the environment (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, …) one is chosen for you."
)
_QUOTES = (
    "Put texts in quotes, commands in backticks, and several lines between fences (```). Name files"
    " by path, with @, or link them: then `this file` will do. Several requests go in one prompt:"
    " as sentences, as a list, or with `then`."
)
_EFFECTS = {
    "none": "nothing",
    "read": "reads",
    "edit": "changes files",
    "delete": "moves or deletes",
    "run": "runs a program",
}


def help_text(table: Table, topic: str = "") -> str:
    """Return the list of requests, or all about those that a topic is about."""
    word = topic.strip(" ?.`\"'").lower()
    about = [
        request
        for requests in table.values()
        for request in requests
        if word and request.examples and _is_about(request, word)
    ]
    if about:
        return "\n\n".join(map(_in_full, about[:5]))
    rows = [
        f"- **{family}**: " + ", ".join(_code(r.examples[0]) for r in requests if r.examples)
        for family, requests in table.items()
    ]
    start = f"I know nothing about {word!r}.\n\n" if word else ""
    return (
        f"{start}{WHAT_IT_IS} In your own words, more or less:\n\n" + "\n".join(rows) + "\n\n"
        f"{_QUOTES} `help with delete` says more about one.\n\n{REAL_MODEL}"
    )


def _is_about(request: Request, word: str) -> bool:
    return word in request.name.split() or any(e.split()[0] == word for e in request.examples)


def _in_full(request: Request) -> str:
    examples = "\n".join(f"- {_code(example)}" for example in request.examples)
    return f"**{request.name.capitalize()}.** {request.does}\n\n{examples}"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def not_understood(table: Table, parts: tuple[str, ...], *, done: bool) -> str:
    """Return what is said of the parts of a prompt that mean nothing here."""
    what = " and ".join(f"“{part}”" for part in parts[:3]) + (" and more" if len(parts) > 3 else "")
    end = "." if done else ", so I did nothing."
    said = [f"I did not understand {what}{end} {WHAT_IT_IS}"]
    near = list(dict.fromkeys(found for part in parts[:3] if (found := nearest(table, part))))
    if near:
        said.append("Nearest to it: " + ", ".join(map(_code, near)) + ".")
    elif not done:
        said.append(
            "I can list, find, search, read, count, outline and explain; create, change, rename,"
            " move and delete; run commands, the tests and git."
        )
    said.append("`help` lists what I understand; texts go in quotes, commands in backticks.")
    return "\n\n".join([*said, REAL_MODEL])


def nearest(table: Table, text: str) -> str:
    """Return the example that is most like a text, "" when none is."""
    said = text.lower().split()[:30]
    best, most = "", 0.0
    for requests in table.values():
        for example in (example for request in requests for example in request.examples):
            score = _likeness(said, example.lower().split())
            if score > most:
                best, most = example, score
    return best if most >= 1.0 else ""


def _likeness(said: list[str], example: list[str]) -> float:
    """Return how much of an example's first words are in what was said, misspelt or not."""
    score = 0.0
    for at, word in enumerate(example[:4]):
        word = word.strip("?,.")
        if len(word) < 3 or word in ("the", "and", "all", "for", "this", "are", "what", "which"):
            continue
        ratio = max((_ratio(word, other.strip("?,.")) for other in said), default=0.0)
        if ratio > 0.7:
            score += ratio * (1.2 if at == 0 else 0.6)
    return score


def _ratio(one: str, other: str) -> float:
    if abs(len(one) - len(other)) > 3 or len(other) > 30:
        return 0.0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def page(table: Table) -> str:
    """Return the page of the reference."""
    lines = [_INTRO]
    for family, requests in table.items():
        lines += [f"## {family}", "", "| Request | What it does | Effect |", "|---|---|---|"]
        for request in requests:
            if request.examples:
                examples = "<br>".join(map(_code, request.examples)).replace("|", "\\|")
                lines.append(f"| {examples} | {request.does} | {_EFFECTS[request.effect]} |")
        lines.append("")
    lines.append(_OUTRO)
    return "\n".join(lines)


_INTRO = f"""\
# The embedded model

<!-- Written by docs/generate.py from the table of requests; `make docs` does it again. -->

The model that the coding agent has when no key of a provider is set. It is no language model: it
needs no network, sends nothing anywhere, and answers the same to the same. It understands the
requests below, in ordinary English with the usual synonyms, and carries them out with the same
tools, permissions and reports as a language model would. What it does not understand, it says, and
does nothing.

{_QUOTES}

A request is understood only when all of its words are; so a *not* or an *except* is never passed
over. If one sentence of several is not understood, nothing is changed. `it` and `that file` mean
the file of the request before, `this file` the one that is linked; only what reads takes `it` over
from the prompt before.
"""

_OUTRO = f"""\
## What it will not do

- Guess. A text without quotes that may be meant otherwise, a word that may be a file or may not, a
  name that may be a file or a symbol: it says what it understood, and asks back.
- Delete by a pattern unseen: it lists the files, asks, and then each one still needs permission.
- Overwrite a file unless the request says `overwrite`.
- Go on after a change was refused or has failed: the rest of a plan is left undone, and it says so.
- Take more than 20 requests, 600 words or 200,000 characters in one prompt (quoted texts and code
  blocks count as a word each).

{REAL_MODEL}
"""
