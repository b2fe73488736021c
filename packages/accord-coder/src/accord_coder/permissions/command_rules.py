"""Decides which arguments a rule for commands covers, by the table of known commands.

`git log *` allows showing the log. `git log --output=.git/config` writes a file that makes git
run programs, so the rule does not cover it and the user is asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from accord_coder.permissions.command_line import argv_of
from accord_coder.permissions.command_options import (
    KNOWN_COMMANDS,
    READING_PROGRAMS,
    RISKY_OPTIONS,
    KnownCommand,
    Risks,
)

_BY_PROGRAM: dict[str, list[KnownCommand]] = {}
for _command in KNOWN_COMMANDS:
    _BY_PROGRAM.setdefault(_command.words[0], []).append(_command)

# In awk programs: these run commands or write files.
_AWK_RISKS = ("system", "getline", "|", ">", "@", "printf -v")


def covers_rest(rule: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether a rule with these words and a star at its end covers the other words."""
    rest = words[len(rule) :]
    known = _known(words)
    if known is not None and len(known.words) <= len(rule):
        return _is_listed(known, rest)
    risks = RISKY_OPTIONS.get(os.path.basename(words[0]))  # noqa: PTH119  # a text
    if risks is None:
        return True
    if any(_is_risky(risks, word) for word in rest):
        return False
    return _has_safe_scripts(words)


def only_reads(words: Sequence[str]) -> bool:
    """Return whether a command changes nothing and runs nothing else, by the table."""
    known = _known(words)
    if known is not None:
        return known.only_reads and _is_listed(known, words[len(known.words) :])
    if words[0] not in READING_PROGRAMS:
        return False
    risks = RISKY_OPTIONS.get(words[0])
    return risks is None or not any(_is_risky(risks, word) for word in words[1:])


def suggest_pattern(command: str) -> str:
    """Return the pattern that "always" adds: a known command and a star, or the exact command."""
    words = argv_of(command)
    if words is None:
        return command
    known = _known(words)
    if known is None or not _is_listed(known, words[len(known.words) :]):
        return command
    return " ".join(known.words) + " *"


def _known(words: Sequence[str]) -> KnownCommand | None:
    for known in _BY_PROGRAM.get(words[0], ()):
        if tuple(words[: len(known.words)]) == known.words:
            return known
    return None


def _is_listed(known: KnownCommand, rest: Sequence[str]) -> bool:
    """Return whether every option is in the table, and operands are as it allows."""
    words = iter(rest)
    for word in words:
        if word == "--":
            return known.operands or next(words, None) is None
        if not word.startswith("-") or word == "-":
            if not known.operands:
                return False
        elif not _is_listed_option(known, word):
            return False
    return True


def _is_listed_option(known: KnownCommand, word: str) -> bool:
    name, _, value = word.partition("=")
    if name in known.options:
        return "%G" not in value and "%(signature" not in value  # makes git run gpg
    if word.startswith("--"):
        return False
    letters = word[1:]
    if known.numbers and letters.isdigit() and letters.isascii():
        return True
    for letter in letters:
        if letter in known.values:
            return True  # the others are its value
        if letter not in known.flags:
            return False
    return True


def _is_risky(risks: Risks, word: str) -> bool:
    if word in risks.words:
        return True
    if not word.startswith("-") or word in ("-", "--"):
        return False
    name = word.partition("=")[0]
    if name in risks.options or name[1:] in risks.options:  # go takes --exec for -exec
        return True
    if word.startswith("--"):
        # Many programs accept abbreviated options.
        return any(option.startswith(name) for option in risks.options)
    return any(letter in risks.letters for letter in word[1:])


def _has_safe_scripts(words: Sequence[str]) -> bool:
    program = os.path.basename(words[0])  # noqa: PTH119  # a text
    operands = [word for word in words[1:] if not word.startswith("-")]
    if program in ("awk", "gawk", "mawk", "nawk"):
        return not any(risk in word for word in words[1:] for risk in _AWK_RISKS)
    if program == "less":
        return not any(word.startswith("+") for word in operands)  # a command of less
    if program in ("sed", "gsed"):
        return bool(operands) and all(map(_is_safe_sed, _sed_commands(operands[0])))
    if program in ("tar", "bsdtar") and operands and operands[0] == words[1]:
        return not set(operands[0]) & set(RISKY_OPTIONS["tar"].letters)  # tar xf
    return True


def _sed_commands(script: str) -> Iterator[str]:
    """Yield the commands of a script, roughly: commands that cannot be separated are one."""
    for line in script.split("\n"):
        if line.strip():
            yield from [line] if "s" in line else line.split(";")


def _is_safe_sed(command: str) -> bool:
    """Return whether a command of sed prints, deletes, ends or substitutes, and nothing else."""
    text = command.strip().lstrip("0123456789,$!~+ ")
    if text in ("p", "d", "q", "="):
        return True
    if not text.startswith("s") or len(text) < 4 or text[1].isalnum() or text[1] == "\\":
        return False
    delimiter, at, seen = text[1], 2, 1
    while at < len(text) and seen < 3:
        if text[at] == "\\":
            at += 1
        elif text[at] == delimiter:
            seen += 1
        at += 1
    return seen == 3 and not text[at:].strip("gpiI0123456789")
