"""A complete v2 turn between Accord and the official SDKs, each as agent and as client."""

from pathlib import Path

import pytest

from interop.turns import PEERS, after_v2, run
from requirement import requirement

pytestmark = pytest.mark.slow

PAIRS = [
    *(("accord", agent) for agent in PEERS[2]),
    *((client, "accord") for client in PEERS[2] if client != "accord"),
    # The official SDKs work with each other, so the test programs are correct.
    ("typescript", "python-1.0"),
    ("python-1.0", "typescript"),
]


@requirement("R-INIT-05", "R-EXT-04", "R-EXT-05", "R-EXT-06")
@pytest.mark.parametrize(("client", "agent"), PAIRS)
def test_complete_turn_is_the_same_with_every_peer(client: str, agent: str, tmp_path: Path):
    report = run(PEERS[2][client], PEERS[2][agent], tmp_path)
    assert report == after_v2(PEERS[2][agent], PEERS[2][client])
