"""Measures ACP agents in inspect-ai: many tasks, and an evaluation that is killed again and again.

    python benchmarks/evaluators/run.py many  [--count 100] [--agents accord,opencode,qwen-code]
    python benchmarks/evaluators/run.py kills [--count 100] [--kills 20] [--agents accord]

`packages/accord-bridges/tests/bridges/install.sh` installs inspect-ai, and
`tests/recordings/install_agents.sh` the agents. Their model is `tests/recordings/fake_model.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BIN = ROOT / "packages/accord-bridges/tests/bridges/.venvs/inspect/bin"
sys.path.insert(0, str(ROOT / "tests"))

from recordings.agents import AGENTS  # noqa: E402

PROMPT = "Write the file {cwd}/{file}."
DEMO = 'create {file} "Written by a recording."'
LIMIT_S = 3600.0


def agents(names: list[str], model: str, folder: Path) -> list[dict[str, Any]]:
    """Return the agents with their homes made."""
    known = {one.name: one for one in AGENTS}
    found: list[dict[str, Any]] = []
    for name in names:
        home = folder / "homes" / name
        home.mkdir(parents=True)
        env, argv, mode, prompt = {"HOME": str(home)}, [], None, PROMPT
        if name == "accord":
            argv, prompt = [str(BIN / "python"), "-m", "accord", "agent"], DEMO
        else:
            one = known[name]
            argv, mode = list(one.argv), one.mode
            for path, text in one.home_files.items():
                (home / path).parent.mkdir(parents=True, exist_ok=True)
                (home / path).write_text(text.replace("{model}", model))
            env |= {k: v.replace("{model}", model) for k, v in one.env.items()}
        found.append({"name": name, "command": argv, "env": env, "prompt": prompt, "mode": mode})
    return found


def left_running(folder: Path) -> list[str]:
    """Return the processes that still have a home of this run in their environment."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (path / "environ").read_bytes() and path.name != str(
                os.getpid()
            ):
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120])
        except OSError:
            continue
    return found


def summary(logs: Path) -> dict[str, Any]:
    """Read the newest log of each task with inspect's own API."""
    script = (
        "import json, sys\n"
        "from inspect_ai.log import list_eval_logs, read_eval_log\n"
        "found = {}\n"
        "for info in list_eval_logs(sys.argv[1], descending=False):\n"
        "    log = read_eval_log(info)\n"
        "    found[log.eval.task] = {\n"
        "        'file': info.name, 'status': log.status,\n"
        "        'samples': [[s.id, s.error.message if s.error else None,\n"
        "                     s.limit.type if s.limit else None,\n"
        "                     [v.value for v in (s.scores or {}).values()],\n"
        "                     len(s.messages), s.total_time] for s in log.samples or []]}\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [BIN / "python", "-c", script, logs], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def report(logs: Path) -> bool:
    """Print a line for each agent; return whether all samples have passed."""
    good = True
    for task, log in summary(logs).items():
        samples = log["samples"]
        passed = sum(s[3] == [1] for s in samples)
        times = sorted(s[5] or 0 for s in samples) or [0]
        errors = Counter(s[1][:100] for s in samples if s[1])
        hung = sum(s[2] == "time" for s in samples)
        print(
            f"{task}: {log['status']}, {passed} of {len(samples)} passed, {hung} hung, "
            f"{sum(errors.values())} errors, median {times[len(times) // 2]:.1f} s {dict(errors)}"
        )
        good = good and passed == len(samples)
    return good


def inspect(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    common = ["--log-dir", str(folder / "logs"), "--display", "none", "--log-buffer", "1"]
    return subprocess.Popen(
        [BIN / "inspect", *words, *common],
        cwd=folder, start_new_session=True, stdout=(folder / "out.txt").open("ab"),
        stderr=subprocess.STDOUT,
    )  # fmt: skip


def ended(process: subprocess.Popen[bytes], kills: int) -> bool:
    """Wait for the end, or kill inspect with its process group at some moment."""
    try:
        process.wait(random.uniform(10, 25) if kills else LIMIT_S)
        return True
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def starts(folder: Path) -> Counter[str]:
    """Count how often each sample was started."""
    return Counter((folder / "starts.txt").read_text("utf-8").splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure ACP agents in inspect-ai.")
    parser.add_argument("what", choices=("many", "kills"))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--agents", default=None)
    parser.add_argument("--at-once", default="4")
    parser.add_argument("--keep", type=Path, help="a folder for the logs")
    given = parser.parse_args()
    names = given.agents or ("accord" if given.what == "kills" else "accord,opencode,qwen-code")
    folder = Path(tempfile.mkdtemp(prefix="accord-evaluators-"))
    model = subprocess.Popen(
        [sys.executable, ROOT / "tests/recordings/fake_model.py"], stdout=subprocess.PIPE, text=True
    )
    assert model.stdout is not None
    try:
        evaluated = agents(names.split(","), model.stdout.readline().strip(), folder)
        os.environ |= {
            "ACCORD_EVALUATED": json.dumps(evaluated),
            "ACCORD_COUNT": str(given.count),
            "ACCORD_STARTS": str(folder / "starts.txt"),
        }
        at_once = ["--max-samples", given.at_once, "--max-subprocesses", "16"]
        started_then: dict[str, int] = {}  # of samples that were in a log before a kill
        shutil.copy(HERE / "tasks.py", folder / "tasks.py")
        begun = time.monotonic()
        kills = 0
        for one in evaluated:
            words = ["eval", "tasks.py", "-T", f"agent={one['name']}", "--no-fail-on-error"]
            words += ["--model", "mockllm/model", *at_once]
            left = given.kills if given.what == "kills" else 0
            while (process := inspect(folder, *words)) and not ended(process, left):
                left, kills = left - 1, kills + 1
                log = summary(folder / "logs").get(one["name"])
                if log is None:
                    print(f"kill {kills}: before there was a log", flush=True)
                    continue
                done = {sample[0] for sample in log["samples"] if sample[1] is None}
                print(f"kill {kills}: {len(done)} samples are in the log", flush=True)
                words = ["eval-retry", log["file"].removeprefix("file://"), *at_once]
                for sample in done:
                    started_then.setdefault(sample, starts(folder)[sample])
        print(f"{time.monotonic() - begun:.0f} s, {kills} kills")
        good = report(folder / "logs")
        found = starts(folder)
        again = [one for one, count in started_then.items() if found[one] > count]
        print(f"{sum(found.values())} starts of {len(found)} samples; of {len(started_then)} that "
              f"were in a log before a kill, {len(again)} were started again")  # fmt: skip
        time.sleep(2)
        print("left running:", left_running(folder) or "nothing")
        return 0 if good else 1
    finally:
        model.terminate()
        if given.keep and (folder / "logs").exists():
            shutil.copytree(folder / "logs", given.keep, dirs_exist_ok=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
