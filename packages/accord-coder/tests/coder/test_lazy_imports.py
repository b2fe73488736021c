"""The modules that the coding agent has imported when it answers `initialize`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LATER = {
    "filelock",
    "httpx",
    "httpx2",
    "keyring",
    "mcp",
    "pydantic",
    "pydantic_ai",
    "sqlite3",
    "tomlkit",
    "tomllib",
    "click",
    "rich",
}
SHOW = """
import sys
from accord_coder.command import main
status = main([])
print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("version", [1, 2])
def test_initialize_imports_nothing_that_it_does_not_need(version: int) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "info": {"name": "t", "version": "1"}}
    if version == 1:
        params = {"protocolVersion": 1, "clientCapabilities": {}}
    asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SHOW],
        input=json.dumps(asked) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == version
    imported = {name.partition(".")[0] for name in done.stderr.split()}
    assert not imported & LATER
    assert "accord_coder.turn" not in done.stderr.split()
