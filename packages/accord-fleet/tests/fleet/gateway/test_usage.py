"""Tokens are counted in the responses of all APIs, however they are cut into pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_fleet.gateway.gateway import TokenCount, UsageReader

ANTHROPIC = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1}


def events(*values: Any) -> bytes:
    return b"".join(b"event: x\ndata: " + json.dumps(value).encode() + b"\n\n" for value in values)


RESPONSES = {
    "anthropic-stream": (
        events(
            {"type": "message_start", "message": {"content": [], "usage": ANTHROPIC}},
            {"type": "content_block_delta", "delta": {"text": '"usage": {"output_tokens": 9}'}},
            {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20}},
        ),
        TokenCount(input=100, output=20, cached=90),
    ),
    "chat-stream": (
        events(
            {"choices": [], "usage": None},
            {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}},
        ),
        TokenCount(input=7, output=3),
    ),
    "chat": (
        json.dumps(
            {
                "choices": [{"message": {"content": "x" * 100_000}}],
                "usage": {
                    "prompt_tokens": 50,
                    "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 30},
                },
            }
        ).encode(),
        TokenCount(input=50, output=4, cached=30),
    ),
    "responses": (
        events(
            {
                "type": "response.completed",
                "response": {"usage": {"input_tokens": 5, "output_tokens": 6}},
            }
        ),
        TokenCount(input=5, output=6),
    ),
    "google": (
        events(
            {"usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 1}},
            {
                "usageMetadata": {
                    "promptTokenCount": 8,
                    "candidatesTokenCount": 9,
                    "thoughtsTokenCount": 2,
                }
            },
        ),
        TokenCount(input=8, output=11),
    ),
}


@pytest.mark.parametrize("name", RESPONSES)
@settings(max_examples=25)
@given(size=st.integers(1, 300))
def test_tokens_are_counted_in_pieces_of_any_size(name: str, size: int) -> None:
    stream, expected = RESPONSES[name]
    reader = UsageReader()
    size = max(size, len(stream) // 500)
    for at in range(0, len(stream), size):
        reader.feed(stream[at : at + size])
    assert reader.count == expected


def test_little_is_held_of_a_long_response() -> None:
    reader = UsageReader()
    for _ in range(1000):
        reader.feed(b'data: {"text": "\\"usage\\": {"}\n\n' * 10)
        reader.feed(b"x" * 1000)
        assert len(reader._held) < 40_000
    assert reader.count is None


@pytest.mark.parametrize(
    "usage", ['{"input_tokens": "many"}', '{"input_tokens": -1}', "{{{", '{"input_tokens": true}']
)
def test_usage_that_is_not_one_is_ignored(usage: str) -> None:
    reader = UsageReader()
    reader.feed(b'{"usage": ' + usage.encode() + b"}" + b" " * 20_000)
    assert reader.count is None
