"""Evaluates the bundled agent and two others over 50 tasks, without an account or a network.

    python examples/fleet/evaluate.py                  on this machine
    python examples/fleet/evaluate.py --on ray         and again on a Ray cluster on this machine

Agents that are not installed are left out. The bundled agent uses its demonstration model,
fast-agent its model `passthrough`, and minion the fixed answer that it has without a model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from accord_fleet import Dataset

HERE = Path(__file__).resolve().parent
WORDS = ("heron", "maple", "quartz", "violet", "comet")


def tasks(number: int) -> Iterator[dict[str, object]]:
    """Yield tasks: half ask for a file, half for an answer."""
    for at in range(1, number + 1):
        name, word = f"note-{at:02}", WORDS[at % len(WORDS)]
        kind, grader = ("file", "wrote_note") if at % 2 else ("answer", "named_word")
        prompt = f'create {name}.txt "{word}"' if at % 2 else f"find {word}"
        yield {
            "id": name,
            "prompts": [prompt],
            "metadata": {"word": word},
            "permissions": {"allow": ["edit", "read", "search"]},
            "grader": {"type": "function", "function": f"{HERE / 'graders.py'}:{grader}"},
            "tags": [kind],
        }


def agents(folder: Path, bin_folders: list[Path]) -> list[str]:
    """Return the agents that are installed, as `accord fleet run` takes them."""
    found = {"accord": ([sys.executable, "-m", "accord", "agent"], {})}
    programs = {
        "fast-agent": ("fast-agent-acp", ["--model", "passthrough"]),
        "minion": ("mcode", ["acp"]),
    }
    home = folder / "minion"
    home.mkdir(exist_ok=True)
    for name, (program, arguments) in programs.items():
        path = next((one / program for one in bin_folders if (one / program).exists()), None)
        if path is None:
            print(f"without {name}: {program} is not installed", file=sys.stderr)
        else:
            env = {"HOME": str(home), "OPENAI_API_KEY": "none"} if name == "minion" else {}
            found[name] = ([str(path), *arguments], env)
    file = folder / "agents.toml"
    lines: list[str] = []
    for name, (command, env) in found.items():
        lines += [f"[agents.{name}]", f"command = {json.dumps(command)}"]
        if env:
            lines.append("env = { " + ", ".join(f'{k} = "{v}"' for k, v in env.items()) + " }")
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return [str(file)]


def outcomes(run: Path) -> dict[tuple[str, str], tuple[str, bool | None, str]]:
    """Return what must not depend on the machine: status, verdict and answer by task and agent."""
    return {
        (one.task, one.agent): (one.status, one.verdict and one.verdict.passed, one.answer)
        for one in Dataset.open(run).results()
    }


def run_fleet(command: list[str]) -> None:
    """Run a fleet; attempts that failed (exit status 3) are in its report."""
    status = subprocess.run(command, check=False).returncode
    if status not in (0, 3):
        sys.exit(status)


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
    out = options.out or Path(tempfile.mkdtemp(prefix="fleet-"))
    out.mkdir(parents=True, exist_ok=True)
    accord = [sys.executable, "-m", "accord", "fleet"]
    words = agents(out, [*options.bin, Path(sys.executable).parent])
    lines = "".join(json.dumps(task) + "\n" for task in tasks(options.tasks))
    (out / "tasks.jsonl").write_text(lines, "utf-8")
    chosen = [part for word in words for part in ("--agent", word)]
    start = [*accord, "run", str(out / "tasks.jsonl"), *chosen, "--jobs", str(options.jobs)]
    run_fleet([*start, "--out", str(out / "local")])
    local = outcomes(out / "local")
    if options.on:
        run_fleet([*start, "--on", options.on, "--out", str(out / "ray")])
        assert outcomes(out / "ray") == local, "the results differ"
        print(f"{len(local)} equal results on this machine and on {options.on}")
    subprocess.run(
        [*accord, "report", str(out / "local"), "--html", str(out / "report.html")], check=True
    )
    subprocess.run([*accord, "report", str(out / "local")], check=True)


if __name__ == "__main__":
    main()
