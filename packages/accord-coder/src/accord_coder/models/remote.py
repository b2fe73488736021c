"""Language models of providers, through pydantic-ai.

First the errors of providers, as texts that users can act on, and whether to retry; then the
conversion of conversations to pydantic-ai's messages and of its responses back; then the model.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model as NativeModel
from pydantic_ai.models import ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
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
from accord.text.excerpt import excerpt
from accord_coder.models.base import (
    Answer,
    ContextOverflow,
    Finished,
    KeyRejected,
    Message,
    Model,
    ModelError,
    Notice,
    Piece,
    Prompt,
    Request,
    Results,
    Text,
    ToolResult,
    ToolUse,
)
from accord_coder.models.base import Thought as ThoughtPiece
from accord_coder.models.providers import ModelProvider

# Errors

_KEY_KINDS = re.compile(r"authenticat|unauthori[sz]ed|api_?key", re.IGNORECASE)
_MAX_CHARACTERS = 300  # of a provider's message


class ProviderError(Struct, frozen=True):
    """An error for the user, whether a retry can help, and the delay that the provider requests."""

    error: ModelError
    is_transient: bool = False
    retry_after_s: float | None = None


def classify_error(
    exc: AgentRunError, source: ModelProvider, address: str, *, secret: str | None, begun: bool
) -> ProviderError:
    """Translate an error of pydantic-ai; the result does not contain the secret.

    `address` is the URL of the request.
    """
    name = source.name
    said = _provider_message(exc, secret)
    match exc:
        case ModelContextWindowExceededError():
            return ProviderError(
                ContextOverflow(f"The conversation is too long for the model.{said}")
            )
        case ModelHTTPError(status_code=403) if not _blames_key(exc.body):
            # A region, a resource or a filter: another key may not help.
            return ProviderError(
                ModelError(f"{name} does not allow this request (status 403).{said}")
            )
        case ModelAuthenticationError():
            ways = " or ".join(source.variables)
            why = f"{name} rejected the API key. Set {ways}, or `accord agent --login {source.id}`."
            return ProviderError(KeyRejected(why))
        case ModelNotFoundError():
            return ProviderError(ModelError(f"{name} has no such model.{said}"))
        case ModelQuotaExceededError():
            return ProviderError(ModelError(f"The quota at {name} is used up.{said}"))
        case ModelRateLimitError():
            return _transient(exc, f"{name} limits the rate of requests.")
        case ModelUnavailableError() | ModelServerError():
            return _transient(exc, f"{name} is not available{_status(exc)}.")
        case ModelTimeoutError(phase="read" | "write"):
            return ProviderError(ModelError(f"{name} stopped responding."))
        case ModelConnectionError() if begun:
            return ProviderError(
                ModelError(f"The connection to {name} was lost during the answer.")
            )
        case ModelConnectionError():
            why = f"{name} cannot be reached{_host(address)}{_cause(exc, secret)}."
            return _transient(exc, why)
        case ModelAPIError():
            return ProviderError(ModelError(f"{name} did not answer{_status(exc)}.{said}"))
        case ContentFilterError():
            return ProviderError(ModelError(f"{name} refused to answer.{said}"))
        case _:
            return malformed_answer(source)


def malformed_answer(source: ModelProvider) -> ProviderError:
    """Return the error for a response that is not in the provider's format."""
    return ProviderError(ModelError(f"{source.name} sent a malformed response."))


def _blames_key(body: object) -> bool:
    """Return whether a provider's error is about authentication."""
    if not isinstance(body, dict):
        return isinstance(body, str) and "authenticat" in body.lower()
    fields = cast("dict[str, object]", body)
    if "error" in fields:
        return _blames_key(fields["error"])
    kinds = [fields.get(name) for name in ("type", "code", "status")]
    if any(isinstance(kind, str) and _KEY_KINDS.search(kind) for kind in kinds):
        return True
    return _blames_key(fields.get("message") or "")


def _transient(exc: ModelAPIError, why: str) -> ProviderError:
    hint = exc.provider_retry_hint if isinstance(exc, ModelHTTPError) else None
    return ProviderError(
        ModelError(why), is_transient=hint is not False, retry_after_s=exc.retry_after
    )


def _status(exc: ModelAPIError) -> str:
    return f" (status {exc.status_code})" if isinstance(exc, ModelHTTPError) else ""


def _host(address: str) -> str:
    """Return the scheme, host and port of an address; the rest can be secret."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return ""
    return f" at {parts.scheme}://{parts.hostname}{port}" if parts.hostname else ""


def _cause(exc: BaseException, secret: str | None) -> str:
    """Return the system's reason for a failed connection."""
    reason = ""
    seen: set[int] = set()
    cause: BaseException | None = exc
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, OSError):
            reason = cause.strerror or str(cause) or reason
        cause = cause.__cause__ or cause.__context__
    if secret:
        reason = reason.replace(secret, "…")
    return f": {excerpt(' '.join(reason.split()), _MAX_CHARACTERS)}" if reason else ""


def _provider_message(exc: AgentRunError, secret: str | None) -> str:
    """Return the provider's message, shortened and without the secret."""
    body: Any = exc.body if isinstance(exc, ModelAPIError) else None
    for _ in range(2):  # {"error": {"message": …}}, or only the inner object
        if isinstance(body, dict):
            fields = cast("dict[str, Any]", body)
            body = fields.get("error", fields.get("message"))
    if not isinstance(body, str):
        return ""
    if secret:
        body = body.replace(secret, "…")
    body = " ".join(body.split())
    return f" It says: {body if len(body) <= _MAX_CHARACTERS else body[:_MAX_CHARACTERS] + '…'}"


# Messages


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


log = logging.getLogger("accord_coder")

# The model


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Limits of retries, in seconds; `sleep` waits.

    `stall_timeout_s` is the longest time without a piece of the answer. `max_delay_s` is the
    longest delay that a provider can request.
    """

    max_attempts: int = 5
    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    stall_timeout_s: float = 180.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, attempts: int, retry_after_s: float | None) -> float | None:
        """Return the delay after so many attempts; None to stop retrying."""
        if attempts >= self.max_attempts or (
            retry_after_s is not None and retry_after_s > self.max_delay_s
        ):
            return None
        if retry_after_s is not None:
            return retry_after_s
        # Jitter, so that clients that were rejected together do not retry together.
        return min(self.max_delay_s, self.first_delay_s * 2 ** (attempts - 1)) * random.uniform(
            0.75, 1.25
        )


# If neither the price list nor the profile knows the context size.
_DEFAULT_CONTEXT = 128_000
_EFFORTS = ("low", "medium", "high")


def open_remote(
    source: ModelProvider,
    name: str,
    *,
    key: str | None,
    address: str | None = None,
    retry_policy: RetryPolicy | None = None,
) -> RemoteModel:
    """Return a model. Imports its library, but does not connect. Raises `ModelError`."""
    if key is not None and not (key.isascii() and key.isprintable()):
        ways = " or ".join(source.variables)
        raise KeyRejected(f"The key of {source.name} contains invalid characters: check {ways}.")
    kind = source.id
    if kind in ("compatible", "local") or (kind == "openai" and address is not None):
        kind = "openai-chat"  # Chat Completions
    try:
        native = infer_model(f"{kind}:{name}", lambda _: _provider(source, key, address))
    except UserError as exc:
        raise ModelError(f"{source.name} cannot be used: {exc}") from exc
    return RemoteModel(source, name, native, key=key, retry_policy=retry_policy or RetryPolicy())


def _provider(source: ModelProvider, key: str | None, address: str | None) -> Provider[Any]:
    if source.id in ("compatible", "local"):
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return OpenAICompatibleProvider("compatible", base_url=address or "", api_key=key)
    given: dict[str, Any] = {"api_key": key or "none"}  # the client libraries require a key
    if address is not None:
        given["base_url"] = address
    return infer_provider_class(source.id)(**given)


class RemoteModel(Model):
    """A language model of a provider."""

    def __init__(
        self,
        source: ModelProvider,
        name: str,
        native: NativeModel,
        *,
        key: str | None,
        retry_policy: RetryPolicy,
    ) -> None:
        profile = native.profile
        self.name = f"{source.id}:{name}"
        self.context_size = profile.get("context_window") or _DEFAULT_CONTEXT
        kinds = {"image": "supports_image_input", "audio": "supports_audio_file_input"}
        self.accepts = frozenset(kind for kind, flag in kinds.items() if profile.get(flag, True))
        self.efforts = _EFFORTS if profile.get("supports_thinking") else ()
        self._source = source
        self._native = native
        self._key = key
        self._retry_policy = retry_policy
        self._entered = False

    async def answer(self, request: Request) -> AsyncIterator[Piece]:
        """Send the request; retry transient errors until the answer begins."""
        if not self._entered:
            self._entered = True
            await self._native.__aenter__()
        tried = 0
        while True:
            tried += 1
            begun = False
            try:
                async with aclosing(self._request_once(request)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except AgentRunError as exc:
                address = self._native.base_url or ""
                fault = classify_error(exc, self._source, address, secret=self._key, begun=begun)
            except ModelError:
                raise
            except Exception:  # noqa: BLE001  # of libraries that trust in formats
                log.warning("! malformed response of %s:\n%s", self.name, self._trace())
                fault = malformed_answer(self._source)
            delay = None if begun else self._delay(fault, tried)
            if delay is None:
                raise fault.error
            yield Notice(f"{fault.error} Trying again{_in(delay)}.\n")
            if delay:
                await self._retry_policy.sleep(delay)

    def _trace(self) -> str:
        """Return the traceback of an error without the key, which some libraries quote."""
        trace = traceback.format_exc()
        return trace.replace(self._key, "…") if self._key else trace

    def _delay(self, fault: ProviderError, tried: int) -> float | None:
        return self._retry_policy.delay(tried, fault.retry_after_s) if fault.is_transient else None

    async def _request_once(self, request: Request) -> AsyncGenerator[Piece, None]:
        settings = ModelSettings(
            timeout=self._retry_policy.stall_timeout_s,
            max_retries=0,  # our retries are reported and can be cancelled
            cache=True,
        )
        if request.effort is not None:
            settings["thinking"] = cast("Literal['low', 'medium', 'high']", request.effort)
        async with model_request_stream(
            self._native,
            messages_of(request, self.accepts),
            model_settings=settings,
            model_request_parameters=parameters_of(request),
        ) as stream:
            async for piece in _pieces(stream):
                yield piece
            yield self._finished(stream.get())

    def _finished(self, response: ModelResponse) -> Finished:
        tokens = tokens_of(response)
        reason = _reason(response)
        return Finished(
            reason=reason,
            tokens=tokens,
            context=None if tokens is None else tokens.input + tokens.output,
            cost=cost_of(response),
            native=native_of(response),
        )

    async def aclose(self) -> None:
        """Close its connections."""
        if self._entered:
            self._entered = False
            await self._native.__aexit__(None, None, None)


async def _pieces(stream: StreamedResponse) -> AsyncGenerator[Piece, None]:
    """Yield the pieces; tool calls at the end, because their arguments can be interleaved."""
    async for event in stream:
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                yield Text(text)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                yield Text(text)
            case PartStartEvent(part=ThinkingPart(content=text)) if text:
                yield ThoughtPiece(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
                yield ThoughtPiece(text)
            case _:
                pass
    response = stream.get()
    for call in response.tool_calls:
        yield ToolUse(call.tool_call_id, call.tool_name, call.args_as_json_str())
    details = response.provider_details or {}
    if isinstance(refusal := details.get("refusal"), str) and refusal:
        yield Text(refusal)


def _reason(response: ModelResponse) -> Literal["end", "tools", "max_tokens", "refusal"]:
    match response.finish_reason:
        case "length":
            return "max_tokens"
        case "content_filter":
            return "refusal"
        case "stop" | "tool_call" if "finish_reason" not in (response.provider_details or {}):
            # The library's default for a stream that ended without a stop reason.
            raise ModelError("The answer is incomplete: the connection was closed.")
        case "stop" | "tool_call":
            return "tools" if response.tool_calls else "end"
        case None | "error":
            raise ModelError("The answer is incomplete: the model stopped.")


def _in(delay: float) -> str:
    return f" in {delay:.0f} s" if delay >= 1 else ""
