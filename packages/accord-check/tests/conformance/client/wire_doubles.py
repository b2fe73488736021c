"""Clients that violate a rule on lines, updates or permission requests."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from typing import Any

from conformance.client.double_factories import (
    ASK,
    FORM,
    add,
    asks,
    breaks,
    changes,
    error,
    gone_at,
    noted,
    reported,
    result,
    titled,
    visit,
)
from conformance.client.driven_client import Between, Json, echo

# Lines and messages.

gone_at(
    "R-EXT-07", 1, 2, plays="check: malformed/unknown-notifications", when=noted("_accord/unheard")
)
gone_at(
    "R-REQCAN-10", 1, 2, plays="check: malformed/unknown-notifications", when=noted("$/unheard")
)
gone_at(
    "R-REQCAN-06",
    1,
    2,
    plays="check: malformed/late-cancels",
    when=noted("$/cancel_request", requestId="never sent"),
)
gone_at(
    "R-ERR-04",
    1,
    2,
    plays="check: malformed/responses",
    when=lambda m: m.get("id") == "never asked",
)
gone_at("R-STDIO-11", 1, 2, plays="check: malformed/lines", when=lambda m: m.get("raw") == b"")
add(
    "R-EXT-05",
    1,
    2,
    spoil=changes(asks("_accord/unknown"), lambda *_: []),
    name="is_silent",
    plays="check: malformed/unknown-requests",
    answer_s=1.0,
)
add(
    "R-EXT-05",
    1,
    2,
    spoil=changes(lambda asked, _: asked["method"].startswith("_accord/"), lambda *_: []),
    name="never_answers_what_it_does_not_know",
    plays="check: malformed/unknown-notifications",
    answer_s=0.5,
)
add(
    "R-EXT-06",
    1,
    2,
    spoil=changes(asks("_accord/unknown"), error(-32603)),
    name="fails",
    plays="check: malformed/unknown-requests",
)
add(
    "R-GEN-09",
    1,
    2,
    spoil=changes(
        lambda asked, _: asked["method"] == "_accord/probe" and asked.get("params") is None,
        error(-32602),
    ),
    name="wants_params",
    plays="check: malformed/unknown-requests",
)

add(
    "R-INIT-29",
    1,
    2,
    spoil=changes(lambda a, _: a["method"] == "terminal/create", result({"terminalId": "t"})),
    name="serves_what_it_does_not_offer",
    plays="check: malformed/unsupported-methods",
    offers=False,
)
add(
    "R-ELIC-03",
    1,
    2,
    spoil=changes(asks(FORM, mode="url"), result({"action": "decline"})),
    name="declines_what_it_does_not_offer",
    plays="check: malformed/unsupported-methods",
    offers=False,
)

# Updates.

gone_at(
    "R-CONT-03",
    1,
    2,
    plays="check: updates/content",
    when=lambda m: (
        reported("agent_message_chunk")(m) and m["params"]["update"]["content"]["type"] == "audio"
    ),
)
gone_at("R-GEN-08", 1, plays="check: updates/unknown", when=reported("_accord_mood"), advised=True)
gone_at("R-GEN-08", 2, plays="check: updates/unknown", when=reported("_accord_mood"))
gone_at(
    "R-GEN-08",
    1,
    2,
    plays="check: updates/unknown",
    when=lambda m: reported("agent_message_chunk")(m) and "accordUnheardOf" in str(m),
)
gone_at(
    "R-GEN-11", 1, 2, plays="check: updates/unknown", when=reported("session_info_update", title=5)
)
gone_at(
    "R-GEN-11",
    1,
    2,
    plays="check: updates/unknown",
    when=reported("agent_message_chunk", content="no block"),
    advised=True,
)
gone_at(
    "R-CONF-14",
    1,
    2,
    plays="check: updates/options",
    when=lambda m: reported("config_option_update")(m) and "accord_later" in str(m),
)
gone_at(
    "R-CONF-12",
    1,
    2,
    plays="check: updates/options",
    when=lambda m: reported("config_option_update")(m) and "_accord_dial" in str(m),
)
gone_at(
    "R-TOOL-23",
    2,
    plays="check: updates/diffs",
    when=reported("tool_call_update", title="A diff without a patch"),
)
gone_at("R-PLAN-10", 2, plays="check: updates/plans", when=reported("plan_removed"))
gone_at(
    "R-PROMPT-18",
    2,
    plays="check: updates/states",
    when=reported("terminal_update", output=None),
    advised=True,
)


@breaks("R-CONT-07", 2, plays="check: updates/icons")
def fetches_icons(between: Between) -> None:
    visits: list[Any] = []

    def from_agent(message: Json) -> Json:
        if reported("agent_message_chunk", messageId="icons")(message):
            source = message["params"]["update"]["content"]["icons"][0]["src"]
            visits.append(asyncio.ensure_future(visit(source)))
        return message

    between.from_agent = from_agent


# Permission requests.

add(
    "R-GEN-11",
    1,
    2,
    spoil=changes(lambda asked, m: asked["method"] == ASK and "error" in m, error(-32603)),
    name="fails_at_wrong_params",
    plays="check: permissions/malformed",
    advised=True,
)
gone_at(
    "R-GEN-11",
    1,
    2,
    plays="check: permissions/malformed",
    when=reported("tool_call_update", title="without an id"),
    advised=True,
)
gone_at(
    "R-ERR-05",
    1,
    2,
    plays="check: permissions/malformed",
    when=lambda m: m.get("method") == ASK,
)
add(
    "R-GEN-11",
    1,
    spoil=changes(titled("Forgiving"), error(-32602)),
    name="forgives_nothing",
    plays="check: permissions/tolerated",
)
add(
    "R-GEN-08",
    1,
    2,
    spoil=changes(titled("Unknown keys"), error(-32602)),
    name="refuses_unknown_keys",
    plays="check: permissions/tolerated",
)
for rule, title in (
    ("R-PERM-09", "About nothing"),
    ("R-PERM-13", "About the unknown"),
    ("R-PERM-15", "An unknown option"),
):
    add(
        rule,
        2,
        spoil=changes(titled(title), error(-32602)),
        name="refuses",
        plays="check: permissions/subjects",
    )
add(
    "R-EXT-12",
    2,
    spoil=changes(titled("Malformed"), result({"outcome": {"outcome": "cancelled"}})),
    name="takes_it_for_unknown",
    plays="check: permissions/subjects",
)
add(
    "R-EXT-12",
    2,
    spoil=changes(titled("Malformed"), error(-32603)),
    name="fails",
    plays="check: permissions/subjects",
    advised=True,
)


@breaks("R-PERM-12", 2, plays="check: permissions/command")
def runs_the_command(between: Between) -> None:
    def from_client(message: Json, asked: Json) -> Json:
        if asked and titled("Run a command")(asked, message):
            subprocess.run(shlex.split(asked["params"]["subject"]["command"]), check=True)
        return message

    between.from_client = from_client


add(
    "R-REQCAN-13",
    1,
    spoil=changes(titled("Never mind"), error(-32603)),
    name="fails_when_cancelled",
    plays="check: permissions/withdrawn",
)
add(
    "R-REQCAN-13",
    1,
    spoil=changes(
        lambda asked, m: asked["method"] == "terminal/wait_for_exit" and "error" in m,
        error(-32603),
    ),
    name="fails_when_cancelled",
    plays="check: terminals/kill",
)
add(
    "R-MOA-07",
    1,
    2,
    spoil=changes(asks("mcp/message"), result({"result": {"tools": []}})),
    name="serves_what_is_not_there",
    plays="check: malformed/unknown-server",
)


# MCP servers of the client.


def inner(code: int) -> Json:
    return {"error": {"code": code, "message": "It is so"}}


add(
    "R-MOA-05",
    1,
    2,
    spoil=changes(asks("mcp/message", params=[1]), result({"result": {"tools": []}})),
    name="serves_an_array",
    plays="check: mcp/codes",
    tools=[echo],
)
add(
    "R-MOA-11",
    1,
    2,
    spoil=changes(asks("mcp/message", requestId="accord-check-cancelled"), error(-32603)),
    name="fails_when_cancelled",
    plays="check: mcp/cancel",
    tools=[echo],
)
add(
    "R-MOA-12",
    1,
    2,
    spoil=changes(asks("mcp/message", method="accord-check/unknown"), error(-32603)),
    name="inner_error_outside",
    plays="check: mcp/codes",
    tools=[echo],
)
add(
    "R-MOA-13",
    1,
    2,
    spoil=changes(
        asks("mcp/message", method="tools/list", params={}), result({"result": {"tools": []}})
    ),
    name="serves_without_a_version",
    plays="check: mcp/context",
    tools=[echo],
)
add(
    "R-MOA-13",
    1,
    2,
    spoil=changes(lambda asked, _: "1999-01-01" in str(asked.get("params")), result(inner(-32602))),
    name="another_code_for_another_version",
    plays="check: mcp/context",
    tools=[echo],
)
add(
    "R-MOA-16",
    1,
    2,
    spoil=changes(asks("mcp/connect"), result({"connectionId": "1"})),
    name="connects",
    plays="check: mcp/old-dialect",
)
