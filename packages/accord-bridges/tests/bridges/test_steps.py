"""A turn is divided into steps, and steps become a trajectory."""

from __future__ import annotations

from accord import (
    ContextUsage,
    Cost,
    Diff,
    Text,
    TextContent,
    Thought,
    TokenUsage,
    ToolCall,
    UsageChanged,
)
from accord_bridges.atif import trajectory_of
from accord_bridges.steps import Steps


def call(call_id: str, status: str, **more: object) -> ToolCall:
    return ToolCall(id=call_id, title=f"Call {call_id}", status=status, **more)  # type: ignore[arg-type]


def divided(*events: object) -> list[tuple[str, list[str]]]:
    steps = Steps()
    for event in events:
        steps.add(event)
    steps.end("end_turn")
    return [(step.text, [one.state.id for one in step.calls]) for step in steps.all]


def test_step_ends_with_the_end_of_a_call_and_with_text_after_one():
    assert divided(Text("a"), Text("b")) == [("ab", [])]
    assert divided(Text("a"), call("1", "pending"), call("1", "completed"), Text("b")) == [
        ("a", ["1"]),
        ("b", []),
    ]
    # Calls at the same time are of one step, and their ends begin no other.
    at_once = [call(one, "pending") for one in "12"] + [call(one, "failed") for one in "21"]
    assert divided(*at_once) == [("", ["1", "2"]), ("", [])]
    assert divided(call("1", "in_progress"), Text("a"), call("1", "completed"), Text("b")) == [
        ("", ["1"]),
        ("ab", []),
    ]


def test_name_arguments_and_output_of_a_call_are_what_the_agent_reports():
    steps = Steps()
    steps.add(call("1", "completed", name="bash", raw_input={"command": "ls"}, raw_output={"n": 1}))
    steps.add(call("2", "completed", kind="edit", content=(Diff("a.txt", old="x\n", new="y\n"),)))
    steps.add(call("3", "failed", raw_input="text", content=(TextContent("No such file"),)))
    bash, edit, other = [one for step in steps.all for one in step.calls]
    assert (bash.name, bash.arguments, bash.output) == ("bash", {"command": "ls"}, '{"n": 1}')
    assert (edit.name, edit.arguments) == ("edit", {"title": "Call 2"})
    assert edit.output.splitlines()[-2:] == ["-x", "+y"]
    assert (other.name, other.arguments) == ("Call_3", {"input": "text"})
    assert (bash.failure, other.failure) == (None, "No such file")


def test_trajectory_has_each_step_with_its_results_and_what_it_cost():
    steps = Steps()
    steps.add(Thought("hm"))
    steps.add(call("1", "pending", kind="read"))
    steps.add(UsageChanged(ContextUsage(10, 100, Cost(0.5))))
    steps.add(call("1", "completed", kind="read", content=(TextContent("ok"),)))
    steps.add(Text("done"))
    steps.add(UsageChanged(ContextUsage(10, 100, Cost(0.75))))
    steps.end("end_turn", TokenUsage(total=30, input=20, output=10, cached_read=4))
    made = trajectory_of(("go", steps.all), agent="a", version="1")
    user, first, last = made["steps"]
    assert user == {"step_id": 1, "source": "user", "message": "go"}
    assert first["reasoning_content"] == "hm"
    assert first["observation"] == {"results": [{"source_call_id": "1", "content": "ok"}]}
    assert first["metrics"] == {"cost_usd": 0.5}
    assert last["message"] == "done"
    assert last["metrics"]["cost_usd"] == 0.25
    assert made["final_metrics"] == {
        "total_prompt_tokens": 20,
        "total_completion_tokens": 10,
        "total_cached_tokens": 4,
        "total_cost_usd": 0.75,
        "total_steps": 3,
    }
