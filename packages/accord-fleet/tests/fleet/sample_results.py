"""Results of runs that did not happen, for reports and progress: seeded, of any number."""

from __future__ import annotations

import random
from collections.abc import Iterator

from accord_fleet.types import Failure, Result, Status, Times, Usage, Verdict

HOSTILE = '<img src=x onerror="alert(1)">\u202egnp.exe\u202c\x1b[31m</pre><script>alert(2)</script>'
AGENTS = {"accord": 0.72, "claude-agent-acp": 0.81, "qwen-code": 0.55}
TAGS = (("python", "small"), ("python",), ("docs", "small"), ("shell",))
FAILURES: tuple[tuple[Status, Failure], ...] = (
    ("failed", Failure(where="agent_exit", message="The agent exited with status 137")),
    ("failed", Failure(where="turn", message="session/prompt: Internal error (-32603)")),
    ("limit", Failure(limit="wall_s", message="The limit of 600 s was reached")),
    ("failed", Failure(where="workspace", message="git: unknown revision deadbeef00")),
    ("lost", Failure(message="The machine was lost")),
)
DIFF = """\
diff --git a/src/greet.py b/src/greet.py
--- a/src/greet.py
+++ b/src/greet.py
@@ -1,3 +1,3 @@
 def greet(name):
-    return "Hello"
+    return f"Hello, {name}"
"""


def sample_results(tasks: int, attempts: int = 1, seed: int = 1) -> Iterator[Result]:
    """Yield results of three agents, each with its rate, times, costs and failures."""
    rng = random.Random(seed)
    for number in range(tasks):
        ease = rng.gauss(0, 0.25)  # of the task, so that its attempts resemble each other
        for agent, rate in AGENTS.items():
            for attempt in range(1, attempts + 1):
                yield _result(rng, number, agent, attempt, rate + ease)


def _result(rng: random.Random, number: int, agent: str, attempt: int, chance: float) -> Result:
    status: Status = "finished"
    failure = None
    verdict: Verdict | None = None
    if rng.random() < 0.06:
        status, failure = rng.choice(FAILURES)
    elif rng.random() < 0.02:
        verdict = Verdict(error=f"pytest exited with status {rng.randrange(2, 6)}")
    elif rng.random() < chance:
        verdict = Verdict(passed=True, score=1.0)
    else:
        reason = f"{rng.randrange(1, 9)} of 12 tests failed"
        verdict = Verdict(passed=False, score=rng.random(), reason=reason)
    wall = rng.lognormvariate(3 + len(agent) / 20, 0.8)
    used = int(rng.lognormvariate(9, 1))
    return Result(
        task=f"task-{number:05}",
        agent=agent,
        attempt=attempt,
        status=status,
        failure=failure,
        stop_reasons=("end_turn",) if status == "finished" else (),
        answer=HOSTILE if number == 3 else f"I have changed `greet` as task {number} says.",
        diff=DIFF,
        files_changed=("src/greet.py",),
        tool_calls=rng.randrange(0, 30),
        verdict=verdict,
        usage=Usage(
            input_tokens=used,
            output_tokens=used // 9,
            total_tokens=used + used // 9,
            cost=used * 3e-6,
            currency="USD",
        ),
        times=Times(started=1.79e9 + number, wall_s=wall, turns_s=(wall,)),
        trace=f"traces/{agent}-{attempt}/task-{number:05}.acp.jsonl.zst",
        tags=TAGS[number % len(TAGS)],
    )
