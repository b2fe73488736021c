"""The addresses of the conversation in the API of the page."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord_inspector.json_http import ApiError, body_of, json_response
from accord_inspector.talk.conversation import Conversation
from accord_inspector.talk.live_client import LiveClient

_Action: TypeAlias = Callable[[LiveClient, dict[str, Any]], Coroutine[Any, Any, Any]]


def conversation_routes(conversation_of: Callable[[str], Conversation]) -> Sequence[BaseRoute]:
    """Return the routes; `conversation_of` returns the conversation of a recording by its name."""

    async def sessions(request: Request) -> Response:
        return json_response(_conversation(request).json())

    async def session(request: Request) -> Response:
        params = request.query_params
        session_id = params.get("session", "")
        conversation = _conversation(request)
        if "before" in params:
            return json_response(conversation.older(session_id, _number(params["before"])))
        known = {name: _number(params.get(name, "-1")) for name in ("since", "epoch", "first")}
        return json_response(conversation.session(session_id, **known))

    async def act(request: Request) -> Response:
        action = _ACTIONS.get(request.path_params["action"])
        if action is None:
            raise ApiError(404, f"Unknown address {request.url.path}")
        client = _conversation(request).client
        if client is None:
            raise ApiError(409, "This is a recording: only a live agent can be talked to")
        body = await body_of(request)
        return json_response({"result": await client.run(action(client, body))})

    def _conversation(request: Request) -> Conversation:
        return conversation_of(request.query_params.get("recording", ""))

    return (
        Route("/api/conversation", sessions),
        Route("/api/conversation/session", session),
        Route("/api/conversation/{action}", act, methods=["POST"]),
    )


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ApiError(400, f"Expected a whole number, got {text!r}") from None


async def _answer(client: LiveClient, body: dict[str, Any]) -> None:
    number = body.get("question")
    if not isinstance(number, int):
        raise ApiError(400, "question: expected a number")
    if body.get("dismiss") is True:
        client.questions.dismiss(number)
    else:
        client.questions.answer(number, body.get("answer"))


async def _access(client: LiveClient, body: dict[str, Any]) -> None:
    client.set_access(body.get("files"), body.get("terminals"))


def _opens(how: str) -> _Action:
    return lambda client, body: client.open_session(how, body)


_ACTIONS: dict[str, _Action] = {
    "new": lambda client, body: client.new_session(body),
    "load": _opens("load"),
    "resume": _opens("resume"),
    "fork": _opens("fork"),
    "list": lambda client, _: client.list_sessions(),
    "close": lambda client, body: client.close_session(str(body.get("session")), delete=False),
    "delete": lambda client, body: client.close_session(str(body.get("session")), delete=True),
    "prompt": lambda client, body: client.prompt(body),
    "cancel": lambda client, body: client.cancel(body.get("session")),
    "cancel-tool-call": lambda client, body: client.cancel_tool_call(body),
    "answer": _answer,
    "option": lambda client, body: client.set_option(body),
    "login": lambda client, body: client.authenticate(str(body.get("method"))),
    "logout": lambda client, _: client.logout(),
    "access": _access,
}
