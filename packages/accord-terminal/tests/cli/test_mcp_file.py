"""`accord ask --mcp FILE`: servers in `mcpServers` JSON are sent to the agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.program import main
from accord.types.mcp import McpServerHttp, McpServerSse, McpServerStdio
from accord_terminal.toolkit.session_setup import McpFileError, read_mcp_file


def written(folder: Path, document: Any) -> Path:
    file = folder / "mcp.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return file


def test_every_kind_of_server_is_read(tmp_path: Path) -> None:
    servers = {
        "files": {"command": sys.executable, "args": ["-m", "x"], "env": {"A": "b"}},
        "web": {"url": "https://example.com/mcp", "headers": {"X": "y"}},
        "streamed": {"type": "streamable-http", "url": "https://example.com/mcp"},
        "old": {"type": "sse", "url": "https://example.com/sse"},
        "off": {"command": "no such program", "disabled": True},
    }
    assert read_mcp_file(written(tmp_path, {"mcpServers": servers, "other": 1})) == (
        McpServerStdio("files", sys.executable, ("-m", "x"), {"A": "b"}),
        McpServerHttp("web", "https://example.com/mcp", {"X": "y"}),
        McpServerHttp("streamed", "https://example.com/mcp"),
        McpServerSse("old", "https://example.com/sse"),
    )


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ("{", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ([], 'key "mcpServers"'),
        ({"servers": {}}, 'key "mcpServers"'),
        ({"mcpServers": {"a": 1}}, "mcpServers.a: expected an object, got int"),
        ({"mcpServers": {"a": {}}}, "mcpServers.a.url: expected a string"),
        ({"mcpServers": {"a": {"type": "ws"}}}, "mcpServers.a.type: expected one of stdio"),
        (
            {"mcpServers": {"a": {"command": "no-such-program"}}},
            "program not found: 'no-such-program'",
        ),
        ({"mcpServers": {"a": {"command": "sh", "args": "x"}}}, "mcpServers.a.args"),
        ({"mcpServers": {"a": {"command": "sh", "env": {"A": 1}}}}, "mcpServers.a.env"),
        (" " * (1024 * 1024 + 1), "expected at most 1048576 bytes"),
    ],
)
def test_error_names_the_key(document: Any, fault: str, tmp_path: Path) -> None:
    with pytest.raises(McpFileError) as raised:
        read_mcp_file(written(tmp_path, document))
    assert fault in str(raised.value)
    assert "mcp.json" in str(raised.value)


def test_invalid_file_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, [])
    assert main(["ask", "--mcp", str(file), "hello"]) == 2
    assert "--mcp" in capsys.readouterr().err
