"""Graders: what passes, what fails, and that a grader that dies does neither."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_fleet.grader_functions import (
    NotAVerdict,
    last_verdict,
    load_object,
    reference_to,
    verdict_of,
)
from accord_fleet.graders import Answer, ProcessGraders, check_functions
from accord_fleet.types import (
    AgentGrader,
    AttemptFailed,
    CommandGrader,
    FleetError,
    FunctionGrader,
    GradedAttempt,
    Grader,
    Limits,
    Result,
    Task,
    Times,
    Usage,
    Verdict,
)

FUNCTIONS = """
import os, signal, sys, time
from pathlib import Path
from accord_fleet.types import Verdict

def passes(attempt): return attempt.result.answer == "4"
def fails(attempt): return False
def scores(attempt): print("noise"); return 0.25
async def asynchronous(attempt):
    import asyncio
    await asyncio.sleep(0)
    return Verdict(score=2.5, reason="r")
def reads(attempt): return Path("out.txt").read_text() == attempt.task.metadata["expected"]
def where(attempt): return Verdict(passed=Path.cwd() == attempt.workspace, reason=str(Path.cwd()))
def raises(attempt): raise ValueError("wrong input")
def exits(attempt): sys.exit(0)
def vanishes(attempt): os._exit(0)
def forges(attempt): os.write(1, b'{"passed": true}'); os._exit(0)
def crashes(attempt): os.kill(os.getpid(), signal.SIGSEGV)
def hangs(attempt):
    Path("new").write_text(str(os.getpid()))
    os.rename("new", "pid")
    time.sleep(60)
def eats(attempt): return bool(bytearray(2 ** 32))
def nothing(attempt): pass
def not_finite(attempt): return float("nan")
def leaves(attempt):
    import threading
    threading.Thread(target=time.sleep, args=(60,)).start()
    return True
def shadowed(attempt):
    import string
    return hasattr(string, "ascii_letters")
"""


@pytest.fixture(autouse=True)
def forks() -> None:
    """Start interpreters: what functions do to them and to their memory is the subject."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "graders.py").write_text(FUNCTIONS)
    path = tmp_path / "workspace"
    path.mkdir()
    return path.resolve()


def has_ended(workspace: Path) -> bool:
    pid = workspace / "pid"
    if not pid.exists():
        return True  # on a slow machine, it was ended before it began
    try:
        process = psutil.Process(int(pid.read_text()))
        return process.status() == psutil.STATUS_ZOMBIE  # of a parent that does not wait for it
    except psutil.NoSuchProcess:
        return True


async def no_agent(name: str, prompt: str, given: GradedAttempt, timeout_s: float) -> Answer:
    raise AssertionError(name)


def attempt(workspace: Path, answer: str = "4", limits: Limits | None = None) -> GradedAttempt:
    task = Task(
        id="t1",
        prompts=("What is 2 + 2?",),
        limits=limits or Limits(),
        metadata={"expected": "hello"},
        env={"FROM_TASK": "1"},
    )
    result = Result(
        task="t1",
        agent="a",
        status="finished",
        answer=answer,
        diff="+changed",
        times=Times(started=0),
    )
    return GradedAttempt(task=task, workspace=workspace, result=result)


async def graded(grader: Grader, given: GradedAttempt) -> Verdict:
    return await ProcessGraders(hidden=["SECRET_KEY"]).grade(grader, given, no_agent)


async def by_command(workspace: Path, *command: str, timeout_s: float = 20) -> Verdict:
    return await graded(CommandGrader(command=command, timeout_s=timeout_s), attempt(workspace))


async def by_function(workspace: Path, name: str, timeout_s: float = 20) -> Verdict:
    grader = FunctionGrader(function=f"{workspace.parent}/graders.py:{name}", timeout_s=timeout_s)
    return await graded(grader, attempt(workspace, limits=Limits(memory_bytes=2**29)))


async def test_reason_of_a_command_has_whole_lines(workspace: Path) -> None:
    lines = [f"line {number} of the output" for number in range(100)]
    (workspace / "output").write_text("\n".join(lines))
    verdict = await by_command(workspace, "sh", "-c", "cat output; exit 1")
    shown = verdict.reason.splitlines()
    assert 20 < len(shown) < 100
    assert shown == lines[-len(shown) :]
    (workspace / "output").write_text("x" * 5000)
    verdict = await by_command(workspace, "sh", "-c", "cat output; exit 1")
    assert verdict.reason == "…" + "x" * 1000


async def test_exit_status_of_a_command_is_the_verdict(workspace: Path) -> None:
    (workspace / "ok").write_text("")
    assert await by_command(workspace, "test", "-e", "ok") == Verdict(passed=True)
    verdict = await by_command(workspace, "sh", "-c", "echo 2 failed; echo why >&2; exit 1")
    assert verdict == Verdict(passed=False, reason="2 failed\nwhy")


async def test_last_line_of_a_command_can_be_a_verdict(workspace: Path) -> None:
    line = '{"passed": true, "score": 0.5, "reason": "half", "details": {"n": 2}}'
    script = f"echo noise; echo '{line}'; echo late >&2"
    verdict = await by_command(workspace, "sh", "-c", script)
    assert verdict == Verdict(passed=True, score=0.5, reason="half", details={"n": 2})
    # The exit status stays in force: output alone, which can be that of an agent, never passes.
    verdict = await by_command(workspace, "sh", "-c", """echo '{"passed": true}'; exit 3""")
    assert verdict.passed is False
    for line in ('{"passed": false}', '{"score": 0.5}'):
        verdict = await by_command(workspace, "sh", "-c", f"echo '{line}'")
        assert verdict.passed is False


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '{"score":"NaN","passed":7}',
            'expected `passed` to be true or false, got 7; `score` to be a number, got "NaN"',
        ),
        ('{"score": true}', "expected `score` to be a number, got true"),
        ('{"score": NaN}', "expected a finite score, got nan"),
        ('{"score": -Infinity}', "expected a finite score, got -inf"),
        (f'{{"score": 1{"0" * 400}}}', "expected a finite score, got inf"),
        ('{"passed": "yes"}', 'expected `passed` to be true or false, got "yes"'),
        (
            '{"passed": true, "reason": ["a"], "details": 3}',
            'expected `reason` to be a text, got ["a"]; `details` to be an object, got 3',
        ),
    ],
)
async def test_values_that_make_no_verdict_are_an_error(
    workspace: Path, line: str, expected: str
) -> None:
    """Neither a pass nor a fail, whatever the exit status is."""
    for status in (0, 1):
        (workspace / "line").write_text(line)
        verdict = await by_command(workspace, "sh", "-c", f"cat line; exit {status}")
        assert (verdict.passed, verdict.score) == (None, None)
        assert verdict.error == f"sh -c cat line; exit {status}: {expected}"
        assert verdict.reason.startswith(line[:300])
    with pytest.raises(NotAVerdict) as raised:
        last_verdict(f"I say {line}.")
    assert str(raised.value) == expected


def test_scores_of_any_size_are_kept_and_one_or_more_passes() -> None:
    assert verdict_of({"score": -3}) == Verdict(passed=False, score=-3.0)
    assert verdict_of({"score": 250, "passed": False}) == Verdict(passed=False, score=250.0)
    assert verdict_of(1.5) == Verdict(passed=True, score=1.5)


async def test_command_that_dies_is_an_error(workspace: Path) -> None:
    killed = await by_command(workspace, "sh", "-c", "kill -9 $$")
    assert killed.passed is None
    assert "SIGKILL" in str(killed.error)
    missing = await by_command(workspace, "no-such-program")
    assert "no-such-program: not found in PATH" in str(missing.error)
    in_shell = await by_command(workspace, "sh", "-c", "no-such-program")
    assert in_shell.passed is None
    assert "a program was not found" in str(in_shell.error)


async def test_command_that_hangs_is_ended_with_its_children(workspace: Path) -> None:
    script = "sleep 60 & echo $! > new; mv new pid; echo begun; wait"
    verdict = await by_command(workspace, "sh", "-c", script, timeout_s=2)
    assert verdict.error is not None
    assert verdict.error.endswith("took more than 2 s")
    assert verdict.reason == "begun"
    assert has_ended(workspace)


async def test_command_has_the_variables_of_the_task_and_no_keys(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    script = 'echo "$SECRET_KEY|$FROM_TASK|$ACCORD_TASK|$ACCORD_AGENT|$ACCORD_ATTEMPT"'
    assert (await by_command(workspace, "sh", "-c", script)).reason == "|1|t1|a|1"


async def test_output_of_a_command_is_bounded(workspace: Path) -> None:
    code = "print('x' * 50_000_000); print('end')"
    verdict = await by_command(workspace, sys.executable, "-c", code)
    assert verdict.passed
    assert verdict.reason.endswith("end")
    assert len(verdict.reason) <= 2000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("passes", Verdict(passed=True)),
        ("fails", Verdict(passed=False)),
        ("scores", Verdict(passed=False, score=0.25)),
        ("asynchronous", Verdict(passed=True, score=2.5, reason="r")),
        ("reads", Verdict(passed=True)),
        ("leaves", Verdict(passed=True)),
    ],
)
async def test_function_returns_the_verdict(workspace: Path, name: str, expected: Verdict) -> None:
    (workspace / "out.txt").write_text("hello")
    assert await by_function(workspace, name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("raises", "raised ValueError: wrong input (graders.py, line"),
        ("exits", "raised SystemExit: 0"),
        ("vanishes", "without a verdict"),
        ("forges", "without a verdict"),
        ("crashes", "SIGSEGV"),
        (
            "nothing",
            "expected a bool, a number or a verdict with `passed` or `score`, got NoneType",
        ),
        ("not_finite", "expected a finite score"),
        ("missing", "graders.py has no 'missing'"),
    ],
)
async def test_function_that_dies_is_an_error(workspace: Path, name: str, expected: str) -> None:
    verdict = await by_function(workspace, name)
    assert verdict.passed is None
    assert verdict.score is None
    assert expected in str(verdict.error)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory")
async def test_function_that_eats_memory_is_an_error(workspace: Path) -> None:
    assert "bytes of memory" in str((await by_function(workspace, "eats")).error)


async def test_function_that_hangs_is_ended(workspace: Path) -> None:
    verdict = await by_function(workspace, "hangs", timeout_s=1.5)
    assert "took more than 1.5 s" in str(verdict.error)
    assert has_ended(workspace)


async def test_cancelled_grader_is_ended(workspace: Path) -> None:
    script = "echo $$ > pid; kill -USR1 $PPID; exec sleep 60"
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, began.set)
    try:
        task = asyncio.create_task(by_command(workspace, "sh", "-c", script))
        async with asyncio.timeout(20):
            await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)
    assert has_ended(workspace)


async def test_files_of_the_workspace_replace_no_modules(workspace: Path) -> None:
    for name in ("string", "accord", "asyncio", "pickle"):
        (workspace / f"{name}.py").write_text("raise SystemExit(0)")
    assert await by_function(workspace, "shadowed") == Verdict(passed=True)


async def test_graders_are_imported_before_a_run(workspace: Path) -> None:
    folder = workspace.parent
    (folder / "broken.py").write_text("import no_such_module\n")
    (folder / "leaving.py").write_text("import os\nos._exit(3)\n")
    (folder / "value.py").write_text("grade = 1\n")
    good = f"{folder}/graders.py:passes"
    wrong = {
        f"{folder}/broken.py:grade": "raised ModuleNotFoundError",
        f"{folder}/value.py:grade": "is not a function",
        f"{folder}/none.py:grade": "does not exist",
        "no_such_package.module:grade": "The module no_such_package.module does not exist",
        "nothing": "Expected file.py:name or package.module:name",
    }
    found = await check_functions([good, *wrong])
    assert found.keys() == wrong.keys()
    assert all(wrong[name] in found[name] for name in wrong), found
    leaving = f"{folder}/leaving.py:grade"
    assert await check_functions([leaving]) == {
        leaving: f"{leaving}: importing it exited with status 3"
    }
    assert await check_functions([]) == {}


def at_the_top(attempt: GradedAttempt) -> bool:
    return True


def test_function_objects_become_references() -> None:
    reference = reference_to(at_the_top)
    assert reference.endswith(":at_the_top")
    assert callable(load_object(reference))
    with pytest.raises(FleetError, match="defined at the top of a file"):
        reference_to(lambda _: True)


async def test_agent_is_asked_for_a_verdict(workspace: Path) -> None:
    asked: list[tuple[str, str, Path, float]] = []

    async def ask(name: str, prompt: str, given: GradedAttempt, timeout_s: float) -> Answer:
        asked.append((name, prompt, given.workspace, timeout_s))
        text = 'Looks good.\n```json\n{"passed": true, "score": 0.9, "reason": "done"}\n```'
        return Answer(text=text)

    grader = AgentGrader(agent="judge", prompt="Is it right?", timeout_s=7)
    verdict = await ProcessGraders().grade(grader, attempt(workspace), ask)
    assert verdict == Verdict(passed=True, score=0.9, reason="done")
    ((name, prompt, folder, timeout_s),) = asked
    assert (name, folder, timeout_s) == ("judge", workspace, 7)
    for part in ("Is it right?", "What is 2 + 2?", "<Answer>\n4\n", "+changed", '{"passed"'):
        assert part in prompt


async def test_agent_is_asked_once_more_and_then_it_is_an_error(workspace: Path) -> None:
    grader = AgentGrader(agent="judge", prompt="Is it right?")
    answers = ["I think so.", '{"passed": false}']

    async def ask(name: str, prompt: str, given: GradedAttempt, timeout_s: float) -> Answer:
        if len(answers) == 1:
            assert "I think so." in prompt
        return Answer(text=answers.pop(0), usage=Usage(total_tokens=7, cost=0.5))

    verdict = await ProcessGraders().grade(grader, attempt(workspace), ask)
    assert verdict == Verdict(passed=False, usage=Usage(total_tokens=14, cost=1.0))
    answers += ["no", "no", "no"]
    verdict = await ProcessGraders().grade(grader, attempt(workspace), ask)
    assert verdict.passed is None
    assert verdict.error == "judge answered twice without a verdict in JSON"
    assert answers == ["no"]
    answers[:] = ["I think so.", '{"passed": 1}']
    verdict = await ProcessGraders().grade(grader, attempt(workspace), ask)
    assert verdict.passed is None
    assert str(verdict.error).endswith("in JSON: expected `passed` to be true or false, got 1")


@pytest.mark.parametrize("error", [AttemptFailed("turn", "the agent died"), TimeoutError()])
async def test_agent_that_dies_is_an_error(workspace: Path, error: Exception) -> None:
    async def ask(name: str, prompt: str, given: GradedAttempt, timeout_s: float) -> Answer:
        raise error

    grader = AgentGrader(agent="judge", prompt="Is it right?")
    verdict = await ProcessGraders().grade(grader, attempt(workspace), ask)
    assert verdict.passed is None
    assert str(error) in str(verdict.error)


TEXTS = st.text(st.sampled_from('{}[]":,aä1 \n\\'))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["passed", "score"]), inner),
    max_leaves=5,
)


@settings(max_examples=50)
@given(TEXTS, st.booleans(), st.floats(0, 1), TEXTS)
def test_last_verdict_is_found_in_any_text(
    before: str, passed: bool, score: float, after: str
) -> None:
    verdict = Verdict(passed=passed, score=score, reason='{"passed": 1}', details={"score": 3})
    text = before.replace('"', "") + msgspec.json.encode(verdict).decode() + after.replace("{", "")
    assert last_verdict(text) == verdict


def test_deeply_nested_text_has_no_verdict() -> None:
    assert last_verdict("{" * 100_000) is None
    assert last_verdict('{"a":' * 100_000) is None


@settings(max_examples=50)
@given(JSON)
def test_any_value_is_a_verdict_or_refused(value: object) -> None:
    try:
        verdict = verdict_of(value)
    except NotAVerdict as error:
        refused = str(error)
    else:
        refused = None
        assert (verdict.passed, verdict.score, verdict.error) != (None, None, None)
    assert refused is None or "expected" in refused
