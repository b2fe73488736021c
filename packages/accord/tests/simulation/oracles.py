"""Conditions of every run: each piece arrives once, in order, and turns end correctly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import accord
from simulation import program as p
from simulation.world import Branch, World, labels_in

__all__ = ("Taker", "all_acts", "check_backlogs", "check_transcripts", "judge_turn")


class Taker:
    """Checks the pieces in the events of one turn, in their order."""

    def __init__(self, world: World, session_id: str, turn: int) -> None:
        self._world = world
        self._turn = turn
        self._session_id = session_id
        self._next: dict[int, int] = defaultdict(int)  # by branch
        self._shown: dict[str, int] = defaultdict(int)  # labels of a tool call

    def see(self, event: Any) -> None:
        world = self._world
        world.trace("event", type(event).__name__)
        if self._session_id in world.loaded:
            return  # in the history, pieces in transit cannot be recognised
        match event:
            case accord.Text(text) | accord.Thought(text):
                self._labels(labels_in(text))
            case accord.ToolCall():
                labels = labels_in(_text_of(event))
                shown = self._shown[event.id]
                if len(labels) < shown:
                    world.fail("events: a tool call has lost content")
                self._shown[event.id] = len(labels)
                self._labels(labels[shown:])
            case accord.Plan():
                texts = [entry.content for entry in event.entries]
                self._labels(labels_in("".join(texts) + (event.markdown or "")))
            case _:
                pass

    def _labels(self, labels: Sequence[tuple[int, int]]) -> None:
        world = self._world
        for number, at in labels:
            branch = _branch(world, number)
            if branch is None:
                continue
            if branch.session_id not in ("", self._session_id):
                world.fail("events: a piece of another session")
            due = self._next[number]
            if at < due and branch.turn != self._turn:
                continue  # all content of a tool call that started in an earlier turn
            if at < due:
                world.fail("events: out of order or twice", f"{number}.{at} after {due - 1}")
                continue
            self._next[number] = at + 1
            for missing in range(due, at):
                # Late pieces of an earlier turn started before this one.
                own = branch.in_turn and branch.turn == self._turn
                if own and branch.pieces[missing].state == "sent":
                    world.fail("events: out of order or lost", f"{number}.{missing} before {at}")

    def complete(self, branches: Sequence[Branch]) -> None:
        """Check the complete turn, after all its events were read."""
        for branch in branches:
            if not branch.in_turn or branch.session_id != self._session_id:
                continue
            for at in range(self._next[branch.number], len(branch.pieces)):
                if branch.pieces[at].state == "sent":
                    self._world.fail("events: lost at the end", f"{branch.number}.{at}")
                    break


def check_transcripts(world: World, client: Any) -> None:
    """Compare the transcripts of a client with the pieces that the agent has shown."""
    for session_id, session in client.sessions.items():
        if session_id in world.loaded:
            continue  # as above
        seen = Counter[tuple[int, int]]()
        for item in session.transcript.items:
            text = item.text if isinstance(item, accord.Message) else _text_of(item)
            labels = labels_in(text)
            seen.update(labels)
            last: dict[int, int] = {}
            for number, at in labels:
                if last.get(number, -1) >= at:
                    world.fail("transcript: out of order", f"{number}.{at}")
                last[number] = at
        for label, count in seen.items():
            if count > 1:
                world.fail("transcript: twice", str(label))
                break
        if client.is_cut or session_id in world.closed or not client.whole.get(session_id):
            continue
        for branch in world.branches:
            if branch.session_id != session_id:
                continue
            for at, piece in enumerate(branch.pieces):
                if piece.kept and piece.state == "sent" and not seen[branch.number, at]:
                    world.fail("transcript: lost", f"{branch.number}.{at}")
                    break


def check_backlogs(world: World, client: Any, *, settled: bool = False) -> None:
    """Fail if more messages wait for the consumers of a client than its limits allow.

    When all is settled, none may be counted as waiting.
    """
    backlogs = client.agent.remote.connection.flow.backlogs
    limits = backlogs.limits
    for backlog in backlogs.full:
        if backlog.items > limits.max_backlog_messages + 1:  # the last one exceeds it
            world.fail("a backlog exceeds its bound", f"{backlog.items} messages")
    if not 0 <= backlogs.size_bytes <= limits.total_backlog_bytes:
        world.fail("all backlogs exceed their bound", f"{backlogs.size_bytes} bytes")
    if settled and backlogs.size_bytes:
        world.fail(
            "messages are counted as waiting though none waits", f"{backlogs.size_bytes} bytes"
        )


def judge_turn(world: World, number: int, session_id: str, stop_reason: str) -> None:
    """Check the stop reason of a turn that has not failed, over a complete connection."""
    cancelled = stop_reason == "cancelled"
    if number in world.interrupted and not cancelled:
        world.fail("a cancelled turn ends in another reason", stop_reason)
    explained = (
        session_id in world.may_be_cancelled
        or session_id in world.closed
        # The user can answer a permission request with cancelled, which cancels the turn.
        or any(isinstance(act, p.Ask) for act in all_acts(world.turns[number].acts))
    )
    if cancelled and not explained:
        world.fail("a turn is cancelled by itself", repr(world.turns[number]))


def all_acts(acts: Sequence[Any]) -> list[Any]:
    """Return the acts, including nested ones."""
    found: list[Any] = []
    for act in acts:
        found.append(act)
        found += all_acts(getattr(act, "acts", ()))
        for branch in getattr(act, "branches", ()):
            found += all_acts(branch)
    return found


def _branch(world: World, number: int) -> Branch | None:
    if number >= len(world.branches):
        world.fail("a piece that was never shown")
        return None
    return world.branches[number]


def _text_of(item: Any) -> str:
    if not isinstance(item, accord.ToolCall):
        return ""
    texts: list[str] = []
    for part in item.content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, accord.Diff):
            texts.append(part.new or part.patch or "")
    return "".join(texts)
