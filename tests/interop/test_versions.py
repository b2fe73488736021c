"""Version negotiation between Accord and peers with one version, both, or a false claim."""

from dataclasses import replace
from pathlib import Path

import pytest

from interop.turns import PEERS, Peer, after_v1, after_v2, run, start
from requirement import requirement

pytestmark = pytest.mark.slow

BOTH = replace(PEERS[1]["accord"], client="accord_client_both.py")
ONLY_V1, ONLY_V2 = PEERS[1]["typescript"], PEERS[2]["typescript"]
TYPESCRIPT_BOTH = replace(ONLY_V2, agent="peers/ts_agent_both.mjs")
FALSE_V2 = replace(PEERS[1]["python-1.0"], agent_options=("--echo-version",))


@requirement("R-INIT-14", "R-INIT-15")
@pytest.mark.parametrize(
    "agent",
    [PEERS[1]["typescript"], PEERS[1]["python-0.12"], PEERS[1]["python-1.0"], FALSE_V2],
    ids=["typescript", "python-0.12", "python-1.0", "false v2"],
)
def test_client_of_both_versions_uses_v1_with_a_v1_agent(agent: Peer, tmp_path: Path):
    assert run(BOTH, agent, tmp_path) == after_v1(agent)


@requirement("R-INIT-02", "R-INIT-14", "R-INIT-31")
@pytest.mark.parametrize(
    "agent",
    [ONLY_V2, TYPESCRIPT_BOTH, PEERS[2]["accord"]],
    ids=["typescript, v2 only", "typescript, both", "accord, both"],
)
def test_client_of_both_versions_uses_v2_if_possible(agent: Peer, tmp_path: Path):
    assert run(BOTH, agent, tmp_path) == after_v2(agent, BOTH)


@requirement("R-INIT-07", "R-INIT-32")
@pytest.mark.parametrize(
    ("version", "agent"), [(1, ONLY_V2), (2, ONLY_V1)], ids=["v1 to v2 only", "v2 to v1 only"]
)
def test_client_without_the_version_of_the_agent_raises_an_error(
    version: int, agent: Peer, tmp_path: Path
):
    done = start(PEERS[version]["accord"], agent, tmp_path)
    assert done.returncode != 0
    assert "accord.errors.UnsupportedVersion" in done.stderr
