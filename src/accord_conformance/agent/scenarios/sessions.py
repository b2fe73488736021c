"""Sessions as they are made: what they are given, and what cannot be taken."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.client import text_block
from accord_conformance.agent.context import AgentContext
from accord_conformance.harness.scenario import scenario

__all__ = ("SCENARIOS",)

_BAD = (-32602,)


@scenario("sessions/new", "R-GEN-08")
async def _new(stage: AgentContext) -> None:
    """Sessions are made, one with a key that nobody knows."""
    editor = stage.client
    await editor.new_session()
    params = editor.setup_params(accordUnknown={"deep": [1]}, _meta={"accord": 1})
    call = editor.connection.send_request("session/new", params)
    await stage.expect_success("R-GEN-08", editor, call, why="a session with an unknown key")


@scenario("sessions/malformed", "R-GEN-11", "R-ERR-05")
async def _malformed(stage: AgentContext) -> None:
    """Sessions are asked for in ways that no session can be made of."""
    editor = stage.client
    await editor.new_session()
    no_cwd = editor.setup_params()
    del no_cwd["cwd"]
    odd: dict[str, Any] = {
        "a session without `cwd`": no_cwd,
        "a `cwd` that is a number": editor.setup_params(cwd=5),
        "a `cwd` that is null": editor.setup_params(cwd=None),
    }
    for why, params in odd.items():
        call = editor.connection.send_request("session/new", params)
        await stage.expect_error("R-GEN-11", editor, call, _BAD, why=why)
    call = editor.connection.send_request("session/new", editor.setup_params())
    await stage.expect_success("R-ERR-05", editor, call, why="a request after malformed ones")


@scenario("sessions/directories")
async def _directories(stage: AgentContext) -> None:
    """Sessions get further directories, and what is none."""
    editor = stage.client
    editor.require("additional directories")
    more = stage.folder / "more"
    more.mkdir()
    await editor.new_session(additionalDirectories=[str(more)])
    await editor.new_session(additionalDirectories=[])
    for odd in (["more"], [""], [5], "more", [str(more), "more"]):
        await editor.open_session("session/new", editor.setup_params(additionalDirectories=odd))


@scenario("sessions/unknown", "R-SESS-37", "R-SESS-32", versions=(2,))
async def _unknown(stage: AgentContext) -> None:
    """Something is asked of a session that there is not."""
    editor = stage.client
    await editor.new_session()
    ident = "accord-unknown-session"
    prompted = editor.prompt(ident, "Hello")
    expected = "-32002 with the session's id in `data`"
    if await stage.expect_response("R-SESS-37", editor, prompted.request, expected):
        error = prompted.request.response.error if prompted.request.response else None
        data = error.get("data") if is_object(error) else None
        named = is_object(data) and data.get("sessionId") == ident
        stage.judge(
            "R-SESS-37",
            prompted.request.code == -32002 and named,
            prompted.request,
            expected=expected,
            got=f"code {prompted.request.code}, data {data}",
        )
    call = editor.connection.send_request("session/close", {"sessionId": ident})
    await stage.expect_success("R-SESS-32", editor, call, why="closing a session that there is not")


@scenario("sessions/system-prompt", "R-SYSP-02", "R-SYSP-03", "R-SYSP-04")
async def _system_prompt(stage: AgentContext) -> None:
    """Sessions get instructions, and some that cannot be taken."""
    editor = stage.client
    editor.require("system prompts")
    await editor.new_session()

    def given(**prompt: Any) -> Any:
        prompt.setdefault("content", [text_block("Be brief.")])
        return editor.connection.send_request(
            "session/new", editor.setup_params(systemPrompt=prompt)
        )

    call = given(mode="append")
    await editor.connection.wait_for_response(call)
    override = None
    if not call.ok and editor.supports("system prompts instead of its own"):
        override = given(mode="override")
        await editor.connection.wait_for_response(override)
    # Whoever takes the text in another mode does not know this mode; else it is the text.
    rule = "R-SYSP-02" if override is None or override.ok else "R-SYSP-04"
    await stage.expect_success(rule, editor, call, why="text to append")
    if call.ok:
        stage.judge("R-SYSP-04", True)
    await stage.expect_error("R-SYSP-03", editor, given(mode="_accord"), (), why="an unknown mode")
    odd = given(content=[{"type": "_accord"}])
    await stage.expect_error("R-SYSP-03", editor, odd, (), why="content of an unknown type")
    if not editor.supports("system prompts instead of its own"):
        call = given(mode="override")
        await stage.expect_error("R-SYSP-03", editor, call, (), why="a mode that is not offered")


@scenario("sessions/two")
async def _two(stage: AgentContext) -> None:
    """Two sessions work at the same time."""
    editor = stage.client
    one, other = await editor.new_session(), await editor.new_session()
    first, second = editor.prompt_for(one, "text"), editor.prompt_for(other, "text")
    await first.wait_for_end()
    await second.wait_for_end()


SCENARIOS = (_new, _malformed, _directories, _unknown, _system_prompt, _two)
