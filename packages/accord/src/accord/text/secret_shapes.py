"""Secrets that are recognized by their form: well-known kinds of keys, and paths of URLs."""

from __future__ import annotations

import re

from accord.text.redact import MASK

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
