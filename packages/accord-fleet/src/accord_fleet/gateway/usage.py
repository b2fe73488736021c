"""Counts the tokens of responses that pass through, in JSON and in server-sent events."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Any, cast

import msgspec

_START = re.compile(rb'(?<!\\)"usage(?:Metadata|_metadata)?"\s*:\s*\{')
_MARK = b'"usage'
_OBJECT_BYTES = 16 * 1024  # longer ones are not read
_OVERLAP = 64  # longer than what leads to the object
_decode = JSONDecoder().raw_decode

# The names of the same count in the APIs.
_INPUT = ("input_tokens", "prompt_tokens", "promptTokenCount")
_OUTPUT = ("output_tokens", "completion_tokens", "candidatesTokenCount")
_ALSO_OUTPUT = ("thoughtsTokenCount",)
_ALSO_INPUT = ("cache_creation_input_tokens", "cache_read_input_tokens", "toolUsePromptTokenCount")
_CACHED = ("cache_read_input_tokens", "cachedContentTokenCount")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


class TokenCount(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one response. `cached` of the input tokens were read from a cache."""

    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


class UsageReader:
    """Reads the counts of one response from its bytes; `feed` takes them as they arrive.

    In streams the last value of each count is valid. Texts cannot be mistaken for a count: quotes
    in them are escaped.
    """

    def __init__(self) -> None:
        self._held = b""
        self._counts: dict[str, int] = {}

    def feed(self, data: bytes) -> None:
        """Read the next bytes."""
        held = self._held + data
        while True:
            at = held.find(_MARK)
            if at < 0:
                self._held = held[-_OVERLAP:]
                return
            if (found := _START.search(held, max(at - 1, 0))) is None:
                self._held = held[max(at - 1, len(held) - _OVERLAP) :]
                return
            begin = found.end() - 1
            text = held[begin : begin + _OBJECT_BYTES].decode("utf-8", "replace")
            try:
                value, _ = _decode(text)
            except ValueError:
                if len(held) - begin < _OBJECT_BYTES:
                    self._held = held[max(found.start() - 1, 0) :]
                    return  # the rest of the object is still to come
            else:
                self._add(value)
            held = held[found.end() :]

    @property
    def count(self) -> TokenCount | None:
        """The tokens so far; None if the response has none."""
        if not self._counts:
            return None
        get = self._counts.get
        return TokenCount(
            input=get("input", 0) + sum(get(name, 0) for name in _ALSO_INPUT),
            output=get("output", 0) + sum(get(name, 0) for name in _ALSO_OUTPUT),
            cached=get("cached", 0),
        )

    def _add(self, usage: dict[str, Any]) -> None:
        for kind, names in (("input", _INPUT), ("output", _OUTPUT), ("cached", _CACHED)):
            for name in names:
                self._set(kind, usage.get(name))
        for name in (*_ALSO_INPUT, *_ALSO_OUTPUT):
            self._set(name, usage.get(name))
        for name in _DETAILS:
            if isinstance(details := usage.get(name), dict):
                self._set("cached", cast("dict[str, Any]", details).get("cached_tokens"))

    def _set(self, name: str, value: object) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            self._counts[name] = value
