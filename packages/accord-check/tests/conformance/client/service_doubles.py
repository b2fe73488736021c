"""Clients that violate a rule on files, terminals or forms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.client.double_factories import (
    FORM,
    READ,
    WRITE,
    add,
    asks,
    breaks,
    changes,
    error,
    formed,
    gone_at,
    noted,
    result,
    visit,
)
from conformance.client.driven_client import Between, Json

# Files.

TEXT = {"content": "one\ntwo\nthree\n"}
add("R-GEN-08", 1, name="refuses_unknown_keys", plays="check: files/read")(
    changes(lambda a, _: a["method"] == READ and "accordUnheardOf" in a["params"], error(-32602))
)
add("R-FS-06", 1, name="fails", plays="check: files/read")(
    changes(
        lambda a, m: a["method"] == READ and m.get("error", {}).get("code") == -32002, error(-32603)
    )
)
add("R-FS-09", 1, name="reads_numbers_from_texts", plays="check: files/read")(
    changes(asks(READ, line="2"), result(TEXT))
)
add("R-FS-09", 1, name="takes_null_for_nothing", plays="check: files/read")(
    changes(
        lambda a, _: a["method"] == READ and "line" in a["params"] and a["params"]["line"] is None,
        result({"content": ""}),
    )
)
add("R-FS-03", 1, name="counts_lines_from_0", plays="check: files/read")(
    changes(asks(READ, line=2), result({"content": "three\n"}))
)
add("R-FS-04", 1, name="writes_nothing_new", plays="check: files/write")(
    changes(asks(WRITE), error(-32603))
)
add("R-FS-07", 1, name="looks_at_no_session", plays="check: files/roots")(
    changes(asks(READ, sessionId="accord-unknown-session"), result(TEXT))
)
add("R-DIR-12", 1, name="reads_all", plays="check: files/roots")(
    changes(
        lambda a, m: (
            a["method"] == READ and "error" in m and "/accord-check-" in a["params"]["path"]
        ),
        result(TEXT),
    )
)
add("R-DIR-10", 1, name="follows_links", plays="check: files/roots")(
    changes(
        lambda a, _: a["method"] == READ and a["params"]["path"].endswith("link.txt"), result(TEXT)
    )
)


@breaks("R-DIR-12", 1, plays="check: files/roots")
def writes_everywhere(between: Between) -> None:
    def from_client(message: Json, asked: Json) -> Json:
        if asked and asked["method"] == WRITE and "links" not in asked["params"]["path"]:
            Path(asked["params"]["path"]).write_text("written")
        return message

    between.from_client = from_client


# Terminals.


def in_output(text: str, instead: str) -> Callable[[Between], None]:
    def into(_: Json, message: Json) -> Json:
        output = message["result"]["output"]
        changed = {**message["result"], "output": output.replace(text, instead)}
        return {**message, "result": changed}

    return changes(lambda a, m: a["method"] == "terminal/output" and "result" in m, into)


add("R-TERM-03", 1, name="loses_variables", plays="check: terminals/command")(
    in_output("set|", "None|")
)
add("R-TERM-05", 1, name="cuts_characters", plays="check: terminals/command")(
    in_output("ä" * 25, "\ufffd" + "ä" * 24)
)
add("R-TERM-14", 1, name="fails", plays="check: terminals/params")(
    changes(lambda a, m: a["method"] == "terminal/create" and "error" in m, error(-32603))
)

# Forms.

ALL, ODD = "All kinds of fields", "An unknown field"


def fills_in(**more: Any) -> Callable[[Json, Json], Json]:
    def into(_: Json, message: Json) -> Json:
        content = {**message["result"].get("content", {}), **more}
        return {**message, "result": {"action": "accept", "content": content}}

    return into


for wrong in ({"count": 99}, {"days": []}, {"color": "green"}, {"name": ""}, {"other": 1}):
    named = f"does_not_validate_{next(iter(wrong))}"
    add("R-ELIC-17", 1, 2, name=named, plays="check: elicitation/fields")(
        changes(formed(ALL), fills_in(**wrong))
    )
add("R-ELIC-20", 2, name="refuses", plays="check: elicitation/fields")(
    changes(formed("An unknown format"), error(-32602))
)
add("R-ELIC-33", 1, 2, name="shows_it_as_text", plays="check: elicitation/fields")(
    changes(formed(ODD), fills_in(dial="5"))
)
add("R-ELIC-08", 1, name="refuses", plays="check: elicitation/minimal-schema")(
    changes(formed("A form without a type"), error(-32602))
)
add("R-ELIC-08", 2, name="shows_it", plays="check: elicitation/minimal-schema")(
    changes(formed("A form without a type"), result({"action": "decline"}))
)
add("R-ELIC-08", 2, name="fails", plays="check: elicitation/minimal-schema", advised=True)(
    changes(formed("A form without a type"), error(-32603))
)
gone_at("R-ELIC-19", 1, 2, plays="check: elicitation/pattern")(
    noted(FORM, message="A hard pattern")
)
gone_at("R-ELIC-30", 1, 2, plays="check: elicitation/url")(noted("elicitation/complete"))


@breaks("R-ELIC-13", 1, 2, plays="check: elicitation/url")
def opens_declined_pages(between: Between) -> None:
    visits: list[Any] = []

    def from_client(message: Json, asked: Json) -> Json:
        if asked.get("method") == FORM:
            visits.append(asyncio.ensure_future(visit(asked["params"]["url"])))
        return message

    between.from_client = from_client
