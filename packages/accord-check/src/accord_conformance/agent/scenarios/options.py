"""Modes and options: set to all their values, and to unknown ones."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenario_client import Json, ScenarioClient
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

_SET = "session/set_config_option"


@scenario("options/set")
async def _each_value(context: AgentContext) -> None:
    """Each option is set to all its values, and back."""
    client = context.client
    session, setup = await _session(client)
    options = _options(setup)
    if not options:
        raise NotExercised("the agent has no config options")
    calls: list[Request] = []
    for option in options:
        current = option.get("currentValue")
        others = [value for value in _values(option) if value != current]
        for value in (*others[:2], current):
            params = _params(context.version, session, option, value)
            calls.append(await client.open_session(_SET, params))
    if not any(call.ok for call in calls):
        raise NotExercised(f"no option was set: {describe_outcome(calls[-1])}")


@scenario("options/unknown")
async def _unknown(context: AgentContext) -> None:
    """An unknown option is set, and a known one to an unknown value."""
    client = context.client
    session, setup = await _session(client)
    options = _options(setup)
    if not options:
        raise NotExercised("the agent has no config options")
    selects = [option for option in options if option.get("type") == "select"]
    odd: list[tuple[Json, Any]] = [({"id": "accord-unknown", "configId": "accord-unknown"}, "a")]
    odd += [(option, "accord-unknown") for option in selects[:1]]
    for option, value in odd:
        await client.connection.call(_SET, _params(context.version, session, option, value))


@scenario("options/modes", "R-MODE-05", versions=(1,))
async def _modes(context: AgentContext) -> None:
    """The mode is set, and the config option of category mode has to follow."""
    client = context.client
    session, setup = await _session(client)
    offered = setup.get("modes")
    if not is_object(offered) or not is_array(offered.get("availableModes")):
        raise NotExercised("the agent has no modes")
    option = next((one for one in _options(setup) if one.get("category") == "mode"), None)
    context.judge(
        "R-MODE-05",
        option is not None,
        client.connection.observer.state.sessions[session].setup,
        expected="a config option of category mode in addition to `modes`",
        got="none",
    )
    current = offered.get("currentModeId")
    ids = [mode.get("id") for mode in offered["availableModes"] if is_object(mode)]
    others = [ident for ident in ids if isinstance(ident, str) and ident != current]
    if option is None or not others:
        return
    call = await client.open_session(
        "session/set_mode", {"sessionId": session, "modeId": others[0]}
    )
    if not call.ok:
        raise NotExercised(f"the mode was not set: error {call.code}")
    observed = client.connection.observer.state.sessions[session]

    def now() -> Any:
        return (observed.option(option.get("id")) or {}).get("currentValue")

    await client.wait_for_optional(
        lambda: now() == others[0], "option update", within_s=min(2.0, context.settings.answer)
    )
    context.judge(
        "R-MODE-05",
        now() == others[0],
        call,
        expected=f"the option {option.get('id')!r} to follow the mode {others[0]!r}",
        got=f"{now()!r}",
    )
    await client.open_session("session/set_mode", {"sessionId": session, "modeId": current})


async def _session(client: ScenarioClient) -> tuple[str, Json]:
    """Return a new session with its result."""
    session = await client.new_session()
    setup = client.connection.observer.state.sessions[session].setup
    assert setup is not None, "just made"
    return session, setup.result


def _options(setup: Json) -> list[Json]:
    options = setup.get("configOptions")
    return [option for option in options if is_object(option)] if is_array(options) else []


def _values(option: Json) -> list[Any]:
    if option.get("type") == "boolean":
        return [True, False]
    values: list[Any] = []
    options: list[Any] = option.get("options") or []
    for entry in options:
        if is_object(entry):
            group: list[Any] = entry.get("options") or [entry]
            values += [one.get("value") for one in group if is_object(one)]
    return values


def _params(version: int, session: str, option: Json, value: Any) -> Json:
    ident = option.get("id" if version == 1 else "configId")
    params: Json = {"sessionId": session, "configId": ident, "value": value}
    if isinstance(value, bool):
        return {**params, "type": "boolean"}
    return params if version == 1 else {**params, "type": "id"}


SCENARIOS = (_each_value, _unknown, _modes)
