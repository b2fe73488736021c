"""`accord session` and `accord ask -s`, from a user's side."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from accord_terminal.sessions.journal import Ended, Started
from requirement import requirement
from sessions_named.machine import Machine, eventually

pytestmark = pytest.mark.slow


@requirement("R-NAMED-01")
@pytest.mark.usefixtures("interpreters")
def test_the_walk_of_the_how_to_page(machine: Machine) -> None:
    created = machine.ok("session", "new", "-s", "fix", "--agent", "script")
    assert created.startswith("created the session fix (s-")
    assert machine.ok("session", "prompt", "-s", "fix", "echo Hello.") == "Hello.\n"
    (row,) = json.loads(machine.ok("session", "list", "--json"))
    assert (row["name"], row["state"], row["prompts"]) == ("fix", "idle", 1)
    assert machine.ok("session", "close", "-s", "fix") == "closed the session fix\n"
    eventually(lambda: machine.owners() == [])
    assert [*machine.store][-1].closed


@requirement("R-NAMED-01")
def test_session_is_found_from_below_up_to_the_root_of_the_repository(machine: Machine) -> None:
    (machine.work / ".git").mkdir()
    below = machine.work / "src" / "deep"
    below.mkdir(parents=True)
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    assert machine.ok("session", "prompt", "-s", "fix", "echo Hello.", cwd=below) == "Hello.\n"
    (below / ".git").mkdir()
    assert machine.run("session", "prompt", "-s", "fix", "echo", cwd=below).returncode == 4


@requirement("R-NAMED-01")
def test_exit_status(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    for words, status in (
        (("prompt", "-s", "none", "hi"), 4),
        (("show", "-s", "none"), 4),
        (("prompt", "-s", "fix", "permission"), 5),
        (("prompt", "-s", "fix", "--yes", "permission"), 0),
        (("prompt", "-s", "fix", "--timeout", "0.3", "wait forever"), 3),
        (("prompt", "-s", "fix", "error"), 1),
        (("prompt", "-s", "fix", "--nonsense"), 2),
        (("new", "-s", "other", "--agent", "/none/such"), 1),
    ):
        assert machine.run("session", *words).returncode == status, words


def test_an_agent_that_does_not_start_leaves_no_session(machine: Machine) -> None:
    ended = machine.run("session", "new", "-s", "fix", "--agent", "/none/such")
    assert "/none/such" in ended.stderr
    assert [*machine.store] == []


def test_ask_creates_a_session_and_prompt_does_not(machine: Machine) -> None:
    assert machine.run("session", "prompt", "echo Hello.").returncode == 4
    assert machine.ok("ask", "-s", "fix", "--agent", "script", "echo Hello.") == "Hello.\n"
    assert machine.ok("ask", "-s", "fix", "echo Again.") == "Again.\n"
    assert len([*machine.store]) == 1


def test_new_session_of_the_same_name_closes_the_old_one(machine: Machine) -> None:
    for _ in range(2):
        machine.ok("session", "new", "-s", "fix", "--agent", "script")
    assert machine.owner()
    first, second = machine.store
    assert (first.closed, second.closed) == (True, False)


def test_ask_does_not_use_the_model_of_another_agent(machine: Machine) -> None:
    settings = machine.base / "config" / "settings.toml"
    settings.write_text('[ask]\nagent = "other"\n[agents.other]\ncommand = "x"\nmodel = "y"\n')
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    assert machine.ok("ask", "-s", "fix", "echo on") == "on\n"


@requirement("R-NAMED-04")
def test_prompts_run_in_the_order_of_their_submission(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "--no-wait", "wait forever")
    for number in range(4):
        machine.ok("session", "prompt", "-s", "fix", "--no-wait", f"echo {number}")
    waiting = machine.start("session", "prompt", "-s", "fix", "echo last")
    eventually(lambda: len(_queue(machine)) == 6)
    machine.ok("session", "cancel", "-s", "fix")
    assert waiting.communicate(timeout=30)[0] == "last\n"
    texts = [text for text in machine.texts() if len(text) < 10]
    assert texts == ["0", "1", "2", "3", "last"]


def test_closed_session_is_found_by_its_id_which_the_error_names(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "echo kept")
    machine.ok("session", "close", "-s", "fix")
    gone = machine.run("session", "history", "-s", "fix")
    record_id = machine.record().id
    assert gone.returncode == 4
    assert f"accord session history -s {record_id}" in gone.stderr
    assert "kept" in machine.ok("session", "history", "-s", record_id)


@requirement("R-NAMED-04")
def test_cancel_withdraws_a_named_prompt_from_the_queue(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "--no-wait", "wait forever")
    waiting = machine.start("session", "prompt", "-s", "fix", "echo never")
    eventually(lambda: len(_queue(machine)) == 2)
    queued = _queue(machine)[1]["promptId"]
    assert machine.ok("session", "cancel", "-s", "fix", queued) == f"cancelled {queued}\n"
    waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert [one["text"] for one in _queue(machine)] == ["wait forever"]
    assert not any(isinstance(e, Started) and e.prompt == queued for e in machine.entries())


def test_wrong_option_is_named_without_options_of_other_commands(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    mode = machine.run("session", "set", "-s", "fix", "mode", "nope")
    option = machine.run("session", "set", "-s", "fix", "nope", "1")
    assert "Error: mode: expected one of ask," in mode.stderr
    assert "Error: option: expected one of " in option.stderr


def test_list_of_all_sessions_has_ids(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "close", "-s", "fix")
    head, row = machine.ok("session", "list", "--all").splitlines()
    assert head.split()[:2] == ["ID", "NAME"]
    assert row.split()[:2] == [machine.record().id, "fix"]


@requirement("R-NAMED-04")
@pytest.mark.parametrize("attached", [False, True])
def test_a_submitter_that_is_killed_cancels_only_if_it_is_attached(
    machine: Machine, attached: bool
) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    option = ["--attached"] if attached else []
    submitter = machine.start("session", "prompt", "-s", "fix", *option, "wait 3")
    machine.wait_started("wait 3")
    submitter.kill()
    submitter.wait()

    def ended() -> list[str]:
        return [e.stop_reason for e in machine.entries() if isinstance(e, Ended)]

    assert eventually(ended) == (["cancelled"] if attached else ["end_turn"])


def test_ctrl_c_cancels_the_prompt_and_keeps_the_session(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    submitter = machine.start("session", "prompt", "-s", "fix", "wait forever")
    machine.wait_started("wait forever")
    submitter.send_signal(signal.SIGINT)
    submitter.communicate(timeout=30)
    assert submitter.returncode == 130
    assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"


@requirement("R-NAMED-01")
def test_watch_continues_after_its_cursor(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "echo one")
    lines = machine.ok(
        "session", "watch", "-s", "fix", "--from-start", "--no-follow", "--json"
    ).splitlines()
    cursor = json.loads(lines[-1])["cursor"]
    machine.ok("session", "prompt", "-s", "fix", "echo two")
    after = machine.ok(
        "session", "watch", "-s", "fix", "--cursor", cursor, "--no-follow", "--json"
    ).splitlines()
    numbers = [json.loads(line)["entry"]["seq"] for line in (*lines, *after)]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert "two" in "".join(after)
    other = machine.run("session", "watch", "-s", "fix", "--cursor", "nonsense")
    assert other.returncode == 2


def test_watch_follows_until_the_session_is_closed(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    watching = machine.start("session", "watch", "-s", "fix", "--from-start")
    as_json = machine.start("session", "watch", "-s", "fix", "--json", "--from-start")
    assert as_json.stdout is not None
    assert json.loads(as_json.stdout.readline())["entry"]["kind"] == "owner_started"
    machine.ok("session", "prompt", "-s", "fix", "echo seen")
    machine.ok("session", "close", "-s", "fix")
    shown, _ = watching.communicate(timeout=30)
    assert watching.returncode == 0
    assert "\nseen\n" in shown
    lines = as_json.communicate(timeout=30)[0].splitlines()
    rest = [json.loads(line)["entry"]["kind"] for line in lines]
    assert rest[-2:] == ["ended", "owner_ended"]


def test_watch_from_the_end_shows_only_what_is_new(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "echo old")
    assert machine.ok("session", "watch", "-s", "fix", "--no-follow") == ""
    for number in range(3):
        machine.ok("session", "prompt", "-s", "fix", f"echo {number}")
    history = machine.ok("session", "history", "-s", "fix", "--tail", "2")
    assert [line for line in history.splitlines() if line.startswith(">")] == [
        "> echo 1",
        "> echo 2",
    ]


def test_name_that_could_not_be_typed_or_shown_is_refused(machine: Machine) -> None:
    for name in ("", "a\tb", " a", "a  b", "-x", "x" * 65, "a\u202eb", "a\nb"):
        ended = machine.run("session", "new", "-s", name, "--agent", "script")
        assert ended.returncode == 2, name
        assert "Expected a name" in ended.stderr, name
    assert [*machine.store] == []


def test_two_agents_with_one_name_need_a_choice(machine: Machine) -> None:
    settings = machine.base / "config" / "settings.toml"
    words = json.dumps([sys.executable, "-m", "accord.program", "agent", "script"])
    settings.write_text(f"[agents.twin]\ncommand = {words}\n")
    for agent in ("script", "twin"):
        machine.ok("session", "new", "-s", "fix", "--agent", agent)
    ended = machine.run("session", "prompt", "-s", "fix", "echo a")
    assert ended.returncode == 2
    assert "--agent script or twin" in ended.stderr
    assert machine.ok("session", "prompt", "-s", "fix", "--agent", "twin", "echo a") == "a\n"


def _queue(machine: Machine) -> list[dict[str, str]]:
    return json.loads(machine.ok("session", "show", "-s", "fix", "--json"))["queue"]


FAILS = """
import os, sys
from accord import Agent, Turn

class Fails(Agent):
    async def prompt(self, turn: Turn):
        print("note about", turn.text, os.environ["MODEL_API_KEY"], file=sys.stderr, flush=True)
        if turn.text == "exit":
            os._exit(3)
        if turn.text != "work":
            raise KeyError("no model")

Fails().run()
"""


def test_failed_prompt_shows_what_the_agent_wrote_in_this_turn(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_API_KEY", "sk-0123456789")
    (machine.work / "fails.py").write_text(FAILS, "utf-8")
    agent = f"{sys.executable} fails.py"
    machine.ok("session", "new", "-s", "fix", "--agent", agent)
    machine.ok("session", "prompt", "-s", "fix", "work")

    failed = machine.run("session", "prompt", "-s", "fix", "fail")
    first, heading, *lines = failed.stderr.splitlines()
    assert failed.returncode == 1
    assert first == "accord session prompt: Internal error (-32603)"
    assert heading == "  last lines of its stderr:"
    assert lines[-1] == "    KeyError: 'no model'"
    (end,) = [e for e in machine.entries() if isinstance(e, Ended) and e.error is not None]
    assert "note about fail [redacted]" in end.stderr
    assert "note about work [redacted]" not in end.stderr, "that is of an earlier turn"
    assert "\n  KeyError: 'no model'\n" in machine.ok("session", "history", "-s", "fix")

    gone = machine.run("session", "prompt", "-s", "fix", "exit")
    assert "exited with status 3: note about exit [redacted] (-32603)" in gone.stderr


def test_agent_that_does_not_start_shows_what_it_wrote(machine: Machine) -> None:
    (machine.work / "dead.py").write_text("print('Hello')\nraise KeyError('no model')", "utf-8")
    for words in (("session", "new"), ("ask", "-s", "fix", "hi")):
        failed = machine.run(*words, "--agent", f"{sys.executable} dead.py")
        assert "exited with status 1: KeyError: 'no model'" in failed.stderr
        assert "  on its stdout, which must contain only JSON:\n    Hello\n" in failed.stderr
        assert "    raise KeyError('no model')" in failed.stderr


def test_session_is_kept_within_its_budget_for_all_clients(machine: Machine) -> None:
    (machine.work / "limits.toml").write_text("[session]\ncost = 0.1\n[turn]\ntool_calls = 9\n")
    words = ("session", "new", "--agent", "script", "-s", "fix")
    machine.ok(*words, "--budget", "limits.toml")
    said = machine.ok("session", "prompt", "-s", "fix", "usage")
    assert "Limit of the session reached: 0.25 USD of 0.10 USD" in said
    # Of a new process of the agent, too.
    owner = machine.owner()
    os.kill(owner, signal.SIGKILL)
    eventually(lambda: not machine.owners())
    said = machine.run("session", "prompt", "-s", "fix", "echo more").stdout
    assert "0.10 USD: the prompt was not sent" in said
    done = machine.run(*words, "--budget", "price=2")
    assert done.returncode == 2
    assert "Unknown limit 'price'" in done.stderr
