"""Running the tools that models request: order, concurrency, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from accord import InternalError, RemoteProtocolError, RequestError, TransportError
from accord_coder.prompt import TOOLS
from accord_coder.settings import Settings
from accord_coder.tool_results import Access, Outcome
from accord_coder.tools import Tool
from coder.harness import BOTH, scripted


@BOTH
async def test_tools_of_one_response_run_in_order(version: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    async with scripted(tmp_path, version) as harness:
        results = await harness.uses(
            ("read", {"path": "a.txt"}),
            ("read", {"path": "b.txt"}),
            ("write", {"path": "c.txt", "text": "c"}),
            ("read", {"path": "c.txt"}),
        )
        assert [result.text for result in results] == ["a", "b", "Created c.txt: 1 line.", "c"]
        assert [result.use_id for result in results] == ["1-0", "1-1", "1-2", "1-3"]
        assert [call.name for call in harness.calls] == ["read", "read", "write", "read"]


async def test_failed_tool_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b")
    async with scripted(tmp_path) as harness:
        first, second = await harness.uses(("read", {"path": "a"}), ("read", {"path": "b.txt"}))
        assert (first.failed, second.text) == (True, "b")
        assert [call.status for call in harness.calls] == ["failed", "completed"]
        assert harness.stop_reason == "end_turn"


async def test_invalid_tool_use_is_reported_and_shown(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        for name, arguments, reason in [
            ("no_such", "{}", "Unknown tool no_such: expected one of ask, delete, edit,"),
            ("read", "{", "The arguments of read are not valid"),
            ("read", "{}", "missing required field `path`"),
            ("read", '{"path": "a", "line": 0}', "Expected `int` >= 1 - at `$.line`"),
            ("read", "", "missing required field `path`"),
            ("read", '{"path": "a\\u0000.txt"}', "NUL characters"),
            ("execute", '{"command": "ls \\u0000"}', "NUL characters"),
            ("read", f'{{"path": "{"a/" * 2100}b"}}', "longer than 4096 characters"),
            ("write", f'{{"path": "{"a/" * 2100}b", "text": ""}}', "longer than 4096 characters"),
        ]:
            (result,) = await harness.uses((name, arguments))
            assert result.failed, name
            assert reason in result.text, name
            assert harness.call.status == "failed", name
            assert harness.call.raw_output == {"error": result.text}, name


@BOTH
async def test_rejection_by_the_mode_is_reported_and_shown(version: int, tmp_path: Path) -> None:
    settings = Settings(mode="plan")
    async with scripted(tmp_path, version, settings=settings) as harness:
        result = await harness.use("execute", command="touch made")
        assert "Plan mode" in result.text
        assert harness.call.status == ("failed" if version == 1 else "cancelled")
        assert harness.call.raw_output == {"error": result.text}
        assert harness.call.content == (result.text,)


def test_models_are_told_the_arguments_of_each_tool() -> None:
    for tool in TOOLS:
        schema = tool.spec.parameters
        assert tuple(schema["properties"]) == tool.arguments_type.__struct_fields__, tool.name
        assert "title" not in schema
    (edit,) = (tool.spec.parameters for tool in TOOLS if tool.name == "edit")
    assert edit["properties"]["edits"]["items"]["$ref"].removeprefix("#/$defs/") in edit["$defs"]


class Nothing(Struct, frozen=True):
    """No arguments."""


class Broken(Tool[Nothing]):
    """Raises a given exception."""

    name = "broken"
    kind = "other"
    description = "Breaks."
    arguments_type = Nothing
    parallel = True

    def __init__(self, error: Exception) -> None:
        self.error = error

    def title(self, args: Nothing, context: Any) -> str:
        return "Break"

    def access(self, args: Nothing, context: Any) -> Access:
        return Access("none")

    async def run(self, args: Nothing, call: Any, context: Any) -> Outcome:
        raise self.error


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ValueError("a detail of ours"), "broken failed because of a bug in it."),
        (OSError(28, "No space left on device"), "broken failed: No space left on device."),
        (OSError(13, "Permission denied", "/x"), "/x: Permission denied."),
        (OSError("just words"), "broken failed because of a bug in it."),
        (
            RequestError("Internal error", data={"details": "disk full"}),
            "broken failed: the client responded Internal error: disk full",
        ),
        (
            RemoteProtocolError("The result of session/request_permission does not fit"),
            "broken failed: the client violated the protocol. "
            "The result of session/request_permission does not fit",
        ),
    ],
)
async def test_model_receives_any_error_of_a_tool(
    error: Exception, reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord_coder.prompt.TOOLS", (*TOOLS, Broken(error)))
    async with scripted(tmp_path) as harness:
        assert (await harness.use("broken")).text == reported
        assert harness.stop_reason == "end_turn"


async def test_lost_client_ends_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken(TransportError("gone"))
    monkeypatch.setattr("accord_coder.prompt.TOOLS", (*TOOLS, broken))
    async with scripted(tmp_path) as harness:
        with pytest.raises(InternalError):  # the client is connected: another connection is lost
            await harness.uses(("broken", {}), ("broken", {}))


def test_every_tool_has_an_argument_schema() -> None:
    for tool in TOOLS:
        spec = tool.spec
        assert spec.name == tool.name
        assert len(spec.description) > 30
        assert spec.parameters["type"] == "object"
        assert "$ref" not in spec.parameters
