"""What goes wrong with a provider: said so that users can act on it, and whether it passes."""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct
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
)

from accord.text.excerpt import excerpt
from accord_coder.models.base import ContextOverflow, KeyRejected, ModelError
from accord_coder.models.providers import ModelProvider

__all__ = ("ProviderError", "classify_error", "malformed_answer")

_KEY_KINDS = re.compile(r"authenticat|unauthori[sz]ed|api_?key", re.IGNORECASE)
_MAX_CHARACTERS = 300  # of a provider's own words


class ProviderError(Struct, frozen=True):
    """An error for the user, whether it `passes` by itself, and how long the provider asks for."""

    error: ModelError
    is_transient: bool = False
    retry_after_s: float | None = None


def classify_error(
    exc: AgentRunError, source: ModelProvider, address: str, *, secret: str | None, begun: bool
) -> ProviderError:
    """Return what an error of pydantic-ai means; the secret is in no word of it.

    `address` is the URL that was asked.
    """
    name = source.name
    said = _provider_message(exc, secret)
    match exc:
        case ModelContextWindowExceededError():
            return ProviderError(
                ContextOverflow(f"The conversation is too long for the model.{said}")
            )
        case ModelHTTPError(status_code=403) if not _blames_key(exc.body):
            # Of a region, a resource or a guard: another key need not help.
            return ProviderError(ModelError(f"{name} does not allow this (status 403).{said}"))
        case ModelAuthenticationError():
            ways = " or ".join(source.variables)
            why = f"{name} refuses the key. Set {ways}, or `accord agent --login {source.id}`."
            return ProviderError(KeyRejected(why))
        case ModelNotFoundError():
            return ProviderError(ModelError(f"{name} has no such model.{said}"))
        case ModelQuotaExceededError():
            return ProviderError(ModelError(f"The quota at {name} is used up.{said}"))
        case ModelRateLimitError():
            return _transient(exc, f"{name} asks for fewer requests.")
        case ModelUnavailableError() | ModelServerError():
            return _transient(exc, f"{name} is not available{_status(exc)}.")
        case ModelTimeoutError(phase="read" | "write"):
            return ProviderError(ModelError(f"{name} has stopped answering."))
        case ModelConnectionError() if begun:
            return ProviderError(
                ModelError(f"The connection to {name} broke in the middle of the answer.")
            )
        case ModelConnectionError():
            why = f"{name} cannot be reached{_host(address)}{_cause(exc, secret)}."
            return _transient(exc, why)
        case ModelAPIError():
            return ProviderError(ModelError(f"{name} does not answer this{_status(exc)}.{said}"))
        case ContentFilterError():
            return ProviderError(ModelError(f"{name} refuses to answer.{said}"))
        case _:
            return malformed_answer(source)


def malformed_answer(source: ModelProvider) -> ProviderError:
    """Return what it means when an answer does not keep to the provider's own format."""
    return ProviderError(ModelError(f"{source.name} answers what cannot be understood."))


def _blames_key(body: object) -> bool:
    """Tell whether a provider's refusal says that it is about who asks."""
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
    """Return the scheme, host and port of an address; what else it holds may be secret."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return ""
    return f" at {parts.scheme}://{parts.hostname}{port}" if parts.hostname else ""


def _cause(exc: BaseException, secret: str | None) -> str:
    """Return the reason that the system gave for a connection that was not made."""
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
    """Return the provider's own words, cut short and without the secret."""
    body: Any = exc.body if isinstance(exc, ModelAPIError) else None
    for _ in range(2):  # {"error": {"message": …}}, or the inner one alone
        if isinstance(body, dict):
            fields = cast("dict[str, Any]", body)
            body = fields.get("error", fields.get("message"))
    if not isinstance(body, str):
        return ""
    if secret:
        body = body.replace(secret, "…")
    body = " ".join(body.split())
    return f" It says: {body if len(body) <= _MAX_CHARACTERS else body[:_MAX_CHARACTERS] + '…'}"
