"""Attempts with their guards: sandbox, gateway, memory, breaker; no secret in what is stored."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from accord.text.redact import is_secret_name
from accord.transports.process import STDERR_BYTES
from accord_fleet import AgentSpec, Limits, machine
from accord_fleet.breaker import AgentBreaker, BreakerSettings
from accord_fleet.gateway.providers import KNOWN_PROVIDERS, Provider, ProviderError
from accord_fleet.redaction import Redactor
from accord_fleet.sandbox.settings import SandboxSettings
from accord_fleet.types import CommandGrader, FunctionGrader, Result, Times, Verdict
from accord_trace import open_trace
from coder.models.provider import Says, serve_provider
from fleet.running import RAW, outcomes, raw, recorded, result, results, task
from fleet.sandboxes import NEEDS_SANDBOX

AGENTS = str(Path(__file__).parent / "agents")
KEY = "sk-real-key-of-the-fleet"
MIB = 2**20

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the agents use signals of POSIX")


def provider(root: str) -> Provider:
    env = KNOWN_PROVIDERS["anthropic"].env
    return Provider(name="p", api="anthropic", base_url=root, key="FLEET_KEY", env=env)


def agent(**fields: object) -> AgentSpec:
    return AgentSpec(name="raw", command=RAW, **fields)  # type: ignore[arg-type]


@NEEDS_SANDBOX
async def test_attempt_in_a_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    monkeypatch.setenv("UNLISTED", "do-not-tell")
    monkeypatch.setenv("LISTED_KEY", "value-of-a-key")
    given = task(
        *(f"try {secret}", "env UNLISTED", "env LISTED_KEY", "try given", "write new hello"),
        files={"given": "text"},
    )
    # The text of the last turn is the answer: one attempt for each question.
    tasks = [
        task(prompt, name=f"t{at}", files=given.files) for at, prompt in enumerate(given.prompts)
    ]
    done = await results(
        tasks,
        agent(secrets=("LISTED_KEY",)),
        sandbox=SandboxSettings(mode="no-network", read=(AGENTS,)),
    )
    assert [each.failure for each in done] == [None] * 5
    assert [each.answer for each in done[:4]] == [
        "FileNotFoundError",
        "(unset)",
        "[redacted]",
        "text",
    ]
    assert done[4].files_changed == ("new",)


async def test_attempt_that_eats_memory_is_ended_and_the_others_continue() -> None:
    limits = Limits(memory_bytes=80 * MIB)
    tasks = [
        task("eat 160", name="eats", limits=limits),
        *(task("say one", "say two", name=f"t{number}", limits=limits) for number in range(4)),
    ]
    eats, *others = await results(tasks, raw(warm=False), jobs=2)
    assert eats.status == "limit"
    assert eats.failure.limit == "memory_bytes"
    assert "80 MiB are allowed" in eats.failure.message
    assert [other.status for other in others] == ["finished"] * 4


@NEEDS_SANDBOX
async def test_memory_in_a_sandbox_counts() -> None:
    done = await result(
        task("eat 160", limits=Limits(memory_bytes=80 * MIB)),
        sandbox=SandboxSettings(mode="no-network", read=(AGENTS,)),
    )
    assert done.failure.limit == "memory_bytes"


@pytest.mark.parametrize(
    "mode", ["off", pytest.param("models", marks=NEEDS_SANDBOX)], ids=["outside", "sandbox"]
)
async def test_tokens_are_counted_for_each_attempt_and_no_key_is_stored(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("FLEET_KEY", KEY)
    async with serve_provider(Says("A", tokens=(10, 1)), Says("B", tokens=(20, 2))) as fake:
        tasks = [task("model {}", "env FLEET_KEY", name=name) for name in ("t1", "t2")]
        found = await outcomes(
            tasks,
            agent(provider="p"),
            providers=(provider(fake.root),),
            recordings=str(tmp_path),
            sandbox=SandboxSettings(mode=mode, read=(AGENTS,)),  # type: ignore[arg-type]
        )
        assert [each.headers["x-api-key"] for each in fake.requests] == [KEY] * 2
    done = [attempted.result for attempted in found]
    assert [each.usage.total_tokens for each in done] == [11, 22]
    assert [each.answer for each in done] == ["(unset)"] * 2
    for attempted in found:
        assert KEY not in str(attempted.result)
        text = recorded(attempted).decode()
        assert "message_stop" in text
        assert KEY not in text
    assert KEY not in caplog.text


async def test_attempt_is_ended_at_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_KEY", KEY)
    async with serve_provider(Says("A", tokens=(100, 20))) as fake:
        done = await result(
            task("model {}", "model {}", limits=Limits(tokens=110)),
            agent(provider="p"),
            providers=(provider(fake.root),),
        )
    assert done.status == "limit"
    assert done.failure.limit == "tokens"
    assert "120" in done.failure.message


async def test_secret_that_an_agent_says_is_redacted_everywhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LISTED_KEY", 'value "of a key')
    found = await outcomes(
        [
            task("env LISTED_KEY", name="t1"),
            task('stderr value "of a key', name="t2"),
            task('write value.txt value "of a key', name="t3"),
        ],
        agent(secrets=("LISTED_KEY",)),
        recordings=str(tmp_path),
    )
    assert found[0].result.answer == "[redacted]"
    for attempted in found:
        stored = str(attempted.result) + recorded(attempted).decode()
        assert "of a key" not in stored
        assert "[redacted]" in stored


@pytest.mark.parametrize("size", [1, 3, 11])
async def test_secret_in_pieces_is_redacted_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv("LISTED_KEY", KEY)
    found = await outcomes(
        [
            task(f"pieces {size} LISTED_KEY", name="t1"),
            task(f"stderr-lines {size} LISTED_KEY", name="t2"),
        ],
        agent(secrets=("LISTED_KEY",)),
        recordings=str(tmp_path),
    )
    said, wrote = (attempted.result for attempted in found)
    assert said.answer == "[redacted]"
    assert "".join(wrote.stderr.splitlines()) == "[redacted]"
    trace = tmp_path / "t1.acp.jsonl"
    trace.write_bytes(recorded(found[0]))
    records = [each for each in open_trace(trace) if each.method == "session/update"]
    updates = [msgspec.json.decode(each.params or b"")["update"] for each in records]
    texts = [each["content"]["text"] for each in updates if "content" in each]
    pieces = -(-len(KEY) // size)
    assert texts == ["[redacted]", *[""] * (pieces - 1)]
    # The updates between them are in their places.
    kinds = ["agent_message_chunk", "usage_update"] * pieces
    assert [each["sessionUpdate"] for each in updates] == kinds


async def test_secret_in_a_line_that_is_read_in_pieces_is_redacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LISTED_KEY", KEY)
    tasks = [
        task(f"stderr-long {STDERR_BYTES - shift} LISTED_KEY", name=f"t{shift}")
        for shift in range(0, len(KEY), 4)
    ]
    for done in await results(tasks, agent(secrets=("LISTED_KEY",))):
        joined = "".join(done.stderr.splitlines())
        assert joined.lstrip(".") == "[redacted]"


async def test_keys_of_the_environment_are_in_no_result_and_no_grader(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("GRADER_TOKEN", "token-of-the-driver")
    monkeypatch.setenv("MAX_TOKENS", "100")
    (tmp_path / "grader.py").write_text(
        "import os\ndef keys(attempt): return {'passed': True, 'reason': repr(dict(os.environ))}\n"
    )
    shown = 'echo "$ANTHROPIC_API_KEY|$GRADER_TOKEN|$MAX_TOKENS|$OWN_KEY"'
    by_command = CommandGrader(command=("sh", "-c", shown))
    by_function = FunctionGrader(function=f"{tmp_path}/grader.py:keys")
    found = await outcomes(
        [
            task("env ANTHROPIC_API_KEY", name="t1", grader=by_command, env={"OWN_KEY": "known"}),
            task(f"stderr {KEY}", name="t2", grader=by_function),
            task(f"write {KEY} {KEY}", name="t3"),
        ],
        agent(env={"OTHER_SECRET": "in-agents-toml"}),
        recordings=str(tmp_path),
    )
    assert found[0].result.answer == "[redacted]"
    assert found[0].result.verdict.reason == "||100|known"
    assert "ANTHROPIC_API_KEY" not in found[1].result.verdict.reason
    assert "PATH" in found[1].result.verdict.reason
    assert "[redacted]" in found[1].result.stderr
    assert found[2].result.files_changed == ("[redacted]",)
    assert "+[redacted]" in found[2].result.diff
    for attempted in found:
        stored = str(attempted.result) + recorded(attempted).decode()
        assert KEY not in stored
        assert "token-of-the-driver" not in stored


def test_redaction_leaves_ids_and_numbers() -> None:
    given = Result(
        task="12345678",
        agent="finished",
        status="finished",
        answer="finished 12345678",
        times=Times(started=12345678.0),
        verdict=Verdict(details={"said": ["12345678", 12345678]}),
    )
    redacted = Redactor(["12345678", "finished"]).result(given)
    assert (redacted.key, redacted.status) == (given.key, "finished")
    assert redacted.times == given.times
    assert redacted.answer == "[redacted] [redacted]"
    assert redacted.verdict == Verdict(details={"said": ["[redacted]", 12345678]})


def test_lines_of_a_private_key_are_redacted_in_a_diff() -> None:
    redactor = Redactor(["-----BEGIN-----\nabcdefghij\n"])
    assert redactor.text("+-----BEGIN-----\n+abcdefghij\n") == "+[redacted]\n+[redacted]\n"


def test_half_of_a_secret_is_redacted_and_less_is_not() -> None:
    redactor = Redactor([KEY, "short-one"])
    half = (len(KEY) + 1) // 2
    for size in range(half, len(KEY)):
        assert redactor.text(f"…{KEY[-size:]} x") == "…[redacted] x"
        assert redactor.text(f"x {KEY[:size]}") == "x [redacted]"
    assert (
        redactor.text(f"{KEY[: half - 1]} {KEY[1 - half :]}") == f"{KEY[: 12 - 1]} {KEY[1 - 12 :]}"
    )
    assert redactor.text("short-on") == "short-on"
    assert Redactor(["redacted", "redactedABCDEFGH"]).text("redactedABC") == "[redacted]"
    assert Redactor(["redacted"]).text("redacted") == "redacted"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, True) for name in ("ANTHROPIC_API_KEY", "PGPASSWORD", "GH_TOKEN", "MYSQL_PWD")),
        *((name, True) for name in ("AWS_SECRET_ACCESS_KEY", "apikey", "SECRET_2", "OPENAI_KEY_1")),
        *((name, False) for name in ("PWD", "HOME", "TOKENIZERS_PARALLELISM", "SSL_KEY_FILE")),
        *((name, False) for name in ("KEYBOARD", "SSH_AUTH_SOCK", "PATH")),
    ],
)
def test_names_of_secrets(name: str, expected: bool) -> None:
    assert is_secret_name(name) is expected


async def test_agent_that_cannot_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = BreakerSettings(failures=2, first_pause_s=0.01, probes=1)
    make = machine.Guards
    monkeypatch.setattr(
        "accord_fleet.machine.Guards",
        lambda **given: make(**{**given, "breaker": AgentBreaker(settings)}),
    )
    broken = AgentSpec(name="raw", command=("no-such-agent",))
    done = await results([task("say", name=f"t{number}") for number in range(6)], broken)
    assert [each.failure.where for each in done] == ["start"] * 6
    assert [each.failure.message.startswith("raw was not started: 3") for each in done] == [
        *[False] * 3,
        *[True] * 3,
    ]


async def test_missing_key_is_reported_before_anything_runs() -> None:
    with pytest.raises(ProviderError, match="FLEET_KEY, which is not set"):
        await result(task("say"), agent(provider="p"), providers=(provider("http://x.test"),))


def test_redactor_ignores_short_values_and_replaces_longer_ones_first() -> None:
    redactor = Redactor(["1", "12345678", "123456789"])
    assert redactor.text("1 12345678 123456789") == "1 [redacted] [redacted]"


@NEEDS_SANDBOX
async def test_command_of_a_grader_runs_in_the_sandbox(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    command = ("sh", "-c", f"cat new && ! cat {secret}")
    done = await result(
        task("write new hello", grader=CommandGrader(command=command)),
        sandbox=SandboxSettings(mode="no-network", read=(AGENTS,)),
    )
    assert done.verdict.error is None
    assert done.verdict.passed
    assert "hello" in done.verdict.reason
