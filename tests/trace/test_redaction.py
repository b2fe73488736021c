"""Secrets are not written into recordings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accord.text.redact import MASK
from accord.text.secret_places import redacted_argv
from accord.trace.line_builder import Hop, LineBuilder
from accord.trace.records import decode_record
from requirement import requirement

SECRET = "s3cr3t"
SECRETS: list[dict[str, Any]] = [
    {
        "method": "session/new",
        "params": {
            "mcpServers": [
                {"name": "a", "command": "a", "env": [{"name": "KEY", "value": SECRET}]},
                {"name": "b", "headers": [{"name": "Authorization", "value": f"Bearer {SECRET}"}]},
            ]
        },
    },
    {"method": "terminal/create", "params": {"env": [{"name": "KEY", "value": SECRET}]}},
    {"method": "authenticate", "params": {"methodId": "m", "_meta": {"key": SECRET}}},
    {"method": "auth/login", "params": {"methodId": "m", "code": SECRET, "pin": 1234}},
    {"method": "providers/set", "params": {"headers": {"X-Any": SECRET}}},
    {"method": "_x/y", "params": {"deep": [{"AUTHORIZATION": SECRET}, {"apiKey": SECRET}]}},
    {"method": "_x/y", "params": {"env": {"KEY": SECRET}, "environment": [f"KEY={SECRET}"]}},
    {"id": 1, "result": {"access_token": SECRET, "Cookie": SECRET, "password": SECRET}},
]


@pytest.mark.parametrize("message", SECRETS)
@requirement("R-TRACE-05")
def test_secret_is_replaced_unless_that_is_switched_off(message: dict[str, Any]) -> None:
    frame = json.dumps({"jsonrpc": "2.0", **message}).encode()
    line = LineBuilder(Hop(), redact=True).line(0.0, "to_agent", frame)
    assert SECRET.encode() not in line
    assert b"1234" not in line
    record = decode_record(line)
    assert record is not None
    assert record.redacted
    assert MASK in record.frame.decode()
    assert record.bytes == len(frame)
    kept = LineBuilder(Hop(), redact=False).line(0.0, "to_agent", frame)
    assert SECRET.encode() in kept


def test_message_without_secrets_is_unchanged() -> None:
    frame = json.dumps(
        {
            "jsonrpc": "2.0",
            "method": "_x",
            "params": {"inputTokens": 5, "key": "k", "env": [], "headers": None, "password": ""},
        }
    ).encode()
    record = decode_record(LineBuilder(Hop(), redact=True).line(0.0, "to_agent", frame))
    assert record is not None
    assert record.frame == frame
    assert not record.redacted


def test_secret_options_of_a_command_are_replaced() -> None:
    argv = ["agent", "--token", SECRET, f"--api-key={SECRET}", "--tokens", "5", "--password"]
    shown = [MASK if word == SECRET else word.replace(SECRET, MASK) for word in argv]
    assert redacted_argv(argv) == shown
