"""Parses command lines: the words of a command, and the commands in a shell text."""

from __future__ import annotations

import re

MAX_CHARACTERS = 32_000  # of a command that is parsed; a longer one is given to a shell

_SHELL = frozenset("|&;<>()$`\\*?[]{}~#!\n\r")
_IN_DOUBLE_QUOTES = frozenset("$`\\!")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SEPARATORS = frozenset(";&|\n\r(){}`")
_BETWEEN_WORDS = frozenset(" \t<>")
_ESCAPED_IN_QUOTES = frozenset('$`"\\\n')

# Programs with options before their subcommand: git -C directory push.
_WITH_SUBCOMMANDS = frozenset(
    """
    apt brew bundle bun cargo composer conda deno docker dotnet gem gh git go gradle helm hg
    kubectl make meson mix mvn npm nx pdm pip pip3 pipenv pnpm podman poetry rustup swift
    terraform tox uv yarn
    """.split()  # noqa: SIM905  # a list of words
)
# Programs that run the command that follows.
_WRAPPERS = frozenset(
    """
    builtin busybox chroot chrt command coproc doas env exec flock ionice nice nohup parallel
    script setsid ssh stdbuf strace su sudo taskset time timeout trap unshare watch xargs
    """.split()  # noqa: SIM905  # a list of words
)
# Options (of find, fd) that a command follows.
_RUNNING_OPTIONS = frozenset(("-exec", "-execdir", "-ok", "-okdir", "--exec", "--exec-batch"))
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "eval"))
_KEYWORDS = frozenset(("!", "then", "do", "else", "if", "while"))

_MAX_OPTIONS_BEFORE = 4  # words that can be values of options, or the subcommand
_MAX_DEPTH = 4  # of commands nested in commands
_MAX_WRAPPERS = 16
_MAX_WORDS = 1000  # that are searched for one of `_RUNNING_OPTIONS`


def argv_of(command: str) -> tuple[str, ...] | None:
    """Return the words of a command that needs no shell; None if it needs one.

    The caller must run exactly these words, or give the whole text to a shell.
    """
    if len(command) > MAX_CHARACTERS:
        return None
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    for character in command:
        if quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in _IN_DOUBLE_QUOTES:
                return None
            else:
                word = [] if word is None else word
                word.append(character)
        elif character in "'\"":
            quote = character
            word = [] if word is None else word
        elif character in _SHELL:
            return None
        elif character in " \t":
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            word = [] if word is None else word
            word.append(character)
    if word is not None:
        words.append("".join(word))
    if quote or not words or not words[0] or _ASSIGNMENT.match(words[0]):
        return None
    return tuple(words)


def words_in(command: str) -> list[str]:
    """Return all words of a shell text, quotes and backslashes resolved; an approximation."""
    return [word for words in _split(command, _MAX_DEPTH) for word in words]


def commands_in(command: str) -> list[tuple[str, ...]]:
    """Return the words of every command found in a text, without wrappers such as sudo.

    An approximation: use it to reject, never to allow.
    """
    return _commands_in(command, _MAX_DEPTH)


def _commands_in(command: str, depth: int) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    redirects = "<" in command or ">" in command
    for words in _split(command, depth):
        whole = list(words)
        for _ in range(_MAX_WRAPPERS):
            if not words or not (
                _ASSIGNMENT.match(words[0]) or _program(words[0]) in _WRAPPERS | _KEYWORDS
            ):
                break
            found.append(tuple(words))
            words.pop(0)
            while words and (words[0].startswith("-") or words[0][:1].isdigit()):
                words.pop(0)
        if words:
            found.append(tuple(words))
            found += _without_options(words)
        runs_others = len(words) < len(whole) or _program(words[0]) in _SHELLS
        if runs_others and depth > 0:
            inner = (word for word in whole[1:] if " " in word)
            found += [one for word in inner for one in _commands_in(word, depth - 1)]
        if runs_others or redirects:  # options with values, and files, can precede the command
            found += [tuple(whole[at:]) for at in range(1, min(len(whole), _MAX_WRAPPERS))]
        found += [
            tuple(whole[at + 1 :])
            for at, word in enumerate(whole[:_MAX_WORDS])
            if word in _RUNNING_OPTIONS
        ][:_MAX_WRAPPERS]
    return found


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _split(command: str, depth: int) -> list[list[str]]:
    """Return the words of each command found in a shell text."""
    found: list[list[str]] = [[]]
    word: list[str] = []
    has_word = False
    quote, quoted = "", ""
    text = iter(f"{command[:MAX_CHARACTERS]}\n")
    for character in text:
        if quote and character == quote:
            if quote == '"' and depth > 0 and ("$(" in quoted or "`" in quoted):
                found[-1:-1] = _split(quoted, depth - 1)
            word.append(quoted)
            quote, quoted = "", ""
        elif quote:
            if character == "\\" and quote == '"':
                following = next(text, "")
                character = following if following in _ESCAPED_IN_QUOTES else f"\\{following}"
            quoted += character
        elif character in "'\"":
            quote, has_word = character, True
            if word == ["$"]:  # $'rm' and $"rm" are rm
                word = []
        elif character == "\\":
            word.append(next(text, "").strip("\n"))
            has_word = True
        elif character in _BETWEEN_WORDS or character in _SEPARATORS:
            if has_word and (whole := "".join(word).rstrip("$") or "".join(word)) != "$":
                found[-1].append(whole)
            word, has_word = [], False
            if character in _SEPARATORS:
                found.append([])
        else:
            word.append(character)
            has_word = True
    if quote:  # the quote is not closed: one word or several follow it
        found.append(quoted.split())
    return [words for words in found if words]


def _without_options(words: list[str]) -> list[tuple[str, ...]]:
    """Return the possible meanings of `git -C directory push`, as options may have values."""
    if _program(words[0]) not in _WITH_SUBCOMMANDS:
        return []
    if len(words) < 3 or not words[1].startswith("-"):
        return []
    starts = [at for at in range(2, len(words)) if not words[at].startswith("-")]
    return [(words[0], *words[start:]) for start in starts[:_MAX_OPTIONS_BEFORE]]
