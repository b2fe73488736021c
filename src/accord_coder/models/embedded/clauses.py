"""What of a prompt is one request: sentences, lines of a list, `…, then …`, `… and …`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accord_coder.models.embedded.words import Word

__all__ = ("chunks", "core", "joints")

_ENDS = frozenset("\n . ! ? ;".split(" "))
_GOES_ON = frozenset("with by in into to at from".split())
_LEADING = tuple(
    tuple(phrase.split())
    for phrase in (
        "please|kindly|just|now|and|also|then|next|first|firstly|second|secondly|third|thirdly|"
        "finally|lastly|afterwards|after that|can you|could you|would you|will you|can we|could we|"
        "can i|i want you to|i want to|i would like you to|i'd like you to|i would like to|"
        "i'd like to|i need you to|i need to|let's|lets|let us|ok|okay|hey|hi|hello|so|well|"
        "you should|you can|go ahead and|try to|help me to|help me|make sure to|we need to|"
        "we should|you|to|go and|quickly|,|:|-|step|after it|as well as|i want|i'd like|"
        "would you mind to|do|tell me|let me know|let me see|check|find out"
    ).split("|")
)
# Leading words that carry a meaning too: tried away only when nothing else is understood.
_FORCED = frozenset((("do",), ("tell", "me"), ("check",), ("find", "out"), ("let", "me", "know")))
_TRAILING = tuple(
    tuple(phrase.split())
    for phrase in (
        "please|thanks|thank you|for me|now|right now|again|too|as well|afterwards|,|:|.|?|!|;|and|"
        "to me|once more|first|then|today|if you please|okay|\n"
    ).split("|")
)


def chunks(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield the parts between ends of sentences and lines, items of lists and `then`."""
    held: list[Word] = []
    for at, word in enumerate(words):
        if word.kind == "mark" and word.text == "\n" and _is_inside(words, at):
            continue
        after_that = word.low == "after" and at + 1 < len(words) and words[at + 1].low == "that"
        is_end = word.kind == "item" or (word.kind == "mark" and word.text in _ENDS)
        if is_end or after_that or word.low in ("then", "afterwards"):
            if _says(held):
                yield held
            held = []
            continue
        held.append(word)
    if _says(held):
        yield held


def _is_inside(words: Sequence[Word], at: int) -> bool:
    """Return whether the end of a line is no end of a request: it is beside a block."""
    following = words[at + 1] if at + 1 < len(words) else None
    if following is None:
        return False
    if following.kind == "block":
        return True
    return at > 0 and words[at - 1].kind == "block" and following.low in _GOES_ON


def _says(words: Sequence[Word]) -> bool:
    """Return whether there is more than punctuation and `and`."""
    return any(word.kind != "mark" and word.low not in ("and", "that") for word in words)


def joints(words: Sequence[Word]) -> list[int]:
    """Return where a comma or an `and` may part two requests."""
    return [at for at, word in enumerate(words) if at and word.low in (",", "and", "&")]


def core(words: Sequence[Word], *, forced: bool = False) -> Sequence[Word]:
    """Return the words without the politeness around them; all of them if nothing is left."""
    kept = words
    while kept and (size := _leads(kept, forced=forced)) and size < len(kept):
        kept = kept[size:]
    while kept and (size := _trails(kept)) and size < len(kept):
        kept = kept[:-size]
    return kept or words


def _leads(words: Sequence[Word], *, forced: bool) -> int:
    lows = tuple(word.low for word in words[:6])
    found = [
        len(phrase)
        for phrase in _LEADING
        if lows[: len(phrase)] == phrase and (forced or phrase not in _FORCED)
    ]
    return max(found, default=0)


def _trails(words: Sequence[Word]) -> int:
    lows = tuple(word.low for word in words[-4:])
    return max((len(p) for p in _TRAILING if lows[-len(p) :] == p), default=0)
