"""`accord check`: lists rules and judges recordings; the exit status has the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accord.program import COMMANDS, load_command
from accord_conformance.traffic.recording import write, write_judged_side
from accord_terminal.click_group import main
from accord_trace import Recording
from conformance.doubles.conversation import Talker


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["check", *words], COMMANDS, load_command)
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def recorded(folder: Path, *, stop: str = "end_turn", info: bool = True) -> str:
    """Write a recording of one turn; return its path."""
    talker = Talker(1)
    talker.initialize(says={} if info else {"agentInfo": None})
    talker.new()
    talker.stop(talker.prompt(), stop)
    file = folder / "talk.ndjson"
    frames = talker.observer.state.frames
    file.write_bytes(b"".join(write(frame.time, frame.sender, frame.text) for frame in frames))
    return str(file)


def test_rules_of_an_area_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "rules", "--area", "cancel", "--version", "1")
    assert status == 0
    assert "R-CANCEL-05" in out
    assert "R-CANCEL-07" not in out  # for version 2
    assert "R-REQCAN-02" not in out


def test_rules_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "rules", "--json")
    assert status == 0
    rules = json.loads(out)
    assert len(rules) > 600
    assert {"id", "level", "who", "versions", "rule", "source", "how"} <= rules[0].keys()


@pytest.mark.parametrize(
    ("name", "there", "not_there"),
    [
        ("cancel", "R-CANCEL-05", "R-REQCAN-02"),
        ("R-CANCEL-05", "R-CANCEL-05", "R-CANCEL-04"),
        ("sessions/new", "R-GEN-08", "R-CANCEL-05"),
    ],
)
def test_rules_are_selected_like_scenarios(
    capsys: pytest.CaptureFixture[str], name: str, there: str, not_there: str
) -> None:
    for option in ("--only", "--area"):
        status, out, _ = run(capsys, "rules", option, name, "--only", "ARCH", "--json")
        assert status == 0
        found = {rule["id"] for rule in json.loads(out)}
        assert there in found
        assert "R-ARCH-01" in found
        assert not_there not in found


@pytest.mark.parametrize(
    ("name", "reported"),
    [("dance", "CANCEL, "), ("R-CANCEL-99", "R-CANCEL-01 to "), ("R-DANCE-01", "areas of rules")],
)
def test_unknown_area_or_rule_is_an_error_that_lists_the_known_ones(
    capsys: pytest.CaptureFixture[str], name: str, reported: str
) -> None:
    status, _, err = run(capsys, "rules", "--only", name)
    assert status == 2
    assert name in err
    assert reported in " ".join(err.split())


def test_conforming_recording_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, "trace", recorded(tmp_path))
    assert status == 0
    assert "version 1: 0 rules failed, 0 warnings, 0 advised." in out
    assert out.splitlines()[-1].startswith("Passed: ")


def test_failed_must_rule_fails_and_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, out, _ = run(capsys, "trace", recorded(tmp_path, stop="done"))
    assert status == 1
    for words in ("R-PROMPT-06", "failed by the agent", "expected", '"done"', "1 rule failed"):
        assert words in out


def test_failed_should_rule_fails_only_with_strict(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = recorded(tmp_path, info=False)
    assert run(capsys, "trace", file)[0] == 0
    assert run(capsys, "trace", "--strict", file)[0] == 1


def test_report_is_written_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, "trace", "--json", recorded(tmp_path, stop="done"))
    assert status == 1
    report = json.loads(out)
    (broken,) = [rule for rule in report["rules"] if rule["outcome"] == "failed"]
    assert broken["id"] == "R-PROMPT-06"
    assert broken["findings"][0]["frames"][-1]["from"] == "agent"


@pytest.mark.parametrize("data", [b"", b"\0\1\2", b'{"name": "x"}\n', b"\xff\xfe{\0}\0"])
def test_file_that_is_not_a_recording_is_rejected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data: bytes
) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    status, out, err = run(capsys, "trace", str(file))
    assert (status, out) == (2, "")
    assert "expected records" in " ".join(err.split())


def test_unreadable_lines_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = Path(recorded(tmp_path))
    lines = len(file.read_bytes().splitlines())
    with file.open("ab") as more:
        more.write(b'{"time": 1, "fro')
    status, out, err = run(capsys, "trace", str(file))
    assert status == 2
    assert "0 rules failed" in out
    assert f"line {lines + 1}: expected a record" in err


@pytest.mark.parametrize("max_bytes", [None, 300], ids=["one file", "several parts"])
@pytest.mark.parametrize("name", ["r.acp.jsonl", "r.acp.jsonl.gz"])
def test_compressed_recordings_and_later_parts_are_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, max_bytes: int | None
) -> None:
    plain = Path(recorded(tmp_path, stop="done")).read_bytes().splitlines()
    with Recording(tmp_path / name, max_bytes=max_bytes) as recording:
        hop = recording.hop()
        for row in map(json.loads, plain):
            hop.frames(
                "to_agent" if row["from"] == "client" else "to_client", [row["frame"].encode()]
            )
    assert (len(list(tmp_path.iterdir())) > 2) is (max_bytes is not None)
    status, out, err = run(capsys, "trace", str(tmp_path / name))
    assert (status, err) == (1, "")
    assert f"{len(plain)} frames, version 1" in out


def test_compressed_recording_that_is_cut_is_judged_up_to_the_cut(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Recording(tmp_path / "r.acp.jsonl.gz") as recording:
        hop = recording.hop()
        for row in map(json.loads, Path(recorded(tmp_path)).read_bytes().splitlines()):
            hop.frames(
                "to_agent" if row["from"] == "client" else "to_client", [row["frame"].encode()]
            )
    whole = (tmp_path / "r.acp.jsonl.gz").read_bytes()
    (tmp_path / "r.acp.jsonl.gz").write_bytes(whole[:-40])
    status, _, err = run(capsys, "trace", str(tmp_path / "r.acp.jsonl.gz"))
    assert status == 2
    assert "r.acp.jsonl.gz, the gzip data are cut after" in err
    (tmp_path / "r.acp.jsonl.gz").write_bytes(whole[:12])
    status, _, err = run(capsys, "trace", str(tmp_path / "r.acp.jsonl.gz"))
    assert status == 2
    assert "the gzip data are cut after 0 bytes of text" in err


def test_only_one_side_is_judged_if_the_trace_or_an_option_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = Path(recorded(tmp_path, stop="done"))
    assert run(capsys, "trace", "--side", "client", str(file))[0] == 0
    file.write_bytes(write_judged_side("client") + file.read_bytes())
    status, out, _ = run(capsys, "trace", str(file))
    assert status == 0
    assert "Only the client is judged" in out
    assert run(capsys, "trace", "--side", "both", str(file))[0] == 1
    report = json.loads(run(capsys, "trace", "--json", str(file))[1])
    assert report["side"] == "client"
    assert {rule["who"] for rule in report["rules"]} == {"client", "both"}
