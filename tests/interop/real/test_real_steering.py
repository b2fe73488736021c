"""The adapters of Claude Code and Codex, which can be steered, with a fake model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recordings.agents import AGENTS
from recordings.steer_agents import problems, steer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
KNOWN = {known.name: known for known in AGENTS}


@pytest.mark.parametrize("name", ["claude-agent-acp", "codex-acp", "codex-acp-v2"])
async def test_message_is_injected_and_is_in_the_next_request_to_the_model(name: str) -> None:
    known = KNOWN[name]
    if not known.is_installed:
        why = f"{Path(known.argv[1]).name} is missing: run tests/interop/install.sh real"
        if os.environ.get("ACCORD_REQUIRE_INTEROP") == "1":
            pytest.fail(why)
        pytest.skip(why)
    found = await steer(known)
    assert problems(found) == [], found
    assert found["native"]
    for case in ("answer", "tool"):
        assert found[case]["outcome"] == "injected"
        assert found[case]["in_requests"] == 1
    assert not found["answer"]["finished"]  # the agent did not wait for the end of the answer
