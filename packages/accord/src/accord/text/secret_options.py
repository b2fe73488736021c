"""Which options of command lines have secrets as values."""

from __future__ import annotations

import re

from accord.text.redact import MASK
from accord.text.secret_names import is_secret_name
from accord.text.secret_shapes import is_plain_hash, looks_random

FILE = re.compile(r"(?:[~.]{0,2}|[A-Za-z]:)[/\\]|[\w.-]+\.(?:pem|key|crt)$")
DOUBTFUL = frozenset(("key", "pass", "pw", "pwd"))
"""Options whose value is a secret if it is not a file."""
HEADER_OPTIONS = frozenset(("-H", "--header", "--headers", "--proxy-header"))
USER_OPTIONS = frozenset(("-u", "--user", "--proxy-user", "--auth", "--basic-auth", "--userpwd"))

# Programs that take a password, by the option; `login` is a subcommand of many.
_MYSQL = ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump")
_JOINED = {"p": frozenset((*_MYSQL, "7z", "7za", "7zz", "sshpass"))}
_APART = {
    "p": frozenset(("sshpass", "login")),
    "a": frozenset(("redis-cli",)),
    "w": frozenset(("ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami")),
    "P": frozenset(("zip", "unzip", "sqlcmd", "bcp", "mosquitto_pub", "mosquitto_sub")),
}
_PROGRAMS: frozenset[str] = frozenset[str]().union(*_JOINED.values(), *_APART.values())
# Programs and subcommands that run the command in their words.
_RUNNERS = frozenset(
    (
        *("sudo", "doas", "env", "exec", "run", "time", "timeout", "nohup", "nice", "xargs"),
        *("watch", "ssh", "sh", "bash", "zsh", "dash", "ash"),
    )
)
# Options that often have a key or token, but for many programs something else.
_MAYBE = frozenset("akpt")
_USER = re.compile(r"(?!r[il]:|se[r]:)[\w.@+-]+:(?!//)\S.*", re.DOTALL)
_SHORT = re.compile(r"-([akptuwP])(.*)", re.DOTALL)
_IN_TEXT = re.compile(
    r"-(?<![^\s\"'`]-)([akptwPu]|-(?:proxy-)?user|-userpwd|-(?:basic-)?auth)"
    r"((?:[ =]|\\?[\"'])*)([^\s\"'`\\;|&]+)"
)
_END_OF_COMMAND = re.compile(r"[;|&]|(?<!\\)\n")
_ENDS = frozenset((";", "|", "||", "&", "&&"))
_TAKES_VALUE = re.compile(r"-(?!-?$|[a-z]{0,2}c$)[^=]*$")
# Several tokens in one value, and the code of a login; the numbers of `--max-tokens` are not.
_LISTED = re.compile(r"(?:(?:^|access|api|auth|bearer|bot)tokens|(?:o?auth|authorization)code)$")
_PATTERN = re.compile(r"[*?^$|()\[\\]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PORTS = re.compile(r"[\d.]*(?::[\d.]+)+(?:/[a-z]+)?|[\d.]+-[\d.]+|\d{1,5}/(?:tcp|udp)")


class CommandWords:
    """The words of a command line up to an option: which programs could take the option.

    It is the first word, and after words such as `sudo` and `exec` each that is not the value of
    an option, as in `docker run --name mysql`.
    """

    __slots__ = ("_is_first", "_is_runner", "_last", "programs")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.programs: set[str] = set()
        self._is_first = True
        self._is_runner = False
        self._last = ""

    def add(self, word: str) -> None:
        """Add the next word."""
        if word in _ENDS:
            self._begin()
            return
        name = word.strip("\"'`()$\\").rpartition("/")[2]
        if not name or (self._is_first and _ASSIGNMENT.match(word)):
            return
        if not word.startswith("-"):
            is_value = _TAKES_VALUE.match(self._last) is not None
            is_program = self._is_first or (self._is_runner and not is_value)
            if name in _PROGRAMS and (is_program or (name == "login" and not is_value)):
                self.programs.add(name)
            if name in _RUNNERS:
                self._is_runner = True
            self._is_first = False
        self._last = word

    def add_text(self, text: str) -> None:
        """Add a part of a text in which commands can end."""
        *ended, last = _END_OF_COMMAND.split(text)
        if ended:
            self._begin()
        for word in last.split():
            self.add(word)


def is_pin_or_pattern(name: str, value: str) -> bool:
    """Return whether a value is the number of a pin of a chip, or a pattern of files."""
    name = name.lower()
    if name.endswith("pin"):
        return value.isdigit() and len(value) < 4
    return name.endswith("pat") and _PATTERN.search(value) is not None


def is_secret_option(name: str, value: str) -> bool:
    """Return whether an option such as `--token` has a secret as value."""
    name = name.lstrip("-")
    if name.lower() in DOUBTFUL:
        return FILE.match(value) is None
    if name.startswith("no-") or is_pin_or_pattern(name, value):
        return False
    listed = _LISTED.search(re.sub("[-_]", "", name.lower()))
    if listed is not None:
        return listed[0].endswith("code") or not value.isdigit()
    return is_secret_name(name)


def without_short_option(option: str, value: str, before: CommandWords) -> str | None:
    """Return what to show for the value of a short option or of a user; None to decide elsewhere.

    `before` is the command before it: `-p` of `mysql` and `sshpass` is a password.
    Of other programs, the values of `-a`, `-k`, `-p` and `-t` are replaced if they look random.
    """
    if option in USER_OPTIONS:
        return without_user(value)
    letter = option[1:]
    if _PORTS.fullmatch(value):
        return None
    if _is_password(_APART.get(letter), before) and not (value.isdigit() and len(value) < 6):
        return MASK  # not the port of a program with `login` in its words
    return MASK if _is_random(letter, value) else None


def without_joined_option(word: str, before: CommandWords) -> str | None:
    """Return what to show for a word such as `-pX`; None if it has no secret."""
    if (match := _SHORT.fullmatch(word)) is None or not match[2]:
        return None
    if _PORTS.fullmatch(match[2]):
        return None
    letter = match[1]
    if letter == "u":
        return f"-u{MASK}" if _USER.fullmatch(match[2]) and without_user(match[2]) else None
    return (
        f"-{letter}{MASK}"
        if _is_random(letter, match[2]) or _is_password(_JOINED.get(letter), before)
        else None
    )


def _is_random(letter: str, value: str) -> bool:
    """Return whether the value of an option of any program is a secret.

    After `-p` and `-t` of `git` and `docker` are hashes.
    """
    return (
        letter in _MAYBE and looks_random(value) and not (letter in "pt" and is_plain_hash(value))
    )


def _is_password(programs: frozenset[str] | None, before: CommandWords) -> bool:
    return programs is not None and not programs.isdisjoint(before.programs)


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
    before = CommandWords()
    done = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal done
        option, space, value = f"-{match[1]}", match[2], match[3]
        before.add_text(text[done : match.start()])
        done = match.start()
        if space or len(option) > 2:
            shown = without_short_option(option, value, before)
            new = None if shown is None else f"{option}{space}{shown}"
        else:
            new = without_joined_option(option + value, before)
        return match[0] if new is None else new

    return _IN_TEXT.sub(replaced, text)
