"""What an interrupt of a graph asks, and the value that continues the graph.

An interrupt has any value. Those of LangChain's middleware for approvals, and the older ones of
LangGraph, are permissions with the decisions that they allow; others are questions, as forms if
they have a schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Struct

from accord_bridges.run import Question, Run

# Finds the id of the call that an approval is about, by the tool's name and the arguments.
FindCall = Callable[[str, Any], str]

_DENIED = "The user does not allow this."
_SILENT = "The user does not answer."
_QUESTIONS = ("question", "message", "prompt", "query", "text", "title", "instruction", "content")
_CHOICES = ("options", "choices")
_KINDS: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
_OLD_DECISIONS = {
    "allow_accept": "approve",
    "allow_edit": "edit",
    "allow_respond": "respond",
    "allow_ignore": "reject",
}


class Stopped(Exception):
    """The user's decision cannot be told to the graph: the turn has to end."""


async def answer(run: Run, value: Any, schema: Any, find: FindCall) -> Any:
    """Ask the user what an interrupt asks, and return the value to continue with.

    Raises `NotOffered` for a question that needs a form, if the client has none: then `text_of`
    shows it and `value_of` reads the answer. Raises `Stopped` if the user does not answer.
    """
    if isinstance(value, Mapping):
        match value:
            case {"action_requests": [*requests]}:
                configs: Any = value.get("review_configs") or []
                decisions = [
                    await _decided(run, request, _allowed(configs, number, request), find)
                    for number, request in enumerate(requests)
                ]
                return {"decisions": decisions}
            case {"type": "tool_approval", "name": str(), "args": _}:
                return await _decided(run, value, _decisions_of(schema), find)
            case {"action_request": {"action": _}, "config": Mapping()}:
                return await _decided_as_before(run, value, find)
            case _:
                pass
    elif isinstance(value, list) and value and all(_is_old(each) for each in value):
        return [await _decided_as_before(run, each, find) for each in value]
    return await _asked(run, value, schema)


# Permissions.


def _allowed(configs: Sequence[Any], number: int, request: Mapping[str, Any]) -> frozenset[str]:
    name = request.get("name")
    at = configs[number] if number < len(configs) else {}
    if at.get("action_name") != name:
        at = next((each for each in configs if each.get("action_name") == name), at)
    return frozenset(at.get("allowed_decisions") or ("approve", "reject"))


def _decisions_of(schema: Any) -> frozenset[str]:
    """Return the decisions that the schema of an answer names."""
    words = json.dumps(schema, default=str)
    known = ("approve", "edit", "reject", "respond")
    return frozenset(each for each in known if f'"{each}"' in words) or frozenset(known[::2])


async def _decided(
    run: Run, request: Mapping[str, Any], allowed: frozenset[str], find: FindCall
) -> dict[str, Any]:
    """Return the user's decision about a call, in the form of LangChain."""
    name, arguments = str(request.get("name")), request.get("args") or {}
    description = str(request.get("description") or "")
    if f"Tool: {name}\nArgs: {arguments}" in description:
        description = ""  # the call is shown
    call_id = request.get("tool_call_id") or find(name, arguments)
    if allowed == {"respond"}:
        return {"type": "respond", "message": await _response(run, name, arguments, description)}
    approval = await run.approve(
        call_id, name, arguments, description=description or None,
        editable="edit" in allowed, answerable="respond" in allowed,
    )  # fmt: skip
    if approval.answer is not None:
        return {"type": "respond", "message": approval.answer}
    if approval.allowed:
        if "approve" in allowed and not approval.changed:
            return {"type": "approve"}
        if "edit" in allowed:
            return {"type": "edit", "edited_action": {"name": name, "args": approval.input}}
    elif "reject" in allowed:
        return {"type": "reject"}
    if "respond" in allowed:
        return {"type": "respond", "message": _DENIED}
    raise Stopped(f"The graph takes no such decision about {name}: {', '.join(sorted(allowed))}")


async def _response(run: Run, name: str, arguments: Any, description: str) -> str:
    """Return the user's answer in place of a tool that only asks."""
    question = _question(arguments) if isinstance(arguments, Mapping) else None
    if question is None:
        question = Question(description or f"{name}({json.dumps(arguments, default=str)})")
    given = await run.ask(question)
    if given is None:
        return _SILENT
    return given if isinstance(given, str) else ", ".join(given)


def _is_old(value: Any) -> bool:
    return isinstance(value, Mapping) and "action_request" in value and "config" in value


async def _decided_as_before(
    run: Run, request: Mapping[str, Any], find: FindCall
) -> dict[str, Any]:
    """Return the user's decision in the form that LangGraph had before LangChain's."""
    action, config = request["action_request"], request["config"]
    allowed = frozenset(new for old, new in _OLD_DECISIONS.items() if config.get(old))
    made = {
        "name": action["action"],
        "args": action.get("args"),
        "description": request.get("description"),
    }
    match await _decided(run, made, allowed or frozenset(("approve", "reject")), find):
        case {"type": "approve"}:
            return {"type": "accept", "args": None}
        case {"type": "edit", "edited_action": {"args": arguments}}:
            return {"type": "edit", "args": {"action": action["action"], "args": arguments}}
        case {"type": "respond", "message": message}:
            return {"type": "response", "args": message}
        case _:
            return {"type": "ignore", "args": None}


# Questions.


def _question(value: Mapping[str, Any]) -> Question | None:
    """Return the question in a value; None if none of its names is that of a question."""
    key = next((k for k in _QUESTIONS if isinstance(value.get(k), str) and value[k]), None)
    if key is None:
        return None
    listed: Any = next((value[k] for k in _CHOICES if isinstance(value.get(k), list)), ())
    choices = tuple(_label(each) for each in listed)
    rest = {k: v for k, v in value.items() if k != key and not (choices and k in _CHOICES)}
    message = value[key]
    if rest:
        message += "\n\n" + "\n".join(f"{k}: {_shown(v)}" for k, v in rest.items())
    return Question(message, choices)


def _label(choice: Any) -> str:
    if isinstance(choice, Mapping):
        found = (choice.get(key) for key in ("label", "title", "name", "value", "id"))
        return str(next((each for each in found if each), choice))
    return str(choice)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def text_of(value: Any, schema: Any) -> str:
    """Return what an interrupt asks as text, with the form of the answer if it has one."""
    question = _question(value) if isinstance(value, Mapping) else None
    text = question.message if question is not None else _shown(value)
    if isinstance(schema, Mapping) and schema.get("type") != "string":
        text += f"\n\nAnswer in JSON of this schema: {json.dumps(schema, default=str)}"
    return text


def value_of(text: str, schema: Any) -> Any:
    """Return the answer that a text is: JSON if the schema wants no string."""
    if isinstance(schema, Mapping) and schema.get("type") != "string":
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


async def _asked(run: Run, value: Any, schema: Any) -> Any:
    message = text_of(value, None)
    form = _form(schema)
    if form is not None:
        given = await run.fill_in(form, message)
        if given is None:
            raise Stopped(_SILENT)
        return msgspec.to_builtins(given)
    if isinstance(schema, Mapping) and schema.get("type") in ("boolean", "integer", "number"):
        single = msgspec.defstruct("Answer", [("answer", _KINDS[schema["type"]])])
        given = await run.fill_in(single, message)
        if given is None:
            raise Stopped(_SILENT)
        return given.answer
    question = _question(value) if isinstance(value, Mapping) else None
    choices = question.choices if question is not None else ()
    if not choices and isinstance(schema, Mapping) and isinstance(schema.get("enum"), list):
        choices = tuple(map(str, schema["enum"]))
    given = await run.ask(Question(text_of(value, None if choices else schema), choices))
    if given is None:
        raise Stopped(_SILENT)
    return value_of(given, schema) if isinstance(given, str) and not choices else given


def _form(schema: Any) -> type[Struct] | None:
    """Return a form for an object whose properties are plain; None for other schemas."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        return None
    required = schema.get("required") or ()
    needed: list[Any] = []
    optional: list[Any] = []
    for name, about in cast("Mapping[str, Any]", schema["properties"]).items():
        kind = _kind(about)
        if kind is None:
            return None
        described = Annotated[kind, msgspec.Meta(description=about.get("description"))]
        if "default" in about:
            optional.append((name, described, about["default"]))
        elif name in required:
            needed.append((name, described))
        else:
            optional.append((name, described | None, None))
    try:
        return msgspec.defstruct("Answer", [*needed, *optional]) if needed or optional else None
    except (TypeError, ValueError):
        return None


def _kind(about: Any) -> Any:
    if not isinstance(about, Mapping):
        return None
    for several in ("anyOf", "oneOf"):
        parts = [each for each in about.get(several) or () if each.get("type") != "null"]
        if len(parts) == 1:
            return _kind(parts[0])
    match about:
        case {"enum": [*values]} if all(isinstance(each, str) for each in values):
            return Literal[tuple(values)]
        case {"const": str() as value}:
            return Literal[value]
        case {"type": "array", "items": Mapping() as items}:
            kind = _kind(items) if "enum" in items else None
            return None if kind is None else list[kind]
        case {"type": str() as name}:
            return _KINDS.get(name)
        case _:
            return None
