"""Doubles that violate the rules of sessions: new, load, resume, list and close."""

from __future__ import annotations

from typing import Any

from conformance.doubles.conversation import TEXT, Talker, breaks


def _info(ident: str, cwd: str = "/project", **more: Any) -> dict[str, Any]:
    return {"sessionId": ident, "cwd": cwd, "archived": False, **more}


def _open(t: Talker, method: str, ident: str = "old", **more: Any) -> int:
    return t.ask(method, {"sessionId": ident, "cwd": "/project", "mcpServers": [], **more})


def _history(t: Talker, ident: str = "old") -> None:
    update = {"sessionUpdate": "user_message_chunk", "content": TEXT, "messageId": "m1"}
    t.note("session/update", {"sessionId": ident, "update": update}, "agent")


def _state(t: Talker, state: str, ident: str = "old") -> None:
    update = {"sessionUpdate": "state_update", "state": state}
    t.note("session/update", {"sessionId": ident, "update": update}, "agent")


breaks("R-SESS-01", 1, 2, name="same_id_again")(lambda t: t.new())
breaks("R-SESS-02", 1, 2, name="update_for_an_unknown_session", by="agent")(
    lambda t: _history(t, "nowhere")
)


@breaks("R-SESS-02", 1, by="agent")
def update_for_another_than_the_one_being_made(t: Talker) -> None:
    ident = t.ask("session/new", {"cwd": "/project", "mcpServers": []})
    _history(t, "nowhere")
    t.answer(ident, {"sessionId": "s2"})


@breaks("R-SESS-09", 1)
def history_after_the_answer(t: Talker) -> None:
    t.answer(_open(t, "session/load"), {})
    _history(t)


@breaks("R-SESS-12", 1)
def history_on_resume(t: Talker) -> None:
    ident = _open(t, "session/resume")
    _history(t)
    t.answer(ident, {})


@breaks("R-SESS-13", 2)
def history_on_resume_without_being_asked(t: Talker) -> None:
    ident = _open(t, "session/resume")
    _history(t)
    _state(t, "idle")
    t.answer(ident, {})


@breaks("R-SESS-16", 2)
def unknown_cursor_taken_for_another(t: Talker) -> None:
    ident = _open(t, "session/resume", replayFrom={"type": "_example.com/last"})
    _history(t)
    _state(t, "idle")
    t.answer(ident, {})


@breaks("R-SESS-22", 1)
def closed_prompt_fails(t: Talker) -> None:
    prompt = t.prompt()
    close = t.ask("session/close", t.here())
    t.fail(prompt, -32603)
    t.answer(close, {})


@breaks("R-SESS-22", 2)
def closed_while_running(t: Talker) -> None:
    t.prompt()
    t.call("session/close", t.here(), {})


breaks("R-SESS-29", 2, name="resume_without_state")(
    lambda t: t.answer(_open(t, "session/resume"), {})
)
breaks("R-SESS-30", 2, name="options_null", by="agent")(
    lambda t: t.call("session/new", {"cwd": "/project"}, {"sessionId": "s2", "configOptions": None})
)


@breaks("R-SESS-33", 2)
def words_after_the_close(t: Talker) -> None:
    t.call("session/close", t.here(), {})
    t.update("session_info_update", title="A title")


@breaks("R-SESS-34", 2)
def question_left_open_at_the_close(t: Talker) -> None:
    prompt = t.prompt()
    t.tool()
    t.permission()
    t.stop(prompt)
    t.call("session/close", t.here(), {})


breaks("R-PROMPT-01", 1, 2, name="prompt_for_an_unknown_session")(
    lambda t: t.refused("session/prompt", {"sessionId": "nowhere", "prompt": [TEXT]}, -32002)
)
breaks("R-STATUS-03", 1, 2, name="unknown_session_without_data")(
    lambda t: t.refused("session/status", {"sessionId": "nowhere"}, -32002)
)


@breaks("R-STATUS-04", 1, 2)
def prompt_for_a_session_that_is_only_open(t: Talker) -> None:
    t.call("session/status", {"sessionId": "other"}, {"status": "open"})
    t.refused("session/prompt", {"sessionId": "other", "prompt": [TEXT]}, -32002)


@breaks("R-SUBAG-02", 1, 2)
def child_heard_before_it_is_announced(t: Talker) -> None:
    _history(t, "child")
    t.update("subagent_update", sessionId="child")


@breaks("R-SUBAG-05", 1, 2)
def child_cancelled_without_its_leave(t: Talker) -> None:
    t.update("subagent_update", sessionId="child", title="A child")
    t.note("session/cancel", {"sessionId": "child"})


# Lists.


breaks("R-LIST-02", 1, 2, name="no_list")(lambda t: t.call("session/list", {}, {"sessions": None}))
breaks("R-LIST-03", 1, 2, name="session_of_another_directory")(
    lambda t: t.call("session/list", {"cwd": "/project"}, {"sessions": [_info("a", "/elsewhere")]})
)


@breaks("R-LIST-05", 1, 2)
def cursor_made_up(t: Talker) -> None:
    t.call("session/list", {}, {"sessions": [], "nextCursor": "page-2"})
    t.refused("session/list", {"cursor": "page-3"}, -32602)


@breaks("R-SESS-05", 1, 2)
def session_that_moves(t: Talker) -> None:
    for where in ("/project", "/project/", "/elsewhere"):
        t.call("session/list", {}, {"sessions": [_info("old", where)]})


@breaks("R-LIST-13", 1, 2)
def deleted_session_listed(t: Talker) -> None:
    t.call("session/delete", {"sessionId": "old"}, {})
    t.call("session/list", {}, {"sessions": [_info("old")]})


breaks("R-ARCH-02", 1, name="archive_without_list", bare=True)(
    lambda t: t.initialize(agent={"sessionCapabilities": {"archive": {}}})
)


@breaks("R-ARCH-03", 1, 2)
def archived_session_listed(t: Talker) -> None:
    t.call("session/archive", {"sessionId": "old"}, {})
    t.call("session/list", {}, {"sessions": [_info("old")]})


@breaks("R-ARCH-07", 1, 2)
def archived_session_opened(t: Talker) -> None:
    t.call("session/archive", {"sessionId": "old"}, {})
    t.fail(_open(t, "session/resume"), -32603)


breaks("R-ARCH-09", 1, 2, name="unknown_filter_taken_for_another")(
    lambda t: t.call("session/list", {"archived": "_example.com/old"}, {"sessions": []})
)


@breaks("R-ARCH-10", 1, 2)
def filter_lost_on_the_next_page(t: Talker) -> None:
    t.call("session/list", {"archived": "only"}, {"sessions": [], "nextCursor": "2"})
    t.call("session/list", {"cursor": "2"}, {"sessions": []})


breaks("R-ARCH-11", 1, 2, name="archived_not_told")(
    lambda t: t.call("session/list", {}, {"sessions": [{"sessionId": "a", "cwd": "/project"}]})
)


@breaks("R-SUBAG-03", 1, 2)
def child_resumed(t: Talker) -> None:
    t.update("subagent_update", sessionId="child")
    t.fail(_open(t, "session/resume", "child"), -32602)
