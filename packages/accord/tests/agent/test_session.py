"""What a session shows in addition to messages: plans, options, commands, title, usage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accord import (
    Agent,
    AvailableCommand,
    BooleanOption,
    Cost,
    InvalidParams,
    LocalProtocolError,
    McpServerHttp,
    McpServerStdio,
    OptionChoice,
    PlanEntry,
    SelectOption,
    Session,
    Turn,
    v1,
    v2,
)
from agent.harness import BOTH, V1, V2, AgentHarness, connect_client
from requirement import requirement

MODE = SelectOption(
    id="mode",
    name="Mode",
    value="ask",
    category="mode",
    choices=(OptionChoice("ask", "Ask", "Asks first"), OptionChoice("code", "Code")),
)
MODEL = SelectOption(
    id="model",
    name="Model",
    value="small",
    choices=(
        OptionChoice("small", "Small", group="ours"),
        OptionChoice("large", "Large", group="theirs"),
    ),
)
THINK = BooleanOption(id="think", name="Think", value=True)


class HasOptions(Agent):
    """Has options, one of them a mode, and commands."""

    def __init__(self, work: Callable[[Turn], Awaitable[Any]] | None = None) -> None:
        self.work = work
        self.chosen: list[tuple[str, str | bool]] = []
        self.refuse = False

    async def open_session(self, session: Session) -> None:
        await session.set_options([MODE, MODEL, THINK])
        await session.set_commands(
            [AvailableCommand("test", "Runs the tests", "which"), AvailableCommand("go", "Goes")]
        )

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        if self.refuse:
            raise InvalidParams("not now")
        self.chosen.append((option_id, value))

    async def prompt(self, turn: Turn) -> None:
        if self.work is not None:
            await self.work(turn)
        else:
            await turn.say(f"{turn.session.mode} {turn.session.option('model')}")


# Plans.


async def make_plan(turn: Turn) -> None:
    plan = await turn.plan(["Find", PlanEntry("Fix", priority="high")])
    await plan.update(0, status="in_progress")
    await plan.update("Find", status="completed", content="Found")
    await plan.replace(["Rest"])


def plans_of(client: AgentHarness) -> list[list[tuple[str, str, str]]]:
    """Return the entries of each plan that the client received."""
    if client.version == V1:
        plans = [update.entries for update in client.of("Plan")]
    else:
        plans = [update.plan.entries for update in client.of("PlanUpdate")]
    return [[(e.content, e.status, e.priority) for e in entries] for entries in plans]


@BOTH
@requirement("R-PLAN-02", "R-PLAN-05")
async def test_complete_plan_is_sent_with_every_change(version: int) -> None:
    async with connect_client(HasOptions(make_plan), version) as client:
        await client.prompt("go")
        assert plans_of(client)[:3] == [
            [("Find", "pending", "medium"), ("Fix", "pending", "high")],
            [("Find", "in_progress", "medium"), ("Fix", "pending", "high")],
            [("Found", "completed", "medium"), ("Fix", "pending", "high")],
        ]


@BOTH
@requirement("R-PLAN-01", "R-PLAN-04")
async def test_plan_can_be_replaced(version: int) -> None:
    async with connect_client(HasOptions(make_plan), version) as client:
        await client.prompt("go")
        assert len(plans_of(client)) == 4
        assert plans_of(client)[-1] == [("Rest", "pending", "medium")]


@requirement("R-PLAN-09")
async def test_v1_client_without_plan_updates_receives_plans() -> None:
    async with connect_client(HasOptions(make_plan), V1) as client:
        assert client.remote.initialized is not None
        await client.prompt("go")
        assert len(client.of("Plan")) == 4
        assert client.of("PlanUpdate") == []


async def test_changing_an_entry_outside_of_the_plan_is_an_error() -> None:
    caught: list[str] = []

    async def work(turn: Turn) -> None:
        plan = await turn.plan(["Find"])
        try:
            await plan.update("Fix", status="completed")
        except KeyError as exc:
            caught.append(exc.args[0])

    async with connect_client(HasOptions(work), V1) as client:
        await client.prompt("go")
        assert caught == ["Fix"]


@pytest.mark.parametrize(("version", "status"), [(V1, "completed"), (V2, "cancelled")])
async def test_cancelled_entry_is_sent_in_the_form_of_the_version(
    version: int, status: str
) -> None:
    async def work(turn: Turn) -> None:
        await turn.plan([PlanEntry("Find", "cancelled")])

    async with connect_client(HasOptions(work), version) as client:
        await client.prompt("go")
        (update,) = client.of("Plan", "PlanUpdate")
        (entry,) = update.entries if version == V1 else update.plan.entries
        assert entry.status == status


# Title, usage, commands.


@requirement("R-USAGE-01", "R-USAGE-02")
@BOTH
async def test_title_and_usage_are_sent(version: int) -> None:
    async def work(turn: Turn) -> None:
        await turn.set_title("The red build")
        await turn.set_context_usage(10, 200, cost=Cost(0.5, "EUR"))

    async with connect_client(HasOptions(work), version) as client:
        await client.prompt("go")
        (info,) = client.of("SessionInfoUpdate")
        assert info.title == "The red build"
        (usage,) = client.of("UsageUpdate")
        assert (usage.used, usage.size) == (10, 200)
        assert (usage.cost.amount, usage.cost.currency) == (0.5, "EUR")


@BOTH
@requirement("R-CMD-01", "R-CMD-04", "R-CMD-05", "R-CMD-06")
async def test_commands_are_sent_when_the_session_is_open(version: int) -> None:
    async def work(turn: Turn) -> None:
        await turn.set_commands([AvailableCommand("stop", "Stops")])

    async with connect_client(HasOptions(work), version) as client:
        if version == V1:
            await client.until(lambda: client.of("AvailableCommandsUpdate"))
            commands = client.of("AvailableCommandsUpdate")[0].available_commands
        else:
            commands = client.opened.available_commands
        assert [(c.name, c.description, c.input and c.input.hint) for c in commands] == [
            ("test", "Runs the tests", "which"),
            ("go", "Goes", None),
        ]
        await client.prompt("go")
        update = client.of("AvailableCommandsUpdate")[-1]
        assert [command.name for command in update.available_commands] == ["stop"]


# Options and modes are declared once.


def all_options(harness: AgentHarness) -> Any:
    class Client(v1.ClientRole):
        def capabilities(self) -> v1.ClientCapabilities:
            return v1.ClientCapabilities(
                session=v1.ClientSessionCapabilities(
                    config_options=v1.SessionConfigOptionsCapabilities(
                        boolean=v1.BooleanConfigOptionCapabilities()
                    )
                )
            )

        def session_update(self, params: v1.SessionNotification, context: v1.ClientContext) -> None:
            harness.heard(params.update)

    return Client()


@requirement("R-SESS-06", "R-MODE-01", "R-MODE-05", "R-CONF-01")
async def test_v1_mode_is_a_mode_and_an_option() -> None:
    async with connect_client(HasOptions(), V1, client=all_options) as client:
        assert client.opened.modes == v1.SessionModeState(
            current_mode_id="ask",
            available_modes=[
                v1.SessionMode(id="ask", name="Ask", description="Asks first"),
                v1.SessionMode(id="code", name="Code"),
            ],
        )
        mode, model, think = client.opened.config_options
        assert (mode.id, mode.category, mode.current_value) == ("mode", "mode", "ask")
        assert [group.name for group in model.options] == ["ours", "theirs"]
        assert think.current_value is True


@requirement("R-CONF-08")
async def test_v1_boolean_options_are_sent_to_clients_that_support_them() -> None:
    async with connect_client(HasOptions(), V1) as client:
        assert [option["id"] for option in client.options()] == ["mode", "model"]
        answer = await client.set_option("model", "large")
        assert [option["id"] for option in client.options(answer)] == ["mode", "model"]


@requirement("R-MODE-06")
async def test_v2_mode_is_an_option() -> None:
    async with connect_client(HasOptions(), V2) as client:
        assert client.options() == [
            {"id": "mode", "value": "ask"},
            {"id": "model", "value": "small"},
            {"id": "think", "value": True},
        ]


@BOTH
@requirement("R-CONF-02", "R-CONF-18")
async def test_user_sets_an_option(version: int) -> None:
    agent = HasOptions()
    async with connect_client(
        agent, version, client=all_options if version == V1 else None
    ) as client:
        answer = await client.set_option("model", "large")
        assert {"id": "model", "value": "large"} in client.options(answer)
        await client.set_option("think", value=False)
        assert agent.chosen == [("model", "large"), ("think", False)]
        await client.prompt("which?")
        assert client.said() == "ask large"


@BOTH
@requirement("R-CONF-11")
@pytest.mark.parametrize(
    ("option_id", "value"), [("model", "huge"), ("colour", "red"), ("think", "no"), ("model", True)]
)
async def test_unknown_choice_is_rejected_and_changes_nothing(
    version: int, option_id: str, value: str | bool
) -> None:
    agent = HasOptions()
    async with connect_client(
        agent, version, client=all_options if version == V1 else None
    ) as client:
        with pytest.raises(InvalidParams):
            await client.set_option(option_id, value)
        assert not agent.chosen


@requirement("R-CONF-11")
async def test_v2_value_of_an_unknown_type_is_rejected() -> None:
    async with connect_client(HasOptions(), V2) as client:
        params = {
            "sessionId": client.session_id,
            "configId": "model",
            "type": "_slider",
            "value": 3,
        }
        with pytest.raises(InvalidParams):
            await client.remote.connection.call("session/set_config_option", params, bytes)


@BOTH
async def test_agent_can_reject_a_choice(version: int) -> None:
    agent = HasOptions()
    agent.refuse = True
    async with connect_client(agent, version) as client:
        with pytest.raises(InvalidParams, match="not now"):
            await client.set_option("model", "large")
        await client.prompt("which?")
        assert client.said() == "ask small"


@requirement("R-MODE-02", "R-MODE-05")
async def test_v1_setting_the_mode_sets_the_option() -> None:
    agent = HasOptions()
    async with connect_client(agent, V1) as client:
        await client.remote.set_session_mode(
            v1.SetSessionModeRequest(session_id=client.session_id, mode_id="code")
        )
        assert agent.chosen == [("mode", "code")]
        (update,) = client.of("ConfigOptionUpdate")
        assert update.config_options[0].current_value == "code"
        with pytest.raises(InvalidParams):
            await client.remote.set_session_mode(
                v1.SetSessionModeRequest(session_id=client.session_id, mode_id="sleep")
            )


@requirement("R-MODE-05")
async def test_v1_setting_the_option_sets_the_mode() -> None:
    async with connect_client(HasOptions(), V1) as client:
        await client.set_option("mode", "code")
        assert client.of("CurrentModeUpdate") == [v1.CurrentModeUpdate(current_mode_id="code")]


@BOTH
@requirement("R-MODE-03", "R-CONF-03", "R-CONF-16")
async def test_agent_sets_an_option(version: int) -> None:
    async def work(turn: Turn) -> None:
        await turn.session.set_option("mode", "code")

    async with connect_client(HasOptions(work), version) as client:
        await client.prompt("go")
        (update,) = client.of("ConfigOptionUpdate")
        assert client.options(update)[0] == {"id": "mode", "value": "code"}
        modes = client.of("CurrentModeUpdate")
        assert modes == ([v1.CurrentModeUpdate(current_mode_id="code")] if version == V1 else [])


async def test_v1_setting_a_mode_without_modes_is_an_error() -> None:
    async with connect_client(Agent(), V1) as client:
        assert client.opened.modes is None
        with pytest.raises(InvalidParams):
            await client.remote.set_session_mode(
                v1.SetSessionModeRequest(session_id=client.session_id, mode_id="ask")
            )


@requirement("R-CONF-17")
async def test_option_with_an_unknown_choice_is_an_error_of_the_agent() -> None:
    class Wrong(Agent):
        async def open_session(self, session: Session) -> None:
            with pytest.raises(ValueError, match="not one of"):
                await session.set_options([SelectOption(id="a", name="A", value="x", choices=())])

    async with connect_client(Wrong(), V1) as client:
        assert not client.opened.config_options


# Outside of a turn.


@requirement("R-PROMPT-16", "R-PROMPT-20")
@BOTH
async def test_session_can_send_outside_of_a_turn_until_it_is_closed(version: int) -> None:
    agent = HasOptions()
    async with connect_client(agent, version) as client:
        session = agent.sessions[client.session_id]
        await session.say("By the way.")
        await client.until(client.said)
        await client.remote.close_session(
            client.types.CloseSessionRequest(session_id=client.session_id)
        )
        with pytest.raises(LocalProtocolError, match="closed"):
            await session.say("More.")


@BOTH
@requirement("R-SESS-04", "R-DIR-05")
async def test_session_has_its_directories(version: int) -> None:
    agent = HasOptions()
    async with connect_client(agent, version, opened=False) as client:
        await client.open(additional_directories=["/other", "/project", "/other"])
        session = agent.sessions[client.session_id]
        assert session.cwd == "/project"
        assert session.directories == ("/project", "/other")


class UsesMcp(Agent):
    """Connects to MCP servers."""

    mcp_transports = frozenset({"stdio", "http"})


@BOTH
@requirement("R-MCP-01", "R-MCP-04", "R-MCP-05")
async def test_mcp_servers_are_passed_to_the_session(version: int) -> None:
    agent = UsesMcp()
    async with connect_client(agent, version, opened=False) as client:
        types = client.types
        variable = types.EnvVariable(name="A", value="b")
        header = types.HttpHeader(name="Key", value="1")
        await client.open(
            mcp_servers=[
                types.McpServerStdio(name="a", command="/bin/a", args=["-x"], env=[variable]),
                types.McpServerHttp(name="b", url="https://b.example", headers=[header]),
            ]
        )
        assert agent.sessions[client.session_id].mcp_servers == (
            McpServerStdio("a", "/bin/a", ("-x",), {"A": "b"}),
            McpServerHttp("b", "https://b.example", {"Key": "1"}),
        )


@requirement("R-MCP-06")
@pytest.mark.parametrize("kind", ["http", "_own"])
async def test_v2_unsupported_mcp_transport_is_rejected(kind: str) -> None:
    async with connect_client(Agent(), V2) as client:
        server = {"type": kind, "name": "a", "url": "https://a.example"}
        params = {"cwd": "/project", "mcpServers": [server]}
        with pytest.raises(InvalidParams):
            await client.remote.connection.call("session/new", params, bytes)


@BOTH
@requirement("R-MCP-15")
async def test_mcp_servers_need_unique_names(version: int) -> None:
    async with connect_client(UsesMcp(), version) as client:
        server = client.types.McpServerStdio(name="a", command="/bin/a", args=[], env=[])
        with pytest.raises(InvalidParams) as caught:
            await client.open(mcp_servers=[server, server])
        assert caught.value.data == {"name": "a"}


@requirement("R-SESS-29", "R-SESS-13")
async def test_v2_resuming_an_open_session_sends_its_state() -> None:
    async with connect_client(HasOptions(), V2) as client:
        answer = await client.remote.resume_session(
            v2.ResumeSessionRequest(session_id=client.session_id, cwd="/project")
        )
        assert client.updates == [v2.IdleStateUpdate(background=[])]
        assert client.options(answer) == client.options()


@requirement("R-SESS-16")
async def test_v2_replay_from_an_unknown_point_is_rejected() -> None:
    async with connect_client(HasOptions(), V2) as client:
        params = {
            "sessionId": client.session_id,
            "cwd": "/project",
            "replayFrom": {"type": "_middle"},
        }
        with pytest.raises(InvalidParams):
            await client.remote.connection.call("session/resume", params, bytes)
