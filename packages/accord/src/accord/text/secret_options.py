"""Which options of command lines have secrets as values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from accord.text.redact import MASK
from accord.text.secret_names import is_secret_name
from accord.text.secret_shapes import looks_random

__all__ = (
    "DOUBTFUL",
    "FILE",
    "HEADER_OPTIONS",
    "USER_OPTIONS",
    "is_secret_option",
    "may_have_short_option",
    "without_joined_option",
    "without_short_option",
    "without_short_options",
    "without_user",
)

FILE = re.compile(r"(?:[~.]{0,2}|[A-Za-z]:)[/\\]|[\w.-]+\.(?:pem|key|crt)$")
DOUBTFUL = frozenset(("key", "pass", "pw", "pwd"))
"""Options whose value is a secret if it is not a file."""
HEADER_OPTIONS = frozenset(("-H", "--header", "--headers", "--proxy-header"))
USER_OPTIONS = frozenset(("-u", "--user", "--proxy-user", "--auth", "--basic-auth", "--userpwd"))

# Programs and subcommands that take a password, by the option.
_MYSQL = ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump")
_JOINED = {"p": frozenset((*_MYSQL, "7z", "7za", "7zz", "sshpass"))}
_APART = {
    "p": frozenset(("sshpass", "login")),
    "a": frozenset(("redis-cli",)),
    "w": frozenset(("ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami")),
    "P": frozenset(("zip", "unzip", "sqlcmd", "bcp", "mosquitto_pub", "mosquitto_sub")),
}
# Options that often have a key or token, but for many programs something else.
_MAYBE = frozenset("akpt")
_SHORT = re.compile(r"-([akptwP])(.*)", re.DOTALL)
_IN_TEXT = re.compile(
    r"-(?<![^\s\"'`]-)([akptwPu]|-(?:proxy-)?user|-userpwd|-(?:basic-)?auth)"
    r"((?:[ =]|\\?[\"'])*)([^\s\"'`\\;|&]+)"
)
_COMMAND = re.compile(r"[;|&\n]")


def is_secret_option(name: str, value: str) -> bool:
    """Return whether an option such as `--token` has a secret as value."""
    name = name.lstrip("-")
    if name.lower() in DOUBTFUL:
        return FILE.match(value) is None
    return is_secret_name(name) and not name.startswith("no-")


def without_short_option(option: str, value: str, before: Sequence[str]) -> str | None:
    """Return what to show for the value of a short option or of a user; None to decide elsewhere.

    `before` are the words of the command before it: `-p` of `mysql` and `sshpass` is a password.
    Of other programs, the values of `-a`, `-k`, `-p` and `-t` are replaced if they look random.
    """
    if option in USER_OPTIONS:
        return without_user(value)
    letter = option[1:]
    if _is_password(_APART.get(letter), before) and not (value.isdigit() and len(value) < 6):
        return MASK  # not the port of a program with `login` in its words
    return MASK if letter in _MAYBE and looks_random(value) else None


def without_joined_option(word: str, before: Sequence[str]) -> str | None:
    """Return what to show for a word such as `-pX`; None if it has no secret."""
    if (match := _SHORT.fullmatch(word)) is None or not match[2]:
        return None
    letter = match[1]
    is_random = letter in _MAYBE and looks_random(match[2])
    return f"-{letter}{MASK}" if is_random or _is_password(_JOINED.get(letter), before) else None


def _is_password(programs: frozenset[str] | None, before: Sequence[str]) -> bool:
    return programs is not None and any(word.rpartition("/")[2] in programs for word in before)


def without_user(text: str) -> str | None:
    """Return `user:password` without both; None for other texts, such as `1000:1000`."""
    name, colon, password = text.partition(":")
    if not colon:
        return MASK if looks_random(text) else None
    if (name.isdigit() and password.isdigit()) or password.startswith("//") or name[:1] in "+$<{":
        return None  # `date -u +%H:%M`, `-u "$USER:$PASSWORD"`
    return MASK


def may_have_short_option(text: str) -> bool:
    """Return False if `without_short_options` changes nothing."""
    return "-" in text and _IN_TEXT.search(text) is not None


def without_short_options(text: str) -> str:
    """Return a text without the passwords of short options and users in command lines."""

    def replaced(match: re.Match[str]) -> str:
        option, space, value = f"-{match[1]}", match[2], match[3]
        before = _COMMAND.split(text[: match.start()])[-1].split()
        if space or len(option) > 2:
            new = without_short_option(option, value, before)
        else:
            new = without_joined_option(option + value, before)
            return match[0] if new is None else new
        return match[0] if new is None else f"{option}{space}{new}"

    return _IN_TEXT.sub(replaced, text)
