"""Turns what was measured into tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from experiment import Experiment, Numbers
from peers import Peer
from targets import API, API_TARGETS, FAIRNESS, OURS, OWN_TARGETS, TARGETS, Target


@dataclass
class Measured:
    """All rounds of all experiments of a run."""

    peers: list[Peer]
    experiments: list[Experiment]
    rounds: dict[str, dict[str, list[Numbers]]] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    disturbance_ms: list[float] = field(default_factory=list)

    def peers_of(self, experiment: Experiment) -> list[Peer]:
        return [
            peer
            for peer in self.peers
            if not experiment.only or peer.name in experiment.only
            if not peer.only or experiment.name in peer.only
        ]

    def values(self, experiment: str, peer: str, column: str) -> list[float]:
        rounds = self.rounds.get(experiment, {}).get(peer, [])
        return [numbers[column] for numbers in rounds if column in numbers]

    def median(self, experiment: str, peer: str, column: str) -> float | None:
        values = self.values(experiment, peer, column)
        return statistics.median(values) if values else None


def number(value: float | None) -> str:
    """Return three digits that matter."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, numbers to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def experiment_table(measured: Measured, experiment: Experiment) -> str:
    """Return medians, and the range of the first column."""
    first = experiment.columns[0]
    rows = []
    for peer in measured.peers_of(experiment):
        failure = measured.failures.get((experiment.name, peer.name))
        values = measured.values(experiment.name, peer.name, first.key)
        if not values:
            reason = (failure or "not measured").strip().splitlines()[-1]
            rows.append([peer.name, f"failed: {reason[:90].replace('|', '/')}"])
            continue
        medians = [
            number(measured.median(experiment.name, peer.name, column.key))
            for column in experiment.columns
        ]
        span = f"{number(min(values))} to {number(max(values))}"
        rows.append([peer.name, *medians, span])
    head = ["", *(column.heading for column in experiment.columns), f"range of {first.heading}"]
    return table(head, rows)


def _verdict(measured: Measured, target: Target, peer: str) -> str:
    bound = target.bound(peer)
    ours = measured.median(target.experiment, target.ours, target.column)
    theirs = measured.median(target.experiment, peer, target.column)
    if bound is None or not ours or not theirs:
        return ""
    ratio = bound.ratio(ours, theirs)
    met = "met" if bound.met(ratio) else "**missed**"
    return f"{number(ratio)}× ({bound}) {met}"


def targets_table(measured: Measured) -> str:
    """Return how far ours is from the others, and from what it should be."""
    others = [peer.name for peer in measured.peers if peer.name not in (OURS, API)]
    rows = []
    for target in TARGETS:
        cells = [_verdict(measured, target, peer) for peer in others]
        if any(cells):
            ours = measured.median(target.experiment, OURS, target.column)
            rows.append([target.what, number(ours), *cells])
    for target in OWN_TARGETS:
        value = measured.median(target.experiment, OURS, target.column)
        if value is not None and target.itself is not None:
            met = "met" if target.itself.met(value) else "**missed**"
            sign = "×" if target.itself.unit == "×" else ""
            cell = f"{number(value)}{sign} ({target.itself}) {met}"
            rows.append([target.what, cell, *("" for _ in others)])
    fairness = measured.median("sessions", OURS, "fairness")
    if fairness is not None:
        met = "met" if fairness >= FAIRNESS else "**missed**"
        rows.append(
            [
                f"earliest / latest finish of 1,000 sessions (≥ {FAIRNESS})",
                f"{fairness:.2f} {met}",
                *("" for _ in others),
            ]
        )
    if not rows:
        return ""
    return table(["", OURS, *others], rows)


def api_targets_table(measured: Measured) -> str:
    """Return how far the API is from the wire level and from the others."""
    others = [peer.name for peer in measured.peers if peer.name != API]
    rows = []
    for target in API_TARGETS:
        cells = [_verdict(measured, target, peer) for peer in others]
        if any(cells):
            ours = measured.median(target.experiment, API, target.column)
            rows.append([target.what, number(ours), *cells])
    return table(["", API, *others], rows) if rows else ""


def pages(measured: Measured) -> str:
    """Return all tables, as Markdown."""
    parts = []
    targets = targets_table(measured)
    if targets:
        parts.append(
            "## Targets\n\nOurs divided by theirs; for the codec theirs by ours where the "
            "target is a speed-up.\n\n" + targets
        )
    targets = api_targets_table(measured)
    if targets:
        parts.append(
            "## Targets of `accord.Agent` and `accord.connect`\n\n"
            "The API's number divided by that of the column; `accord` is the wire level, "
            "`accord.v1`.\n\n" + targets
        )
    for experiment in measured.experiments:
        if experiment.name in measured.rounds:
            body = experiment_table(measured, experiment)
            parts.append(f"## {experiment.title}\n\n`--only {experiment.name}`\n\n{body}")
    return "\n".join(parts)
