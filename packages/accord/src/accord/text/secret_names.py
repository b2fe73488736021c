"""Which names are those of secrets: of variables, headers, options, and keys of JSON objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

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
