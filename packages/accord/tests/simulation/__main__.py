"""Runs many programs: `PYTHONPATH=tests python -m simulation`, or `make simulate`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path

import msgspec

from simulation.batch import BATCH, Found, play_all
from simulation.cases import CASES, Case
from simulation.generate import program_of
from simulation.minimize import minimize
from simulation.program import Program
from simulation.run import play

_TELL_S = 30.0


def main() -> int:
    """Run the search; return 1 if it found a failure."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--first", type=int, help="the first seed; by default a random one")
    parser.add_argument("--seed", type=int, help="play this seed alone, and show what it finds")
    parser.add_argument("--case", type=Path, help="play the program of a file")
    parser.add_argument("--minimize", action="store_true", help="make what is found smaller")
    parser.add_argument("--keep", metavar="NAME", help="write what is found as a case of this name")
    parser.add_argument("--commit", default="", help="the commit that it was found in")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--batch", type=int, default=BATCH, help="seeds that a worker plays at once"
    )
    options = parser.parse_args()
    if options.case is not None:
        case = msgspec.json.decode(options.case.read_bytes(), type=Case)
        return _show(case.program, options)
    if options.seed is not None:
        return _show(program_of(options.seed), options)
    return _search(options)


class _Search:
    """The runs so far, and their failures."""

    def __init__(self, first: int, batch: int) -> None:
        self.first = first
        self._batch = batch
        self.next = first
        self.runs = 0
        self.kinds: dict[str, list[Found]] = {}
        self.counts: Counter[str] = Counter()
        self._began_s = self._told_s = time.monotonic()

    def batch(self) -> tuple[int, int]:
        """Return the next batch of seeds: the first seed, and their number."""
        self.next += self._batch
        return self.next - self._batch, self._batch

    def add(self, count: int, found: list[Found], counts: Counter[str]) -> None:
        """Add the results of a batch; report new failures."""
        self.runs += count
        self.counts += counts
        for failure in found:
            if failure.kind not in self.kinds:
                print(f"seed {failure.seed}: {failure.kind}\n{failure.detail}", flush=True)
            self.kinds.setdefault(failure.kind, []).append(failure)
        if time.monotonic() - self._told_s > _TELL_S:
            self._told_s = time.monotonic()
            print(self.summary(), flush=True)

    def summary(self) -> str:
        took_s = time.monotonic() - self._began_s
        failed = sum(map(len, self.kinds.values()))
        return (
            f"{self.runs} runs in {took_s:.0f} s, {self.runs / took_s:.1f} a second, "
            f"{failed} failed; seeds {self.first} to {self.next - 1}"
        )


def _search(options: argparse.Namespace) -> int:
    first = secrets.randbelow(10**9) if options.first is None else options.first
    print(f"simulation: seeds from {first} on, {options.workers} workers", flush=True)
    search = _Search(first, options.batch)
    ends_s = time.monotonic() + options.seconds
    if options.workers == 1:
        while time.monotonic() < ends_s:
            search.add(*play_all(*search.batch()))
    else:
        _search_in_workers(search, options.workers, ends_s)
    print(search.summary())
    calls = sum(n for name, n in search.counts.items() if name.startswith("call "))
    counts = search.counts
    print(f"{counts['turns']} turns, {counts['cancels']} cancels, {calls} calls")
    for kind, found in sorted(search.kinds.items(), key=lambda each: -len(each[1])):
        print(f"{len(found)} × {kind}: seeds {', '.join(str(f.seed) for f in found[:8])}")
        if options.minimize:
            print(_json(minimize(program_of(found[0].seed), kind)), flush=True)
    return bool(search.kinds)


def _search_in_workers(search: _Search, workers: int, ends_s: float) -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        waiting = set()
        while waiting or time.monotonic() < ends_s:
            while len(waiting) <= workers and time.monotonic() < ends_s:
                waiting.add(pool.submit(play_all, *search.batch()))
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                search.add(*each.result())


def _show(program: Program, options: argparse.Namespace) -> int:
    result = play(program)
    print(f"trace {result.trace_hash}, {result.virtual_s:.1f} virtual s, {result.rounds} rounds")
    for failure in result.failures:
        print(f"{failure.kind}\n{failure.detail}")
    if not result.failures:
        return 0
    kind = result.failures[0].kind
    if options.minimize or options.keep:
        program = minimize(program, kind)
        print(_json(program))
    if options.keep:
        case = Case(found=kind, program=program, commit=options.commit)
        path = CASES / f"{options.keep}.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n")
        print(f"written: {path}")
    return 1


def _json(program: Program) -> str:
    return msgspec.json.encode(program).decode()


if __name__ == "__main__":
    sys.exit(main())
