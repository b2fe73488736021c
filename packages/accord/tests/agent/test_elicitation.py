"""Elicitation: forms from Structs, URLs, and every response without an answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from accord import NotOffered, Turn, v1, v2
from accord.agent.toolbox import form_schema
from accord.errors import RemoteProtocolError
from agent.harness import (
    BOTH,
    V1,
    V2,
    AgentHarness,
    ClientV1,
    ClientV2,
    FunctionAgent,
    connect_client,
)
from event_loop import drain_event_loop
from requirement import requirement


class Project(msgspec.Struct):
    """The project to create."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=20, description="No spaces")]
    kind: Literal["app", "library"] = "app"
    parts: list[Literal["docs", "tests"]] = []
    python_version: float | None = None
    files: Annotated[int, msgspec.Meta(ge=1, lt=10)] = 1
    public: bool = False


def test_struct_becomes_a_form() -> None:
    assert form_schema(Project) == {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {
                "type": "string",
                "title": "Name",
                "description": "No spaces",
                "minLength": 1,
                "maxLength": 20,
            },
            "kind": {
                "type": "string",
                "title": "Kind",
                "enum": ["app", "library"],
                "default": "app",
            },
            "parts": {
                "type": "array",
                "title": "Parts",
                "items": {"type": "string", "enum": ["docs", "tests"]},
                "default": [],
            },
            "python_version": {"type": "number", "title": "Python version"},
            "files": {
                "type": "integer",
                "title": "Files",
                "minimum": 1,
                "maximum": 9,
                "default": 1,
            },
            "public": {"type": "boolean", "title": "Public", "default": False},
        },
    }


class Nested(msgspec.Struct):
    inner: Project


class Listed(msgspec.Struct):
    names: list[str]


class Numbered(msgspec.Struct):
    n: Literal[1, 2]


@pytest.mark.parametrize("form", [Nested, Listed, Numbered])
def test_struct_that_no_form_can_show_is_an_error(form: type[msgspec.Struct]) -> None:
    with pytest.raises(TypeError):
        form_schema(form)


def answering(version: int, answer: Any) -> Any:
    """Return a factory of clients that respond with this: a dict, or an action."""
    types = v1 if version == V1 else v2

    def respond(harness: AgentHarness, params: Any) -> Any:
        harness.asked.append(params)
        if isinstance(answer, dict):
            return types.ElicitationAcceptAction(content=answer)
        return answer(types)

    class One(ClientV1):
        def capabilities(self) -> v1.ClientCapabilities:
            return v1.ClientCapabilities(
                elicitation=v1.ElicitationCapabilities(
                    form=v1.ElicitationFormCapabilities(), url=v1.ElicitationUrlCapabilities()
                )
            )

        def create_elicitation(
            self, params: v1.CreateElicitationRequest, context: v1.ClientContext
        ) -> v1.CreateElicitationResponse:
            return respond(self.harness, params)

        def complete_elicitation(
            self, params: v1.CompleteElicitationNotification, context: v1.ClientContext
        ) -> None:
            self.harness.asked.append(params)

    class Two(ClientV2):
        def capabilities(self) -> v2.ClientCapabilities:
            return v2.ClientCapabilities(
                elicitation=v2.ElicitationCapabilities(
                    form=v2.ElicitationFormCapabilities(), url=v2.ElicitationUrlCapabilities()
                )
            )

        def create_elicitation(
            self, params: v2.CreateElicitationRequest, context: v2.ClientContext
        ) -> v2.CreateElicitationResponse:
            return respond(self.harness, params)

        def complete_elicitation(
            self, params: v2.CompleteElicitationNotification, context: v2.ClientContext
        ) -> None:
            self.harness.asked.append(params)

    return One if version == V1 else Two


async def ask_for_project(turn: Turn) -> None:
    async with turn.tool("Make") as call:
        await turn.elicit_form(Project, "Which project?")
        await turn.say(call.id)


@BOTH
@requirement("R-ELIC-18")
async def test_response_is_an_instance_of_the_form(version: int) -> None:
    found: list[Project | None] = []

    async def work(turn: Turn) -> None:
        found.append(await turn.elicit_form(Project, "Which project?"))

    make = answering(version, {"name": "x", "parts": ["docs"]})
    async with connect_client(FunctionAgent(work), version, client=make) as client:
        assert await client.prompt("go") == "end_turn"
        assert found == [Project("x", parts=["docs"])]


@BOTH
@requirement("R-ELIC-05")
async def test_form_has_its_session_and_its_tool_call(version: int) -> None:
    make = answering(version, {"name": "x"})
    async with connect_client(FunctionAgent(ask_for_project), version, client=make) as client:
        await client.prompt("go")
        (request,) = client.asked
        assert isinstance(request, client.types.ElicitationFormMode)
        assert request.message == "Which project?"
        assert request.session_id == client.session_id
        assert request.tool_call_id == client.said()


@BOTH
@requirement("R-ELIC-07", "R-ELIC-09")
async def test_schema_of_a_form_is_an_object_with_properties(version: int) -> None:
    make = answering(version, {"name": "x"})
    async with connect_client(FunctionAgent(ask_for_project), version, client=make) as client:
        await client.prompt("go")
        schema = client.asked[0].requested_schema
        assert schema.type == "object"
        assert list(schema.properties) == list(Project.__struct_fields__)
        assert schema.required == ["name"]


@requirement("R-ELIC-35")
async def test_v2_session_requires_action_while_a_form_is_open() -> None:
    make = answering(V2, {"name": "x"})
    async with connect_client(FunctionAgent(ask_for_project), V2, client=make) as client:
        await client.prompt("go")
        states = [type(u).__name__ for u in client.updates if "State" in type(u).__name__]
        asking = states.index("RequiresActionStateUpdate")
        assert states[asking - 1 : asking + 2] == [
            "RunningStateUpdate",
            "RequiresActionStateUpdate",
            "RunningStateUpdate",
        ]


@BOTH
@requirement("R-ELIC-26", "R-ELIC-34")
@pytest.mark.parametrize("action", ["ElicitationDeclineAction", "ElicitationCancelAction"])
async def test_declined_or_cancelled_form_returns_none(version: int, action: str) -> None:
    async def work(turn: Turn) -> None:
        await turn.say(str(await turn.elicit_form(Project, "Which project?")))
        await turn.say(str(await turn.elicit_url("https://example.com", "Look")))

    make = answering(version, lambda types: getattr(types, action)())
    async with connect_client(FunctionAgent(work), version, client=make) as client:
        await client.prompt("go")
        assert client.said() == "NoneNone"


@BOTH
@requirement("R-ELIC-18")
async def test_response_that_does_not_match_the_form_is_a_peer_error(version: int) -> None:
    async def work(turn: Turn) -> None:
        with pytest.raises(RemoteProtocolError, match="name"):
            await turn.elicit_form(Project, "Which project?")

    async with connect_client(
        FunctionAgent(work), version, client=answering(version, {"name": ""})
    ) as client:
        assert await client.prompt("go") == "end_turn"


@BOTH
@requirement("R-ELIC-02")
async def test_client_without_forms_receives_none(version: int) -> None:
    async def work(turn: Turn) -> None:
        with pytest.raises(NotOffered):
            await turn.elicit_form(Project, "Which project?")
        with pytest.raises(NotOffered):
            await turn.elicit_url("https://example.com", "Look")

    async with connect_client(FunctionAgent(work), version) as client:
        assert await client.prompt("go") == "end_turn"


@BOTH
@requirement("R-ELIC-27", "R-ELIC-28", "R-ELIC-29")
async def test_url_is_opened_and_completed(version: int) -> None:
    async def work(turn: Turn) -> None:
        for _ in range(2):
            page = await turn.elicit_url("https://example.com/login", "Log in")
            assert page is not None
            await page.done()

    make = answering(version, lambda types: types.ElicitationAcceptAction())
    async with connect_client(FunctionAgent(work), version, client=make) as client:
        assert await client.prompt("go") == "end_turn"
        await drain_event_loop()
        first, first_done, second, second_done = client.asked
        assert first.url == "https://example.com/login"
        assert first.elicitation_id == first_done.elicitation_id
        assert second.elicitation_id == second_done.elicitation_id != first.elicitation_id


@BOTH
async def test_url_that_no_browser_opens_is_rejected(version: int) -> None:
    async def work(turn: Turn) -> None:
        with pytest.raises(ValueError, match="the limit is 8192"):
            await turn.elicit_url("https://example.com/" + "x" * 9000, "Look")

    async with connect_client(FunctionAgent(work), version) as client:
        assert await client.prompt("go") == "end_turn"
