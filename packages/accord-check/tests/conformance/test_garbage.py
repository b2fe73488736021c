"""The observer accepts any message: peers under test send anything."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from accord_conformance.judges.observer import Observer
from conformance.doubles.conforming import everything

ODD: tuple[Any, ...] = (None, True, -1, 1.5, 2**70, "", "s1", "\ud800", [], [None], {}, {"": {}})


def mutated(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with some parts replaced, removed or repeated."""
    if chance.random() < 0.06:
        return chance.choice(ODD)
    if isinstance(value, dict):
        kept = {key: mutated(item, chance) for key, item in value.items() if chance.random() > 0.03}
        if chance.random() < 0.05:
            kept[chance.choice(("id", "method", "params", "type", "sessionId", "x_y"))] = (
                chance.choice(ODD)
            )
        return kept
    if isinstance(value, list):
        items = [mutated(item, chance) for item in value]
        return items * 2 if chance.random() < 0.05 else items
    return value


@pytest.mark.parametrize("version", [1, 2])
def test_mutated_conversations_are_judged_completely(version: int) -> None:
    frames = everything(version).observer.state.frames
    for seed in range(12):
        chance = random.Random(seed)
        observer = Observer()
        for frame in frames:
            text = frame.text
            if frame.number > 6:  # the version is known
                text = json.dumps(mutated(json.loads(text), chance)).encode()
            for _ in range(1 + (chance.random() < 0.05)):
                observer.receive(frame.sender, text, frame.time)
        report = observer.finish()
        assert report.kit_errors == [], seed
        assert report.failed_rules(), seed
        assert json.dumps(report.as_json())
