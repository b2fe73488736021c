"""Doubles that violate the rules of turns: prompts, states, ends and cancels."""

from __future__ import annotations

from typing import Any

from conformance.doubles.conversation import TEXT, Talker, breaks

CANCELLED = {"outcome": {"outcome": "cancelled"}}
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}


breaks("R-PROMPT-04", 1, name="no_stop_reason")(lambda t: t.answer(t.prompt(), {}))
breaks("R-PROMPT-06", 1, name="stop_reason_of_its_own")(lambda t: t.stop(t.prompt(), "done"))


@breaks("R-PROMPT-08", 1)
def late_update(t: Talker) -> None:
    prompt = t.prompt()
    t.tool(status="completed")
    t.stop(prompt)
    t.update("tool_call_update", toolCallId="t1", title="Edited")


@breaks("R-TOOL-04", 1)
def tool_call_that_never_ends(t: Talker) -> None:
    prompt = t.prompt()
    t.tool(status="in_progress")
    t.stop(prompt)


@breaks("R-TOOL-04", 2)
def tool_call_that_is_left(t: Talker) -> None:
    t.prompt()
    t.tool(status="in_progress")
    t.state("idle", stopReason="end_turn", background=[])


def _cancelled_turn(t: Talker, answer: Any) -> int:
    """Cancel a turn that requests permission, and send this response."""
    prompt = t.prompt()
    t.tool(status="pending")
    asked = t.permission()
    t.note("session/cancel", t.here())
    t.answer(asked, answer, "client")
    return prompt


breaks("R-CANCEL-03", 1, name="permission_given_after_the_cancel")(
    lambda t: t.stop(_cancelled_turn(t, YES), "cancelled")
)


@breaks("R-PERM-03", 1)
def permission_given_that_was_asked_after_the_cancel(t: Talker) -> None:
    prompt = t.prompt()
    t.tool(status="pending")
    t.note("session/cancel", t.here())
    t.answer(t.permission(), YES, "client")
    t.stop(prompt, "cancelled")


breaks("R-CANCEL-05", 1, name="cancelled_turn_ends_as_if_nothing_were")(
    lambda t: t.stop(_cancelled_turn(t, CANCELLED), "end_turn")
)


@breaks("R-CANCEL-05", 1)
def cancelled_turn_ends_late(t: Talker) -> None:
    prompt = t.prompt()
    t.note("session/cancel", t.here())
    t.time += 60
    t.stop(prompt, "end_turn")


breaks("R-CANCEL-06", 1, name="cancelled_turn_fails")(
    lambda t: t.fail(_cancelled_turn(t, CANCELLED), -32603)
)


@breaks("R-CANCEL-09", 1)
def late_update_of_a_cancelled_turn(t: Talker) -> None:
    t.stop(_cancelled_turn(t, CANCELLED), "cancelled")
    t.update("tool_call_update", toolCallId="t1", status="failed")


# Version 2.


breaks("R-PROMPT-09", 2, name="no_message_id")(
    lambda t: t.call("session/prompt", t.here(prompt=[TEXT]), {})
)


@breaks("R-PROMPT-10", 2)
def no_echo(t: Talker) -> None:
    t.call("session/prompt", t.here(prompt=[TEXT]), {"messageId": "m"})
    t.state("running")
    t.state("idle", stopReason="end_turn")


@breaks("R-PROMPT-11", 2)
def never_running(t: Talker) -> None:
    t.update("user_message", messageId="m", content=[TEXT])
    t.call("session/prompt", t.here(prompt=[TEXT]), {"messageId": "m"})
    t.state("idle", stopReason="end_turn")


@breaks("R-PROMPT-13", 2)
def idle_without_a_reason(t: Talker) -> None:
    t.prompt()
    t.state("idle")


breaks("R-PROMPT-21", 2, name="state_of_its_own", by="agent")(lambda t: t.state("thinking"))
breaks("R-PROMPT-25", 2, name="empty_prompt")(
    lambda t: t.refused("session/prompt", t.here(prompt=[]), -32602)
)
breaks("R-PROMPT-26", 2, name="unknown_block_accepted")(
    lambda t: t.stop(t.prompt({"type": "_example.com/scent"}))
)
breaks("R-PROMPT-32", 2, name="cancelled_without_a_cancel")(
    lambda t: t.stop(t.prompt(), "cancelled")
)


def _late(t: Talker, reason: str) -> None:
    prompt = t.prompt()
    t.note("session/cancel", t.here())
    t.time += 60
    t.stop(prompt, reason)


breaks("R-CANCEL-07", 2, name="cancelled_work_ends_as_if_nothing_were")(
    lambda t: _late(t, "end_turn")
)
breaks("R-CANCEL-08", 2, name="cancelled_work_ends_in_an_error")(lambda t: _late(t, "error"))


def _spoken(t: Talker) -> None:
    """A cancelled turn that had started a message."""
    t.prompt()
    t.update("agent_message_chunk", messageId="a1", content=TEXT)
    t.note("session/cancel", t.here())
    t.state("idle", stopReason="cancelled", background=[])


@breaks("R-CANCEL-09", 2)
def message_that_goes_on_after_the_cancelled_turn(t: Talker) -> None:
    _spoken(t)
    t.update("agent_message_chunk", messageId="a1", content=TEXT)


@breaks("R-CANCEL-14", 2)
def question_of_cancelled_work_left_open(t: Talker) -> None:
    prompt = t.prompt()
    t.permission()
    t.note("session/cancel", t.here())
    t.stop(prompt, "cancelled")


@breaks("R-BGW-02", 2)
def background_told_once(t: Talker) -> None:
    t.state("running", background=[])
    t.state("idle", stopReason="end_turn")


def _terminal(ident: str = "x") -> dict[str, Any]:
    return {"type": "terminal", "terminalId": ident}


breaks("R-BGW-03", 2, name="unknown_work_listed")(
    lambda t: t.state("idle", background=[_terminal()])
)


@breaks("R-BGW-03", 2)
def running_work_listed_no_more(t: Talker) -> None:
    t.update("terminal_update", terminalId="x", command="make")
    t.state("idle", background=[_terminal()])
    t.state("idle", background=[])


@breaks("R-BGW-04", 2)
def work_listed_twice(t: Talker) -> None:
    t.update("terminal_update", terminalId="x", command="make")
    t.state("idle", background=[_terminal(), _terminal()])


# What the user says while a turn runs: an extension.

STEERED: dict[str, Any] = {"_meta": {"steering": {"supported": True}}}
_STEERING = "_session/steering"
_INJECTED = {"outcome": "injected"}


def _steered(t: Talker) -> None:
    t.initialize(says=STEERED)
    t.new()


def _say(t: Talker, outcome: Any = _INJECTED) -> None:
    t.call(_STEERING, t.here(prompt=[TEXT]), outcome)


def steering_kept(t: Talker) -> None:
    """Say something before, during and after a turn, and while a permission request is open."""
    _say(t, {"outcome": "promptRequired", "reason": "noRunningTurn"})
    prompt = t.prompt()
    _say(t)
    t.tool("t0", status="pending")
    asked = t.permission("t0")
    _say(t)
    t.answer(asked, YES, "client")
    t.update("tool_call_update", toolCallId="t0", status="completed")
    t.stop(prompt)


@breaks("R-STEER-01", 1, 2)
def steers_an_agent_that_does_not_advertise_it(t: Talker) -> None:
    prompt = t.prompt()
    _say(t)
    t.stop(prompt)


@breaks("R-STEER-02", 1, 2, bare=True)
def does_not_say_what_it_did(t: Talker) -> None:
    _steered(t)
    prompt = t.prompt()
    _say(t, {})
    t.stop(prompt)


@breaks("R-STEER-05", 1, 2, bare=True)
def has_a_message_after_the_turn(t: Talker) -> None:
    _steered(t)
    t.stop(t.prompt())
    _say(t)


@breaks("R-STEER-05", 1, bare=True)
def works_on_a_message_after_the_turn(t: Talker) -> None:
    _steered(t)
    prompt = t.prompt()
    _say(t)
    t.stop(prompt)
    t.update("agent_message_chunk", content=TEXT)


def _asked(t: Talker) -> int:
    """Say something while a permission request is open; return the prompt."""
    _steered(t)
    prompt = t.prompt()
    t.tool(status="pending")
    t.permission()
    _say(t)
    return prompt


@breaks("R-STEER-06", 1, 2, bare=True)
def cancels_its_permission_request(t: Talker) -> None:
    _asked(t)
    t.note("$/cancel_request", {"requestId": 1}, "agent")


@breaks("R-STEER-06", 1, 2, bare=True)
def runs_the_tool_without_permission(t: Talker) -> None:
    _asked(t)
    t.update("tool_call_update", toolCallId="t1", status="completed")
