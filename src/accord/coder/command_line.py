"""Commands as text: whether a shell is needed for one, and what rules it falls under."""

from __future__ import annotations

import re
import shlex

__all__ = ("argv_of", "commands_in", "usual_rule")

_SHELL = frozenset("|&;<>()$`\\*?[]{}~#!\n\r")
_IN_DOUBLE_QUOTES = frozenset("$`\\!")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")

# Programs whose first words say what they do; for others nothing short of all words does.
_SUBCOMMANDS = frozenset(
    """
    apt brew bundle bun cargo composer conda deno docker dotnet gem gh git go gradle helm hg
    kubectl make meson mix mvn npm nx pdm pip pip3 pipenv pnpm podman poetry rustup swift
    terraform tox uv yarn
    """.split()  # noqa: SIM905  # a list of words
)
# After these the next word belongs to it, too: npm run build, uv pip install, go tool cover.
_GOES_ON = frozenset(
    """
    exec run tool x pip compose image container remote stash
    """.split()  # noqa: SIM905  # a list of words
)
_WORD = re.compile(r"[a-z][a-z0-9:_-]*")
# What runs the command that follows it.
_WRAPPERS = frozenset(
    """
    command doas env exec nice nohup setsid sudo time timeout xargs
    """.split()  # noqa: SIM905  # a list of words
)


_MOST_BEFORE = 4  # words that may be values of options, or the subcommand


def argv_of(command: str) -> tuple[str, ...] | None:
    """Return the words of a command that needs no shell; None for one that does.

    Whoever runs it must run exactly these words, or hand the whole text to a shell.
    """
    quote = ""
    for character in command:
        if quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in _IN_DOUBLE_QUOTES:
                return None
        elif character in "'\"":
            quote = character
        elif character in _SHELL:
            return None
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        return None
    if not words or not words[0] or _ASSIGNMENT.match(words[0]):
        return None
    return words


def commands_in(command: str) -> list[tuple[str, ...]]:
    """Return the words of every command that can be seen in a text, wrappers such as sudo off.

    A guess, good for refusing and never for allowing.
    """
    found: list[tuple[str, ...]] = []
    for part in re.split(r"[;&|\n\r(){}`]|\$\(|<\(|>\(", command):
        words = re.findall(r"[^\s'\"]+|'[^']*'|\"[^\"]*\"", part)
        words = [word.strip("'\"").lstrip("\\") for word in words]
        while words and (
            _ASSIGNMENT.match(words[0])
            or words[0].rpartition("/")[2] in _WRAPPERS
            or words[0] in ("!", "then", "do", "else", "if", "while")
        ):
            found.append(tuple(words))
            words.pop(0)
            while words and (words[0].startswith("-") or words[0][:1].isdigit()):
                words.pop(0)
        if words:
            found.append(tuple(words))
            found += _without_options(words)
            if words[0].rpartition("/")[2] in ("sh", "bash", "zsh", "dash", "ksh", "eval"):
                found += [inner for word in words[1:] if " " in word for inner in commands_in(word)]
                found += [tuple(words[at:]) for at in range(1, len(words))]
    return found


def _without_options(words: list[str]) -> list[tuple[str, ...]]:
    """Return what `git -C there push` may be: git push. An option may have a value, or none."""
    if words[0].rpartition("/")[2] not in _SUBCOMMANDS:
        return []
    if len(words) < 3 or not words[1].startswith("-"):
        return []
    starts = [at for at in range(2, len(words)) if not words[at].startswith("-")]
    return [(words[0], *words[start:]) for start in starts[:_MOST_BEFORE]]


def usual_rule(command: str) -> str:
    """Return the rule that "always" stands for: the command with its subcommand, or all of it."""
    words = argv_of(command)
    if words is None or words[0] not in _SUBCOMMANDS or len(words) < 2:
        return command
    kept = 2
    if words[1] in _GOES_ON and len(words) > 2:
        kept = 3
    if not all(_WORD.fullmatch(word) for word in words[1:kept]):
        return command
    if words[1] in _GOES_ON and kept == 2:
        return command
    return " ".join(words[:kept]) + " *"
