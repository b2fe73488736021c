"""The reader of event streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.transports.http_messages import EventReader
from requirement import requirement

STREAM = (
    b'\xef\xbb\xbf: open\n\ndata: {"n":1}\n\nid: 7\nevent: message\ndata:{"n":\ndata: 2}\n\n'
    b'retry: 500\n\n\n\ndata\ndata: [3]\n\ndata: null\n\ndata: {"t":"\xc3\xa9"}\nid\n\nother: x\n\n'
)
FRAMES = [b'{"n":1}', b'{"n": 2}', b'{"t":"\xc3\xa9"}']


def read(*parts: bytes, limit: int = 1000) -> tuple[list[bytes], EventReader]:
    reader = EventReader(limit)
    return [bytes(frame) for part in parts for frame in reader.feed(part)], reader


@requirement("R-HTTP-28")
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_read_with_every_kind_of_line_end(end: bytes) -> None:
    frames, reader = read(STREAM.replace(b"\n", end), b"\n")
    assert frames == FRAMES
    assert reader.comments == 1
    assert reader.retry_s == 0.5
    assert reader.last_id is None


@requirement("R-HTTP-28")
@given(st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 300)))
def test_events_are_read_however_they_are_cut(end: bytes, cuts: list[int]) -> None:
    text = STREAM.replace(b"\n", end) + b": end\n"
    at = sorted(min(cut, len(text)) for cut in cuts)
    parts = [text[start:stop] for start, stop in zip([0, *at], [*at, len(text)], strict=True)]
    frames, reader = read(*parts)
    assert frames == FRAMES
    assert reader.comments == 1


@requirement("R-HTTP-28")
def test_event_without_a_blank_line_is_not_complete() -> None:
    frames, reader = read(b'data: {"n":1}\n')
    assert frames == []
    assert reader.feed(b"\n") == [b'{"n":1}']


LAST_IDS = [
    (b"id: a b\n\n", "a b"),
    (b"id:a\nid: b\n\n", "b"),
    (b"id: a\n\nid\n\n", None),
    (b"id: a\n\nid: \0\n\n", "a"),
    (b"id: a\n", None),
]


@requirement("R-HTTP-43")
def test_last_id_is_remembered() -> None:
    for text, shown in LAST_IDS:
        assert read(text)[1].last_id == shown, (text, shown)


@requirement("R-HTTP-43")
def test_time_to_wait_is_bounded() -> None:
    for text, seconds in (
        (b"1500", 1.5),
        (b"1", 0.1),
        (b"99999999", 60.0),
        (b"-5", None),
        (b"1e3", None),
        (b"", None),
    ):
        assert read(b"retry: " + text + b"\n\n")[1].retry_s == seconds, (text, seconds)


@requirement("R-HTTP-49")
def test_large_event_is_refused_and_the_next_arrives() -> None:
    for size in (1, 7, 5000, 100_000):
        text = b'data: {"x":"' + b"x" * 20_000 + b'"}\n\ndata: {"n":1}\n\n'
        parts = [text[start : start + size] for start in range(0, len(text), size)]
        frames, reader = read(*parts, limit=1000)
        assert frames == [b'{"n":1}'], size
        [head] = reader.refused
        assert head.startswith(b'{"x":"xxx'), size
        assert len(head) <= 4096, size


@requirement("R-HTTP-49")
def test_event_at_the_limit_arrives() -> None:
    frame = b'{"x":"' + b"x" * 992 + b'"}'
    assert len(frame) == 1000
    frames, reader = read(b"data: " + frame, b"\n\ndata: " + frame + b" \n\n")
    assert frames == [frame, frame]
    assert not reader.refused
