"""Measures fleets: rates, CPU and memory; about 5 minutes. `--save FILE` saves the page.

python benchmarks/fleets/run.py [--quick] [--save FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import machine  # noqa: E402  # a module of the folder above

JOBS = 2
TURNS = {1: 400, 10: 300, 100: 80}  # tasks by the milliseconds of a turn
REMARKS = HERE.parent / "REMARKS_FLEET.md"
Numbers = dict[str, float]


class Failed(Exception):
    """A measurement failed."""


def measured(mode: str, tasks: int, jobs: int = JOBS, turn_ms: int = 0) -> Numbers:
    """Run one measurement in a process of its own."""
    command = [sys.executable, str(HERE / "driver.py"), mode, str(tasks), str(jobs)]
    if turn_ms:
        command.append(str(turn_ms))
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise Failed(f"{mode}: {done.stderr.strip().splitlines()[-1][:300]}")
    numbers: Numbers = json.loads(done.stdout.splitlines()[-1])
    print(f"{mode} {tasks}, {turn_ms} ms: {numbers}", file=sys.stderr, flush=True)
    return numbers


def verdict(value: float, target: float, *, most: bool = False) -> str:
    met = value <= target if most else value >= target
    return "met" if met else "**missed**"


def without_ray() -> str:
    """Return why Ray cannot be measured, or an empty text."""
    if importlib.util.find_spec("ray") is None:
        return "Ray is not installed"
    try:
        measured("ray", 20)
    except Failed as error:
        return str(error)
    return ""


def rates(rounds: int, tasks: int) -> list[str]:
    """Measure rates; the modes take turns, another one first in each round."""
    no_ray = without_ray()
    modes = ["bare", "local", *([] if no_ray else ["ray"])]
    found: dict[str, list[Numbers]] = {mode: [] for mode in modes}
    for number in range(rounds):
        shift = number % len(modes)
        for mode in modes[shift:] + modes[:shift]:
            found[mode].append(measured(mode, tasks))
    rate = {mode: median(tasks / one["s"] for one in all_of) for mode, all_of in found.items()}
    cpu = {
        mode: median(1e3 * one["cpu_s"] / tasks for one in all_of) for mode, all_of in found.items()
    }
    local = rate["local"] / rate["bare"]
    lines = [
        f"## Rates: {tasks:,} tasks, {JOBS} agents at the same time, {rounds} rounds",
        "",
        "Each task is one turn of the script agent (`stream 10`) in a new session and folder.",
        "The time until agents have started does not count. CPU is that of the driver, without",
        "the agents.",
        "",
        "|  | tasks/s | driver CPU, ms/task | peak memory, MiB |",
        "|---|--:|--:|--:|",
    ]
    for mode in modes:
        peak = median(one["peak_mb"] for one in found[mode])
        lines.append(f"| {mode} | {rate[mode]:.1f} | {cpu[mode]:.2f} | {peak:.0f} |")
    lines += [
        "",
        "|  | measured | target |  |",
        "|---|--:|--:|---|",
        f"| local, to bare `accord.connect` | {local:.2f}× | ≥ 0.8× | {verdict(local, 0.8)} |",
    ]
    if not no_ray:
        ray = rate["ray"] / rate["local"]
        lines.append(
            f"| Ray on this machine, to local | {ray:.2f}× | ≥ 0.6× | {verdict(ray, 0.6)} |"
        )
    else:
        lines.append("| Ray on this machine, to local | not installed | ≥ 0.6× | not measured |")
    most = verdict(cpu["local"], 15, most=True)
    lines.append(f"| driver CPU per task, local | {cpu['local']:.1f} ms | ≤ 15 ms | {most} |")
    return lines


def longer_turns(rounds: int, sizes: dict[int, int]) -> list[str]:
    """Measure the rates again with an agent that waits; `sizes` has the tasks by milliseconds."""
    lines = [
        "",
        f"## Longer turns: {JOBS} agents at the same time, {rounds} rounds",
        "",
        "The agent waits in each turn, as it would for a model, whose turns take seconds.",
        "",
        "| the agent waits, ms | bare, tasks/s | local, tasks/s | local, to bare |",
        "|--:|--:|--:|--:|",
    ]
    for turn_ms, tasks in sizes.items():
        rate: dict[str, float] = {}
        for mode in ("bare", "local"):
            all_of = [measured(mode, tasks, turn_ms=turn_ms) for _ in range(rounds)]
            rate[mode] = median(tasks / one["s"] for one in all_of)
        ratio = rate["local"] / rate["bare"]
        lines.append(f"| {turn_ms} | {rate['bare']:.1f} | {rate['local']:.1f} | {ratio:.2f}× |")
    return lines


def growth(sizes: tuple[int, ...]) -> list[str]:
    """Measure the driver alone: plan, dataset and progress, with an engine that does nothing."""
    found = {size: measured("plan", size) for size in sizes}
    first, last = sizes[0], sizes[-1]
    lines = [
        "",
        "## Growth of the driver",
        "",
        "An engine that has each result at once: plan, tasks, dataset and progress are measured.",
        "",
        "|  tasks | s | ms/task | CPU, ms/task | peak memory, MiB |",
        "|--:|--:|--:|--:|--:|",
    ]
    for size, one in found.items():
        each, cpu = 1e3 * one["all_s"] / size, 1e3 * one["all_cpu_s"] / size
        lines.append(
            f"| {size:,} | {one['all_s']:.1f} | {each:.3f} | {cpu:.3f} | {one['peak_mb']:.0f} |"
        )
    lines += [
        "",
        "The commands that read such a run, from the start of the process to its end:",
        "",
        "|  results | `status`, s | CPU, s | MiB | `report`, s | CPU, s | MiB | page, kB |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for size, one in found.items():
        cells = [
            f"{one[f'{name}_s']:.2f} | {one[f'{name}_cpu_s']:.2f} | {one[f'{name}_mb']:.0f}"
            for name in ("status", "report")
        ]
        lines.append(f"| {size:,} | {' | '.join(cells)} | {one['page_kb']:.0f} |")
    status_s = found[last]["status_s"]
    ratio = (found[last]["all_cpu_s"] / last) / (found[first]["all_cpu_s"] / first)
    peak = found[last]["peak_mb"]
    lines += [
        "",
        "|  | measured | target |  |",
        "|---|--:|--:|---|",
        f"| memory with {last:,} tasks | {peak:.0f} MiB | < 300 MB | "
        f"{verdict(peak * 1.048576, 300, most=True)} |",
        f"| CPU per task at {last:,} tasks, to {first:,} | {ratio:.2f}× | ≤ 1.2× | "
        f"{verdict(ratio, 1.2, most=True)} |",
        f"| `accord fleet status` of {last:,} results | {status_s:.2f} s | < 1 s | "
        f"{verdict(status_s, 1, most=True)} |",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, fewer tasks")
    parser.add_argument("--save", type=Path, metavar="FILE", help="save the page")
    options = parser.parse_args()
    started = datetime.now(UTC)
    before = machine.disturbance_ms()
    body = rates(1 if options.quick else 3, 200 if options.quick else 600)
    body += longer_turns(
        1 if options.quick else 3, {1: 200, 10: 100, 100: 40} if options.quick else TURNS
    )
    body += growth((1_000, 10_000) if options.quick else (1_000, 10_000, 100_000))
    minutes = (datetime.now(UTC) - started).total_seconds() / 60
    lines = [
        "# Results",
        "",
        f"{started:%Y-%m-%d %H:%M} UTC, {minutes:.0f} minutes. {machine.description()}.",
        f"A fixed piece of work took {before:.1f} ms before and {machine.disturbance_ms():.1f} ms",
        "after the measurements: the wider apart, the more others used the machine.",
        "",
        *body,
    ]
    text = "\n".join(lines) + "\n"
    if REMARKS.exists():
        text += "\n" + REMARKS.read_text("utf-8")
    print(text)
    if options.save:
        options.save.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
