"""MCP over ACP between the TypeScript SDK and Accord: its provider with our agent."""

from dataclasses import replace
from pathlib import Path

import pytest

from interop.turns import PEERS, run
from requirement import requirement

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

pytestmark = pytest.mark.slow


@requirement("R-MOA-09", "R-MOA-10", "R-MOA-11", "R-MOA-12")
@requirement("R-MOA-13", "R-MOA-14")
@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
def test_agent_uses_a_server_of_the_typescript_sdk(version: int, tmp_path: Path):
    provider = replace(
        PEERS[1]["typescript"],
        client="peers/ts_mcp_provider.mjs",
        client_options=(str(version),),
    )
    agent = replace(PEERS[1]["accord"], agent="accord_mcp_agent.py")
    report = run(provider, agent, tmp_path)
    first, gone = report.pop("said")
    assert first == {
        "tools": ["count", "fail", "break", "wait"],
        "text": "counted to 3",
        "progress": [[1, 3], [2, 3], [3, 3]],
        "fail": ["server", -33001],
        "break": ["McpBackendFailed", -33002],
        "limit": ["McpLimitExceeded", -33000],
        "logged": ["the MCP server tools: counted"],
    }
    assert gone == {"gone": ["McpServerUnavailable", -33001]}
    assert report == {
        "stops": ["end_turn", "end_turn"],
        "methods": ["server/discover", "tools/list", *5 * ["tools/call"]],
        "info": "McpAgent",
        "levels": ["info"],
        "aborted": 2,
    }
