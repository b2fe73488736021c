"""`acp_agent` in inspect-ai, with the script agent; run by test_frameworks.py."""

import json
import sys
from pathlib import Path

import inspect_ai
import pytest
from inspect_ai.approval import ApprovalPolicy, auto_approver
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample, read_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ModelUsage
from inspect_ai.util import sandboxenv
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

from accord_bridges.inspect import acp_agent

SCRIPT = [sys.executable, "-m", "accord", "agent", "script"]
MODEL = "acp/" + Path(sys.executable).name


@sandboxenv(name="box")
class Box(LocalSandboxEnvironment):
    """Another sandbox than the local one: it is reached by commands only."""

    @classmethod
    async def sample_init(cls, *_: object) -> dict[str, LocalSandboxEnvironment]:
        return {"default": Box()}


def run(*prompts: str, command: object = SCRIPT, sandbox: str = "local", **more: object):
    """Return the samples by prompt, as they are in the log file."""
    task = inspect_ai.Task(
        [Sample(one) for one in prompts], solver=acp_agent(command), sandbox=sandbox, **more
    )
    log = inspect_ai.eval(
        task, model="mockllm/model", display="none", fail_on_error=False, log_dir="logs"
    )[0]
    return {str(sample.input): sample for sample in read_eval_log(log.location).samples or []}


def kinds(sample: EvalSample) -> list[str]:
    shown = {"model", "tool", "approval", "info", "sample_limit"}
    return [event.event for event in sample.events if event.event in shown]


def said(sample: EvalSample) -> list[str]:
    """Return the conversation in short."""
    found = []
    for message in sample.messages:
        if isinstance(message, ChatMessageAssistant) and message.tool_calls:
            found += [
                f"{call.function}({json.dumps(call.arguments)})" for call in message.tool_calls
            ]
        elif isinstance(message, ChatMessageTool):
            found.append(f"= {message.error.message if message.error else message.text}")
        else:
            found.append(message.text)
    return found


@pytest.mark.parametrize("sandbox", ["local", "box"])
def test_turn_is_recorded_as_messages_and_events(sandbox: str):
    samples = run("permission 2", "think hi", "plan", "tokens", "usage", "exit 3", sandbox=sandbox)
    sample = samples["permission 2"]
    assert said(sample) == [
        "permission 2",
        'script_thing({"thing": 1})', "= Thing 1 is done.",
        'script_thing({"thing": 2})', "= Thing 2 is done.",
        "2 of 2 allowed.",
    ]  # fmt: skip
    assert kinds(sample) == ["model", "tool", "model", "tool", "model"]
    assert sample.output.completion == "2 of 2 allowed."
    assert sample.output.stop_reason == "stop"
    thought = samples["think hi"].messages[1].content
    assert [part.type for part in thought] == ["reasoning", "text"]
    plans = [event.data for event in samples["plan"].events if event.event == "info"]
    assert plans[-1]["plan"][0].startswith("[completed]")
    used = samples["tokens"].model_usage[MODEL]
    assert (used.input_tokens, used.output_tokens, used.total_tokens) == (20, 10, 30)
    assert samples["usage"].model_usage[MODEL] == ModelUsage(total_cost=0.25)
    assert samples["permission 2"].model_usage == {}
    assert "ended with status 3" in (text := samples["exit 3"].error.message) or "status 3" in text


def test_calls_that_fail_are_tool_errors_and_diffs_are_shown():
    text = "\n".join(said(run("tools")["tools"]))
    assert "= It failed on request." in text
    assert "+++ " in text
    assert "19 tool calls: 18 completed, 1 failed." in text


@pytest.mark.parametrize("sandbox", ["local", "box"])
def test_limit_ends_the_agent_and_keeps_what_it_did(sandbox: str):
    limit_s = 8 if sandbox == "local" else 20  # the box is reached by commands, which take longer
    sample = run("wait forever", sandbox=sandbox, time_limit=limit_s)["wait forever"]
    assert sample.limit.type == "time"
    assert said(sample) == ["wait forever", 'Wait_forever({"seconds": null})']
    left = [
        path for path in Path("/proc").glob("[0-9]*/cmdline")
        if "\0".join(SCRIPT).encode() in read(path) and belongs_here(path.parent)
    ]  # fmt: skip
    assert not left


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def belongs_here(process: Path) -> bool:
    return f"HOME={Path.home()}\0".encode() in read(process / "environ")


def test_limits_of_messages_and_tokens():
    assert run("tools", message_limit=3)["tools"].limit.type == "message"
    assert run("tokens", token_limit=10)["tokens"].limit.type == "token"


def test_approval_policies_decide_permission_requests():
    rejects = [ApprovalPolicy(auto_approver("reject"), "*")]
    samples = run("permission 1", "tools", approval=rejects)
    assert said(samples["permission 1"])[-2:] == ["= Automatic decision.", "0 of 1 allowed."]
    assert kinds(samples["permission 1"]) == ["model", "approval", "tool", "model"]
    assert "ran it without asking for permission" in samples["tools"].error.message
    ends = [ApprovalPolicy(auto_approver("terminate"), "*")]
    assert run("permission 1", approval=ends)["permission 1"].limit.type == "operator"


@pytest.mark.parametrize("sandbox", ["local", "box"])
def test_agent_that_is_missing_is_named(sandbox: str):
    error = run("x", command="no-such-agent --acp", sandbox=sandbox)["x"].error.message
    assert "The agent no-such-agent failed" in error
    assert "not found" in error
