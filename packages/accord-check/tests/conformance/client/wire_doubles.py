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

gone_at("R-EXT-07", 1, 2, plays="check: malformed/unknown-notifications")(noted("_accord/unheard"))
gone_at("R-REQCAN-10", 1, 2, plays="check: malformed/unknown-notifications")(noted("$/unheard"))
gone_at("R-REQCAN-06", 1, 2, plays="check: malformed/late-cancels")(
    noted("$/cancel_request", requestId="never sent")
)
gone_at("R-ERR-04", 1, 2, plays="check: malformed/responses")(
    lambda m: m.get("id") == "never asked"
)
gone_at("R-STDIO-11", 1, 2, plays="check: malformed/lines")(lambda m: m.get("raw") == b"")
add("R-EXT-05", 1, 2, name="is_silent", plays="check: malformed/unknown-requests", answer_s=1.0)(
    changes(asks("_accord/unknown"), lambda *_: [])
)
add(
    "R-EXT-05",
    1,
    2,
    name="never_answers_what_it_does_not_know",
    plays="check: malformed/unknown-notifications",
    answer_s=0.5,
)(changes(lambda asked, _: asked["method"].startswith("_accord/"), lambda *_: []))
add("R-EXT-06", 1, 2, name="fails", plays="check: malformed/unknown-requests")(
    changes(asks("_accord/unknown"), error(-32603))
)
add("R-GEN-09", 1, 2, name="wants_params", plays="check: malformed/unknown-requests")(
    changes(
        lambda asked, _: asked["method"] == "_accord/probe" and asked.get("params") is None,
        error(-32602),
    )
)

add(
    "R-INIT-29",
    1,
    2,
    name="serves_what_it_does_not_offer",
    plays="check: malformed/unsupported-methods",
    offers=False,
)(changes(lambda a, _: a["method"] == "terminal/create", result({"terminalId": "t"})))
add(
    "R-ELIC-03",
    1,
    2,
    name="declines_what_it_does_not_offer",
    plays="check: malformed/unsupported-methods",
    offers=False,
)(changes(asks(FORM, mode="url"), result({"action": "decline"})))

# Updates.

gone_at("R-CONT-03", 1, 2, plays="check: updates/content")(
    lambda m: (
        reported("agent_message_chunk")(m) and m["params"]["update"]["content"]["type"] == "audio"
    )
)
gone_at("R-GEN-08", 1, plays="check: updates/unknown", advised=True)(reported("_accord_mood"))
gone_at("R-GEN-08", 2, plays="check: updates/unknown")(reported("_accord_mood"))
gone_at("R-GEN-08", 1, 2, plays="check: updates/unknown")(
    lambda m: reported("agent_message_chunk")(m) and "accordUnheardOf" in str(m)
)
gone_at("R-GEN-11", 1, 2, plays="check: updates/unknown")(reported("session_info_update", title=5))
gone_at("R-GEN-11", 1, 2, plays="check: updates/unknown", advised=True)(
    reported("agent_message_chunk", content="no block")
)
gone_at("R-CONF-14", 1, 2, plays="check: updates/options")(
    lambda m: reported("config_option_update")(m) and "accord_later" in str(m)
)
gone_at("R-CONF-12", 1, 2, plays="check: updates/options")(
    lambda m: reported("config_option_update")(m) and "_accord_dial" in str(m)
)
gone_at("R-TOOL-23", 2, plays="check: updates/diffs")(
    reported("tool_call_update", title="A diff without a patch")
)
gone_at("R-PLAN-10", 2, plays="check: updates/plans")(reported("plan_removed"))
gone_at("R-PROMPT-18", 2, plays="check: updates/states", advised=True)(
    reported("terminal_update", output=None)
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
    name="fails_at_wrong_params",
    plays="check: permissions/malformed",
    advised=True,
)(changes(lambda asked, m: asked["method"] == ASK and "error" in m, error(-32603)))
gone_at("R-GEN-11", 1, 2, plays="check: permissions/malformed", advised=True)(
    reported("tool_call_update", title="without an id")
)
gone_at("R-ERR-05", 1, 2, plays="check: permissions/malformed")(lambda m: m.get("method") == ASK)
add("R-GEN-11", 1, name="forgives_nothing", plays="check: permissions/tolerated")(
    changes(titled("Forgiving"), error(-32602))
)
add("R-GEN-08", 1, 2, name="refuses_unknown_keys", plays="check: permissions/tolerated")(
    changes(titled("Unknown keys"), error(-32602))
)
for rule, title in (
    ("R-PERM-09", "About nothing"),
    ("R-PERM-13", "About the unknown"),
    ("R-PERM-15", "An unknown option"),
):
    add(rule, 2, name="refuses", plays="check: permissions/subjects")(
        changes(titled(title), error(-32602))
    )
add("R-EXT-12", 2, name="takes_it_for_unknown", plays="check: permissions/subjects")(
    changes(titled("Malformed"), result({"outcome": {"outcome": "cancelled"}}))
)
add("R-EXT-12", 2, name="fails", plays="check: permissions/subjects", advised=True)(
    changes(titled("Malformed"), error(-32603))
)


@breaks("R-PERM-12", 2, plays="check: permissions/command")
def runs_the_command(between: Between) -> None:
    def from_client(message: Json, asked: Json) -> Json:
        if asked and titled("Run a command")(asked, message):
            subprocess.run(shlex.split(asked["params"]["subject"]["command"]), check=True)
        return message

    between.from_client = from_client


add("R-REQCAN-13", 1, name="fails_when_cancelled", plays="check: permissions/withdrawn")(
    changes(titled("Never mind"), error(-32603))
)
add("R-REQCAN-13", 1, name="fails_when_cancelled", plays="check: terminals/kill")(
    changes(
        lambda asked, m: asked["method"] == "terminal/wait_for_exit" and "error" in m, error(-32603)
    )
)
add("R-MOA-07", 1, 2, name="serves_what_is_not_there", plays="check: malformed/unknown-server")(
    changes(asks("mcp/message"), result({"result": {"tools": []}}))
)


# MCP servers of the client.


def inner(code: int) -> Json:
    return {"error": {"code": code, "message": "It is so"}}


add("R-MOA-05", 1, 2, name="serves_an_array", plays="check: mcp/codes", tools=[echo])(
    changes(asks("mcp/message", params=[1]), result({"result": {"tools": []}}))
)
add("R-MOA-11", 1, 2, name="fails_when_cancelled", plays="check: mcp/cancel", tools=[echo])(
    changes(asks("mcp/message", requestId="accord-check-cancelled"), error(-32603))
)
add("R-MOA-12", 1, 2, name="inner_error_outside", plays="check: mcp/codes", tools=[echo])(
    changes(asks("mcp/message", method="accord-check/unknown"), error(-32603))
)
add("R-MOA-13", 1, 2, name="serves_without_a_version", plays="check: mcp/context", tools=[echo])(
    changes(asks("mcp/message", method="tools/list", params={}), result({"result": {"tools": []}}))
)
add(
    "R-MOA-13",
    1,
    2,
    name="another_code_for_another_version",
    plays="check: mcp/context",
    tools=[echo],
)(changes(lambda asked, _: "1999-01-01" in str(asked.get("params")), result(inner(-32602))))
add("R-MOA-16", 1, 2, name="connects", plays="check: mcp/old-dialect")(
    changes(asks("mcp/connect"), result({"connectionId": "1"}))
)
