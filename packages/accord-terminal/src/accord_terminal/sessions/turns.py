"""The turns of a session, read from its journal: prompts, answers, tool calls, times, cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from accord.client.transcript import TerminalTranscript, Transcript, calls_left_open
from accord.types.session import Cost
from accord_terminal.sessions.entries import Answered, Asked, Ended, Entry, Queued, Started, Updated
from accord_terminal.sessions.owner.translate import Translator


class Turn(Struct, kw_only=True):
    """One prompt and what the agent did; `items` are those of `accord.Transcript`."""

    id: str
    prompt: str
    by: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    stop_reason: str | None = None
    error: str | None = None
    items: list[Any] = []
    plans: list[Any] = []
    terminals: dict[str, TerminalTranscript] = {}  # those of the session so far, by id
    decisions: list[tuple[str, str, str]] = []  # what was asked, the answer, by whom
    cost: Cost | None = None  # of the session after the turn


def turns_of(entries: Iterable[Entry], version: int) -> Iterator[Turn]:
    """Yield the turns of a journal in order; `version` is that of the agent."""
    queued: dict[str, Queued] = {}
    asked: dict[str, Asked] = {}
    turn: Turn | None = None
    translator = Translator(version, forgets=False)
    for entry in entries:
        match entry:
            case Queued(prompt=str() as prompt_id):
                queued[prompt_id] = entry
            case Started(prompt=str() as prompt_id):
                text = _text_of(entry)
                turn = Turn(id=prompt_id, prompt=text, by=entry.by, started_at=entry.at)
                cost = translator.transcript
                translator.transcript = Transcript()
                translator.transcript.usage = cost.usage
            case Updated(session=None):
                translator.events(entry.update)
            case Asked():
                asked[entry.request] = entry
            case Answered() if turn is not None and entry.request in asked:
                question = asked[entry.request]
                turn.decisions.append(
                    (f"{question.what}: {question.title}", entry.answer, entry.by)
                )
            case Ended():
                if turn is not None and turn.id == entry.prompt:
                    for call in calls_left_open(translator.transcript, version):
                        translator.transcript.apply(call)
                    yield _ended(turn, entry, translator.transcript)
                    turn = None
            case _:
                pass
    if turn is not None:
        yield _ended(turn, None, translator.transcript)


def _ended(turn: Turn, ended: Ended | None, transcript: Transcript) -> Turn:
    turn.items = [*transcript.items]
    turn.terminals = {**transcript.terminals}
    turn.plans = [*transcript.plans.values()]
    if transcript.usage is not None:
        turn.cost = transcript.usage.cost
    if ended is not None:
        turn.ended_at, turn.stop_reason, turn.error = ended.at, ended.stop_reason, ended.error
    return turn


def _text_of(entry: Started) -> str:
    blocks: Any = msgspec.json.decode(entry.content)
    return "\n".join(str(block.get("text") or block.get("uri") or "") for block in blocks)
