"""Explains why an encrypted connection failed."""

from __future__ import annotations

import ssl

_EXPIRED, _NOT_YET_VALID, _OTHER_HOST = 10, 9, 62


def tls_reason(error: BaseException) -> str | None:
    """Return the reason for an error in TLS, or what caused it; None for any other error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {_refusal(cause)}"
    if cause is not None and cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "it does not use TLS: check the port, or use ws:// or http://"
    return None


def _refusal(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case number if number == _EXPIRED:
            return "it has expired"
        case number if number == _NOT_YET_VALID:
            return "it is not valid yet: check the clock of both machines"
        case number if number == _OTHER_HOST:
            return "it is for another host name"
        case _:
            advice = "pass the certificate of its CA by ca_file=…, --ca-file or SSL_CERT_FILE"
            return f"{error.verify_message}; {advice}"
