"""Times a codec over the messages on stdin; for every implementation in Python."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

REPEATS = 7

Item = tuple[str, str, bytes]  # kind, method, line as it comes from a pipe


def items() -> list[Item]:
    """Return what `messages` made."""
    made = []
    for line in sys.stdin.buffer:
        kind, method, text = line.split(b"\t", 2)
        made.append((kind.decode(), method.decode(), text.rstrip(b"\n")))
    return made


def microseconds(work: Callable[[list[Any]], None], inputs: list[Any]) -> float:
    """Return the time per input in the best of `REPEATS` passes, the one least disturbed."""
    passes = []
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        work(inputs)
        passes.append((time.perf_counter_ns() - start) / len(inputs) / 1e3)
    return min(passes)


def main(
    decode: Callable[[list[Item]], None],
    value: Callable[[Item], Any],
    encode: Callable[[list[tuple[str, str, Any]]], None],
) -> None:
    """Print µs per message; `value` returns what `encode` gets for an item."""
    mix = items()
    chunks = [item for item in mix if b'"agent_message_chunk"' in item[2]]
    result = {}
    for name, inputs in (("mix", mix), ("chunk", chunks)):
        values = [(item[0], item[1], value(item)) for item in inputs]
        result[f"decode_{name}"] = microseconds(decode, inputs)
        result[f"encode_{name}"] = microseconds(encode, values)
    print("RESULT " + json.dumps(result))
