"""Chains of programs, of which every hop is recorded."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import accord
from accord.proxy.chain import chain
from accord.proxy.conductor import with_unique_names
from accord.proxy.stage import Stage
from accord_trace import Record, Recording, open_trace
from accord_trace.exports import jsons_lines
from accord_trace.recording import ChainRecorder
from accord_trace.records import Pairing
from requirement import requirement

AGENT = f"{sys.executable} -m accord agent script"


class PassOn:
    """A proxy of this process."""

    def stage(self) -> Stage:
        return Stage()


def tap(path: Path) -> str:
    return f"{sys.executable} -m accord trace tap -o {path}"


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


@requirement("R-TRACE-01", "R-TRACE-02")
async def test_command_records_every_hop_of_programs(tmp_path: Path) -> None:
    path = tmp_path / "chain.acp.jsonl"
    taps = [tap(tmp_path / "a.acp.jsonl"), tap(tmp_path / "b.acp.jsonl")]
    command = [sys.executable, "-m", "accord", "chain", "--trace", str(path), *taps, AGENT]
    await one_turn(command, tmp_path)
    records = list(open_trace(path))
    check(records, "Client", "Proxy(0)", "Proxy(1)", "Agent")
    assert len(list(jsons_lines(records))) == len(records)
    # Each tap has recorded the hops on both its sides.
    for name in "ab":
        check(list(open_trace(tmp_path / f"{name}.acp.jsonl")), "Client", "Proxy(0)", "Agent")


async def test_command_keeps_secrets_and_begins_new_files_as_its_options_say(
    tmp_path: Path,
) -> None:
    for options, is_kept in (([], False), (["--no-redact", "--max-size", "0.001"], True)):
        folder = tmp_path / f"{is_kept}"
        folder.mkdir()
        traced = ["--trace", str(folder / "chain.acp.jsonl"), *options]
        command = [sys.executable, "-m", "accord", "chain", *traced, AGENT]
        async with accord.connect(command, versions=(1,)) as agent:
            server = accord.McpServerStdio("s", "/bin/true", env={"API_TOKEN": "tok-4711-secret"})
            await agent.new_session("/", mcp_servers=[server])
        texts = [file.read_text("utf-8") for file in folder.iterdir()]
        assert any("tok-4711-secret" in text for text in texts) == is_kept
        assert (len(texts) > 1) == is_kept


async def test_hops_between_programs_and_objects_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "chain.acp.jsonl"
    with Recording(path) as recording:
        made = chain(PassOn(), tap(tmp_path / "tap.acp.jsonl"), PassOn(), AGENT)
        made.components = tuple(with_unique_names(made.components))
        await one_turn(made.observed(ChainRecorder(recording, made.components)), tmp_path)
    check(list(open_trace(path)), "Client", "Proxy(0)", "Proxy(1)", "Proxy(2)", "Agent")


async def test_chain_that_is_a_proxy_records_the_hop_to_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "chain.acp.jsonl"
    inner = f"{sys.executable} -m accord chain --trace {path} '{tap(tmp_path / 't.acp.jsonl')}'"
    await one_turn(chain(inner, AGENT), tmp_path)
    found = [item for item in open_trace(path) if item.method != "proxy/initialize"]
    assert hops(found) == {
        ("Client", "Proxy(0)"),
        ("Proxy(0)", "Client"),
        ("Proxy(0)", "Agent"),
        ("Agent", "Proxy(0)"),
    }
