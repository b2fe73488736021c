"""What one message says, as one line."""

from __future__ import annotations

from typing import Any

import pytest

from accord_trace.records import decode_record
from accord_trace.summary import summary
from sample_recordings import Writer

OPTIONS = [{"optionId": "y", "name": "Allow", "kind": "allow_once"}] * 2


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"toolCall": {"toolCallId": "t", "title": "rm -r /"}}, "rm -r / · 2 options"),
        ({"toolCall": {"toolCallId": "call-7"}}, "call-7 · 2 options"),
        ({"title": "Run it?", "subject": {"command": "ls"}}, "Run it? · 2 options"),
        ({"toolCall": 7, "options": OPTIONS[:1]}, "1 option"),
    ],
)
def test_permission_request_shows_its_title_and_the_number_of_options(
    params: dict[str, Any], line: str
) -> None:
    talk = Writer()
    asked = {"sessionId": "s", "options": OPTIONS, **params}
    talk.to_client(1.0, id=1, method="session/request_permission", params=asked)
    record = decode_record(talk.text.splitlines()[-1])
    assert record is not None
    assert summary(record) == line
