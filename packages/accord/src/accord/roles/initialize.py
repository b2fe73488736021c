"""Reads the params of `initialize` for the version that an agent chooses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from accord.errors import DecodeError, InvalidParams
from accord.rules.negotiation import requested_version, select, v1_params_of, v2_params_of
from accord.text import lenient_json
from accord.version import ProtocolVersion
from accord.wire.codec import convert, decoder
from accord.wire.overlay import overlay
from accord.wire.protocol import ProtocolSpec


class InitializeParams(Struct, frozen=True):
    """The params of `initialize`, decoded without a role.

    `requested` is the version that the client asks for, `version` the one that is chosen, and
    `params` the `InitializeRequest` of that version. `raw` holds all keys as builtin values.
    """

    requested: int
    version: ProtocolVersion
    params: Any
    raw: dict[str, Any]

    @staticmethod
    def read(text: bytes, specs: Collection[ProtocolSpec]) -> InitializeParams:
        """Choose one of these versions and decode the params.

        Raise `InvalidParams` if they do not fit, `VersionNotOffered` if no version does.
        """
        raw = lenient_json.loads(text)
        requested = requested_version(raw)
        by_version: dict[ProtocolVersion, ProtocolSpec] = {spec.version: spec for spec in specs}
        version = select(requested, by_version.keys())
        params = decode_params(by_version[version], requested, text, raw)
        return InitializeParams(requested, version, params, raw)

    def with_changes(self, params: Any) -> bytes:
        """Return the JSON text of changed params; keys that the type does not have are kept."""
        return lenient_json.dumps(overlay(self.raw, self.params, params))


def decode_params(spec: ProtocolSpec, requested: int, text: bytes, raw: dict[str, Any]) -> Any:
    """Decode params as those of a version; raise `InvalidParams`."""
    translated = raw
    if spec.version == 1:
        translated = v1_params_of(raw)
    elif requested > spec.version:
        translated = v2_params_of(raw)
    try:
        if translated is raw:
            return decoder(spec.initialize_request)(text)
        return convert(translated, spec.initialize_request)
    except DecodeError as exc:
        data = {"path": exc.where, "reason": exc.message}
        raise InvalidParams(f"Invalid params: {exc}", data=data) from None
