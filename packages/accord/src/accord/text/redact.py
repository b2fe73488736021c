"""Replaces secrets in text and JSON values, also secrets that are split over parts of a stream.

The second half decides which names are those of secrets.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object

MASK = "[redacted]"

TextT = TypeVar("TextT", str, bytes)


def redactor(secrets: str | Iterable[str], mask: str = MASK) -> Redactor:
    """Return the redactor for these secrets; empty ones are ignored.

    Raise `TypeError` for a secret that is not a string.
    """
    found = (secrets,) if isinstance(secrets, str) else tuple(secrets)
    return _redactor(found, mask)


@lru_cache(maxsize=64)
def _redactor(secrets: tuple[str, ...], mask: str) -> Redactor:
    for secret in secrets:
        if not isinstance(secret, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"redacted(secrets=…): expected strings, got a {type(secret).__name__}")
    return Redactor(tuple(secret for secret in secrets if secret), mask)


class _Searched(Generic[TextT]):
    """The secrets as text or as bytes, prepared for the search in streams."""

    __slots__ = ("empty", "mask", "pattern", "prefixes")

    def __init__(
        self, secrets: list[TextT], pattern: re.Pattern[TextT], mask: TextT, empty: TextT
    ) -> None:
        self.pattern: re.Pattern[TextT] = pattern
        self.mask: TextT = mask
        self.empty: TextT = empty
        # The proper prefixes of the secrets by their last character, the longest first.
        self.prefixes: dict[TextT, list[TextT]] = {}
        for prefix in {secret[:end] for secret in secrets for end in range(1, len(secret))}:
            self.prefixes.setdefault(prefix[-1:], []).append(prefix)
        for prefixes in self.prefixes.values():
            prefixes.sort(key=len, reverse=True)

    def undecided(self, text: TextT) -> int:
        """Return how many characters at the end of a text can be the beginning of a secret."""
        for prefix in self.prefixes.get(text[-1:], ()):
            if text.endswith(prefix):
                return len(prefix)
        return 0


class Redactor:
    """Replaces these secrets by a mask."""

    __slots__ = ("_bytes", "_bytes_mask", "_json", "_secrets", "_text", "mask")

    def __init__(self, secrets: tuple[str, ...], mask: str) -> None:
        self.mask: str = mask
        self._secrets = sorted(secrets, key=len, reverse=True)  # the longest of several wins
        self._text = re.compile("|".join(map(re.escape, self._secrets)) or r"(?!)")
        encoded = self._encoded()
        self._bytes = re.compile(b"|".join(map(re.escape, encoded)) or rb"(?!)")
        escaped = [lenient_json.dumps(secret)[1:-1] for secret in self._secrets]
        self._json = re.compile(b"|".join(map(re.escape, escaped)) or rb"(?!)")
        self._bytes_mask = mask.encode("utf-8", "replace")

    def _encoded(self) -> list[bytes]:
        return [secret.encode("utf-8", "surrogatepass") for secret in self._secrets]

    def text(self, text: str) -> str:
        """Return a text without the secrets."""
        return self._text.sub(lambda _: self.mask, text)

    def data(self, data: bytes) -> bytes:
        """Return bytes without the secrets as UTF-8."""
        return self._bytes.sub(lambda _: self._bytes_mask, data)

    def may_occur_in(self, json: bytes) -> bool:
        """Return False if no secret can occur in the strings of a JSON text."""
        # Other escapes are only written in one way: those of `_json`.
        return b"\\u" in json or b"\\/" in json or self._json.search(json) is not None

    def value(self, value: Any, kept: Container[str] = ()) -> Any:
        """Return builtin values without the secrets, in keys and strings.

        A value without a secret is returned as it is, and so are the values of the keys `kept`.
        """
        if type(value) is str:
            return self.text(value) if self._text.search(value) else value
        if is_object(value):
            made = {
                self.value(key): item if key in kept else self.value(item, kept)
                for key, item in value.items()
            }
            return made if made != value else value
        if is_array(value):
            items = [self.value(item, kept) for item in value]
            return items if items != value else value
        return value

    def text_stream(self) -> StreamRedactor[str]:
        """Return a redactor for a text that arrives in parts."""
        return StreamRedactor(_Searched(list(self._secrets), self._text, self.mask, ""))

    def data_stream(self) -> StreamRedactor[bytes]:
        """Return a redactor for bytes that arrive in parts."""
        return StreamRedactor(_Searched(self._encoded(), self._bytes, self._bytes_mask, b""))


class StreamRedactor(Generic[TextT]):
    """Redacts a text that arrives in parts.

    It holds back an end that can be the beginning of a secret, until the next part decides or
    `flush` releases it. It remembers what was flushed: if the next part completes a secret, the
    rest of the secret is replaced.
    """

    __slots__ = ("_done", "_flushed", "_held", "_searched")

    def __init__(self, searched: _Searched[TextT]) -> None:
        self._searched = searched
        self._flushed: TextT = searched.empty  # released, and can be the beginning of a secret
        self._held: TextT = searched.empty
        self._done = 0  # where the last secret that was found ends

    @property
    def holds(self) -> bool:
        """Whether text is held back."""
        return bool(self._held)

    def feed(self, part: TextT) -> TextT:
        """Return what can be passed on after the next part."""
        text = cast("TextT", self._flushed + self._held + part)
        return self._pass_on(text, len(text) - self._searched.undecided(text))

    def flush(self) -> TextT:
        """Return what was held back, because something else follows."""
        text = cast("TextT", self._flushed + self._held)
        passed_on = self._pass_on(text, len(text))
        # What can still become a secret with the next part.
        rest = self._searched.undecided(text[self._done :])
        self._flushed = text[len(text) - rest :]
        return passed_on

    def _pass_on(self, text: TextT, until: int) -> TextT:
        searched, passed = self._searched, len(self._flushed)  # passed on before
        done = 0
        parts: list[TextT] = []
        while (match := searched.pattern.search(text, done)) is not None:
            if match.start() >= until:
                break  # a longer secret can begin here
            parts.append(text[max(done, passed) : match.start()])
            if match.end() > passed:
                parts.append(searched.mask)
            done = match.end()
            if done > until:
                until = len(text) - searched.undecided(text[done:])
        parts.append(text[max(done, passed) : until])
        rest, again = text[until:], max(0, passed - until)
        self._flushed, self._held = rest[:again], rest[again:]
        self._done = done
        empty: Any = searched.empty
        return empty.join(parts)


# Which names are those of secrets: of variables, headers, options, and keys of JSON objects.

SHORTEST = 8  # characters; the values of shorter variables are numbers and switches
_LONGEST = 128  # characters of a name that are looked at, from its end

# The end of a name without separators, in lower case.
_END = re.compile(
    r"""(?:
        pass(?:word|wd|phrase|code)s? | secrets? | credentials? | cookies? | bearer
      | (?:proxy|^)authorization
      | token | jwt
      | (?: access | account | anthropic | api | app(?:lication)? | auth | azure | bot | deploy
          | (?:en|de)cryption | function s? | gemini | google | groq | hmac | license | master
          | mistral | openai | openrouter | private | secret | shared | sign(?:ing)? | ssh
          | subscription | webhook )  keys? (?:id)?
    )\d*$""",
    re.VERBOSE,
)
# Words that are the end of others, too: `compat`, `mapping`.
_WORD_END = re.compile(r"(?:(?:^|[_.-])(?i:pwd|pat|pin)|[a-z\d](?:Pwd|Pat|Pin))\d*$")
# Positions in lists, and symbols of language models.
_NO_TOKEN = re.compile(
    r"(?:progress|page|continuation|cancell?ation|cancel|next|prev|previous|stop|start|begin|end"
    r"|first|last|eos|bos|pad|unk|sep|cls|mask|special|max|min|per|unexpected)token\d*$"
)
# Variables of environments: a word anywhere in the name.
_VARIABLE = re.compile(
    r"(?:^|[_\d])(?:KEYS?|TOKENS?|SECRETS?|CREDENTIALS?)(?:[_\d]|$)"
    r"|(?:PASSWORDS?|PASSWD|PASSPHRASE)(?:[_\d]|$)|_PWD(?:[_\d]|$)"
)
_NO_VARIABLE = re.compile(
    r"_(?:PATH|FILE|DIR|SOCK|URL|LIMIT|COUNT|NAME|TYPE|TTL|PREFIX|SIZE|BUDGET)$"
    r"|(?:^|_)(?:PUBLIC_KEYS?|(?:MAX|MIN|INPUT|OUTPUT|TOTAL|CONTEXT|THINKING)_TOKENS)$"
)
_HANDSHAKE = frozenset(("secwebsocketkey", "secwebsocketprotocol"))


def is_secret_name(name: str) -> bool:
    """Return whether what has this name is a secret, such as `ANTHROPIC_API_KEY` or `apiKey`.

    Case and separators do not matter. Names of places, counts and limits are not: `SSL_KEY_FILE`,
    `maxTokens`.
    """
    return _is_secret_name(name[-_LONGEST:])


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    if name.isupper() and _VARIABLE.search(name):
        return _NO_VARIABLE.search(name) is None
    letters = _letters(name)
    if _END.search(letters):
        return _NO_TOKEN.search(letters) is None
    return _WORD_END.search(name) is not None and name.lower() != "pwd"


def is_secret_header(name: str) -> bool:
    """Return whether a header of HTTP has a secret, that of a handshake included."""
    return is_secret_name(name) or _letters(name) in _HANDSHAKE


def secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hold secrets; those with values under 8 characters do not."""
    return {
        name: value
        for name, value in environment.items()
        if len(value) >= SHORTEST and is_secret_name(name)
    }


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()
