"""Recordings: they are read as they were written, and plain dumps are understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord_conformance.judges.observer import Observer, judge_recording
from accord_conformance.traffic.message import Side, other
from accord_conformance.traffic.recording import End, Recorded, read, write, write_judged_side
from accord_trace import Recording

ASK = b'{"jsonrpc":"2.0","id":1,"method":"session/list"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"sessions":[]}}'


@pytest.mark.parametrize("text", [ASK, b"no JSON at all", b'{"caf\xe9', "{\u00e9}".encode()])
def test_recording_survives_a_round_trip(text: bytes) -> None:
    line = write(0.25, "agent", text)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert list(read([line])) == [Recorded(0.25, "agent", text)]


def test_end_of_a_side_is_read() -> None:
    assert list(read([b'{"time":1,"from":"agent","end":true}'])) == [End("agent")]


def test_frame_can_be_an_object() -> None:
    (found,) = read([b'{"direction":"sent","frame":{"jsonrpc":"2.0","method":"_x"}}'])
    assert found == Recorded(0.0, "client", b'{"jsonrpc":"2.0","method":"_x"}')


def test_record_without_a_sender_is_rejected() -> None:
    with pytest.raises(ValueError, match="line 2"):
        list(read([b"", b'{"from":"me","frame":"x"}']))


@pytest.mark.parametrize(("mine", "theirs"), [("> ", "< "), ("->", "<-"), ("client: ", "agent: ")])
def test_prefixes_name_the_sender(mine: str, theirs: str) -> None:
    found = list(read([mine.encode() + ANSWER, theirs.encode() + ASK]))
    assert found == [Recorded(0.0, "client", ANSWER), Recorded(0.0, "agent", ASK)]


def test_senders_are_inferred_from_the_messages() -> None:
    create = b'{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{}}'
    created = b'{"jsonrpc":"2.0","id":1,"result":{"terminalId":"x"}}'
    noise = b"Loading..."
    lines = [noise, ASK, create, created, b"", ANSWER]
    found = [item.sender for item in read(lines) if isinstance(item, Recorded)]
    # Both sides wait for the response to 1: its content shows the receiver.
    assert found == ["agent", "client", "agent", "client", "agent"]


def test_byte_order_mark_is_not_part_of_the_first_frame() -> None:
    (found,) = read([b"\xef\xbb\xbf> " + ASK])
    assert found == Recorded(0.0, "client", ASK)


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"", "got nothing"),
        (b"\n\n", "got nothing"),
        (ASK.decode().encode("utf-16"), "got UTF-16"),
        (b"\x7fELF\x02\x01\x01" + bytes(24), "got binary data in line 1"),
        (ASK.decode().encode("utf-16-le") + "\n{}".encode("utf-16-le"), "got UTF-16"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "got binary data in line 1"),
        (b'\n{\n "name": "x"\n}\n', "got JSON that is neither in line 2"),
        (b"[1, 2]", "got JSON that is neither in line 1"),
        (b'{"time": NaN, "from": "agent", "frame": "x"}', 'in line 1: {"time": NaN'),
        (b"Dear diary,\nnothing came.\n", "got text in line 1: Dear diary,"),
    ],
)
def test_file_that_is_not_a_recording_is_an_error_with_the_reason(
    data: bytes, reported: str
) -> None:
    with pytest.raises(ValueError, match="expected records") as caught:
        list(read(data.splitlines(keepends=True)))
    assert reported in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("time", ["1e400", "-1", '"12:00"', "true", "[]", "1" + "0" * 400])
def test_invalid_time_is_rejected(time: str) -> None:
    line = f'{{"time": {time}, "from": "agent", "frame": "x"}}'
    with pytest.raises(ValueError, match="line 1: expected seconds") as caught:
        list(read([line.encode()]))
    assert len(str(caught.value)) < 200


def test_invalid_records_are_reported_and_skipped() -> None:
    lines = [write(0.0, "client", ASK), b'{"time":1,"from":"ag', b'{"from":"me","frame":"x"}']
    unread: list[str] = []
    assert list(read(lines, unread)) == [Recorded(0.0, "client", ASK)]
    assert [line.partition(":")[0] for line in unread] == ["line 2", "line 3"]


def test_recording_with_only_invalid_records_is_rejected() -> None:
    with pytest.raises(ValueError, match="line 1"):
        list(read([b'{"from":"me","frame":"x"}'], []))


def test_frame_that_is_not_unicode_is_read() -> None:
    (found,) = read([b'{"from":"agent","frame":"\\ud800"}'])
    assert found == Recorded(0.0, "agent", b"\xed\xa0\x80")


UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{}}'


def test_swapped_directions_are_reported() -> None:
    lines = [write(0, "agent", ASK), write(1, "client", ANSWER), write(2, "client", UPDATE)]
    with pytest.raises(ValueError, match=r"look swapped in 2 of 2 messages: line 1 has"):
        judge_recording(lines)


def test_one_message_in_the_wrong_direction_is_left_to_the_judges() -> None:
    lines = [write(0, "client", ASK), write(1, "agent", ANSWER), write(2, "client", UPDATE)]
    assert judge_recording(lines).state.frames


@pytest.mark.parametrize("side", ["agent", "client"])
def test_only_the_subject_of_a_recording_is_judged(side: Side) -> None:
    both = [write(0, "client", b"no JSON"), write(0, "agent", b"nor this")]
    named = [write_judged_side(side), *both]
    assert broken_by(judge_recording(both)) == {"agent", "client"}
    assert broken_by(judge_recording(named)) == {side}
    assert broken_by(judge_recording(named, judged="both")) == {"agent", "client"}
    assert broken_by(judge_recording(named, judged=other(side))) == {other(side)}


def broken_by(observer: Observer) -> set[str]:
    return {finding.by for finding in observer.finish().failures()}


def test_recording_of_accord_trace_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        first, other = recording.hop(), recording.hop()
        first.frames("to_agent", [b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'])
        other.frames("to_agent", [b"of another client"])
        first.frames("to_client", [b"\xff"])
        first.end("to_client")
    found = list(read(path.read_bytes().splitlines()))
    assert [(item.sender, getattr(item, "text", None)) for item in found] == [  # type: ignore[union-attr]  # no judged side
        ("client", b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'),
        ("agent", b"\xff"),
        ("agent", None),
    ]
