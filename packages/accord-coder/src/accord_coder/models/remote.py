"""Language models of providers, through pydantic-ai."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Literal, cast

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model as NativeModel
from pydantic_ai.models import StreamedResponse, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings

from accord_coder.messages import ToolUse
from accord_coder.models.base import (
    Finished,
    KeyRejected,
    Model,
    ModelError,
    Notice,
    Piece,
    Request,
    Text,
)
from accord_coder.models.base import Thought as ThoughtPiece
from accord_coder.models.errors import ProviderError, classify_error, malformed_answer
from accord_coder.models.providers import ModelProvider
from accord_coder.models.pydantic_ai_messages import (
    cost_of,
    messages_of,
    native_of,
    parameters_of,
    tokens_of,
)
from accord_coder.models.retry import RetryPolicy

log = logging.getLogger("accord_coder")

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
