"""Replaces secrets that are recognized by their place: in JSON, command lines, URLs and headers.

A secret is the value of a key, option, variable or header with the name of one, the user and
password in a URL, or a text in the form of a well-known kind of key.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.text.redact import MASK, is_secret_header, is_secret_name

# Secrets that are recognized by their form: well-known kinds of keys, and paths of URLs.

_HAS_DIGIT = r"(?=[A-Za-z_-]{0,64}+[0-9])"
# Each has 13 or more characters in a row that are letters, digits, `_`, `-` or `.`.
KEYS: tuple[str, ...] = (
    "(?:gh[pousr]|hf|gsk|npm|ntn|r8|lin_api)_[A-Za-z0-9]{20,}",
    "(?:github|dckr)_pat_[A-Za-z0-9_-]{20,}",
    rf"(?:(?:sk|xai|pplx|tvly|pypi|xapp){_HAS_DIGIT}|glpat|GOCSPX)-[A-Za-z0-9_-]{{16,}}",
    "(?:[rsp]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}",
    "(?:shp(?:at|ss|ca|pa)|dop_v1)_[a-f0-9]{32,}",
    "xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "A[KS]IA[A-Z0-9]{16}",
    "AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    # From the beginning of a word, or bounded: each `-eyJ` would be read to the end of the text.
    r"eyJ(?:(?<![_-]eyJ)[A-Za-z0-9_-]{10,}+|[A-Za-z0-9_-]{10,2048}+)"
    r"\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]++",
)
_KEY = re.compile(
    rf"(?<![A-Za-z0-9])(?:{'|'.join(KEYS)}|-----BEGIN [A-Z ]{{0,32}}PRIVATE KEY-----"
    r"[\s\S]*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z))"
)
# How they begin: several cheap searches take less time than one with `_KEY`.
_STARTS = (
    *("sk-", "gh", "AIza", "eyJ", "AKIA", "ASIA", "xox", "hf_", "glpat-", "gsk_", "npm_"),
    *("_pat_", "xai-", "pplx-", "tvly-", "pypi-", "xapp-", "GOCSPX-", "k_live_", "k_test_"),
    *("whsec_", "shp", "dop_v1_", "ya29.", "SG.", "ntn_", "r8_", "lin_api_", "PRIVATE KEY-----"),
)
_SHORTEST = 13

# What follows is known only to those who may use it.
_WEBHOOK = re.compile(
    r"((?:\bhooks\.slack(?:-gov)?\.com/[a-z]+|\.webhook\.office\.com/\w+|\bhooks\.zapier\.com/hooks/\w+"
    r"|\bhook\.[\w.]{0,64}make\.com|/webhooks?(?:-test)?(?=/[\w/-]{0,64}[0-9]))/)[^\s?#\"'<>\\]{8,}"
)
_BOT = re.compile(r"(/bot)[0-9]{5,}:[\w-]{16,}")
_PATH = re.compile(r"((?:https?|wss?)://[^\s/?#\"'<>\\]+)(/[^\s?#\"'<>\\]+)")
_SEGMENT = re.compile(r"(?<=/)[A-Za-z0-9_-]{24,}={0,2}(?![^/])")
# Where a letter and a digit are next to each other.
_TURN = re.compile(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
_HASH = re.compile(r"[0-9a-f]{4,16}|[0-9a-f]{40}")
_WORD = re.compile(r"[\w.~+/=:!@#$%^&*-]+", re.ASCII)


def without_keys(text: str) -> str:
    """Return a text without well-known keys and without secrets in the paths of URLs."""
    if "/" in text:
        if "hook" in text or "/bot" in text:
            text = _BOT.sub(rf"\1{MASK}", _WEBHOOK.sub(rf"\1{MASK}", text))
        if "://" in text:
            text = _PATH.sub(_without_segments, text)
    return _KEY.sub(MASK, text)


def may_have_key(text: str) -> bool:
    """Return False if `without_keys` changes nothing."""
    if len(text) < _SHORTEST:
        return False
    for start in _STARTS:
        if start in text:
            return True
    return "/" in text and ("hook" in text or "/bot" in text or "://" in text)


def looks_secret(value: str) -> bool:
    """Return whether the value of a doubtful name is a secret: not a usual word."""
    return len(value) >= 20 or (len(value) >= 6 and any(map(str.isdigit, value)))


def is_plain_hash(value: str) -> bool:
    """Return whether a text is a hash as `git` and `docker` show it, whole or its beginning.

    One of 32 characters is more often a key.
    """
    return _HASH.fullmatch(value) is not None


def looks_random(value: str) -> bool:
    """Return whether a text that could be anything is in the form of a secret.

    It is one word in which letters and digits alternate, or a long one with all kinds of them.
    """
    if len(value) < 8 or not _WORD.fullmatch(value) or value.startswith(("/", "./", "~")):
        return False
    if "/" not in value and ":" not in value and len(_TURN.findall(value)) >= 3:
        return True
    return len(value) >= 24 and _is_mixed(value)


def _is_mixed(text: str) -> bool:
    kinds = (str.isupper, str.islower, str.isdigit)
    return all(any(map(kind, text)) for kind in kinds)


def _without_segments(match: re.Match[str]) -> str:
    path = _SEGMENT.sub(lambda found: MASK if _is_mixed(found[0]) else found[0], match[2])
    return match[1] + path


# Which options of command lines have secrets as values.

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
_USER_OPTION = re.compile(r"(?!r[il]:|se[r]:)[\w.@+-]+:(?!//)\S.*", re.DOTALL)
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
        return f"-u{MASK}" if _USER_OPTION.fullmatch(match[2]) and without_user(match[2]) else None
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


_URL_MASK = "%5Bredacted%5D"  # a bracket before the host of a URL is not valid

# Names and values.
_PAIRS = re.compile(
    r"(?i:env|environ|environment|env(?:ironment)?_?var(?:iable)?s|.*headers)$"
    r"|.*(?:[a-z\d](?:Env|Environment)|[_-](?i:env|environment))$"
)
_NAMES = ("name", "key", "header", "variable", "configId")  # the name of a `value` next to it
# What users and agents say, and contents of files.
_SPOKEN = frozenset(("text", "content", "newText", "oldText", "output", "blob", "thought"))
_EXAMPLES = frozenset(("default", "const", "enum", "example", "examples"))  # in a JSON Schema
_MAX_DEPTH = 100  # everything below is replaced

# Names that mean a secret only here.
_PARAMETERS = frozenset(
    (
        *("key", "sig", "signature", "x-amz-signature", "x-goog-signature"),
        *("code", "auth", "pass", "pwd"),
    )
)
# Keys of objects whose value is a secret if it looks like one.
_DOUBTFUL_KEYS = frozenset(("key", "auth", "pass", "pw"))
_FILLED_IN_LATER = re.compile(
    r"(?:[A-Za-z]+ )?(?:\$\w+|\$?\$?\{[^}]*\}|%\w+%|<[^>]*>|[A-Z][A-Z_]{0,23})"
)
# Words of prose and of descriptions, where a secret could be.
_PROSE = frozenset(
    (
        *("optional", "required", "none", "null", "nil", "undefined", "true", "false", "yes", "no"),
        *("empty", "unset", "missing", "invalid", "wrong", "expired", "failed", "denied"),
        *("default", "string", "str", "text", "int", "bool", "value", "token", "header"),
        *("auth", "authentication", "authorization", "scheme", "prompt", "ask", "hidden"),
        *("and", "or", "is", "was", "enabled", "disabled", "on", "off", "env", "keyring"),
        "redacted",
    )
)
_NUMBER = re.compile(r"[\d.,_]+")
_KEY_BEGIN = "-----BEGIN "
_KEY_END = re.compile(r"\s*-----END [A-Z ]{0,32}PRIVATE KEY-----")
# Base64, or a header such as `DEK-Info: AES-128-CBC,0A1B`.
_KEY_LINE = re.compile(r"\s*(?:[A-Za-z0-9+/=]*|(?:Proc-Type|DEK-Info): .*)\s*")
_SEPARATORS = re.compile(r"[\W_]")
_END_OF_LINE = re.compile(r"[ \t\r]*(?:\n|\Z)")
_SCHEME = re.compile(r"(?:bearer|basic|token|digest|apikey|negotiate)\s+(\S+)", re.IGNORECASE)

_LINES_OF_PAIRS = re.compile(r"[A-Za-z_]\w*=\S|[A-Za-z]\w*(?:-\w+)+:\s*\S")
_OPTION = re.compile(r"(-{1,2}[A-Za-z][\w.-]*)=(.+)", re.DOTALL)
_VARIABLE = re.compile(r"([A-Za-z_][\w.-]*)=(.+)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*):\s*(\S.*)", re.DOTALL)
_USER_IN_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]{0,31})?://(?P<user>[^\s/?#\"'<>\\]+)@")

# A part of each name of a secret. A text without any of `_MARKS` has no secret in it.
_WORDS = (
    *("key", "token", "secret", "passw", "passphrase", "passcode", "pwd", "credential"),
    *("cookie", "auth", "bearer", "jwt"),
)
# The end of a name, and what separates it from its value.
_HEAD = re.compile(
    rf"(?i)(?:{'|'.join(_WORDS)}|(?<=[_-])(?:pat|pin)(?![a-z])"
    r"|(?<=[?&#;])(?:sig|(?:x-(?:amz|goog)-)?signature|code|pass|pat|pin)(?==))[\w.%-]{0,32}"
    r"(\\*[\"'])?(\s*[=:]\s*|\s+)"
)
_NAME_CHARACTERS = f"{string.ascii_letters}{string.digits}_.%-"
_QUOTED = re.compile(r"(\\*)([\"'])((?:(?!\1\2)(?:\\.|[^\\]))*)", re.DOTALL)
_UNQUOTED = re.compile(
    r"(?:(?:bearer|basic|token|digest|apikey|negotiate)\s+)?[^\s\"'&;|<>\\]+", re.IGNORECASE
)
_PARAMETER = re.compile(r"[^\s\"'&;#<>\\]+")
_LINE = re.compile(r"[^\"'\r\n\\]+")

_MARKS = (
    *(*_WORDS, "sig", "code=", "pass=", "_pat", "-pat", "pat=", "_pin", "-pin", "pin=", "://"),
    *('env"', 'environment"', 'headers"'),
)


def is_masked(text: str) -> bool:
    """Return whether something was replaced in a text."""
    return MASK in text or _URL_MASK in text


def plain_url(url: str) -> str:
    """Return a URL for messages and logs: without user, password, query and fragment."""
    url = url.partition("?")[0].partition("#")[0]
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def redacted_argv(argv: Sequence[str]) -> list[str]:
    """Return a command line without secrets.

    They are the values of options such as `--token X`, `--api-key=X` and `-H 'Authorization: X'`,
    of variables (`API_KEY=X`), and what `redacted_text` replaces in a word.
    """
    words: list[str] = []
    option = ""
    before = CommandWords()
    for word in argv:
        is_value = not word.startswith("-")
        if option and is_value and is_secret_option(option, word):
            words.append(_mask(word))
        elif option in HEADER_OPTIONS and is_value:
            words.append(_header(word))
        elif option and is_value:
            new = without_short_option(option, word, before)
            words.append(_word(word) if new is None else new)
        else:
            new = None if is_value else without_joined_option(word, before)
            words.append(_word(word) if new is None else new)
        before.add(word)
        option = "" if is_value or "=" in word else word
    return words


def redacted_text(text: str) -> str:
    """Return a text without secrets: part of a command line, a URL, a line of a log, or JSON.

    For what people and models write it is not suited: it also replaces in examples and code.
    """
    if _is_plain(text):
        return text
    if text[0] in '{["' and (new := _json_text(text)) is not None:
        return new
    if "://" in text:
        text = _USER_IN_URL.sub(_without_user, text)
    return without_keys(without_short_options(_without_values(text)))


class LinesRedactor:
    """Returns lines of a log without secrets, all lines of a private key included."""

    def __init__(self) -> None:
        self._is_in_key = False

    def redacted(self, line: str) -> str:
        """Return the next line without secrets."""
        if self._is_in_key:
            self._is_in_key = _KEY_LINE.fullmatch(line) is not None
            if self._is_in_key or _KEY_END.match(line):
                return MASK if line.strip() else line
        begin = line.rfind(_KEY_BEGIN)
        self._is_in_key = begin >= 0 and (
            "PRIVATE KEY-----" in line[begin:] and _KEY_END.search(line, begin) is None
        )
        return redacted_text(line)


def redacted_json(value: Any) -> Any:
    """Return builtin values without secrets; the same object if it has none.

    Replaced are the values of `env` and `headers`, those of keys such as `apiKey`, and in other
    strings what `redacted_text` replaces; lists of strings are command lines. Strings of the keys
    `text`, `content`, `output` and their like stay: users and agents have written them. Numbers of
    tokens, null and booleans stay.
    """
    if _is_clean(value):
        return value
    walk = _Walk()
    new = walk.value(value, 0)
    return new if walk.changed else value


def _is_clean(value: Any) -> bool:
    """Return True if a value has no secret: most messages have none, and are not rebuilt."""
    nodes: list[Any] = [value]
    for node in nodes:
        if is_object(node):
            for key, item in node.items():
                kind = _kinds.get(key) or _kind(key)
                if kind is _Kind.SPOKEN and isinstance(item, str):
                    continue
                if kind is not _Kind.PLAIN and _has_secret(kind, key, item, node):
                    return False
                if isinstance(item, str):
                    if not _is_plain(item) and redacted_text(item) != item:
                        return False
                elif isinstance(item, dict | list):
                    if key == "args" and _arguments(node) != item:
                        return False
                    nodes.append(item)
        elif is_array(node):
            if node and isinstance(node[0], str) and all(isinstance(item, str) for item in node):
                if redacted_argv(node) != node:
                    return False
            else:
                nodes += node
        elif isinstance(node, str) and redacted_text(node) != node:
            return False
    return True


def _has_secret(kind: _Kind, key: str, item: Any, node: dict[str, Any]) -> bool:
    """Return whether the value of a key has to be looked at."""
    match kind:
        case _Kind.SECRET:
            return not (item is None or item == "" or isinstance(item, bool))
        case _Kind.DOUBTFUL:
            return (
                isinstance(item, str)
                and "value" not in node
                and _is_doubtful_secret(key.lower(), item)
            )
        case _Kind.VALUE:
            return isinstance(item, str | dict | list) and _has_name(node)
        case _:
            return kind is _Kind.HIDDEN


def _arguments(node: dict[str, Any]) -> Any:
    """Return the arguments of a command without secrets; some depend on the program."""
    command, args = node.get("command"), node["args"]
    if isinstance(command, str) and is_array(args) and all(isinstance(arg, str) for arg in args):
        return redacted_argv([command, *args])[1:]
    return args


class _Kind(Enum):
    """What the key of an object says about its value."""

    PLAIN = auto()
    SPOKEN = auto()  # if it is a string
    SECRET = auto()  # or an object of secrets
    DOUBTFUL = auto()  # if it looks like one
    HIDDEN = auto()  # the key itself has one
    VALUE = auto()  # the name is next to it


_kinds: dict[str, _Kind] = {}  # of usual keys


def _kind(key: str) -> _Kind:
    if key in _SPOKEN:
        kind = _Kind.SPOKEN
    elif may_have_key(key) and redacted_text(key) != key:
        return _Kind.HIDDEN
    elif key.lower() == "pwd" or _PAIRS.match(key) or is_secret_name(key):
        kind = _Kind.SECRET
    elif key.lower() in _DOUBTFUL_KEYS:
        kind = _Kind.DOUBTFUL
    else:
        kind = _Kind.VALUE if key == "value" else _Kind.PLAIN
    if len(_kinds) < 10_000 and len(key) < 100:
        _kinds[key] = kind
    return kind


def _has_name(node: dict[str, Any]) -> bool:
    """Return whether an object with a `value` has the name of a secret.

    An option to select has its own name as value, such as `jwt` with the name `JWT`.
    """
    value = node.get("value")
    own = _SEPARATORS.sub("", value).lower() if isinstance(value, str) else None
    return any(
        isinstance(name := node.get(key), str)
        and _is_name(name)
        and _SEPARATORS.sub("", name).lower() != own
        for key in _NAMES
    )


def _is_plain(text: str) -> bool:
    """Return True if a text has nothing to replace, False if `redacted_text` has to look."""
    return _is_plain_short(text) if len(text) < 100 else _is_plain_long(text)


def _is_plain_long(text: str) -> bool:
    if "=" in text or ":" in text or " " in text or "\n" in text or "\t" in text:
        lower = text.lower()
        for mark in _MARKS:
            if mark in lower:
                return False
    return not may_have_key(text) and not may_have_short_option(text)


_is_plain_short = lru_cache(maxsize=2048)(_is_plain_long)


def _json_text(text: str) -> str | None:
    """Return a text without secrets if it is JSON, such as `{"apiKey": …}` in an argument."""
    try:
        value = lenient_json.loads(text.encode("utf-8", "surrogatepass"))
    except lenient_json.NotJson:
        return None
    new = redacted_json(value)
    return text if new is value else lenient_json.dumps(new).decode()


def _mask(value: str) -> str:
    return MASK if value else value


def _word(word: str) -> str:
    """Return one word of a command line without secrets."""
    if (match := _OPTION.fullmatch(word)) is not None:
        name, value = match[1], match[2]
        if is_secret_option(name, value):
            return f"{name}={MASK}"
        if name in HEADER_OPTIONS:
            return f"{name}={_header(value)}"
        if name in USER_OPTIONS and (new := without_user(value)) is not None:
            return f"{name}={new}"
        return f"{name}={redacted_text(value)}"
    if (match := _VARIABLE.fullmatch(word)) is not None:
        name, value = match[1], match[2]
        if is_secret_name(name) and not (_is_other(name, value) or _is_prose(value)):
            return f"{name}={MASK}"
        if _is_doubtful_secret(name.lower(), value):
            return f"{name}={MASK}"
        return f"{name}={redacted_text(value)}"
    if word.startswith("-H"):
        return f"-H{_header(word[2:])}"
    if (match := _HEADER.fullmatch(word)) is not None and is_secret_header(match[1]):
        return f"{match[1]}: {MASK}"
    return redacted_text(word)


def _header(text: str) -> str:
    name, colon, value = text.partition(":")
    return f"{name}: {MASK}" if colon and value.strip() else redacted_text(text)


def _is_doubtful_secret(name: str, value: str) -> bool:
    """Return whether the value of a name that can mean anything is in the form of a secret."""
    if name in ("pass", "pw"):
        return looks_secret(value) and FILE.match(value) is None
    return name in _DOUBTFUL_KEYS and (looks_random(value) or _SCHEME.fullmatch(value) is not None)


def _is_other(name: str, value: str) -> bool:
    """Return whether a value is a number of tokens, or a name such as `pin` means another thing."""
    if "token" in name.lower():
        return _NUMBER.fullmatch(value) is not None
    return is_pin_or_pattern(name, value)


def _without_user(match: re.Match[str]) -> str:
    scheme, user = match["scheme"] or "", match["user"]
    if scheme.lower() in ("ssh", "sftp", "git+ssh") and ":" not in user:
        return match[0]
    return f"{scheme}://{_URL_MASK}@"


def _without_values(text: str) -> str:
    """Return a text without the values of names of secrets in it."""
    parts: list[str] = []
    done = at = 0
    while (head := _HEAD.search(text, at)) is not None:
        at = head.end()
        value = _value(text, head, done)
        if value is not None:
            parts += (text[done : value[0]], MASK)
            done = at = value[1]
    return "".join((*parts, text[done:])) if parts else text


def _value(text: str, head: re.Match[str], done: int) -> tuple[int, int] | None:
    """Return where the value is that belongs to a name; None if it is not a secret."""
    before = text[max(done, head.start() - 128) : head.start()]
    before = before[len(before.rstrip(_NAME_CHARACTERS)) :]
    end = head.start(1) if head[1] is not None else head.start(2)
    name = unquote(before + text[head.start() : end])
    is_option, name = name.startswith("-"), name.lstrip("-.")
    place = head.start() - len(before) - 1
    is_parameter = place >= 0 and text[place] in "?&#;"
    quoted = _QUOTED.match(text, head.end())
    pattern = _PARAMETER if is_parameter else _UNQUOTED
    is_sure: bool | None = True  # None: it is a line
    match head[2].strip():
        case "=":
            more = _PARAMETERS if is_parameter else DOUBTFUL if is_option else ()
            is_secret = is_secret_name(name) or name.lower() in more
            is_secret = is_secret or (is_option and is_secret_option(name, ""))
            if head[2] != "=" and quoted is None:
                # Code, or a line of a file with settings.
                is_secret = is_secret and _is_random_to_the_end(text, head.end())
        case ":":
            is_secret = is_secret_header(name)
            if head[1] is None and name.lower().endswith(("authorization", "cookie")):
                pattern, is_sure = _LINE, None
            else:
                is_sure = quoted is not None
        case _:
            is_secret = name.lower() == "bearer" or (is_option and is_secret_option(name, ""))
            is_sure = is_option
            if text.startswith("-", head.end()):
                is_secret = False  # the next option
    found = quoted or pattern.match(text, head.end())
    if not is_secret or found is None:
        return None
    start, stop = found.span(3 if quoted else 0)
    value = text[start:stop]
    stays = (
        not value
        or is_masked(value)
        or _FILLED_IN_LATER.fullmatch(value) is not None
        or _is_other(name, value)
        or (quoted is None and _is_prose(value))
        or (is_sure is False and not looks_secret(value))
        or (is_sure is None and quoted is None and not _has_credentials(value))
        or (name.lower() in DOUBTFUL and FILE.match(value) is not None)
    )
    return None if stays else (start, stop)


def _is_random_to_the_end(text: str, start: int) -> bool:
    """Return whether the rest of a line is one word in the form of a secret."""
    value = _UNQUOTED.match(text, start)
    if value is None or _END_OF_LINE.match(text, value.end()) is None:
        return False
    return looks_random(value[0])


def _is_prose(value: str) -> bool:
    """Return whether a value without quotes is a word of a description."""
    return value.strip(".,;:!?()[]").lower() in _PROSE


def _has_credentials(line: str) -> bool:
    """Return whether what follows `Authorization:` is a value, not the rest of a title."""
    if (match := _SCHEME.match(line)) is not None:
        return not _is_prose(match[1]) and _FILLED_IN_LATER.fullmatch(line.rstrip()) is None
    words = line.split()
    return any(map(looks_secret, words)) or "=" in line or (len(words) == 1 and len(line) >= 12)


class _Walk:
    """Returns JSON values without secrets."""

    def __init__(self) -> None:
        self.changed = False

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._string(value)
        if depth > _MAX_DEPTH and (is_object(value) or is_array(value)):
            return self._changed(MASK)
        if is_object(value):
            new = {self._key(key): self._field(key, item, depth) for key, item in value.items()}
            if isinstance(new.get("value"), str | dict | list) and _has_name(value):
                new["value"] = self._hidden(new["value"])
            if "args" in new and (words := _arguments(value)) != new["args"]:
                new["args"] = self._changed(words) if words != value["args"] else new["args"]
            for key, item in value.items():
                if _kind(key) is _Kind.DOUBTFUL and _has_secret(_Kind.DOUBTFUL, key, item, value):
                    new[key] = self._hidden(item)
            return new
        if is_array(value):
            if all(isinstance(item, str) for item in value):
                words = redacted_argv(value)
                return self._changed(words) if words != value else value
            return [self.value(item, depth + 1) for item in value]
        return value

    def _key(self, key: str) -> str:
        return self._string(key) if _kind(key) is _Kind.HIDDEN else key

    def _field(self, key: str, value: Any, depth: int) -> Any:
        if key in _SPOKEN and isinstance(value, str):
            return value
        if _PAIRS.match(key):
            return self._pairs(value, depth)
        if key.lower() == "pwd" and isinstance(value, str):
            return self._string(value) if FILE.match(value) else self._hidden(value)
        if not is_secret_name(key):
            return self.value(value, depth + 1)
        if is_object(value) and _is_schema(value):
            return {
                name: self._hidden(item) if name in _EXAMPLES else self.value(item, depth + 1)
                for name, item in value.items()
            }
        if isinstance(value, int | str) and is_pin_or_pattern(key, str(value)):
            return value
        return self._hidden(value, keeps_numbers="token" in key.lower())

    def _pairs(self, value: Any, depth: int) -> Any:
        if is_array(value):
            return [self._pair(item, depth) for item in value]
        if isinstance(value, str) and _LINES_OF_PAIRS.match(value):
            return "\n".join(self._pair(line, depth) for line in value.splitlines())
        return self._hidden(value) if is_object(value) else self.value(value, depth)

    def _pair(self, item: Any, depth: int) -> Any:
        if isinstance(item, str):  # NAME=VALUE or NAME: VALUE
            match = re.fullmatch(r"([^=:]*[=:]\s*)(.+)", item, re.DOTALL)
            return item if match is None else match[1] + self._hidden(match[2])
        if is_array(item):
            return [item[0], *(self._hidden(part) for part in item[1:])] if item else item
        if not is_object(item):
            return item
        return {
            key: self._hidden(part) if key == "value" else self.value(part, depth + 1)
            for key, part in item.items()
        }

    def _hidden(self, value: Any, *, keeps_numbers: bool = False) -> Any:
        """Replace all strings and numbers in a value."""
        if is_object(value):
            return {
                key: self._hidden(item, keeps_numbers=keeps_numbers) for key, item in value.items()
            }
        if is_array(value):
            return [self._hidden(item, keeps_numbers=keeps_numbers) for item in value]
        if value is None or isinstance(value, bool) or value in ("", MASK):
            return value
        if keeps_numbers and not isinstance(value, str):
            return value
        return self._changed(MASK)

    def _string(self, text: str) -> str:
        new = redacted_text(text)
        return text if new == text else self._changed(new)

    def _changed(self, value: Any) -> Any:
        self.changed = True
        return value


def _is_name(text: str) -> bool:
    """Return whether a text is the name of a secret, not a title such as "API key"."""
    return text.isascii() and not set(text) & set(" /:") and is_secret_name(text)


def _is_schema(value: dict[str, Any]) -> bool:
    """Return whether an object is a JSON Schema of a field that has the name of a secret."""
    kind = value.get("type", value.get("anyOf", value.get("oneOf")))
    return is_array(kind) or kind in ("string", "object", "number", "integer", "boolean", "array")
