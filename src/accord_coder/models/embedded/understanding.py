"""Understands a prompt: which requests it makes, in which order, and what was not understood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct

from accord_coder.models.embedded.clauses import chunks, core, joints
from accord_coder.models.embedded.form import Budget, Slots, TooHard
from accord_coder.models.embedded.place import Place, paths_at
from accord_coder.models.embedded.prompt import Attachment, PromptText, prompt_text
from accord_coder.models.embedded.request import Asked, Request
from accord_coder.models.embedded.slots import is_bare, slots_for
from accord_coder.models.embedded.table import REQUESTS, forms_for
from accord_coder.models.embedded.words import ATTACHED, TooMuch, Word, scan

if TYPE_CHECKING:
    from accord import ContentBlock

__all__ = ("Understood", "understand")

_STEPS = 400_000  # of the matcher for one prompt: a second or so
_WIDEST = 8  # joints that one request may have in it
_MOST_REQUESTS = 20
_WRITES = frozenset("append add create insert make overwrite put save write".split())
_CONTENT_AFTER = 400  # characters of a first line behind which the content of a file stands


class Understood(Struct, frozen=True):
    """What a prompt asks for; `unknown` are the parts of it that mean nothing here."""

    steps: tuple[Asked, ...] = ()
    unknown: tuple[str, ...] = ()
    problem: str = ""

    @property
    def last_place(self) -> Place | None:
        """What `it` means in the prompt after this."""
        for step in reversed(self.steps):
            if (target := step.get("target", Place)) is not None:
                name = step.place("source").path.rpartition("/")[2]
                path = target.path + (name if target.path.endswith("/") else "")
                return Place(path, sure=True)
            for slot in ("path", "paths"):
                for place in reversed(_places_of(step.held.get(slot))):
                    if place.path not in ("", "."):
                        return Place(place.path, sure=True)
        return None


class _Match(Struct, frozen=True):
    request: Request
    held: dict[str, Any]
    shown: str

    @property
    def is_loose(self) -> bool:
        """Whether a part of it is text without quotes, that may be more than was meant."""
        return (
            any(
                (isinstance(value, str) and is_bare(value)) or (name == "command" and not value[1])
                for name, value in self.held.items()
            )
            or self.request.asks_back
        )


_Row: TypeAlias = list[_Match]


def understand(content: Sequence[ContentBlock], before: Place | None = None) -> Understood:
    """Return what a prompt asks for. `before` is what `it` means at its beginning."""
    text = prompt_text(content)
    if text.problem:
        return Understood(problem=text.problem)
    try:
        return _Reader(text).read(before)
    except TooMuch:
        return Understood(problem="That is more than I can take in as plain requests.")
    except TooHard:
        return Understood(problem="That is too tangled for plain requests.")


class _Reader:
    def __init__(self, text: PromptText) -> None:
        self.source = text.source
        self.attachments = text.attachments
        self.budget = Budget(_STEPS)
        self.slots: Slots = slots_for(self.source)
        self.at: dict[int, Attachment] = {}
        place = -1
        for attachment in self.attachments:
            place = self.source.find(ATTACHED, place + 1)
            self.at[place] = attachment

    def read(self, before: Place | None) -> Understood:
        if self.attachments and not self.source.replace(ATTACHED, "").strip():
            return self._explain_all()
        found: _Row = []
        unknown: list[str] = []
        for chunk in self._chunks():
            if all(word.kind in ("attached", "mark", "item") for word in chunk):
                continue
            match self._chunk(chunk):
                case str() as problem:
                    return Understood(problem=problem)
                case None:
                    some, rest = self._some(chunk)
                    found += some
                    unknown.append(self._shown(rest))
                case row:
                    found += row
        if len(found) + len(unknown) > 1:
            found = [match for match in found if match.request.name not in ("hello", "thanks")]
        if len(found) > _MOST_REQUESTS:
            return Understood(
                problem=f"Those are {len(found)} requests; I take {_MOST_REQUESTS} in one prompt."
            )
        return self._resolve(found, tuple(unknown), before)

    def _explain_all(self) -> Understood:
        request = next(request for request in REQUESTS if request.name == "explain")
        places = tuple(attachment.place for attachment in self.attachments[:20])
        return Understood((self._asked(request, {"paths": places}, "Explain what is attached"),))

    def _chunks(self) -> list[list[Word]]:
        line, newline, rest = self.source.partition("\n")
        if newline and rest.strip() and line.rstrip().endswith(":") and len(line) < _CONTENT_AFTER:
            words = scan(line)
            stands = next(i for i, char in enumerate(rest) if not char.isspace())
            fenced = rest[stands : stands + 3] in ("```", "~~~")
            first = core(words)[0].low if words else ""
            if first in _WRITES and not fenced:
                start = len(line) + 1
                body = rest if rest.endswith("\n") else rest + "\n"
                words.append(Word("block", body, start, len(self.source)))
                if self._match(words) is not None:
                    return [words]
        return list(chunks(scan(self.source)))

    def _chunk(self, words: list[Word]) -> _Row | str | None:
        """Return the requests of a chunk, a question back, or None."""
        whole = self._match(words)
        if whole is not None and not whole.is_loose:
            return [whole]
        row = self._row(words)
        if row is None or len(row) < 2:
            return None if whole is None else [whole]
        acts = whole is not None and whole.request.effect in ("edit", "delete", "run")
        if whole and acts and any(m.request.effect in ("edit", "delete") for m in row[1:]):
            return (
                f"I can read “{self._shown(words)}” in two ways: as one request, or as"
                f" {len(row)}: {'; '.join(match.shown for match in row)}. Nothing was done."
                " Put what is text or a command in quotes, or write each request on its own line."
            )
        return row

    def _some(self, words: list[Word]) -> tuple[_Row, list[Word]]:
        """Return what a chunk begins with if that only reads, and the rest."""
        for joint in reversed(joints(words)):
            row = self._row(words[:joint])
            if row and all(match.request.effect == "read" for match in row):
                return row, words[joint + 1 :]
        return [], words

    def _row(self, words: list[Word]) -> _Row | None:
        """Return the requests between commas and `and`, if all of it can be read so."""
        ends = [*joints(words), len(words)]
        best: dict[int, _Row | None] = {len(words) + 1: [], len(words): []}
        for start in [*(end + 1 for end in reversed(ends[:-1])), 0]:
            best.setdefault(start, None)
            for end in [end for end in ends if end > start][:_WIDEST]:
                rest = best.get(end + 1)
                if rest is None or (match := self._match(words[start:end])) is None:
                    continue
                best[start] = [match, *rest]
                break
        return best[0]

    def _match(self, words: Sequence[Word]) -> _Match | None:
        """Return the request that these words are, with or without what is attached to them."""
        if not words:
            return None
        plain = [word for word in words if word.kind != "attached"]
        for these in (words, plain) if len(plain) < len(words) else (words,):
            if not these:
                continue
            tries = [core(these), these, core(these, forced=True)]
            for number, clause in enumerate(tries):
                if any(len(clause) == len(before) for before in tries[:number]):
                    continue
                if (match := self._match_clause(clause, words)) is not None:
                    return match
        return None

    def _match_clause(self, words: Sequence[Word], shown: Sequence[Word]) -> _Match | None:
        for request, form in forms_for(words):
            self.budget.spend(10)
            if (held := form.match(words, self.slots, self.budget)) is not None:
                return _Match(request, held, self._shown(shown))
        # `In src, find …` is `find … in src`.
        if words and words[0].low in ("in", "inside", "within"):
            for end, _ in paths_at(words, 1):
                rest = list(words[end:])
                while rest and rest[0].low == ",":
                    rest = rest[1:]
                if rest and rest[0].low not in ("in", "inside", "within"):
                    return self._match_clause([*rest, *words[:end]], shown)
        return None

    def _shown(self, words: Sequence[Word]) -> str:
        """Return words as they stand in the prompt, on one line, not too long."""
        kept = core(words)
        text = " ".join(self.source[kept[0].start : kept[-1].end].split())
        for word in kept:
            if word.kind == "attached" and word.start in self.at:
                name = self.at[word.start].place.path.rpartition("/")[2]
                text = text.replace(ATTACHED, name, 1)
        text = text.strip(" ,;:.") or text
        return text if len(text) <= 120 else text[:119] + "…"

    def _asked(self, request: Request, held: dict[str, Any], shown: str) -> Asked:
        texts = {a.place.path: a.text for a in self.attachments if a.text is not None}
        return Asked(request, held, shown[:1].upper() + shown[1:], attached=texts)

    def _resolve(self, found: _Row, unknown: tuple[str, ...], before: Place | None) -> Understood:
        """Put files in the place of `this file` and `it`."""
        steps: list[Asked] = []
        for match in found:
            last = Understood(tuple(steps)).last_place
            held: dict[str, Any] = {}
            for name, value in match.held.items():
                resolved = self._resolved(value, last, before, match.request)
                if resolved is None:
                    return Understood(problem=self._which(match))
                held[name] = resolved
            steps.append(self._asked(match.request, held, match.shown))
        return Understood(tuple(steps), unknown)

    def _resolved(
        self, value: Any, last: Place | None, before: Place | None, request: Request
    ) -> Any:
        """Return what a slot means; None when it is not clear which file."""
        match value:
            case Place():
                found = self._meant(value, last, before, request)
                return found[0] if len(found) == 1 else None
            case tuple() if _places_of(value):
                meant = [self._meant(p, last, before, request) for p in _places_of(value)]
                return tuple(dict.fromkeys(p for row in meant for p in row)) if all(meant) else None
            case str() if ATTACHED in value:
                return value.replace(ATTACHED, _quoted(self.attachments[0]))
            case (str() as text, bool() as sure) if ATTACHED in text:
                return text.replace(ATTACHED, _quoted(self.attachments[0])), sure
            case _:
                return value

    def _meant(
        self, place: Place, last: Place | None, before: Place | None, request: Request
    ) -> list[Place]:
        if place.attached is not None:
            return [self.at[place.attached].place] if place.attached in self.at else []
        attached = [attachment.place for attachment in self.attachments]
        harmless = request.effect in ("none", "read")
        match place.refers:
            case "this":
                found = attached or [last or (before if harmless else None)]
            case "it":
                found = [last] if last else attached or [before if harmless else None]
            case _:
                found = [place]
        return [place for place in found if place is not None]

    def _which(self, match: _Match) -> str:
        why = "several files are attached" if len(self.attachments) > 1 else "no file is named"
        return (
            f"I understood “{match.shown}”, but not which file is meant: {why}. Nothing was done."
            " Write its path, or mention it with @."
        )


def _quoted(attachment: Attachment) -> str:
    import shlex

    return shlex.quote(attachment.place.path)


def _places_of(value: Any) -> list[Place]:
    match value:
        case Place():
            return [value]
        case tuple():
            return [part for part in cast("tuple[Any, ...]", value) if isinstance(part, Place)]
        case _:
            return []
