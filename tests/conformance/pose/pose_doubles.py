"""Clients that break one rule each: ours, with somebody in between who changes one thing."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.conformance.pose.scenes.user import CANCEL
from conformance.pose.driven import Between, Json, log_in, look_around

__all__ = ("DOUBLES", "Double")


@dataclass(frozen=True)
class Double:
    """What breaks `rule`; `plays` is the prompt, `more` goes to the driver."""

    rule: str
    version: int
    plays: tuple[str, ...]
    spoil: Callable[[Between], None]
    also: frozenset[str] = frozenset()
    more: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.rule}-v{self.version}-{self.spoil.__name__}"


DOUBLES: list[Double] = []
ASK, FORM = "session/request_permission", "elicitation/create"


def breaks(
    rule: str, *versions: int, plays: str | None = None, also: str = "", **more: Any
) -> Callable[[Callable[[Between], None]], Callable[[Between], None]]:
    """Make a double of a function that spoils what passes."""

    def add(spoil: Callable[[Between], None]) -> Callable[[Between], None]:
        prompts = (plays,) if plays else ("help",)
        named = frozenset(also.split())
        DOUBLES.extend(Double(rule, version, prompts, spoil, named, more) for version in versions)
        return spoil

    return add


def leaves(when: Callable[[Json], bool]) -> Callable[[Between], None]:
    """Hang up when the agent says such a thing."""

    def spoil(between: Between) -> None:
        between.from_agent = lambda message: None if when(message) else message

    return spoil


def changes(
    when: Callable[[Json, Json], bool], into: Callable[[Json, Json], Json | list[Json]]
) -> Callable[[Between], None]:
    """Answer otherwise where the request and the answer are such."""

    def spoil(between: Between) -> None:
        def from_client(message: Json, asked: Json) -> Json | list[Json] | None:
            if asked and when(asked, message):
                return into(asked, message)
            return message

        between.from_client = from_client

    return spoil


def error(code: int) -> Callable[[Json, Json], Json]:
    def into(_: Json, message: Json) -> Json:
        failed = {"code": code, "message": "It is so"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": failed}

    return into


def result(value: Any) -> Callable[[Json, Json], Json]:
    return lambda _, message: {"jsonrpc": "2.0", "id": message["id"], "result": value}


def asks(method: str, **params: Any) -> Callable[[Json, Json], bool]:
    def when(asked: Json, _: Json) -> bool:
        given = asked.get("params") or {}
        return asked.get("method") == method and all(
            given.get(key) == value for key, value in params.items()
        )

    return when


def told(kind: str, **fields: Any) -> Callable[[Json], bool]:
    def when(message: Json) -> bool:
        params = message.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        return (
            isinstance(update, dict)
            and update.get("sessionUpdate") == kind
            and all(update.get(key) == value for key, value in fields.items())
        )

    return when


def noted(method: str, **params: Any) -> Callable[[Json], bool]:
    def when(message: Json) -> bool:
        given = message.get("params") or {}
        return message.get("method") == method and all(
            given.get(key) == value for key, value in params.items()
        )

    return when


def add(
    rule: str, *versions: int, spoil: Callable[[Between], None], name: str, **more: Any
) -> None:
    def named(between: Between) -> None:
        spoil(between)

    named.__name__ = name
    breaks(rule, *versions, **more)(named)


def gone_at(
    rule: str, *versions: int, plays: str | None, when: Callable[[Json], bool], **more: Any
) -> None:
    add(rule, *versions, spoil=leaves(when), name="leaves", plays=plays, **more)


READ, WRITE = "fs/read_text_file", "fs/write_text_file"


def titled(title: str) -> Callable[[Json, Json], bool]:
    def when(asked: Json, _: Json) -> bool:
        params = asked.get("params") or {}
        call = params.get("toolCall") or {}
        return asked.get("method") == ASK and title in (params.get("title"), call.get("title"))

    return when


def formed(message: str) -> Callable[[Json, Json], bool]:
    return asks(FORM, message=message)


# Lines and messages.

gone_at("R-EXT-07", 1, 2, plays="check: wire/notifications", when=noted("_accord/unheard"))
gone_at("R-REQCAN-10", 1, 2, plays="check: wire/notifications", when=noted("$/unheard"))
gone_at(
    "R-REQCAN-06",
    1,
    2,
    plays="check: wire/cancels",
    when=noted("$/cancel_request", requestId="never sent"),
)
gone_at("R-ERR-04", 1, 2, plays="check: wire/answers", when=lambda m: m.get("id") == "never asked")
gone_at("R-STDIO-11", 1, 2, plays="check: wire/lines", when=lambda m: m.get("raw") == b"")
add(
    "R-EXT-05",
    1,
    2,
    spoil=changes(asks("_accord/unknown"), lambda *_: []),
    name="is_silent",
    plays="check: wire/requests",
    answer_s=1.0,
)
add(
    "R-EXT-05",
    1,
    2,
    spoil=changes(lambda asked, _: asked["method"].startswith("_accord/"), lambda *_: []),
    name="never_answers_what_it_does_not_know",
    plays="check: wire/notifications",
    answer_s=0.5,
)
add(
    "R-EXT-06",
    1,
    2,
    spoil=changes(asks("_accord/unknown"), error(-32603)),
    name="fails",
    plays="check: wire/requests",
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
    plays="check: wire/requests",
)

add(
    "R-INIT-29",
    1,
    2,
    spoil=changes(lambda a, _: a["method"] == "terminal/create", result({"terminalId": "t"})),
    name="serves_what_it_does_not_offer",
    plays="check: wire/not_offered",
    offers=False,
)
add(
    "R-ELIC-03",
    1,
    2,
    spoil=changes(asks(FORM, mode="url"), result({"action": "decline"})),
    name="declines_what_it_does_not_offer",
    plays="check: wire/not_offered",
    offers=False,
)

# Updates.

gone_at(
    "R-CONT-03",
    1,
    2,
    plays="check: updates/content",
    when=lambda m: (
        told("agent_message_chunk")(m) and m["params"]["update"]["content"]["type"] == "audio"
    ),
)
gone_at("R-GEN-08", 1, 2, plays="check: updates/unknown", when=told("_accord_mood"))
gone_at("R-GEN-11", 1, 2, plays="check: updates/unknown", when=told("session_info_update", title=5))
gone_at(
    "R-GEN-11",
    1,
    2,
    plays="check: updates/unknown",
    when=told("agent_message_chunk", content="no block"),
)
gone_at(
    "R-CONF-14",
    1,
    2,
    plays="check: updates/options",
    when=lambda m: told("config_option_update")(m) and "accord_later" in str(m),
)
gone_at(
    "R-CONF-12",
    1,
    2,
    plays="check: updates/options",
    when=lambda m: told("config_option_update")(m) and "_accord_dial" in str(m),
)
gone_at(
    "R-TOOL-23",
    2,
    plays="check: updates/diffs",
    when=told("tool_call_update", title="A diff without a patch"),
)
gone_at("R-PLAN-10", 2, plays="check: updates/plans", when=told("plan_removed"))
gone_at(
    "R-PROMPT-18",
    2,
    plays="check: updates/states",
    when=told("terminal_update", output=None),
)


@breaks("R-CONT-07", 2, plays="check: updates/icons")
def fetches_icons(between: Between) -> None:
    visits: list[Any] = []

    def from_agent(message: Json) -> Json:
        if told("agent_message_chunk", messageId="icons")(message):
            source = message["params"]["update"]["content"]["icons"][0]["src"]
            visits.append(asyncio.ensure_future(visit(source)))
        return message

    between.from_agent = from_agent


# Questions.

add(
    "R-GEN-11",
    1,
    2,
    spoil=changes(lambda asked, m: asked["method"] == ASK and "error" in m, error(-32603)),
    name="fails_at_wrong_params",
    plays="check: permissions/wrong",
)
gone_at(
    "R-ERR-05",
    1,
    2,
    plays="check: permissions/wrong",
    when=lambda m: m.get("method") == ASK,
)
add(
    "R-GEN-11",
    1,
    spoil=changes(titled("Forgiving"), error(-32602)),
    name="forgives_nothing",
    plays="check: permissions/forgiven",
)
add(
    "R-GEN-08",
    1,
    2,
    spoil=changes(titled("Unknown keys"), error(-32602)),
    name="refuses_unknown_keys",
    plays="check: permissions/forgiven",
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

# Files.

TEXT = {"content": "one\ntwo\nthree\n"}
add(
    "R-GEN-08",
    1,
    spoil=changes(
        lambda a, _: a["method"] == READ and "accordUnheardOf" in a["params"], error(-32602)
    ),
    name="refuses_unknown_keys",
    plays="check: files/read",
)
add(
    "R-FS-06",
    1,
    spoil=changes(
        lambda a, m: a["method"] == READ and m.get("error", {}).get("code") == -32002,
        error(-32603),
    ),
    name="fails",
    plays="check: files/read",
)
add(
    "R-FS-09",
    1,
    spoil=changes(asks(READ, line="2"), result(TEXT)),
    name="reads_numbers_from_texts",
    plays="check: files/read",
)
add(
    "R-FS-09",
    1,
    spoil=changes(
        lambda a, _: a["method"] == READ and "line" in a["params"] and a["params"]["line"] is None,
        result({"content": ""}),
    ),
    name="takes_null_for_nothing",
    plays="check: files/read",
)
add(
    "R-FS-04",
    1,
    spoil=changes(asks(WRITE), error(-32603)),
    name="writes_nothing_new",
    plays="check: files/write",
)
add(
    "R-FS-07",
    1,
    spoil=changes(asks(READ, sessionId="accord-nobody"), result(TEXT)),
    name="looks_at_no_session",
    plays="check: files/roots",
)
add(
    "R-DIR-12",
    1,
    spoil=changes(
        lambda a, m: (
            a["method"] == READ and "error" in m and "/tmp/accord-check-" in a["params"]["path"]
        ),
        result(TEXT),
    ),
    name="reads_all",
    plays="check: files/roots",
)
add(
    "R-DIR-10",
    1,
    spoil=changes(
        lambda a, _: a["method"] == READ and a["params"]["path"].endswith("link.txt"), result(TEXT)
    ),
    name="follows_links",
    plays="check: files/roots",
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


add(
    "R-TERM-03",
    1,
    spoil=in_output("set|", "None|"),
    name="loses_variables",
    plays="check: terminals/command",
)
add(
    "R-TERM-05",
    1,
    spoil=in_output("ä" * 25, "\ufffd" + "ä" * 24),
    name="cuts_characters",
    plays="check: terminals/command",
)
add(
    "R-TERM-14",
    1,
    spoil=changes(lambda a, m: a["method"] == "terminal/create" and "error" in m, error(-32603)),
    name="fails",
    plays="check: terminals/params",
)

# Forms.

ALL, ODD = "All kinds of fields", "A field that nobody knows"


def fills_in(**more: Any) -> Callable[[Json, Json], Json]:
    def into(_: Json, message: Json) -> Json:
        content = {**message["result"].get("content", {}), **more}
        return {**message, "result": {"action": "accept", "content": content}}

    return into


for wrong in ({"count": 99}, {"days": []}, {"color": "green"}, {"name": ""}, {"other": 1}):
    add(
        "R-ELIC-17",
        1,
        2,
        spoil=changes(formed(ALL), fills_in(**wrong)),
        name=f"does_not_validate_{next(iter(wrong))}",
        plays="check: forms/fields",
    )
add(
    "R-ELIC-20",
    2,
    spoil=changes(formed("A format that nobody knows"), error(-32602)),
    name="refuses",
    plays="check: forms/fields",
)
add(
    "R-ELIC-33",
    2,
    spoil=changes(formed(ODD), fills_in(dial="5")),
    name="shows_it_as_text",
    plays="check: forms/fields",
)
add(
    "R-ELIC-08",
    1,
    spoil=changes(formed("A form without a type"), error(-32602)),
    name="refuses",
    plays="check: forms/wrong",
)
add(
    "R-ELIC-08",
    2,
    spoil=changes(formed("A form without a type"), result({"action": "decline"})),
    name="shows_it",
    plays="check: forms/wrong",
)
gone_at("R-ELIC-19", 1, 2, plays="check: forms/pattern", when=noted(FORM, message="A hard pattern"))
gone_at("R-ELIC-30", 1, 2, plays="check: forms/page", when=noted("elicitation/complete"))


@breaks("R-ELIC-13", 1, 2, plays="check: forms/page")
def opens_declined_pages(between: Between) -> None:
    visits: list[Any] = []

    def from_client(message: Json, asked: Json) -> Json:
        if asked.get("method") == FORM:
            visits.append(asyncio.ensure_future(visit(asked["params"]["url"])))
        return message

    between.from_client = from_client


# What it does by itself.

add(
    "R-CANCEL-03",
    1,
    spoil=changes(titled(f"{CANCEL}, do not answer"), lambda *_: []),
    name="leaves_the_question_open",
    plays="check: user/cancel_asked",
    answer_s=1.0,
)
gone_at(
    "R-CANCEL-10",
    1,
    2,
    plays="check: user/cancel",
    when=lambda m: "Stopped half way" in str(m),
)
gone_at("R-REQCAN-14", 1, 2, plays=None, when=noted("$/cancel_request"))
gone_at("R-PROMPT-18", 2, plays=None, when=told("tool_call_update", toolCallId="idle"))
gone_at(
    "R-PROMPT-17",
    2,
    plays="check: list",
    when=lambda m: "messageId" in (m.get("result") or {}),
)


@breaks("R-INIT-36", 2)
def answers_early(between: Between) -> None:
    def from_agent(message: Json) -> Json | list[Json]:
        if message.get("id") == "early":
            between.to_agent(error(-32601)({}, message))
            return []
        return message

    between.from_agent = from_agent


@breaks("R-INIT-07", 1, answer=99, also="R-INIT-01")
@breaks("R-INIT-32", 2, answer=99, also="R-INIT-01 R-INIT-07")
def takes_any_version(between: Between) -> None:
    asked: list[Json] = []

    def from_client(message: Json, _: Json) -> Json:
        asked.append(message)
        return message

    def from_agent(message: Json) -> Json:
        if "protocolVersion" in message.get("result", {}):
            version = asked[0]["params"]["protocolVersion"]
            info = {"name": "some", "version": "1"}
            said = {"protocolVersion": version, "info": info, "capabilities": {"session": {}}}
            return {**message, "result": said}
        return message

    between.from_client, between.from_agent = from_client, from_agent


@breaks("R-INIT-15", 1, speaks=(1, 2))
def falls_back_at_once(between: Between) -> None:
    answers: list[Json] = []

    def from_client(message: Json, _: Json) -> Json | list[Json]:
        if message.get("method") == "initialize" and answers:
            between.to_client({**answers[0], "id": message["id"]})
            return []
        return message

    def from_agent(message: Json) -> Json:
        if "protocolVersion" in message.get("result", {}):
            answers.append(message)
        return message

    between.from_client, between.from_agent = from_client, from_agent


@breaks("R-LIST-04", 2, does=look_around)
def takes_an_empty_cursor_for_none(between: Between) -> None:
    def from_agent(message: Json) -> Json:
        if message.get("result", {}).get("nextCursor") == "":
            said = {"sessions": message["result"]["sessions"]}
            return {**message, "result": said}
        return message

    between.from_agent = from_agent


@breaks("R-MODE-04", 1, does=look_around)
def uses_modes_where_there_are_options(between: Between) -> None:
    def from_client(message: Json, _: Json) -> Json:
        if message.get("method") == "session/set_config_option":
            given = message["params"]
            params = {"sessionId": given["sessionId"], "modeId": given["value"]}
            return {**message, "method": "session/set_mode", "params": params}
        return message

    between.from_client = from_client


@breaks("R-SYSP-09", 1, 2, does=look_around)
def forgets_the_system_prompt(between: Between) -> None:
    def from_client(message: Json, _: Json) -> Json:
        if message.get("method") in ("session/load", "session/resume"):
            params = {**message["params"]}
            del params["systemPrompt"]
            return {**message, "params": params}
        return message

    between.from_client = from_client


@breaks("R-CMD-02", 1, 2, plays="/accord-check list")
def sends_commands_without_a_slash(between: Between) -> None:
    def from_client(message: Json, _: Json) -> Json:
        if message.get("method") == "session/prompt":
            params = {
                **message["params"],
                "prompt": [{"type": "text", "text": "accord-check list"}],
            }
            return {**message, "params": params}
        return message

    between.from_client = from_client


@breaks("R-AUTH-12", 1, 2, login=True, does=log_in)
def does_not_try_again(between: Between) -> None:
    between.from_agent = lambda message: None if message.get("result") == {} else message


@breaks("R-AUTH-30", 1, login=True, does=log_in, also="R-AUTH-08")
def uses_what_does_not_decode(between: Between) -> None:
    def from_client(message: Json, _: Json) -> Json | list[Json]:
        if message.get("method") == "authenticate":
            params = {"methodId": "check-broken"}
            return [{**message, "id": 99, "params": params}, message]
        return message

    between.from_client = from_client


async def visit(address: str) -> None:
    host, _, rest = address.removeprefix("http://").partition(":")
    port, _, path = rest.partition("/")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /{path} HTTP/1.1\r\n\r\n".encode())
    await reader.read()
    writer.close()
