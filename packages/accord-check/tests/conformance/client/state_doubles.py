"""Clients that apply updates against the rules, and report the resulting state."""

from __future__ import annotations

import base64
from typing import Any

from conformance.client.double_factories import add, breaks, gone_at
from conformance.client.driven_client import Between, Json, look_around
from conformance.client.state_double_factories import Bend, bends, meta_bends, retells, without


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def part(words: str) -> Json:
    return {"type": "content", "content": text(words)}


def at(kind: str, into: Any, /, **fields: Any) -> Bend:
    """Apply updates of this kind with these fields as something else, or not at all."""

    def bend(update: Json) -> Any:
        if update["sessionUpdate"] == kind and all(
            update.get(key, ...) == value for key, value in fields.items()
        ):
            return into(update) if callable(into) else into
        return None

    return bend


def with_(**fields: Any) -> Any:
    return lambda update: {**update, **fields}


def also(**fields: Any) -> Any:
    return lambda update: [update, fields]


def no(*keys: str) -> Any:
    return lambda update: without(update, *keys)


# Messages.

MESSAGES: dict[str, Any] = {"plays": "check: state/messages"}


def as_chunks(update: Json) -> Json | list[Json]:
    if "content" not in update:
        return update
    chunk = {**update, "sessionUpdate": "agent_message_chunk"}
    return [{**chunk, "content": block} for block in update["content"] or ()]


def as_message(update: Json) -> Json:
    return {**update, "sessionUpdate": "agent_message", "content": [update["content"]]}


MESSAGE, CHUNK = "agent_message", "agent_message_chunk"
bends("R-MSG-06", 2, **MESSAGES, name="appends")(at(MESSAGE, as_chunks, messageId="kept"))
bends("R-MSG-06", 2, **MESSAGES, name="keeps_what_is_cleared")(
    at(MESSAGE, no("content"), messageId="kept", content=None)
)
bends("R-MSG-07", 2, **MESSAGES, name="replaces")(at(CHUNK, as_message, messageId="grows"))
bends("R-MSG-08", 2, **MESSAGES, name="appends")(at(MESSAGE, as_chunks, messageId="both"))
bends("R-MSG-11", 2, **MESSAGES, name="begins_another")(
    at(CHUNK, with_(messageId="m again"), messageId="m", content=text("3"))
)
bends("R-MSG-04", 1, 2, plays="check: state/ids", name="compares_ids_kindly")(
    at(CHUNK, lambda update: {**update, "messageId": update["messageId"].strip().lower()})
)


def _turns_two_around(between: Between) -> None:
    waiting: list[Json] = []

    def from_agent(message: Json) -> Json | list[Json]:
        update = (message.get("params") or {}).get("update") or {}
        if update.get("content") == text("7 "):
            waiting.append(message)
            return []
        if waiting and update.get("content") == text("8 "):
            return [message, waiting.pop()]
        return message

    between.from_agent = from_agent


add("R-GEN-17", 1, 2, name="turns_two_around", plays="check: state/order", window=True)(
    _turns_two_around
)

# Tool calls.

TOOL = "tool_call_update"
PATCHES: dict[str, Any] = {"plays": "check: state/tool-patches"}
bends("R-TOOL-06", 1, plays="check: state/tools", name="appends")(
    at(TOOL, with_(content=[part("A"), part("B"), part("C")]), content=[part("C")])
)
bends("R-TOOL-14", 1, plays="check: state/tools", name="clears_the_name")(
    at(TOOL, with_(name=""), name=None)
)
bends("R-TOOL-07", 2, **PATCHES, name="begins_at_once")(
    lambda update: (
        {"status": "in_progress", **update} if update.get("toolCallId") == "shown-unseen" else None
    )
)
bends("R-TOOL-08", 2, **PATCHES, name="keeps_what_is_cleared")(
    at(TOOL, no("title", "kind", "status", "locations"), title=None)
)
bends("R-TOOL-08", 2, **PATCHES, name="clears_what_is_left_out")(
    at(TOOL, with_(title=None), rawOutput={"any": 1})
)
bends("R-TOOL-10", 2, **PATCHES, name="appends")(
    at(
        TOOL,
        lambda update: {
            **update,
            "sessionUpdate": "tool_call_content_chunk",
            "content": update["content"][0],
        },
        content=[part("C")],
    )
)
bends("R-TOOL-15", 2, **PATCHES, name="keeps_the_name")(at(TOOL, no("name"), name=None))
bends("R-TCAN-02", 2, **PATCHES, name="merges")(at(TOOL, no("capabilities"), capabilities={}))
bends("R-TOOL-11", 2, plays="check: list", name="is_at_work_then")(
    at(TOOL, also(sessionUpdate="state_update", state="running"), toolCallId="idle")
)


def _asks_only(between: Between) -> None:
    def from_agent(message: Json) -> Json:
        params = message.get("params") or {}
        if message.get("method") != "session/request_permission":
            return message
        if "toolCall" in params:
            known = {"toolCallId": params["toolCall"]["toolCallId"]}
            return {**message, "params": {**params, "toolCall": known}}
        return {**message, "params": without(params, "subject")}

    between.from_agent = from_agent


for rule, version in (("R-PERM-06", 1), ("R-PERM-10", 2)):
    add(rule, version, name="changes_nothing", plays="check: state/asked", window=True)(_asks_only)
retells("R-TOOL-18", 1, plays="check: state/released", name="forgets_what_is_released")(
    lambda message: message.get("method") == "terminal/release",
    lambda shown: {**shown, "terminals": []},
)

# Terminals.

TERMINAL, OUTPUT = "terminal_update", "terminal_output_chunk"
TERMINALS: dict[str, Any] = {"plays": "check: state/terminals"}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


bends("R-DTERM-02", 2, **TERMINALS, name="waits_for_the_anchor")(
    lambda update: [] if update.get("terminalId") == "anchor-last" else None
)
bends("R-DTERM-03", 2, **TERMINALS, name="keeps_what_is_cleared")(
    at(TERMINAL, no("command", "cwd"), terminalId="patched", command=None)
)
bends("R-DTERM-05", 2, **TERMINALS, name="appends")(
    at(
        TERMINAL,
        lambda update: {
            "sessionUpdate": OUTPUT,
            "terminalId": "replaced",
            "data": update["output"]["data"],
        },
        terminalId="replaced",
    )
)
bends("R-DTERM-06", 2, **TERMINALS, name="joins_before_it_decodes")(
    at(OUTPUT, [], terminalId="chunks", data=encoded(b"b"))
)
bends("R-DTERM-07", 2, **TERMINALS, name="decodes_chunk_by_chunk")(
    at(
        OUTPUT,
        lambda update: {
            **update,
            "data": encoded(base64.b64decode(update["data"]).decode("utf-8", "replace").encode()),
        },
        terminalId="split",
    )
)
bends("R-DTERM-08", 2, **TERMINALS, name="wants_a_code")(
    at(TERMINAL, with_(exitStatus=None), exitStatus={})
)

# The state of the session.

bends("R-PLAN-03", 1, plays="check: state/plan", name="adds_to_the_plan")(
    lambda update: (
        {**update, "entries": [*update["entries"], *update["entries"]]}
        if update["sessionUpdate"] == "plan" and len(update["entries"]) == 1
        else None
    )
)


def at_plan(ident: str, into: Any, **fields: Any) -> Bend:
    def bend(update: Json) -> Any:
        plan = update.get("plan") or {}
        if plan.get("planId") == ident and all(plan.get(key) == fields[key] for key in fields):
            return into if isinstance(into, list) else {**update, "plan": into(plan)}
        return None

    return bend


PLANS: dict[str, Any] = {"plays": "check: state/plans"}
bends("R-PLAN-06", 2, **PLANS, name="has_one_plan")(at_plan("two", with_(planId="one")))
bends("R-PLAN-12", 2, **PLANS, name="takes_it_for_medium")(
    at_plan("odd", lambda plan: {**plan, "entries": [{**plan["entries"][0], "priority": "medium"}]})
)
bends("R-PLAN-13", 2, **PLANS, name="drops_it")(at_plan("later", [], type="_accord_map"))


@breaks("R-CONF-04", 1, 2, plays="check: state/options", window=True)
def merges_options(between: Between) -> None:
    known: dict[str, Json] = {}

    def from_agent(message: Json) -> Json:
        update = (message.get("params") or {}).get("update") or {}
        if update.get("sessionUpdate") != "config_option_update":
            return message
        for option in update["configOptions"]:
            known[option.get("configId") or option.get("id")] = option
        merged = {**update, "configOptions": list(known.values())}
        return {**message, "params": {**message["params"], "update": merged}}

    between.from_agent = from_agent


bends("R-LIST-15", 1, 2, plays="check: state/title", name="keeps_the_title")(
    at("session_info_update", no("title"), title=None)
)
bends("R-USAGE-05", 2, plays="check: state/cost", name="forgets_the_cost")(
    at("usage_update", with_(cost=None), used=20)
)
bends("R-NOTICE-05", 1, 2, plays="check: state/notices", name="takes_it_for_the_end")(
    at(
        "notice",
        also(sessionUpdate=TOOL, toolCallId="state/notices-1", status="failed"),
        severity="error",
    )
)

# States.

bends("R-PROMPT-34", 2, plays="check: state/states", name="stays_as_it_was")(
    at("state_update", [], state="_accord_dreaming")
)
bends("R-PROMPT-37", 2, plays="check: state/states", name="stays_as_it_was")(
    at("state_update", [], state="unknown")
)


@breaks("R-BGW-06", 2, plays="check: state/background", window=True)
def keeps_the_list(between: Between) -> None:
    known: list[Any] = []

    def from_agent(message: Json) -> Json:
        update = (message.get("params") or {}).get("update") or {}
        if update.get("sessionUpdate") != "state_update":
            return message
        if "background" in update:
            known[:] = update["background"]
            return message
        kept = {**update, "background": list(known)}
        return {**message, "params": {**message["params"], "update": kept}}

    between.from_agent = from_agent


bends("R-BGW-07", 2, plays="check: state/background", name="leaves_out_the_unknown")(
    at("state_update", with_(background=[]), background=[{"type": "_accord_errand", "of": 1}])
)
retells("R-CANCEL-11", 2, plays="check: cancellation/turn", name="is_idle_at_once")(
    lambda message: message.get("method") == "session/cancel",
    lambda shown: {**shown, "state": "idle"},
)


@breaks("R-SESS-28", 2, window=True)
def begins_idle(between: Between) -> None:
    def from_agent(message: Json) -> Json | list[Json]:
        ident = (message.get("result") or {}).get("sessionId")
        if ident is None:
            return message
        idle = {"sessionUpdate": "state_update", "state": "idle"}
        params = {"sessionId": ident, "update": idle}
        return [message, {"jsonrpc": "2.0", "method": "session/update", "params": params}]

    between.from_agent = from_agent


# Histories, and data outside of sessions.

bends("R-SESS-17", 2, plays="check: state", does=look_around, name="appends_what_is_replayed")(
    at(MESSAGE, as_chunks, messageId="replayed")
)
gone_at("R-PROV-11", 1, 2, plays=None, does=look_around)(
    lambda message: "providers" in (message.get("result") or {})
)

# Compactions and subagents.

COMPACTIONS: dict[str, Any] = {"plays": "check: state/compactions"}
bends("R-COMP-05", 1, 2, **COMPACTIONS, name="clears_what_is_left_out")(
    lambda update: (
        {**update, "summary": None}
        if update["sessionUpdate"] == "compaction_update" and "summary" not in update
        else None
    )
)
bends("R-COMP-07", 1, 2, **COMPACTIONS, name="takes_it_for_work")(
    at("compaction_update", with_(status="in_progress"), status="_accord_waiting")
)
bends("R-COMP-08", 1, 2, **COMPACTIONS, name="takes_it_for_the_end")(
    at(
        "compaction_summary_chunk",
        also(sessionUpdate="compaction_update", compactionId="unseen", status="completed"),
        compactionId="unseen",
    )
)

SUBAGENTS: dict[str, Any] = {"plays": "check: state/subagents"}
CHILD = "subagent_update"
bends("R-SUBAG-04", 1, 2, **SUBAGENTS, name="clears_what_is_left_out")(
    at(CHILD, with_(title=None), description="At work")
)
bends("R-SUBAG-06", 1, 2, **SUBAGENTS, name="takes_it_for_idle")(
    at(CHILD, with_(state={"state": "idle"}), state=None)
)
bends("R-SUBAG-09", 1, 2, **SUBAGENTS, name="stays_where_it_was")(at(CHILD, no("cwd"), cwd=None))
bends("R-SUBAG-11", 1, 2, **SUBAGENTS, name="replaces")(
    at(
        "session_message_chunk",
        lambda update: {
            **update,
            "sessionUpdate": "session_message",
            "content": [update["content"]],
        },
    )
)

# Metadata.

meta_bends(
    "R-MSG-09",
    2,
    name="takes_that_of_a_chunk",
    bend=lambda update: (
        [{**update, "sessionUpdate": MESSAGE}]
        if update["sessionUpdate"] == CHUNK and "_meta" in update
        else None
    ),
)
meta_bends(
    "R-EXT-13",
    2,
    name="clears_what_is_left_out",
    bend=lambda update: {"_meta": None, **update} if update["sessionUpdate"] == TOOL else None,
)
meta_bends(
    "R-DTERM-09",
    2,
    name="takes_that_of_the_output",
    bend=lambda update: (
        {**update, "_meta": update["output"]["_meta"]} if "output" in update else None
    ),
)
meta_bends("R-EXT-14", 1, name="patches_by_key", by_key=True)

# Requests outside of sessions.


def _told_login(between: Between) -> None:
    def from_agent(message: Json) -> Json:
        told_later = {"method": "auth/status_update", "params": {"state": "accord_later"}}
        if message.items() >= told_later.items():
            return {**message, "params": {"state": "authenticated"}}
        return message

    between.from_agent = from_agent


add("R-ASTAT-03", 1, 2, name="takes_it_for_a_login", plays="check: state/login", window=True)(
    _told_login
)


def _answers(changes: dict[str, Any], when: Any) -> Any:
    def spoil(between: Between) -> None:
        def from_agent(message: Json) -> Json:
            result = message.get("result")
            if isinstance(result, dict) and when(result):
                return {**message, "result": {**result, **changes}}
            return message

        between.from_agent = from_agent

    return spoil


# The delay lets the finding of the concurrent message arrive.
AROUND: dict[str, Any] = {"plays": "check: state", "does": look_around, "window": True}
LATER = {"status": "accord_later"}
add("R-STATUS-05", 1, 2, name="takes_it_for_open", **AROUND)(
    _answers({"status": "open"}, lambda result: result == LATER)
)
add("R-STATUS-07", 2, name="takes_it_for_idle", **AROUND)(
    _answers({"state": {"state": "idle"}}, lambda result: result == LATER)
)


@breaks("R-LIST-09", 1, 2, **AROUND)
def keeps_the_directories(between: Between) -> None:
    known: dict[str, Json] = {}

    def from_agent(message: Json) -> Json:
        result = message.get("result")
        if not isinstance(result, dict) or "sessions" not in result:
            return message
        infos = [{**known.get(info["sessionId"], {}), **info} for info in result["sessions"]]
        known.update({info["sessionId"]: info for info in infos})
        return {**message, "result": {**result, "sessions": infos}}

    between.from_agent = from_agent
