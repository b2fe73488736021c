"""Converts conversations to pydantic-ai's messages, and its responses back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from accord import (
    AudioContent,
    ContentBlock,
    Cost,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TokenUsage,
)
from accord_coder.messages import Answer, Message, Prompt, Results, ToolResult
from accord_coder.models.base import Request


def messages_of(request: Request, accepts: frozenset[str]) -> list[ModelMessage]:
    """Return the messages; content that the model does not accept becomes text."""
    found: list[ModelMessage] = []
    for message in request.messages:
        converted = _message(message, accepts)
        if converted is not None:
            found.append(converted)
    if found and isinstance(found[-1], ModelRequest) and request.instructions:
        found[-1].instructions = _without_surrogates(request.instructions)
    return found


def _message(message: Message, accepts: frozenset[str]) -> ModelMessage | None:
    match message:
        case Prompt(content):
            return ModelRequest([UserPromptPart(_content(content, accepts))])
        case Answer(native=ModelResponse() as native):
            return native
        case Answer(text=text, uses=uses):
            calls = [
                ToolCallPart(
                    _without_surrogates(use.name), _without_surrogates(use.arguments), use.id
                )
                for use in uses
            ]
            parts = [TextPart(_without_surrogates(text)), *calls] if text else calls
            return ModelResponse(parts) if parts else None
        case Results(results):
            return ModelRequest([_result(result, accepts) for result in results])


def _result(result: ToolResult, accepts: frozenset[str]) -> ToolReturnPart:
    content = _content(result.content, accepts)
    return ToolReturnPart(
        _without_surrogates(result.name),
        content if isinstance(content, str) else list(content),
        result.use_id,
        outcome="failed" if result.failed else "success",
    )


def _content(content: Sequence[ContentBlock], accepts: frozenset[str]) -> str | list[UserContent]:
    """Return content for the model: a string if it is only text."""
    parts: list[UserContent] = []
    for part in content:
        made = _part(part, accepts)
        if isinstance(made, str):
            made = _without_surrogates(made)
        if isinstance(made, str) and parts and isinstance(parts[-1], str):
            parts[-1] += f"\n{made}"
        else:
            parts.append(made)
    match parts:
        case [str() as text]:
            return text
        case []:
            return ""
        case _:
            return parts


def _part(part: ContentBlock, takes: frozenset[str]) -> UserContent:
    match part:
        case str():
            return part
        case ImageContent(data, mime_type, uri):
            if "image" in takes:
                return BinaryContent(data, media_type=mime_type)
            return f"[An image ({mime_type}{_at(uri)}) that this model cannot see]"
        case AudioContent(data, mime_type):
            if "audio" in takes:
                return BinaryContent(data, media_type=mime_type)
            return f"[Audio ({mime_type}) that this model cannot hear]"
        case ResourceLink(uri, name):
            return f"[{name}]({uri})"
        case EmbeddedResource(uri, str() as text):
            return f'<resource uri="{uri}">\n{text}\n</resource>'
        case EmbeddedResource(uri, bytes() as data, mime_type):
            if mime_type is not None and mime_type.startswith("image/") and "image" in takes:
                return BinaryContent(data, media_type=mime_type)
            kind = mime_type or "unknown type"
            return f"[A file, {uri} ({kind}, {len(data)} bytes), that this model cannot read]"
        case _:
            return "[Content of an unknown type]"


def _without_surrogates(text: str) -> str:
    """Return text without lone surrogates, which file names can contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def native_of(response: ModelResponse) -> ModelResponse | None:
    """Return an answer in the form to send back to the model; None if it cannot be sent."""
    calls = [
        part for call in response.tool_calls for part in (call.tool_name, call.args_as_json_str())
    ]
    texts = (response.text or "", response.thinking or "", *calls)
    return response if all(_without_surrogates(text) == text for text in texts) else None


def _at(uri: str | None) -> str:
    return "" if uri is None else f", {uri}"


def parameters_of(request: Request) -> ModelRequestParameters:
    """Return the tools."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
            )
            for tool in request.tools
        ]
    )


def tokens_of(response: ModelResponse) -> TokenUsage | None:
    """Return the tokens that an answer used; None if the provider does not report them."""
    usage = response.usage
    if usage.unmeasured_requests or not usage.total_tokens:
        return None
    details: dict[str, Any] = usage.details
    return TokenUsage(
        total=usage.total_tokens,
        input=usage.input_tokens,
        output=usage.output_tokens,
        thought=details.get("reasoning_tokens"),
        cached_read=usage.cache_read_tokens or None,
        cached_write=usage.cache_write_tokens or None,
    )


def cost_of(response: ModelResponse) -> Cost | None:
    """Return the cost of an answer by the price list; None for a model that is not in it."""
    try:
        price = response.cost().total_price
    except (AssertionError, LookupError, ValueError):
        return None
    return Cost(float(price))
