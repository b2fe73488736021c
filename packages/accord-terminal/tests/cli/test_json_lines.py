"""Events as JSON: bytes, content, errors, escaped characters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accord import (
    Annotations,
    ContentChunk,
    Diff,
    EmbeddedResource,
    ImageContent,
    InternalError,
    ResourceLink,
    StateChanged,
    TerminalOutputChunk,
    Text,
    TextContent,
    ToolCall,
    UnknownUpdate,
)
from accord.types.tool_calls import TerminalView
from accord_terminal.ask.views import AnswerOnlyView, JsonLinesView, escape_hidden, event_line


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Text("hi", "m"), {"event": "text", "text": "hi", "message_id": "m"}),
        (
            TerminalOutputChunk("t", b"\x00\xff"),
            {"event": "terminal_output_chunk", "id": "t", "data": "AP8=", "replaces": False},
        ),
        (UnknownUpdate({"a": [1, None]}), {"event": "unknown_update", "raw": {"a": [1, None]}}),
    ],
    ids=["text", "bytes", "unknown"],
)
def test_event_has_its_name_and_fields(event: Any, line: Any) -> None:
    assert json.loads(json.dumps(event_line(event))) == line


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (ImageContent(b"x", "image/png"), "image"),
        (ResourceLink("file:///x", "x"), "link"),
        (EmbeddedResource("file:///x", "text"), "resource"),
        (EmbeddedResource("file:///x", b"bytes"), "blob"),
    ],
)
def test_content_has_its_type(content: Any, kind: str) -> None:
    assert event_line(ContentChunk(content))["content"]["type"] == kind


def test_content_of_a_tool_call_has_its_type() -> None:
    call = ToolCall(id="1", content=("text", Diff("/x", None, "new"), TerminalView("t")))
    text, diff, terminal = event_line(call)["content"]
    assert text == "text"
    changed = {"path": "/x", "old": None, "new": "new", "patch": None, "others": []}
    assert diff == {"type": "diff", **changed}
    assert terminal == {"type": "terminal", "terminal_id": "t"}


def test_error_has_code_message_and_data() -> None:
    error = InternalError("No", data={"why": 1})
    line = event_line(StateChanged(state="idle", stop_reason="error", error=error))
    assert line["error"] == {"code": -32603, "message": "No", "data": {"why": 1}}


def test_json_escapes_control_and_invisible_characters() -> None:
    text = "a\x7f\x9b31m\u202eb\u200b\u3164\U000e0041é\u2028"
    line = escape_hidden(json.dumps({text: text}, ensure_ascii=False).encode())
    assert json.loads(line) == {text: text}
    one = r"a\u007f\u009b31m\u202eb\u200b\u3164\udb40\udc41é\u2028"
    assert line.decode() == f'{{"{one}": "{one}"}}'


@pytest.mark.parametrize("view", [JsonLinesView, AnswerOnlyView])
def test_warning_names_the_program_that_was_called(
    view: type[JsonLinesView | AnswerOnlyView], capsys: pytest.CaptureFixture[str]
) -> None:
    view("accord session prompt").show_warning("answered by Bob")
    assert capsys.readouterr() == ("", "accord session prompt: answered by Bob\n")


def test_line_has_the_annotations_and_meta_of_its_event() -> None:
    assert event_line(Text("a")) == {"event": "text", "text": "a", "message_id": None}
    line = event_line(Text("a", None, Annotations(audience=("user",)), {"b": 1}, {"c": 2}))
    assert line["annotations"]["audience"] == ["user"]
    assert (line["content_meta"], line["meta"]) == ({"b": 1}, {"c": 2})
    tool = ToolCall(id="t", content=(TextContent("x", meta={"a": 1}),))
    assert type(event_line(tool)["content"][0]) is str
