"""`accord fleet run --check` and `--first`, `accord fleet show`, and folders that are refused."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accord_fleet import check_tasks
from accord_fleet.command import command
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.tasks.problems import TaskErrors
from fleet.running import RAW

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
AGENT = f"raw={shlex.join(RAW)}"


def accord_fleet(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [*map(str, words)], standalone_mode=False)


def told(result: Result) -> str:
    """Return what a person reads; an error is raised, and the program prints it."""
    return result.output + (str(result.exception) if result.exception else "")


def write_tasks(folder: Path, *prompts: str, **fields: object) -> Path:
    path = folder / "tasks.jsonl"
    tasks = [{"id": f"t{n}", "prompt": text, **fields} for n, text in enumerate(prompts, 1)]
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return path


def test_check_runs_nothing_and_says_what_would_be_run(tmp_path: Path) -> None:
    tasks, out = write_tasks(tmp_path, "say 1", "say 2"), tmp_path / "run"
    words = ["run", tasks, "--agent", AGENT, "--attempts", "3", "--out", out, "--check"]
    done = accord_fleet(*words)
    assert done.return_value == 0
    assert "2 tasks for 1 agent (raw), 3 attempts each: 6 results." in done.stdout
    assert "Nothing is wrong, and nothing was run." in done.stdout
    done = accord_fleet(*words, "--json")
    assert json.loads(done.stdout) == {"tasks": 2, "agents": ["raw"], "attempts": 3, "total": 6}
    assert not out.exists()


def test_check_reports_everything_that_is_wrong(tmp_path: Path) -> None:
    grader = {"type": "function", "function": "nowhere.py:grade"}
    place = {"type": "folder", "path": "gone"}
    tasks = write_tasks(tmp_path, "say 1", grader=grader, workspace=place)
    words = ["--agent", "no-such-agent-x", "--out", tmp_path, "--secret", "NO_SUCH_NAME", "--check"]
    text = told(accord_fleet("run", tasks, *words))
    for part in ("nowhere.py", "gone does not exist", "no-such-agent-x", "NO_SUCH_NAME"):
        assert part in text
    assert "expected a new or empty folder, it has other files: tasks.jsonl" in text


def test_a_folder_with_other_files_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, "say 1")
    before = tasks.read_bytes()
    done = accord_fleet("run", tasks, "--agent", AGENT, "--out", tmp_path)
    assert "expected a new or empty folder, it has other files: tasks.jsonl" in told(done)
    assert "expected a folder, it is a file" in told(
        accord_fleet("run", tasks, "--agent", AGENT, "--out", tasks)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]
    assert tasks.read_bytes() == before
    # What a run has left that died before it had a plan is no reason.
    begun = tmp_path / "begun"
    begun.mkdir()
    for name in ("lock", "tasks.jsonl"):
        (begun / name).touch()
    words = ["run", tasks, "--agent", AGENT, "--jobs", "1", "--out", begun]
    assert accord_fleet(*words).return_value == 0
    assert "it has a run" in told(accord_fleet(*words, "--check"))


def test_first_runs_few_tasks_after_all_were_checked(tmp_path: Path) -> None:
    tasks, out = write_tasks(tmp_path, "say 1", "say 2", "say 3"), tmp_path / "run"
    words = ["run", tasks, "--agent", AGENT, "--jobs", "1", "--first", "2"]
    assert accord_fleet(*words, "--out", out).return_value == 0
    assert sorted(result.task for result in Dataset.open(out).results()) == ["t1", "t2"]
    assert Dataset.open(out).plan.tasks == 2
    tasks.write_text(tasks.read_text() + "no JSON\n")
    assert "tasks.jsonl:4" in told(accord_fleet(*words, "--out", tmp_path / "other"))


async def test_first_may_be_more_than_there_are() -> None:
    given = [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y"}]
    with await check_tasks(given, first=5) as tasks:
        assert len(tasks) == len(list(tasks)) == 2
    with pytest.raises(TaskErrors):
        await check_tasks([*given, {"id": "a"}], first=1)


def test_show_has_everything_of_an_attempt_and_hides_nothing(tmp_path: Path) -> None:
    grader = {"type": "command", "command": ["sh", "-c", "echo two lines; echo of it; exit 1"]}
    text = "write note.txt \u202eevil"
    tasks = write_tasks(tmp_path, text, "stderr \x1b[2Jgone", "say 3", grader=grader, tags=["x"])
    out = tmp_path / "run"
    words = ["run", tasks, "--agent", AGENT, "--jobs", "1", "--out", out]
    assert accord_fleet(*words).return_value == 0
    shown = accord_fleet("show", out, "t1")
    assert shown.return_value == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "t1 by raw: finished, not passed"
    for line in (
        "  tags: x",
        "Prompt:",
        "  write note.txt \\u202eevil",
        "Verdict: not passed:",
        "  of it",
        "Changes (1 file):",
        "  +\\u202eevil",
        f"Messages: accord inspect {out}/traces/raw-1/t1.acp.jsonl.gz",
    ):
        assert line in lines
    stderr = accord_fleet("show", out, "t2").stdout
    assert "End of stderr:\n  \\x1b[2Jgone" in stderr
    found = json.loads(accord_fleet("show", out, "t1", "--json").stdout)
    assert found["task"]["prompts"] == [text]
    assert [result["answer"] for result in found["results"]] == [""]


def test_show_lists_several_attempts_and_names_what_does_not_exist(tmp_path: Path) -> None:
    tasks, out = write_tasks(tmp_path, "say 1", "die"), tmp_path / "run"
    agents = ["--agent", AGENT, "--agent", f"other={shlex.join(RAW)}"]
    words = ["run", tasks, *agents, "--attempts", "2", "--jobs", "2", "--out", out, "--first", "1"]
    assert accord_fleet(*words).return_value == 0
    listed = accord_fleet("show", out, "t1").stdout.splitlines()
    assert listed[0].split() == ["agent", "attempt", "outcome", "time"]
    assert [line.split()[:2] for line in listed[1:5]] == [
        ["raw", "1"],
        ["raw", "2"],
        ["other", "1"],
        ["other", "2"],
    ]
    shown = accord_fleet(*shlex.split(listed[-1].partition("accord fleet ")[2])).stdout
    assert shown.startswith("t1 by raw: finished")
    second = accord_fleet("show", out, "t1", "--agent", "other", "--attempt", "2").stdout
    assert second.startswith("t1 by other, attempt 2: finished")
    file = tmp_path / "one.acp.jsonl.gz"
    assert "expected one attempt, got 4" in told(accord_fleet("show", out, "t1", "--save", file))
    one = ["show", out, "t1", "--agent", "raw", "--attempt", "1", "--save", file]
    assert accord_fleet(*one).stdout == ""
    assert file.read_bytes().startswith(b"\x1f\x8b")
    assert "the closest is 't1'" in told(accord_fleet("show", out, "t11"))
    assert "(raw, other), got 'x'" in told(accord_fleet("show", out, "t1", "--agent", "x"))
    assert accord_fleet("show", out, "t1", "--attempt", "3").return_value == 3
    assert "is not a dataset" in told(accord_fleet("show", tmp_path, "t1"))
    assert "gone does not exist" in told(accord_fleet("show", tmp_path / "gone", "t1"))


def test_long_texts_are_shortened(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, "\n".join(["say 1", *(f"line {n}" for n in range(200))]))
    words = ["run", tasks, "--agent", AGENT, "--jobs", "1", "--out", tmp_path / "run"]
    assert accord_fleet(*words).return_value == 0
    shown = accord_fleet("show", tmp_path / "run", "t1").stdout
    assert "  line 58\n  … 141 more lines: see --json\n" in shown


KILLED = """
import asyncio, os, signal
from accord_fleet import check_tasks
from accord_fleet.scratch import socket_folder
async def main():
    tasks = await check_tasks([{"id": "a", "prompt": "x"}])
    with socket_folder() as folder:
        (folder / "s").touch()
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_a_run_removes_tasks_and_sockets_of_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))  # short: sockets stay in it
    try:
        monkeypatch.setenv("TMPDIR", str(temporary))
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        (tmp_path / "killed.py").write_text(KILLED)
        program = [sys.executable, str(tmp_path / "killed.py")]
        done = subprocess.run(program, check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
        assert len(list(temporary.iterdir())) == 4  # two folders, each with a lock
        tasks = write_tasks(tmp_path, "say 1")
        words = ["run", tasks, "--agent", AGENT, "--jobs", "1", "--out", tmp_path / "run"]
        assert accord_fleet(*words).return_value == 0
        assert list(temporary.iterdir()) == []
    finally:
        temporary.rmdir()


def test_a_named_secret_is_stored_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN_NAME", "nothing-tells-that-this-is-one")
    monkeypatch.setenv("SHORT_ONE", "abc")
    grader = {"type": "command", "command": ["sh", "-c", "echo =${PLAIN_NAME:-gone}="]}
    tasks, out = write_tasks(tmp_path, "env PLAIN_NAME", grader=grader), tmp_path / "run"
    words = ["run", tasks, "--agent", AGENT, "--jobs", "1", "--out", out, "--secret"]
    assert accord_fleet(*words, "PLAIN_NAME").return_value == 0
    [result] = Dataset.open(out).results()
    assert result.answer == "[redacted]"
    assert result.verdict is not None
    assert result.verdict.reason == "=gone="  # as graders do not get it
    assert b"nothing-tells" not in Dataset.open(out).read_trace(result)
    assert Dataset.open(out).plan.secrets == ("PLAIN_NAME",)
    resumed = accord_fleet("resume", out)
    assert resumed.return_value == 0
    text = told(accord_fleet(*words, "SHORT_ONE", "--secret", "NO_SUCH"))
    assert "expected a value of 8 characters or more in SHORT_ONE, it has 3" in text
    assert "expected the environment variable NO_SUCH, which is not set" in text
