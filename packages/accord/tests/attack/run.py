"""Runs all attacks: `python attack/run.py [ATTACK…] [--seconds S] [--seed N]`.

Each attack has its share of the time and ends early when it has reached its count. A seed that
fails is printed and saved in `seeds/`: later runs and the tests try it first.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[4]
sys.path[:0] = map(str, (ROOT / "packages" / "accord" / "tests", ROOT / "tests"))

from attack import seeds  # noqa: E402

# The share of the time of each attack, and its count.
ATTACKS: dict[str, tuple[float, int]] = {
    "escapes": (0.02, 500),
    "kills": (0.3, 1_000),
    "races": (0.1, 10_000_000),
    "steers": (0.05, 10_000),
    "soak": (0.05, 1_000_000),
    "frames": (0.48, 10_000_000),
}
# Attacks that mostly wait run in parallel.
_WORKERS = {"kills": 4}
_REPORT_S = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack Accord with generated input.")
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, help="run one attack once")
    given = parser.parse_args()
    chosen = given.attacks or list(ATTACKS)
    if unknown := set(chosen) - ATTACKS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if given.seed is not None:
        for name in chosen:
            _load(name)(given.seed)
        return 0
    total = sum(ATTACKS[name][0] for name in chosen)
    failed = 0
    left_s = given.seconds
    for name in chosen:
        share, enough = ATTACKS[name]
        began = time.monotonic()
        failed += _run(name, left_s * share / total, enough)
        total -= share
        left_s -= time.monotonic() - began  # unused time is for the other attacks
    print("nothing failed" if not failed else f"{failed} seeds failed")
    return min(failed, 1)


def _load(name: str) -> Callable[[int], int]:
    return importlib.import_module(f"attack.{name}").attack


def _run(name: str, seconds: float, enough: int) -> int:
    """Run one attack on all processors; return the number of failed seeds."""
    workers = (os.cpu_count() or 1) * _WORKERS.get(name, 1)
    context = multiprocessing.get_context("spawn")
    count = context.Value("q", 0)
    failed = context.Value("q", 0)
    until = time.time() + seconds
    processes = [
        context.Process(target=_work, args=(name, until, enough, count, failed, first))
        for first in range(workers)
    ]
    for process in processes:
        process.start()
    began = time.time()
    while any(process.is_alive() for process in processes):
        for process in processes:
            process.join(_REPORT_S / workers)
        passed = time.time() - began
        print(f"{name}: {count.value} in {passed:.0f} s, {failed.value} seeds failed", flush=True)
    crashed = sum(process.exitcode != 0 for process in processes)
    return failed.value + crashed


def _work(name: str, until: float, enough: int, count: object, failed: object, first: int) -> None:
    logging.getLogger("accord").addHandler(logging.NullHandler())
    attack = _load(name)
    kept = len(seeds.kept(name))
    for number, seed in enumerate(seeds.fresh(name)):
        if number < kept and first:
            continue  # another worker tries the saved seeds
        if time.time() >= until or count.value >= enough:  # type: ignore[attr-defined]  # a shared value
            return
        try:
            done = attack(seed)
        except Exception:  # noqa: BLE001  # whatever it is, it is a finding
            with failed.get_lock():  # type: ignore[attr-defined]  # as above
                failed.value += 1  # type: ignore[attr-defined]  # as above
                print(f"{traceback.format_exc()}\nagain: {seeds.report(name, seed)}", flush=True)
        else:
            with count.get_lock():  # type: ignore[attr-defined]  # as above
                count.value += done  # type: ignore[attr-defined]  # as above


if __name__ == "__main__":
    sys.exit(main())
