"""Evaluates the bundled agent and two others over 50 tasks, without an account or a network.

    python examples/fleet/evaluate.py                  on this machine
    python examples/fleet/evaluate.py --on ray         and again on a Ray cluster on this machine

The others are claude-agent-acp and qwen-code; agents that are not installed are left out. All of
them use the model of `fake_model.py` through the model gateway, which counts tokens and cost.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fake_model import fake_model

from accord_fleet import Dataset

HERE = Path(__file__).resolve().parent
WORDS = ("heron", "maple", "quartz", "violet", "comet")
KEY = "EXAMPLE_MODEL_KEY"  # the variable of the key, which the gateway alone has
PRICES = {"large": (3.0, 15.0), "medium": (0.8, 4.0), "small": (0.2, 1.0)}
# By name: the program, its arguments, the provider of its model, and variables.
AGENTS: dict[str, tuple[str, list[str], str, dict[str, str]]] = {
    "accord": (sys.executable, ["-m", "accord", "agent", "--model", "anthropic:m"], "large", {}),
    "claude": (
        "claude-agent-acp",
        [],
        "medium",
        {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "IS_SANDBOX": "1",
        },
    ),
    "qwen": ("qwen", ["--acp", "--auth-type", "openai"], "small", {"OPENAI_MODEL": "m"}),
}


def tasks(number: int) -> Iterator[dict[str, object]]:
    """Yield tasks: half ask for a file, half for an answer."""
    for at in range(1, number + 1):
        name, word = f"note-{at:02}", WORDS[at % len(WORDS)]
        kind, grader = ("file", "wrote_note") if at % 2 else ("answer", "named_word")
        prompt = f"Write the word {word} into the file {name}.txt."
        yield {
            "id": name,
            "prompt": prompt if at % 2 else f"Task {at}. Answer with the word {word}.",
            "metadata": {"word": word},
            "permissions": {"allow": ["edit", "read", "search"]},
            "limits": {"turn_s": 120},
            "grader": {"type": "function", "function": f"{HERE / 'graders.py'}:{grader}"},
            "tags": [kind],
        }


def write_settings(folder: Path, model: str, bin_folders: list[Path]) -> None:
    """Write `providers.toml`, and `agents.toml` with the agents that are installed."""
    lines: list[str] = []
    for name, (price, price_out) in PRICES.items():
        api, end = ("openai", "/v1") if name == "small" else ("anthropic", "")
        lines += [f"[{name}]", f'api = "{api}"', f'base_url = "{model}/{name}{end}"']
        lines += [f'key = "{KEY}"', f'prices."*" = {{ input = {price}, output = {price_out} }}']
    (folder / "providers.toml").write_text("\n".join(lines) + "\n", "utf-8")
    lines = []
    for name, (program, arguments, provider, variables) in AGENTS.items():
        path = next((one / program for one in bin_folders if (one / program).exists()), None)
        if path is None:
            print(f"without {name}: {program} is not installed", file=sys.stderr)
            continue
        home = folder / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        lines += [f"[agents.{name}]", f"command = {json.dumps([str(path.absolute()), *arguments])}"]
        lines += [f'provider = "{provider}"']
        env = {"HOME": str(home), "ACCORD_DATA": str(home), **variables}
        lines += [f"env.{variable} = {json.dumps(value)}" for variable, value in env.items()]
    (folder / "agents.toml").write_text("\n".join(lines) + "\n", "utf-8")


def outcomes(run: Path) -> dict[tuple[str, str], tuple[str, bool | None, str]]:
    """Return what must not depend on the machine, by task and agent."""
    return {
        (one.task, one.agent): (
            one.status,
            one.verdict and one.verdict.passed,
            one.answer,
        )
        for one in Dataset.open(run).results()
    }


def run_fleet(command: list[str]) -> None:
    """Run a fleet; attempts that failed (exit status 3) are in its report."""
    began = time.monotonic()
    status = subprocess.run(command, check=False).returncode
    if status not in (0, 3):
        sys.exit(status)
    print(f"{command[-1]}: {time.monotonic() - began:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", help="also run on this cluster; `ray`: a new one on this machine")
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--out", type=Path, help="a folder for the runs and the report")
    parser.add_argument(
        "--bin", type=Path, action="append", default=[], help="a folder with programs of agents"
    )
    options = parser.parse_args()
    out = (options.out or Path(tempfile.mkdtemp(prefix="fleet-"))).resolve()
    out.mkdir(parents=True, exist_ok=True)
    accord = [sys.executable, "-m", "accord", "fleet"]
    lines = "".join(json.dumps(task) + "\n" for task in tasks(options.tasks))
    (out / "tasks.jsonl").write_text(lines, "utf-8")
    os.environ[KEY] = "not-a-real-key"
    folders = [Path(folder) for folder in os.get_exec_path()]
    start = [*accord, "run", str(out / "tasks.jsonl"), "--agent", str(out / "agents.toml")]
    start += ["--providers", str(out / "providers.toml"), "--jobs", str(options.jobs)]
    with fake_model() as model:
        write_settings(out, model, [*options.bin, Path(sys.executable).parent, *folders])
        run_fleet([*start, "--out", str(out / "local")])
        local = outcomes(out / "local")
        if options.on:
            run_fleet([*start, "--on", options.on, "--out", str(out / "ray")])
            assert outcomes(out / "ray") == local, "the results differ"
            print(f"{len(local)} equal results on this machine and on {options.on}")
    report = [*accord, "report", str(out / "local")]
    subprocess.run([*report, "--html", str(out / "report.html")], check=True)
    subprocess.run(report, check=True)


if __name__ == "__main__":
    main()
