"""A chain records every hop, and a tap in a chain both of its sides."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import accord
from accord.proxy.chain import chain
from accord_trace import Record, Recording, open_trace
from accord_trace.recording import ChainRecorder
from accord_trace.records import Pairing

AGENT = f"{sys.executable} -m accord agent script"


async def one_turn(agent: object, folder: Path) -> None:
    async with accord.connect(agent) as connected:  # type: ignore[arg-type]  # a command or a chain
        session = await connected.new_session(cwd=str(folder))
        async with session.prompt("echo Hello") as turn:
            await turn.wait()


def hops(records: list[Record]) -> set[tuple[str, str]]:
    return {(item.sender, item.receiver) for item in records if item.type != "end"}


def check(records: list[Record], *names: str) -> None:
    """Every hop has the prompt, its updates and all responses; nothing is wrapped."""
    pairs = set(pairwise(names))
    assert hops(records) == pairs | {(to, sender) for sender, to in pairs}
    pairing = Pairing()
    for item in records:
        answered = pairing.add(item)
        assert (answered is not None) == (item.type == "response")
        assert "successor" not in str(item.method)
    assert pairing.unanswered == []
    for method in ("session/prompt", "session/update"):
        found = {(item.sender, item.receiver) for item in records if item.method == method}
        back = {(to, sender) for sender, to in pairs}
        assert found == (pairs if method == "session/prompt" else back)


async def test_without_proxies_the_hop_to_the_agent_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "chain.acp.jsonl"
    with Recording(path) as recording:
        made = chain(AGENT)
        await one_turn(made.observed(ChainRecorder(recording, made.components)), tmp_path)
    check(list(open_trace(path)), "Client", "Agent")
