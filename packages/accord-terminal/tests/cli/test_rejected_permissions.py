"""The report about permission requests that were rejected without asking."""

from __future__ import annotations

import shlex

import pytest

from accord import PermissionRequest, ToolCall
from accord.client.permissions import allow
from accord.types.tool_calls import ToolCallLocation
from accord_terminal.toolkit.questions import rejected_lines


def asked(kind: str, *, command: str | None = None, path: str | None = None) -> PermissionRequest:
    call = ToolCall(
        id="1",
        title="t",
        kind=kind,
        status="pending",
        locations=() if path is None else (ToolCallLocation(path),),
        raw_input=None if command is None else {"command": command},
    )
    return PermissionRequest(session_id="s", cwd="/project", title="t", options=(), tool_call=call)


@pytest.mark.parametrize(
    ("request_", "wider"),
    [
        (asked("execute", command="ls *"), asked("execute", command="ls -l /etc")),
        (asked("execute", command="ls [ab].py"), asked("execute", command="ls a.py")),
        (asked("edit", path="/project/*"), asked("edit", path="/project/other")),
        (asked("edit", path="/project/a?.py"), asked("edit", path="/project/ab.py")),
    ],
)
def test_suggested_rule_allows_only_the_rejected_request(
    request_: PermissionRequest, wider: PermissionRequest
) -> None:
    hint = rejected_lines([request_], "why")[-1]
    words = shlex.split(hint.partition(": ")[2].partition(", or ")[0])
    assert words[0] == "--allow"
    assert allow(words[1])(request_) == "allow"
    assert allow(words[1])(wider) is None
