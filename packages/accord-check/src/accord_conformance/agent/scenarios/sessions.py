"""New sessions: valid and invalid params."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import UNKNOWN_SESSION, text_block
from accord_conformance.harness.scenario import scenario

_BAD = (-32602,)


@scenario("sessions/new", "R-GEN-08")
async def _new(context: AgentContext) -> None:
    """Sessions are created, one with an unknown key."""
    client = context.client
    await client.new_session()
    params = client.setup_params(accordUnknown={"deep": [1]}, _meta={"accord": 1})
    call = client.connection.send_request("session/new", params)
    await context.expect_success("R-GEN-08", client, call, why="a session with an unknown key")


@scenario("sessions/malformed", "R-GEN-11", "R-ERR-05")
async def _malformed(context: AgentContext) -> None:
    """Sessions are requested with malformed params."""
    client = context.client
    await client.new_session()
    no_cwd = client.setup_params()
    del no_cwd["cwd"]
    odd: dict[str, Any] = {
        "a session without `cwd`": no_cwd,
        "a `cwd` that is a number": client.setup_params(cwd=5),
        "a `cwd` that is null": client.setup_params(cwd=None),
    }
    for why, params in odd.items():
        call = client.connection.send_request("session/new", params)
        # Neither the schema nor JSON-RPC demands that invalid params are refused with this code.
        await context.expect_error("R-GEN-11", client, call, _BAD, why=why, authority="derived")
    call = client.connection.send_request("session/new", client.setup_params())
    await context.expect_success("R-ERR-05", client, call, why="a request after malformed ones")


@scenario("sessions/directories")
async def _directories(context: AgentContext) -> None:
    """Sessions are created with additional directories, also invalid ones."""
    client = context.client
    client.require("additional directories")
    more = context.folder / "more"
    more.mkdir()
    await client.new_session(additionalDirectories=[str(more)])
    await client.new_session(additionalDirectories=[])
    for odd in (["more"], [""], [5], "more", [str(more), "more"]):
        await client.open_session("session/new", client.setup_params(additionalDirectories=odd))


@scenario("sessions/unknown", "R-SESS-37", "R-SESS-32", versions=(2,))
async def _unknown(context: AgentContext) -> None:
    """Requests name an unknown session."""
    client = context.client
    await client.new_session()
    ident = UNKNOWN_SESSION
    sent = client.prompt(ident, "Hello")
    expected = "-32002 with the session's id in `data`"
    if await context.expect_response("R-SESS-37", client, sent.request, expected):
        error = sent.request.response.error if sent.request.response else None
        data = error.get("data") if is_object(error) else None
        named = is_object(data) and data.get("sessionId") == ident
        context.judge(
            "R-SESS-37",
            sent.request.code == -32002 and named,
            sent.request,
            expected=expected,
            got=f"code {sent.request.code}, data {data}",
        )
    call = client.connection.send_request("session/close", {"sessionId": ident})
    await context.expect_success("R-SESS-32", client, call, why="closing an unknown session")


@scenario("sessions/system-prompt", "R-SYSP-02", "R-SYSP-03", "R-SYSP-04")
async def _system_prompt(context: AgentContext) -> None:
    """Sessions are created with system prompts, also invalid ones."""
    client = context.client
    client.require("system prompts")
    await client.new_session()

    def given(**prompt: Any) -> Any:
        prompt.setdefault("content", [text_block("Be brief.")])
        return client.connection.send_request(
            "session/new", client.setup_params(systemPrompt=prompt)
        )

    call = given(mode="append")
    await client.connection.wait_for_response(call)
    override = None
    if not call.ok and client.supports("system prompts with mode override"):
        override = given(mode="override")
        await client.connection.wait_for_response(override)
    # If the agent accepts the text in another mode, the mode is the cause, else the text.
    rule = "R-SYSP-02" if override is None or override.ok else "R-SYSP-04"
    await context.expect_success(rule, client, call, why="text to append")
    if call.ok:
        context.judge("R-SYSP-04", True)
    await context.expect_error(
        "R-SYSP-03", client, given(mode="_accord"), (), why="an unknown mode"
    )
    odd = given(content=[{"type": "_accord"}])
    await context.expect_error("R-SYSP-03", client, odd, (), why="content of an unknown type")
    if not client.supports("system prompts with mode override"):
        call = given(mode="override")
        await context.expect_error("R-SYSP-03", client, call, (), why="a mode that is not offered")


@scenario("sessions/two")
async def _two(context: AgentContext) -> None:
    """Two sessions work at the same time."""
    client = context.client
    one, other = await client.new_session(), await client.new_session()
    first, second = client.prompt_for(one, "text"), client.prompt_for(other, "text")
    await first.wait_for_end()
    await second.wait_for_end()


SCENARIOS = (_new, _malformed, _directories, _unknown, _system_prompt, _two)
