"""The form of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from peers import Peer

Numbers = dict[str, float]


@dataclass(frozen=True)
class Column:
    """One number of an experiment."""

    key: str
    heading: str


@dataclass(frozen=True)
class Experiment:
    """A measurement that every peer takes in every round."""

    name: str
    title: str
    rounds: int
    quick_rounds: int
    columns: tuple[Column, ...]
    measure: Callable[[Peer], Numbers]
    only: tuple[str, ...] = ()  # these peers, if any are named
