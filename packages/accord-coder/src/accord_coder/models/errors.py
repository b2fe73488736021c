"""Errors of providers: a text that users can act on, and whether to retry."""

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
