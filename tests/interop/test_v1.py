"""A complete v1 turn between Accord and the official SDKs, each as agent and as client."""

from dataclasses import replace
from pathlib import Path

import pytest

from interop.turns import PEERS, after_v1, run
from requirement import requirement

pytestmark = pytest.mark.slow

PAIRS = [
    *(("accord", agent) for agent in PEERS[1]),
    *((client, "accord") for client in PEERS[1] if client != "accord"),
    # The official SDKs work with each other, so the test programs are correct.
    ("typescript", "python-0.12"),
    ("python-0.12", "python-1.0"),
    ("python-1.0", "typescript"),
]


@requirement("R-INIT-05", "R-PROMPT-08", "R-EXT-04", "R-EXT-05", "R-EXT-06")
@pytest.mark.parametrize(("client", "agent"), PAIRS)
def test_complete_turn_is_the_same_with_every_peer(client: str, agent: str, tmp_path: Path):
    report = run(PEERS[1][client], PEERS[1][agent], tmp_path)
    assert report == after_v1(PEERS[1][agent])


@requirement("R-CANCEL-05", "R-CANCEL-06")
@pytest.mark.parametrize("client", PEERS[1])
def test_prompt_cancelled_by_accord_ends_the_same(client: str, tmp_path: Path):
    agent = replace(PEERS[1]["accord"], agent_options=("--unprepared",))
    assert run(PEERS[1][client], agent, tmp_path) == after_v1(agent)
