"""Clients that prompt the counter of the page all the time, and check what they receive."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import accord
from accord import Reconnect
from accord.errors import AccordError
from accord.version import ProtocolVersion
from remote.many_servers.cluster import TOKEN, Cluster

__all__ = ("Client", "expected")

_PAUSE_S = 0.2  # after an error
_WAIT_S = 60.0  # for any single turn; then the client hangs


def expected(count: int) -> str:
    """Return what the agent says to a prompt."""
    return "".join(f"{number} " for number in range(count))


class Client:
    """A client with one session; each prompt is a different number."""

    def __init__(
        self, cluster: Cluster, scheme: str, version: ProtocolVersion, first: int = 20
    ) -> None:
        self._cluster = cluster
        self._url = f"{scheme}://{cluster.address}/acp"
        self._version: tuple[ProtocolVersion, ...] = (version,)
        self._first = first
        self.name = f"{scheme}, version {version}"
        self.session_id = ""
        self.opened = asyncio.Event()
        self.heard: dict[int, str] = {}  # by prompt, in order
        self.completed: list[int] = []
        self.interrupted: list[str] = []
        self.transcript: list[tuple[int, str]] = []
        self.reconnects = 0
        self.unfinished: list[tuple[int, str]] = []  # in the store

    def _count(self, change: accord.ConnectionChange) -> None:
        if change.state == "connected":
            self.reconnects += 1

    async def run(self, stop: asyncio.Event) -> None:
        """Prompt until `stop` is set."""
        settings = Reconnect(attempts=100, wait_s=0.1, max_wait_s=1.0, on_change=self._count)
        async with accord.connect(
            self._url,
            token=TOKEN,
            ca_file=self._cluster.certificate,
            reconnect=settings,
            versions=self._version,
        ) as agent:
            session = await agent.new_session("/")
            self.session_id = session.id
            self.opened.set()
            while not stop.is_set():
                count = self._first + len(self.heard)
                self.heard[count] = ""
                try:
                    async with asyncio.timeout(_WAIT_S), session.prompt(str(count)) as turn:
                        async for event in turn:
                            if isinstance(event, accord.Text):
                                self.heard[count] += event.text
                    assert turn.stop_reason == "end_turn", turn.stop_reason
                    self.completed.append(count)
                except AccordError as exc:
                    self.interrupted.append(f"{count}: {exc!r}")
                    await asyncio.sleep(_PAUSE_S)
            self.transcript = turns_of(session.transcript)

    async def check(self) -> None:
        """Load the session with another connection, and compare."""
        async with accord.connect(
            self._url, token=TOKEN, ca_file=self._cluster.certificate, versions=self._version
        ) as agent:
            session = await agent.load_session(self.session_id, cwd="/")
            stored = turns_of(session.transcript)
        self.unfinished = [turn for turn in stored if turn[1] != expected(turn[0])]
        try:
            self._compare(stored)
        except AssertionError as exc:
            exc.add_note(f"{self.name}: errors {self.interrupted}")
            raise

    def _compare(self, stored: list[tuple[int, str]]) -> None:
        prompts = [prompt for prompt, _ in stored]
        assert prompts == sorted(set(prompts)), f"prompts repeated or out of order: {prompts}"
        said = dict(stored)
        for count, text in stored:
            assert expected(count).startswith(text), f"{count}: {text!r} was not said like this"
        for count, heard in self.heard.items():
            assert not heard or count in said, f"{count}: {heard!r} is lost, with its prompt"
            assert said.get(count, "").startswith(heard), f"{count}: {heard!r} is lost"
        for count in self.completed:
            assert self.heard[count] == said[count] == expected(count), count
        # A prompt that the agent did not receive is shown by the client only.
        transcript = [turn for turn in self.transcript if turn[1] or turn[0] in said]
        shown = [turn for turn in transcript if turn not in stored]
        missing = [turn for turn in stored if turn not in transcript]
        assert transcript == stored, f"shown {shown}, not shown {missing}"


def turns_of(transcript: accord.Transcript) -> list[tuple[int, str]]:
    """Return the prompts, each with what the agent said."""
    turns: list[tuple[int, str]] = []
    for item in transcript.items:
        assert isinstance(item, accord.Message)
        if item.role == "user":
            turns.append((int(item.text), ""))
        else:
            count, text = turns[-1]
            turns[-1] = count, text + item.text
    return turns


def make_clients(cluster: Cluster, count: int) -> Sequence[Client]:
    """Return clients of both transports and versions."""
    kinds: list[tuple[str, ProtocolVersion]] = [("wss", 1), ("https", 1), ("wss", 2), ("https", 2)]
    return [Client(cluster, *kinds[number % len(kinds)]) for number in range(count)]
