"""The index of a recording: what it selects, how it grows, and the file in which it is kept."""

from __future__ import annotations

import gzip
import re
import stat
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from accord.text import lenient_json
from accord_trace import Filter, MessageIndex, Recording, TraceError, open_trace
from accord_trace.records import Pairing, Record
from accord_trace.search import JsonPath
from sample_recordings import one_turn

FILTERS = [
    Filter(),
    Filter(methods=("session/*",)),
    Filter(methods=("initialize", "nothing")),
    Filter(sessions=("s",)),
    Filter(sessions=("lost",), errors=True),
    Filter(errors=True),
    Filter(kinds=("request", "invalid")),
    Filter(hops=(("Agent", "Client"),)),
    Filter(hops=(("Agent", "Proxy(0)"),)),
    Filter(since=1.0, until=2.0),
    Filter(until=1.0),
    Filter(min_latency_s=0.2),
    Filter(direction="to_client", text="WORLD"),
    Filter(text='say "'),
    Filter(text="NPM WARN"),
    Filter(text="É"),
    Filter(text="session/PROMPT"),
    Filter(text="agent"),
    Filter(rows=frozenset((2, 3, 99))),
    Filter(methods=("session/prompt",), sessions=("s",), direction="to_agent"),
    Filter(json_path="$.params.update[?@ == 'completed']"),
    Filter(json_path="$..toolCallId", text="pending"),
    Filter(json_path="$.error"),
]


def sample(path: Path) -> Path:
    talk = one_turn()
    talk.to_agent(5.0, id="é,", method="x/y", params={"text": 'I say "é" \\ \n'})
    talk.to_client(5.5, id="é,", result={"x": ["É", "agent"]})
    talk.to_agent(6.0, id={"a": 1, "method": "no"}, method="odd", params=[])
    return talk.save(path)


def expected(path: Path, wanted: Filter) -> list[int]:
    """Return what a plain search through all messages finds."""
    pairing, found = Pairing(), list[int]()
    for number, record in enumerate(open_trace(path)):
        answered = pairing.add(record)
        method = str(record.method or "") if answered is None else answered.method
        session = record.session or (None if answered is None else answered.request.session)
        latency = None if answered is None else answered.seconds
        fits = (
            (not wanted.methods or any(fnmatchcase(method, one) for one in wanted.methods))
            and (not wanted.sessions or session in wanted.sessions)
            and wanted.direction in (None, record.dir)
            and (not wanted.kinds or record.type in wanted.kinds)
            and (not wanted.hops or {record.sender, record.receiver} in map(set, wanted.hops))
            and (not wanted.errors or record.is_error or record.type == "invalid")
            and (wanted.since is None or record.ts >= wanted.since)
            and (wanted.until is None or record.ts <= wanted.until)
            and (wanted.rows is None or number in wanted.rows)
            and has_text(record, method, wanted.text)
        )
        if wanted.min_latency_s is not None:
            fits = fits and latency is not None and latency >= wanted.min_latency_s
        if fits and (not wanted.json_path or found_by(wanted.json_path, record)):
            found.append(number)
    return found


def has_text(record: Record, method: str, text: str) -> bool:
    value = record.raw if isinstance(record.raw, str) else record.value()
    texts = [method, *strings(value), lenient_json.dumps(value).decode()]
    return any(text.casefold() in one.casefold() for one in texts)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


def found_by(path: str, record: Record) -> bool:
    import jsonpath_rfc9535

    try:
        return bool(jsonpath_rfc9535.find(path, lenient_json.loads(record.frame)))
    except lenient_json.NotJson:
        return False


def opened(path: Path) -> MessageIndex:
    index = MessageIndex(open_trace(path).files)
    while not index.advance():
        pass
    return index


@pytest.mark.parametrize("wanted", FILTERS)
def test_index_selects_what_a_plain_search_finds(tmp_path: Path, wanted: Filter) -> None:
    path = sample(tmp_path / "r.acp.jsonl")
    for _ in range(2):
        with opened(path) as index:
            assert list(index.select(wanted)) == expected(path, wanted)
            index.save()  # the second one is loaded


def test_filters_of_the_test_above_select_something_different(tmp_path: Path) -> None:
    path = sample(tmp_path / "r.acp.jsonl")
    found = [tuple(expected(path, wanted)) for wanted in FILTERS]
    assert len(set(found)) >= len(FILTERS) - 5
    assert found.count(()) == 1  # the hop that does not exist


def test_rows_have_the_values_of_the_messages(tmp_path: Path) -> None:
    path = sample(tmp_path / "r.acp.jsonl")
    pairing = Pairing()
    with opened(path) as index:
        assert index.components() == ["Client", "Agent"]
        assert index.header.argv == ["my-agent"]
        assert index.methods()["session/update"] == 5
        assert index.sessions() == {"s": 9, "lost": 2}
        for number, record in enumerate(open_trace(path)):
            row, answered = index.row(number), pairing.add(record)
            assert index.record(number).frame == record.frame
            assert index.text(number) == record.frame.decode("utf-8", "replace")
            assert row.id == record.id_text
            assert (row.ts, row.kind, row.bytes) == (record.ts, record.type, record.bytes)
            assert (row.sender, row.receiver, row.conn) == (
                record.sender,
                record.receiver,
                record.conn,
            )
            assert row.is_error is (record.is_error or record.type == "invalid")
            if answered is not None:
                assert row.pair is not None
                assert index.record(row.pair).frame == answered.request.frame
                assert index.row(row.pair).pair == number
                assert row.latency_s == pytest.approx(answered.seconds)
        with pytest.raises(IndexError):
            index.row(len(index))


def test_index_follows_a_recording_that_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    frames = [b'{"jsonrpc":"2.0","method":"m%d"}' % number for number in range(30)]
    with Recording(path, max_bytes=500) as recording, MessageIndex([path]) as index:
        assert index.advance()
        assert not len(index)
        selection = index.selection(Filter(methods=("m*5",)))
        hop = recording.hop()
        for number, frame in enumerate(frames):
            hop.frames("to_client", [frame])
            assert index.advance()
            assert len(index) == number + 1
            assert selection.advance()
        assert list(selection.rows) == [5, 15, 25]
        assert len(index.files) > 3
        assert [index.record(number).frame for number in range(30)] == frames


def test_line_that_is_incomplete_is_added_when_its_rest_is_written(tmp_path: Path) -> None:
    lines = one_turn().text
    path = tmp_path / "r.acp.jsonl"
    for cut in (len(lines) - 1, len(lines) - 2, len(lines) - 30):
        path.write_bytes(lines[:cut])
        with MessageIndex([path]) as index:
            assert index.advance()
            assert len(index) == (15 if cut == len(lines) - 1 else 14)
            with path.open("ab") as file:
                file.write(lines[cut:] + lines.splitlines(keepends=True)[1])
            assert index.advance()
            assert [index.row(number).method for number in (14, 15)] == [
                "fs/read_text_file",
                "initialize",
            ]
            assert index.problems == []


def test_recording_that_is_replaced_is_an_error(tmp_path: Path) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    with opened(path) as index:
        path.write_bytes(b"")
        with pytest.raises(TraceError, match="replaced"):
            index.advance()
        with pytest.raises(TraceError, match="message 3 is not at its place"):
            index.record(3)


def test_saved_index_is_private_and_used_if_it_is_of_this_recording(tmp_path: Path) -> None:
    path = sample(tmp_path / "r.acp.jsonl")
    with opened(path) as index:
        index.save()
    saved = tmp_path / "r.acp.jsonl.index"
    if sys.platform != "win32":
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    with MessageIndex([path]) as index:
        assert len(index) == 18  # nothing is read
        assert index.row(11).pair == 4
    talk = one_turn()
    talk.to_agent(9.0, id=9, result={})
    with path.open("ab") as file:
        file.write(talk.text.splitlines(keepends=True)[-1])
    with MessageIndex([path]) as index:  # only what is new is read
        assert len(index) == 18
        assert index.advance()
        assert len(index) == 19
        assert index.row(18).pair == 14
        assert index.row(14).pair == 18
    path.write_bytes(path.read_bytes().replace(b"my-agent", b"MY-agent"))
    with MessageIndex([path]) as index:
        assert len(index) == 0
        assert index.advance()
        assert len(index) == 19


def test_saved_index_of_a_recording_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path, max_bytes=500) as recording:
        hop = recording.hop()
        for number in range(30):
            hop.frames("to_client", [b'{"jsonrpc":"2.0","method":"m%d"}' % number])
    with opened(path) as index:
        index.save()
    files = open_trace(path).files
    with MessageIndex(files) as index:
        assert len(index) == 30
        assert index.advance()
        assert len(index) == 30
        assert index.record(29).method == "m29"
        assert list(index.select(Filter(text="M1"))) == [1, *range(10, 20)]
    second = files[1]
    second.write_bytes(second.read_bytes() + b"\n")
    with MessageIndex(files) as index:
        assert len(index) == 0
        assert index.advance()
        assert len(index) == 30


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40, b"\x05"])
def test_damaged_index_is_made_again(tmp_path: Path, damage: bytes) -> None:
    path = sample(tmp_path / "r.acp.jsonl")
    with opened(path) as index:
        index.save()
    saved = tmp_path / "r.acp.jsonl.index"
    good = saved.read_bytes()
    for content in (damage, good[:-4], damage + good if damage else b"\0"):
        saved.write_bytes(content)
        with MessageIndex([path]) as index:
            assert len(index) == 0
            assert index.advance()
            assert len(index) == 18
            assert list(index.select(FILTERS[1])) == expected(path, FILTERS[1])


def test_large_recording_saves_its_index(tmp_path: Path) -> None:
    talk = one_turn()
    talk.update(5.0, text="x" * 9_000_000)
    path = talk.save(tmp_path / "r.acp.jsonl")
    opened(path).close()
    assert (tmp_path / "r.acp.jsonl.index").exists()
    sample(small := tmp_path / "small.acp.jsonl")
    opened(small).close()
    assert not (tmp_path / "small.acp.jsonl.index").exists()


@pytest.mark.parametrize("wanted", FILTERS[::3])
def test_compressed_and_imported_recordings_are_indexed(tmp_path: Path, wanted: Filter) -> None:
    plain = sample(tmp_path / "r.acp.jsonl")
    packed = tmp_path / "p.acp.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    with opened(packed) as index:
        assert list(index.select(wanted)) == expected(plain, wanted)
    frames = tmp_path / "frames.jsonl"
    kept = [record.frame for record in open_trace(plain) if record.type != "invalid"]
    frames.write_bytes(b"\n".join(kept))  # without a line end
    with opened(frames) as index:
        assert len(index) == len(kept)
        assert list(index.select(wanted)) == expected(frames, wanted)
        assert re.fullmatch("frames.jsonl", index.files[0].name)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "frames.jsonl",
        "p.acp.jsonl.gz",
        "r.acp.jsonl",
    ]


def test_json_path_that_is_not_one_is_an_error(tmp_path: Path) -> None:
    path = sample(tmp_path / "r.acp.jsonl")
    with (
        opened(path) as index,
        pytest.raises(TraceError, match=r"Expected a JSONPath .* got 'x\['"),
    ):
        index.select(Filter(json_path="x["))


def test_index_takes_at_most_60_bytes_for_a_message(tmp_path: Path) -> None:
    path = sample(tmp_path / "r.acp.jsonl")
    with opened(path) as index:
        assert sum(column.itemsize for column in index.columns.arrays) <= 60


def test_error_in_a_json_path_is_one_line() -> None:
    with pytest.raises(TraceError) as raised:
        JsonPath("$.a[")
    text = str(raised.value)
    assert text.startswith("Expected a JSONPath such as $.params.update, got '$.a[': ")
    assert "\n" not in text
