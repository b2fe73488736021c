"""Tests for extensions of Accord: the contracts of transports and of session stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from accord.agent.store import SessionStore, StoredSession
from accord.errors import TransportError
from accord.transports.base import FRAME_BYTES, Frame, Transport

__all__ = ("Recorder", "StoreContract", "TransportContract")

_TIMEOUT_S = 30.0  # for any single event
_LARGE_BYTES = 5 * 1024 * 1024
_LIMIT_BYTES = 64 * 1024  # the size limit of frames in some tests
_MAX_BYTES = 256 * 1024 * 1024  # unread, for which a transport must be congested


class Recorder:
    """A `Receiver` that records every call."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.refused: list[int] = []
        self.ends: list[Exception | None] = []
        self.writable_calls: int = 0
        self._changed = asyncio.Event()

    @property
    def ended(self) -> bool:
        """Whether the input has ended."""
        return bool(self.ends)

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self.frames += map(bytes, frames)
        self._changed.set()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self.refused.append(limit)
        self._changed.set()

    def eof_received(self, error: Exception | None) -> None:
        self.ends.append(error)
        self._changed.set()

    def writable(self) -> None:
        self.writable_calls += 1
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; raise `TimeoutError`."""
        async with asyncio.timeout(_TIMEOUT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class TransportContract:
    """The contract of transports as tests: subclass it as `TestMyTransport`, override `pair`.

    The tests are coroutines without arguments, for pytest-asyncio's auto mode or the like.
    `burst` is the number of frames in the longest tests: set a smaller one for a transport that
    takes much time for each frame.
    """

    burst: int = 5000

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        """Return two transports, not started, that are connected with each other.

        `frame_bytes` is the largest frame that either accepts.
        """
        raise NotImplementedError

    @asynccontextmanager
    async def connected(self, frame_bytes: int = FRAME_BYTES) -> AsyncGenerator[_Pair, None]:
        """Start a pair, and close it at the end of the block."""
        here, there = await self.pair(frame_bytes)
        pair = _Pair(here, Recorder(), there, Recorder())
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await here.start(pair.heard_here)
                await there.start(pair.heard_there)
            yield pair
        finally:
            async with asyncio.timeout(_TIMEOUT_S):
                await here.aclose()
                await there.aclose()

    async def test_frames_arrive_whole_and_in_order_both_ways(self) -> None:
        frames = [_frame(number, number * 7 % 3000) for number in range(min(self.burst, 500))]
        async with self.connected() as pair:
            for frame in frames:
                pair.here.write([frame])
                pair.there.write([frame])
            await pair.heard_there.until(lambda: len(pair.heard_there.frames) == len(frames))
            await pair.heard_here.until(lambda: len(pair.heard_here.frames) == len(frames))
            assert pair.heard_there.frames == frames
            assert pair.heard_here.frames == frames

    async def test_frames_of_one_write_arrive_separately(self) -> None:
        frames = [_frame(number) for number in range(min(self.burst, 500))]
        async with self.connected() as pair:
            pair.here.write(frames)
            await pair.heard_there.until(lambda: len(pair.heard_there.frames) == len(frames))
            assert pair.heard_there.frames == frames

    async def test_writing_nothing_sends_nothing(self) -> None:
        async with self.connected() as pair:
            pair.here.write([])
            pair.here.write([_frame(1)])
            await pair.heard_there.until(lambda: bool(pair.heard_there.frames))
            assert pair.heard_there.frames == [_frame(1)]

    async def test_large_frames_can_be_sent_in_both_directions_at_once(self) -> None:
        frames = [_frame(1, _LARGE_BYTES), _frame(2), _frame(3, _LARGE_BYTES)]
        async with self.connected() as pair:
            pair.here.write(frames)
            pair.there.write([bytearray(frame) for frame in frames])
            await pair.heard_there.until(lambda: len(pair.heard_there.frames) == len(frames))
            await pair.heard_here.until(lambda: len(pair.heard_here.frames) == len(frames))
            assert pair.heard_there.frames == frames
            assert pair.heard_here.frames == frames

    async def test_frame_over_the_limit_is_rejected_and_the_next_arrives(self) -> None:
        async with self.connected(_LIMIT_BYTES) as pair:
            too_large = _frame(1, 3 * _LIMIT_BYTES)
            pair.there.write([_frame(0), too_large, _frame(2)])
            heard = pair.heard_here
            await heard.until(lambda: len(heard.frames) == 2 and bool(heard.refused))
            assert heard.frames == [_frame(0), _frame(2)]
            assert heard.refused == [_LIMIT_BYTES]

    async def test_frame_at_the_limit_arrives(self) -> None:
        async with self.connected(_LIMIT_BYTES) as pair:
            frame = _frame(1, _LIMIT_BYTES)[: _LIMIT_BYTES - 2] + b'"}'
            pair.there.write([frame])
            await pair.heard_here.until(lambda: bool(pair.heard_here.frames))
            assert pair.heard_here.frames == [frame]
            assert not pair.heard_here.refused

    async def test_paused_reader_receives_nothing_until_it_resumes(self) -> None:
        async with self.connected() as pair:
            pair.here.pause_reading()
            pair.here.pause_reading()
            pair.there.write([_frame(1)])
            pair.here.write([_frame(2)])
            await pair.heard_there.until(lambda: bool(pair.heard_there.frames))
            assert not pair.heard_here.frames
            pair.here.resume_reading()
            pair.here.resume_reading()
            await pair.heard_here.until(lambda: bool(pair.heard_here.frames))
            assert pair.heard_here.frames == [_frame(1)]

    async def test_resuming_without_a_pause_changes_nothing(self) -> None:
        async with self.connected() as pair:
            pair.here.resume_reading()
            pair.there.write([_frame(1)])
            await pair.heard_here.until(lambda: bool(pair.heard_here.frames))
            assert pair.heard_here.frames == [_frame(1)]

    async def test_reader_that_pauses_while_receiving_gets_the_rest_later(self) -> None:
        frames = [_frame(number, 50_000) for number in range(50)]
        async with self.connected() as pair:
            heard = pair.heard_there
            received = heard.frames_received

            def pause_then_receive(frames: Sequence[Frame]) -> None:
                pair.there.pause_reading()
                received(frames)

            heard.frames_received = pause_then_receive
            pair.here.write(frames)
            while len(heard.frames) < len(frames):
                count = len(heard.frames)
                pair.there.resume_reading()
                await heard.until(lambda count=count: len(heard.frames) > count)
            assert heard.frames == frames

    async def test_writer_is_congested_while_the_peer_does_not_read(self) -> None:
        frame = _frame(1, 10_000)
        async with self.connected() as pair:
            assert not pair.here.congested
            pair.there.pause_reading()
            written = await _congest(pair.here, frame)
            pair.there.resume_reading()
            await pair.heard_here.until(lambda: not pair.here.congested)
            assert pair.heard_here.writable_calls > 0
            await pair.heard_there.until(lambda: len(pair.heard_there.frames) == written)
            assert set(pair.heard_there.frames) == {frame}

    async def test_peer_can_answer_while_the_writer_is_congested(self) -> None:
        async with self.connected() as pair:
            pair.there.pause_reading()
            await _congest(pair.here, _frame(1, 10_000))
            pair.there.write([_frame(2)])
            await pair.heard_here.until(lambda: bool(pair.heard_here.frames))
            assert pair.heard_here.frames == [_frame(2)]

    async def test_frames_written_before_the_close_arrive_before_the_end(self) -> None:
        frames = [_frame(number, 100) for number in range(self.burst)]
        async with self.connected() as pair:
            pair.here.write(frames)
            await pair.here.aclose()
            await pair.heard_there.until(lambda: pair.heard_there.ended)
            assert pair.heard_there.frames == frames
            assert pair.heard_there.ends == [None]

    async def test_writing_to_a_disconnected_peer_is_harmless(self) -> None:
        async with self.connected() as pair:
            await pair.there.aclose()
            for _ in range(100):
                pair.here.write([_frame(1, 10_000)])
                await asyncio.sleep(0)
            await pair.heard_here.until(lambda: pair.heard_here.ended)
            await pair.heard_here.until(lambda: not pair.here.congested)
            pair.here.write([_frame(1, 10_000)])
            assert len(pair.heard_here.ends) == 1

    async def test_closed_transport_receives_nothing(self) -> None:
        async with self.connected() as pair:
            pair.there.write([_frame(1)])
            await pair.here.aclose()
            heard = len(pair.heard_here.frames)
            await pair.heard_there.until(lambda: pair.heard_there.ended)
            pair.there.write([_frame(2)])
            await pair.there.aclose()
            assert len(pair.heard_here.frames) == heard
            assert not pair.heard_here.ends

    async def test_closed_transport_accepts_all_calls(self) -> None:
        async with self.connected() as pair:
            await pair.here.aclose()
            pair.here.write([_frame(1)])
            pair.here.pause_reading()
            pair.here.resume_reading()
            assert not pair.here.congested

    async def test_close_can_be_called_again_and_twice_at_once(self) -> None:
        async with self.connected() as pair:
            async with asyncio.timeout(_TIMEOUT_S):
                await asyncio.gather(pair.here.aclose(), pair.here.aclose())
                await pair.here.aclose()
            await pair.heard_there.until(lambda: pair.heard_there.ended)

    async def test_closing_does_not_wait_for_a_peer_that_does_not_read(self) -> None:
        async with self.connected() as pair:
            pair.there.pause_reading()
            await _congest(pair.here, _frame(1, 10_000))
            async with asyncio.timeout(_TIMEOUT_S):
                await pair.here.aclose()

    async def test_closing_both_sides_at_once_ends(self) -> None:
        async with self.connected() as pair, asyncio.timeout(_TIMEOUT_S):
            await asyncio.gather(pair.here.aclose(), pair.there.aclose())

    async def test_closed_transport_does_not_start(self) -> None:
        for transport in await self.pair(FRAME_BYTES):
            await transport.aclose()
            await transport.aclose()
            try:
                await transport.start(Recorder())
            except TransportError:
                continue
            raise AssertionError("a closed transport has started")

    async def test_answering_from_within_the_receiver_does_not_recurse(self) -> None:
        rounds = min(self.burst, 3000)
        async with self.connected() as pair:
            ends = (pair.here, pair.heard_here), (pair.there, pair.heard_there)
            for transport, heard in ends:
                _answer_each_frame(transport, heard, until=rounds)
            pair.here.write([_frame(0)])
            await pair.heard_there.until(lambda: len(pair.heard_there.frames) >= rounds)


class StoreContract:
    """The contract of session stores as tests: subclass it as `TestMyStore`, override `store`.

    The tests are coroutines without arguments, for pytest-asyncio's auto mode or the like.
    """

    async def store(self) -> SessionStore:
        """Return an empty store."""
        raise NotImplementedError

    async def reopened(self, store: SessionStore) -> SessionStore:
        """Return another store with the same sessions, if the store outlives the process."""
        return store

    @asynccontextmanager
    async def empty(self) -> AsyncGenerator[SessionStore, None]:
        """Create a store, and close it at the end of the block."""
        store = await self.store()
        try:
            yield store
        finally:
            await store.aclose()

    async def test_session_is_found_as_it_was_created(self) -> None:
        session = StoredSession(
            id="a",
            cwd="/wörk",
            additional_directories=("/other", "/third"),
            title="Title \N{GRINNING FACE}",
            title_is_users=True,
            updated_at=_time(1),
            archived=True,
            principal="ada \N{GRINNING FACE}",
        )
        async with self.empty() as store:
            await store.create(session)
            assert await store.get("a") == session
            assert await store.read("a") == []

    async def test_missing_session_is_none(self) -> None:
        async with self.empty() as store:
            assert await store.get("a") is None

    async def test_id_cannot_be_used_twice(self) -> None:
        async with self.empty() as store:
            await store.create(_session("a", title="first"), [b"1"])
            assert await _raises(ValueError, store.create(_session("a"), [b"2"]))
            assert await store.get("a") == _session("a", title="first")
            assert await store.read("a") == [b"1"]

    async def test_entries_are_read_in_the_order_of_their_addition(self) -> None:
        entries = [b'{"n":%d}' % number for number in range(300)]
        async with self.empty() as store:
            await store.create(_session("a"), entries[:2])
            await store.create(_session("b"))
            for entry in entries[2:]:
                await store.append("a", entry)
                await store.append("b", entry)
            assert await store.read("a") == entries
            assert await store.read("b") == entries[2:]

    async def test_entry_can_be_any_bytes(self) -> None:
        entry = bytes(range(256)) * 5000
        async with self.empty() as store:
            await store.create(_session("a"))
            await store.append("a", entry)
            await store.append("a", b"")
            assert await store.read("a") == [entry, b""]

    async def test_unknown_session_rejects_entries_and_updates(self) -> None:
        async with self.empty() as store:
            assert await _raises(KeyError, store.append("a", b"1"))
            assert await _raises(KeyError, store.read("a"))
            assert await _raises(KeyError, store.update(_session("a")))
            assert await store.get("a") is None

    async def test_update_replaces_the_metadata_and_keeps_the_entries(self) -> None:
        changed = _session("a", title="new", updated_at=_time(9), archived=True)
        async with self.empty() as store:
            await store.create(_session("a"), [b"1"])
            await store.update(changed)
            assert await store.get("a") == changed
            assert await store.read("a") == [b"1"]

    async def test_deleted_session_is_gone_with_its_entries(self) -> None:
        async with self.empty() as store:
            await store.create(_session("a"), [b"1"])
            await store.create(_session("b"), [b"2"])
            await store.delete("a")
            await store.delete("a")
            assert await store.get("a") is None
            assert await _raises(KeyError, store.append("a", b"1"))
            assert [found.id for found in (await store.list()).sessions] == ["b"]
            await store.create(_session("a"))
            assert await store.read("a") == []
            assert await store.read("b") == [b"2"]

    async def test_listing_starts_with_the_last_changed_session(self) -> None:
        async with self.empty() as store:
            for number, name in enumerate("abc"):
                await store.create(_session(name, updated_at=_time(number)))
            await store.update(_session("a", updated_at=_time(7)))
            page = await store.list()
            assert [found.id for found in page.sessions] == ["a", "c", "b"]
            assert page.next_cursor is None

    async def test_empty_listing_is_empty(self) -> None:
        async with self.empty() as store:
            page = await store.list()
            assert (page.sessions, page.next_cursor) == ((), None)

    async def test_listing_can_be_filtered_by_directory_and_archived_state(self) -> None:
        async with self.empty() as store:
            await store.create(_session("a", cwd="/one"))
            await store.create(_session("b", cwd="/two", additional=("/one",)))
            await store.create(_session("c", cwd="/one/sub"))
            await store.create(_session("d", cwd="/one", archived=True))

            assert [found.id for found in (await store.list(cwd="/one")).sessions] == ["a"]
            found = await store.list(cwd="/one", archived="include")
            assert {session.id for session in found.sessions} == {"a", "d"}
            found = await store.list(archived="only")
            assert [session.id for session in found.sessions] == ["d"]

    async def test_listing_can_be_filtered_by_principal(self) -> None:
        async with self.empty() as store:
            for number in range(12):
                name = ("ada", "bob", None)[number % 3]
                await store.create(_session(f"s{number:02}", principal=name))
            page = await store.list(principal="ada", limit=3)
            assert [found.id for found in page.sessions] == ["s09", "s06", "s03"]
            assert {found.principal for found in page.sessions} == {"ada"}
            page = await store.list(principal="ada", limit=3, cursor=page.next_cursor)
            assert [found.id for found in page.sessions] == ["s00"]
            assert page.next_cursor is None
            assert not (await store.list(principal="eve")).sessions
            await store.copy("s00", _session("copy", principal="bob"))
            assert len((await store.list(principal="bob")).sessions) == 5
            assert len((await store.list()).sessions) == 13

    async def test_pages_contain_each_session_once_while_others_are_added(self) -> None:
        async with self.empty() as store:
            for number in range(10):
                # Some with the same time.
                await store.create(_session(f"s{number}", updated_at=_time(number // 3)))
            seen: list[str] = []
            page = await store.list(limit=3)
            while True:
                assert len(page.sessions) <= 3
                seen += [session.id for session in page.sessions]
                if page.next_cursor is None:
                    break
                await store.create(_session(f"new{len(seen)}", updated_at=_time(99)))
                page = await store.list(limit=3, cursor=page.next_cursor)
            assert sorted(seen) == [f"s{number}" for number in range(10)]

    async def test_invalid_cursor_is_rejected(self) -> None:
        async with self.empty() as store:
            assert await _raises(ValueError, store.list(cursor="nonsense"))
            assert await _raises(ValueError, store.list(cursor=""))

    async def test_owner_of_a_session_writes_until_it_releases_it(self) -> None:
        async with self.empty() as store:
            await store.create(_session("a"), [b"1"])
            for number, entries in enumerate(([b"2", b"3"], [b"4"])):
                owned = await store.own("a", lambda: None)
                await owned.append(entries)
                await owned.update(_session("a", updated_at=_time(number)))
                await owned.release()
                await owned.release()
            assert await store.read("a") == [b"1", b"2", b"3", b"4"]
            assert await store.get("a") == _session("a", updated_at=_time(1))

    async def test_sessions_survive_a_close(self) -> None:
        async with self.empty() as store:
            await store.create(_session("a"), [b"1"])
            await store.append("a", b"2")
            await store.aclose()
            await store.aclose()
            again = await self.reopened(store)
            try:
                assert await again.get("a") == _session("a")
                assert await again.read("a") == [b"1", b"2"]
                await again.append("a", b"3")
                assert await again.read("a") == [b"1", b"2", b"3"]
            finally:
                await again.aclose()


def _time(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000000Z"


def _session(
    session_id: str,
    *,
    cwd: str = "/work",
    additional: tuple[str, ...] = (),
    title: str | None = None,
    updated_at: str = _time(0),
    archived: bool = False,
    principal: str | None = None,
) -> StoredSession:
    return StoredSession(
        id=session_id,
        cwd=cwd,
        additional_directories=additional,
        title=title,
        updated_at=updated_at,
        archived=archived,
        principal=principal,
    )


async def _raises(error: type[Exception], work: Coroutine[Any, Any, object]) -> bool:
    try:
        await work
    except error:
        return True
    return False


class _Pair:
    def __init__(
        self, here: Transport, heard_here: Recorder, there: Transport, heard_there: Recorder
    ) -> None:
        self.here = here
        self.heard_here = heard_here
        self.there = there
        self.heard_there = heard_there


def _frame(number: int, size: int = 0) -> bytes:
    return b'{"number":%d,"padding":"%b"}' % (number, b"x" * size)


async def _congest(transport: Transport, frame: bytes) -> int:
    """Write until the transport is congested; return the number of writes."""
    for written in range(_MAX_BYTES // len(frame)):
        # A relay between the transports may accept frames: that is not a congestion yet.
        if transport.congested:
            return written
        transport.write([frame])
        await asyncio.sleep(0)
    raise AssertionError(f"not congested after {_MAX_BYTES} unread bytes")


def _answer_each_frame(transport: Transport, heard: Recorder, *, until: int) -> None:
    received = heard.frames_received

    def answer(frames: Sequence[Frame]) -> None:
        received(frames)
        if len(heard.frames) <= until:
            transport.write(frames)

    heard.frames_received = answer
