"""Command lines: their words and commands, what rules cover of them, and the files that they name.

`git log *` allows showing the log. `git log --output=.git/config` writes a file that makes git run
programs, so the rule does not cover it and the user is asked (`covers_rest`).

The meaning of a program's arguments is unknown, so for `files_named` a word counts as a path if it
could be one: `--file=.env`, `-f.env`, `HEAD:.env`, `user@host:.env`. Links are resolved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from accord_coder.permissions.command_options import (
    KNOWN_COMMANDS,
    READING_PROGRAMS,
    RISKY_OPTIONS,
    KnownCommand,
    Risks,
)
from accord_coder.permissions.sensitive_files import is_guarded, is_secret, matches_secret

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


# What rules cover

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


# Files that commands name

_MAX_PATH = 4096
# Within a word: --file=.env, user@host:.env, {.env,x}
_BREAKS = re.compile(r"[={}:,@$]")
# In a word that can be a command itself.
_SPACES = re.compile(r"[\s;&|<>()`\"']")
# So //host/path of a URL is not a path; file:///path is one.
_URL = re.compile(r"(?<![a-z0-9+.-])(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PROC = re.compile(r"[/.]*/proc/")
# Where a path can begin in short options: -rf/etc, -rf../x
_IN_OPTIONS = re.compile(r"/+[^/=:,]+|\.\.(?=/|$)")


class NamedFiles(Struct, frozen=True, kw_only=True):
    """The first secret and the first guarded file of a command, and whether one is outside."""

    secret: str | None = None
    guarded: str | None = None
    outside: bool = False


def files_named(command: str, cwd: str, is_inside: Callable[[str], bool]) -> NamedFiles:
    """Return the files that a command in a directory names; `is_inside` gets real paths. Blocks."""
    argv = argv_of(command)
    words = list(argv) if argv is not None else words_in(command)
    # Programs can access files in their directory that no argument names.
    inside = os.path.join(cwd, "any")  # noqa: PTH118  # a text
    found_secret = cwd if is_secret(inside) else None
    found_guarded = cwd if is_guarded(inside) else None
    outside = False
    seen: set[tuple[str, bool, bool]] = set()
    for number, word in enumerate(words):
        is_operand = number > 0 or argv is None
        for part, is_whole in _parts(word):
            if (part, is_whole, is_operand) in seen:
                continue
            seen.add((part, is_whole, is_operand))
            real = _real(part, cwd)
            if found_secret is None and (
                is_secret(part) or matches_secret(part) or (real is not None and is_secret(real))
            ):
                found_secret = part
            if is_whole and found_guarded is None:
                absolute = os.path.normpath(os.path.join(cwd, part))  # noqa: PTH118  # a text
                if is_guarded(absolute) or (real is not None and is_guarded(real)):
                    found_guarded = part
            if is_operand and not outside:
                outside = _leads_out(part, real, cwd, is_inside)
    if len(command) > MAX_CHARACTERS:
        found_secret = found_secret or "A part of this long command"
    if found_guarded is not None and _only_reads(command, argv):
        found_guarded = None
    return NamedFiles(secret=found_secret, guarded=found_guarded, outside=outside)


def _only_reads(command: str, argv: tuple[str, ...] | None) -> bool:
    if argv is not None:
        return only_reads(argv)
    return ">" not in command and all(map(only_reads, commands_in(command)))


def _parts(word: str) -> Iterator[tuple[str, bool]]:
    """Yield the possible paths in a word, and whether each looks like a path."""
    if not word:
        return
    yield word, True
    if word.startswith("-") and not word.startswith("--") and len(word) > 2:
        yield word[2:], True
        # -fsrc/x is not an absolute path; an existing relative path may be meant.
        if (found := _IN_OPTIONS.search(word, 2)) and os.path.lexists(found[0]):
            yield word[found.start() :], True
    whole = _BREAKS.split(_URL.sub("", word))
    if len(whole) > 1 or whole[0] != word:
        yield from ((part, True) for part in whole if part)
    if _SPACES.search(word):
        for inner in words_in(word):
            yield from ((part, False) for part in (inner, *_BREAKS.split(inner)) if part)


def _real(part: str, cwd: str) -> str | None:
    """Return the real path of a word; None if it cannot be a path or does not exist."""
    if len(part) > _MAX_PATH or "\0" in part:
        return None
    path = os.path.join(cwd, os.path.expanduser(part))  # noqa: PTH111, PTH118  # a text
    if "/" not in part and os.sep not in part and not os.path.lexists(path):
        return None
    return os.path.realpath(path)


def _leads_out(part: str, real: str | None, cwd: str, is_inside: Callable[[str], bool]) -> bool:
    if part.startswith(("~", "$HOME")):
        return True
    if part.startswith("/") or ".." in part.replace("\\", "/").split("/"):
        # /proc/self/cwd is another directory for the command than for this process.
        return real is None or not is_inside(real) or _PROC.match(part) is not None
    # A link in the project.
    return real is not None and not is_inside(real) and os.path.lexists(os.path.join(cwd, part))  # noqa: PTH118  # a text
