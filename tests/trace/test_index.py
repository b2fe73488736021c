"""The index: it finds the same messages as reading does, and is made again when it is stale."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from accord.cli import trace_show
from accord.cli.click_group import main
from accord.cli.main import COMMANDS, load_command
from accord.trace import Recording, TraceError, open_trace
from accord.trace.filtering import Filter, Selected, select
from accord.trace.index import TraceIndex, open_index
from sample_recordings import one_turn

FILTERS = [
    Filter(),
    Filter(methods=("session/*",)),
    Filter(methods=("initialize", "nothing")),
    Filter(sessions=("s",)),
    Filter(sessions=("lost",), errors=True),
    Filter(errors=True),
    Filter(direction="to_client", text="WORLD"),
    Filter(methods=("session/prompt",), sessions=("s",), direction="to_agent"),
]


def shown(found: Selected) -> tuple[object, ...]:
    answered = found.answered
    seconds = None if answered is None else answered.seconds
    return found.number, found.record.frame, found.method, seconds


@pytest.mark.parametrize("wanted", FILTERS)
def test_index_selects_the_same_messages_as_reading(tmp_path: Path, wanted: Filter) -> None:
    trace = open_trace(one_turn().save(tmp_path / "r.acp.jsonl"))
    expected = [shown(found) for found in select(trace, wanted)]
    for _ in range(2):  # the second one is loaded
        with open_index(trace) as index:
            assert [shown(found) for found in index.select(wanted)] == expected


def test_index_is_private_and_loaded_if_it_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    count = len(open_index(open_trace(path)))
    saved = tmp_path / "r.acp.jsonl.index"
    if sys.platform != "win32":
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    with monkeypatch.context() as patch:
        patch.delattr(TraceIndex, "build")
        assert len(open_index(open_trace(path))) == count == 15
    with path.open("ab") as file:
        file.write(path.read_bytes().splitlines(keepends=True)[1])
    assert len(open_index(open_trace(path))) == 16


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40, b"\x05"])
def test_damaged_index_is_made_again(tmp_path: Path, damage: bytes) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    open_index(open_trace(path))
    saved = tmp_path / "r.acp.jsonl.index"
    for content in (damage, saved.read_bytes()[:-4], damage + saved.read_bytes()):
        saved.write_bytes(content)
        assert len(open_index(open_trace(path))) == 15


def test_parts_of_a_recording_have_one_index(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    frames = [b'{"jsonrpc":"2.0","method":"m%d"}' % number for number in range(30)]
    with Recording(path, max_bytes=500) as recording:
        hop = recording.hop()
        for frame in frames:
            hop.frames("to_client", [frame])
    with open_index(open_trace(path)) as index:
        assert len(index.files) > 3
        assert [index.record(number).frame for number in range(1, 31)] == frames


def test_other_formats_have_no_index(tmp_path: Path) -> None:
    with Recording(tmp_path / "r.acp.jsonl.gz"):
        pass
    (tmp_path / "r.jsonl").write_bytes(b'{"jsonrpc":"2.0","method":"x"}')
    for name in ("r.acp.jsonl.gz", "r.jsonl", "missing"):
        with pytest.raises(TraceError, match="can be indexed"):
            open_index(open_trace(tmp_path / name))


def test_show_makes_an_index_of_a_large_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    words = ["trace", "show", "--method", "session/prompt", str(path)]
    assert main(words, COMMANDS, load_command) == 0
    expected = capsys.readouterr().out
    assert not (tmp_path / "r.acp.jsonl.index").exists()
    monkeypatch.setattr(trace_show, "_INDEXED_BYTES", 100)
    assert main(words, COMMANDS, load_command) == 0
    assert capsys.readouterr().out == expected
    assert (tmp_path / "r.acp.jsonl.index").exists()
