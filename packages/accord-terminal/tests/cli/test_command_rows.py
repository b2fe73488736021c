"""A command in a permission question and in a finished tool call: shown once, without its fence."""

from __future__ import annotations

import pytest

from accord.client.events import PermissionRequest, ToolCall
from accord_terminal.toolkit.questions import request_rows
from accord_terminal.toolkit.tool_rows import output_rows

COMMAND = "pytest -q"
FENCED = f"```sh\n{COMMAND}\n```\n"


def call(*content: str) -> ToolCall:
    return ToolCall(
        id="c",
        title="Run the tests",
        kind="execute",
        status="completed",
        content=content,
        raw_input={"command": COMMAND},
    )


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ((), [COMMAND]),
        ((FENCED,), [COMMAND]),
        ((COMMAND,), [COMMAND]),
        (("It takes an hour.",), [COMMAND, "It takes an hour."]),
        ((FENCED, "It takes an hour."), [COMMAND, "```sh", COMMAND, "```", "It takes an hour."]),
    ],
)
def test_question_shows_a_command_once_and_all_other_text(
    content: tuple[str, ...], shown: list[str]
) -> None:
    request = PermissionRequest(
        session_id="s", cwd="/", title="Run the tests", options=(), tool_call=call(*content)
    )
    assert [row.text for row in request_rows(request, request.title)] == shown


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ((FENCED,), [COMMAND]),
        (("```\nout\n```",), ["out"]),
        (("```\nout",), ["out"]),
        ((FENCED, "\nNot allowed: pytest -q\n"), [COMMAND, "", "Not allowed: pytest -q"]),
        (("````sh\n```\n````\n",), ["```"]),
        (("plain ``` text",), ["plain ``` text"]),
    ],
)
def test_finished_call_shows_the_text_without_its_fence(
    content: tuple[str, ...], shown: list[str]
) -> None:
    assert [row.text for row in output_rows(call(*content))] == shown
