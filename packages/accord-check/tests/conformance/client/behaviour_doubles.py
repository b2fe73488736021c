"""Clients that violate a rule by their own actions."""

from __future__ import annotations

from accord_conformance.client.scenarios.messages import CANCEL
from conformance.client.double_factories import (
    add,
    breaks,
    changes,
    error,
    gone_at,
    noted,
    reported,
    titled,
)
from conformance.client.driven_client import Between, Json, log_in, look_around

# Actions of the client.

add(
    "R-CANCEL-03",
    1,
    name="leaves_the_question_open",
    plays="check: cancellation/permission-request",
    answer_s=1.0,
)(changes(titled(f"{CANCEL}, do not answer"), lambda *_: []))
gone_at("R-CANCEL-10", 1, 2, plays="check: cancellation/turn")(
    lambda m: "Stopped half way" in str(m)
)
gone_at("R-REQCAN-14", 1, 2, plays=None)(noted("$/cancel_request"))
gone_at("R-PROMPT-18", 2, plays=None)(reported("tool_call_update", toolCallId="idle"))
gone_at("R-PROMPT-17", 2, plays="check: list")(lambda m: "messageId" in (m.get("result") or {}))


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


@breaks("R-STEER-01", 1, 2)
def steers_an_agent_that_does_not_advertise_it(between: Between) -> None:
    def from_client(message: Json, _: Json) -> Json | list[Json]:
        if message.get("method") != "session/prompt":
            return message
        return [message, {**message, "id": "said", "method": "_session/steering"}]

    between.from_client = from_client
    between.from_agent = lambda message: [] if message.get("id") == "said" else message
