"""The extension methods of a session: client settings, queue, journal, end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from accord.errors import InternalError, InvalidParams, ResourceNotFound
from accord_terminal.sessions.cursor import cursor_of
from accord_terminal.sessions.errors import SessionsError
from accord_terminal.sessions.owner.client import ClientSettings

if TYPE_CHECKING:
    from accord_terminal.sessions.owner.client import Client
    from accord_terminal.sessions.owner.owner import Owner


_PREFIX = "_accord/session/"


class _Submit(Struct, rename="camel"):
    text: str


class _PromptId(Struct, rename="camel"):
    prompt_id: str


async def extension_request(owner: Owner, client: Client, method: str, params: Any) -> Any:
    """Serve a method of Accord; pass others to the agent."""
    match method.removeprefix(_PREFIX) if method.startswith(_PREFIX) else None:
        case "client":
            client.settings = _read(params, ClientSettings)
            lost, owner.tells_lost_context = owner.tells_lost_context, False
            return _status(owner) | {"contextLost": lost}
        case "status":
            return _status(owner)
        case "submit":
            prompt = owner.submit((_read(params, _Submit).text,), client, detached=True)
            return {"promptId": prompt.id, "before": len(owner.queue) - 1}
        case "withdraw":
            prompt = owner.queue.find(_read(params, _PromptId).prompt_id)
            if prompt is None:
                raise ResourceNotFound("No prompt of this id is queued or running")
            owner.cancel(prompt)
            return {}
        case "close":
            try:
                owner.close_session()
            except SessionsError as exc:  # the record cannot be written
                raise InternalError(str(exc)) from None
            return {}
        case "stop":
            owner.stop("it was asked to leave")
            return {}
        case _:
            return await owner.agent.call_extension(method, params)


def _status(owner: Owner) -> dict[str, Any]:
    """Return what the session does, and where its journal ends."""
    return {
        "sessionId": owner.record.id,
        "restored": owner.record.restored,
        "cursor": cursor_of(owner.record.id, owner.journal.last),
        "clients": owner.client_names(),
        "questions": owner.questions.open_titles,
        "queue": [
            {"promptId": prompt.id, "state": prompt.state, "by": prompt.by, "text": prompt.text}
            for prompt in owner.queue.prompts
        ],
    }


def _read(params: Any, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as exc:
        raise InvalidParams(str(exc)) from None
