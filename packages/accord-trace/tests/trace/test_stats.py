"""Statistics of recordings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accord_trace import open_trace
from accord_trace.line_builder import Hop
from accord_trace.stats import TurnStats, stats_of, stats_page
from sample_recordings import Writer, one_turn


@pytest.mark.parametrize("version", [1, 2])
def test_turn_has_its_times_tool_calls_and_tokens(tmp_path: Path, version: int) -> None:
    stats = stats_of(open_trace(one_turn(version).save(tmp_path / "r.acp.jsonl")))
    (turn,) = stats.turns
    assert turn.session == "s"
    assert turn.seconds == pytest.approx(2.0)
    assert turn.first_update_s == pytest.approx(0.25)
    assert turn.stop_reason == "end_turn"
    assert turn.tool_calls == 1
    assert turn.updates == (5 if version == 1 else 6)
    assert stats.tokens == {"input": 10, "output": 20, "total": 30}
    assert stats.costs == {"USD": 0.25}
    assert [(point.used, point.size) for point in stats.context] == [(500, 1000)]
    (call,) = stats.tool_calls
    assert (call.status, call.seconds) == ("completed", pytest.approx(0.5))


def test_methods_have_counts_errors_and_latencies(tmp_path: Path) -> None:
    stats = stats_of(open_trace(one_turn().save(tmp_path / "r.acp.jsonl")))
    found = {method.method: method for method in stats.methods}
    load = found["session/load"]
    assert (load.count, load.errors, load.direction) == (1, 1, "to_agent")
    assert load.latency is not None
    assert load.latency.max_s == pytest.approx(0.25)
    assert found["fs/read_text_file"].unanswered == 1
    assert found["session/update"].latency is None
    assert stats.invalid == 1
    assert stats.sessions == ["s", "lost"]


def test_turn_without_an_end_is_counted(tmp_path: Path) -> None:
    talk = Writer()
    talk.to_agent(1.0, id=2, method="session/prompt", params={"sessionId": "s", "prompt": []})
    stats = stats_of(open_trace(talk.save(tmp_path / "r.acp.jsonl")))
    assert stats.turns == [TurnStats("s", 1.0)]


def test_of_a_chain_only_the_hop_of_the_client_is_counted(tmp_path: Path) -> None:
    first, second = Writer(Hop("Client", "Proxy(0)", "1")), Writer(Hop("Proxy(0)", "Agent", "2"))
    for hop in (first, second):
        hop.to_agent(1.0, id=2, method="session/prompt", params={"sessionId": "s", "prompt": []})
        hop.to_client(2.0, id=2, result={"stopReason": "end_turn"})
    first.text += second.text
    stats = stats_of(open_trace(first.save(tmp_path / "r.acp.jsonl")))
    assert stats.messages == 2
    assert len(stats.turns) == 1


def test_page_loads_nothing_and_has_charts(tmp_path: Path) -> None:
    page = stats_page(stats_of(open_trace(one_turn().save(tmp_path / "r.acp.jsonl"))), "r")
    assert page.count("<svg") == 4
    assert not re.search(r"(src|href|url)\s*[=(]", page)
    assert "default-src 'none'" in page


def test_charts_of_many_turns_are_bounded(tmp_path: Path) -> None:
    talk = Writer()
    for number in range(2000):
        talk.to_agent(number, id=number, method="session/prompt", params={"sessionId": "s"})
        talk.to_client(number + 0.5, id=number, result={"stopReason": "end_turn"})
    page = stats_page(stats_of(open_trace(talk.save(tmp_path / "r.acp.jsonl"))), "r")
    assert page.count("<rect") <= 800
