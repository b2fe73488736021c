"""Measures Accord beside the official SDKs and beside the least that Python can do.

python benchmarks/run.py                       everything, about 20 minutes; writes RESULTS.md
python benchmarks/run.py --quick               fewer rounds, a few minutes; prints only
python benchmarks/run.py --only stream,codec   experiments that begin with these names
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import machine
import report
from experiment import Experiment
from experiments import chosen
from peers import HERE, PEERS, Peer, Unavailable
from processes import Driver, Failed
from report import Measured

# Of the parts that have a page of their own.
REMARKS = {
    "remote": "REMARKS_REMOTE.md",
    "proxy": "REMARKS_PROXY.md",
    "trace": "REMARKS_TRACE.md",
}
QUICK_PEERS = ["accord", "accord-api", "official", "typescript", "floor"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = {"type": lambda text: text.split(","), "metavar": "NAME[,NAME]"}
    parser.add_argument("--only", default=[], help="experiments that begin so", **names)
    parser.add_argument("--peers", help=f"of {', '.join(PEERS)}", **names)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--rounds", type=int, help="as many rounds of each experiment")
    parser.add_argument("--save", type=Path, metavar="FILE", help="save the page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save every number measured")
    return parser.parse_args()


def available(names: list[str]) -> list[Peer]:
    """Set the peers up and start each agent once; leave out what does not work here."""
    peers = []
    for name in names:
        if name not in PEERS:
            raise SystemExit(f"no peer {name!r}; there are {', '.join(PEERS)}")
        try:
            peer = PEERS[name]()
            with Driver(peer) as driver:
                driver.initialize()
        except (Unavailable, Failed) as exc:
            print(f"without {name}: {exc}", file=sys.stderr)
        else:
            peers.append(peer)
    return peers


def measure(measured: Measured, experiment: Experiment, rounds: int) -> None:
    """Let all peers take turns, another one first in each round."""
    peers = measured.peers_of(experiment)
    if not peers:
        return
    results = measured.rounds.setdefault(experiment.name, {})
    start = time.perf_counter()
    for number in range(rounds):
        shift = number % len(peers)
        for peer in peers[shift:] + peers[:shift]:
            if (experiment.name, peer.name) in measured.failures:
                continue
            measured.disturbance_ms.append(machine.disturbance_ms())
            try:
                numbers = experiment.measure(peer)
            except Failed as exc:
                measured.failures[experiment.name, peer.name] = str(exc)
                print(f"{peer.name} failed in {experiment.name}: {exc}", file=sys.stderr)
            else:
                results.setdefault(peer.name, []).append(numbers)
    elapsed = time.perf_counter() - start
    print(f"{experiment.name}: {rounds} rounds, {elapsed:.0f} s", file=sys.stderr, flush=True)


def preface(measured: Measured, started: datetime) -> str:
    """Return machine, versions and date."""
    work = sorted(measured.disturbance_ms)
    minutes = (datetime.now(UTC) - started).total_seconds() / 60
    lines = [
        "# Results",
        "",
        f"{started:%Y-%m-%d %H:%M} UTC, {minutes:.0f} minutes. {machine.description()}.",
        "Medians of all rounds. In each round every implementation runs once, each agent and each",
        "client in a process of its own. A fixed piece of work before each measurement",
        f"took {work[0]:.1f} to {work[-1]:.1f} ms, at the median {work[len(work) // 2]:.1f}:",
        "the wider apart, the more others used the machine.",
        "",
        *(f"- **{peer.name}**: {peer.label}" for peer in measured.peers),
        "",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    options = arguments()
    started = datetime.now(UTC)
    peers = available(options.peers or (QUICK_PEERS if options.quick else list(PEERS)))
    measured = Measured(peers, chosen(options.only))
    for experiment in measured.experiments:
        usual = experiment.quick_rounds if options.quick else experiment.rounds
        measure(measured, experiment, options.rounds or usual)
    text = preface(measured, started) + report.pages(measured)
    remarks = HERE / REMARKS.get(",".join(options.only), "REMARKS.md")
    if remarks.exists():
        text += "\n" + remarks.read_text()
    print(text)
    if options.save:
        options.save.write_text(text)
    if options.json:
        options.json.write_text(json.dumps(measured.rounds, indent=1))
    if not (options.quick or options.only or options.peers):
        (HERE / "RESULTS.md").write_text(text)
        print("written to benchmarks/RESULTS.md", file=sys.stderr)


if __name__ == "__main__":
    main()
