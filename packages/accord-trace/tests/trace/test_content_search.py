"""Search in the contents of messages, alone and with a second process: as a plain search finds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.text import lenient_json
from accord_trace import Filter, MessageIndex, Recording, Selection
from accord_trace.search import Lines, TextSearch

WORDS = ["word", "WORD", "Übung", "übung", "\u00df", "SS", "\u4f60\u597d", 'say "hi"', "a\\b", "\n"]
WANTED = [
    Filter(text="word"),
    Filter(text="ÜBUNG"),
    Filter(text="\u4f60"),
    Filter(text='say "HI"'),
    Filter(text="session/up"),
    Filter(text="nothing of this"),
    Filter(text="word 1", direction="to_client"),
    Filter(json_path="$.params.update.n"),
    Filter(json_path="$.result"),
    Filter(json_path="$..[?@.n > 500]"),
]


def body_of(value: Any, *, escaped: bool) -> bytes:
    body = lenient_json.dumps(value)
    if escaped:
        text = body.decode("utf-8", "surrogatepass")
        body = b"".join(one.encode() if one.isascii() else _escape(one) for one in text)
    return body


def _escape(letter: str) -> bytes:
    units = letter.encode("utf-16-be", "surrogatepass")
    return b"".join(b"\\u%02X%02x" % tuple(units[at : at + 2]) for at in range(0, len(units), 2))


letters = st.text(st.sampled_from("qQzZ 7üÜßSſKkéÉ你\U0001f600"), max_size=6)


@given(
    texts=st.lists(st.tuples(letters, st.booleans()), min_size=1, max_size=8),
    wanted=letters.filter(bool),
)
@settings(max_examples=150, deadline=None)
def test_text_is_found_as_it_reads_also_if_it_is_escaped(
    texts: list[tuple[str, bool]], wanted: str
) -> None:
    lines, offsets = b"", list[int]()
    for text, escaped in texts:
        offsets.append(len(lines))
        lines += b'{"type":"notification","bytes":1,"params":'
        lines += body_of([text], escaped=escaped) + b"}\n"
    found = TextSearch(wanted).rows_in(Lines(lines, offsets, 0, len(offsets)))
    for row, (text, _) in enumerate(texts):
        if wanted in text or wanted.lower() in text.lower():
            assert row in found
        elif text.isascii() and wanted.casefold() not in f'"params":["{text.casefold()}"]}}':
            assert row not in found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording in two parts, of which no two lines are equal."""
    path = tmp_path_factory.mktemp("recording") / "r.acp.jsonl"
    with Recording(path, max_bytes=70_000) as recording:
        hop = recording.hop()
        for n in range(900):
            update = {"n": n, "text": f"{WORDS[n % len(WORDS)]} {n}"}
            params = {"sessionId": "s", "update": update if n % 3 else {"text": f"wOrd {n}"}}
            message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
            hop.frames("to_client", [body_of(message, escaped=n % 2 == 0)])
            if n % 10 == 0:
                hop.frames("to_agent", [b'{"jsonrpc":"2.0","id":%d,"result":{}}' % n])
    return path


@pytest.fixture
def index(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MessageIndex]:
    monkeypatch.setattr("accord_trace.selection._PROCESSORS", 2)
    monkeypatch.setattr("accord_trace.selection._FIRST_BYTES", 0)
    monkeypatch.setattr("accord_trace.selection._SECOND_BYTES", 0)
    monkeypatch.setattr("accord_trace.selection._RANGE_BYTES", 10_000)
    with MessageIndex([path]) as index:
        while not index.advance():
            pass
        yield index


def alone(index: MessageIndex, wanted: Filter) -> list[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accord_trace.selection._PROCESSORS", 1)
        return list(index.select(wanted))


def finish(selection: Selection) -> list[int]:
    while not selection.advance(10_000):
        pass
    return list(selection.rows)


@pytest.mark.parametrize("wanted", WANTED)
def test_second_process_finds_the_same(index: MessageIndex, wanted: Filter) -> None:
    assert len(index.paths) > 1
    expected = alone(index, wanted)
    selection = index.selection(wanted)
    selection.advance(10_000)
    second = selection._second
    assert second is not None
    second._thread.join(30)
    assert second.done_from < 60  # everything but the first step
    assert finish(selection) == expected
    assert bool(expected) is (wanted.text != "nothing of this")


def test_both_search_at_the_same_time(index: MessageIndex) -> None:
    for wanted in WANTED[:2]:
        assert finish(index.selection(wanted)) == alone(index, wanted)


def test_second_process_that_fails_is_not_missed(
    index: MessageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = alone(index, WANTED[0])
    for program in ("/nowhere/python", sys.executable):
        monkeypatch.setattr("accord_trace.search.sys.executable", program)
        monkeypatch.setattr("accord_trace.search._PROGRAM", "no.such.module")
        selection = index.selection(WANTED[0])
        selection.advance(10_000)
        assert selection._second is not None
        selection._second._thread.join(30)
        assert finish(selection) == expected


def test_selection_that_is_dropped_ends_its_process(index: MessageIndex) -> None:
    selection = index.selection(WANTED[0])
    selection.advance(10_000)
    second = selection._second
    assert second is not None
    del selection
    second._thread.join(30)
    assert not second._thread.is_alive()
    assert second._process is None or second._process.poll() is not None


def test_selection_that_rests_ends_its_process_and_finds_the_same(index: MessageIndex) -> None:
    expected = alone(index, WANTED[0])
    selection = index.selection(WANTED[0])
    selection.rest()
    selection.advance(10_000)
    second = selection._second
    assert second is not None
    selection.rest()
    second._thread.join(30)
    assert not second._thread.is_alive()
    assert finish(selection) == expected


@pytest.mark.parametrize("wanted", [Filter(text="word"), Filter(json_path="$.result")])
def test_selection_waits_for_messages_before_the_first_and_after_the_last(
    path: Path, wanted: Filter
) -> None:
    with MessageIndex([path]) as index:
        selection = Selection(index, wanted)
        assert selection.advance()  # nothing was read yet
        while not index.advance():
            pass
        found = finish(selection)
        assert found
        assert selection.advance()  # nothing new
        assert list(selection.rows) == found
