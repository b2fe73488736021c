"""The codec of the bare loop."""

from __future__ import annotations

from typing import Any

from floor.codec import (
    decode_line,
    decode_params,
    decode_result,
    notification,
    request,
    response,
)
from msgspec import UNSET
from timing import Item, main


def decode(items: list[Item]) -> None:
    for _, method, line in items:
        message = decode_line(line)
        if message.method is UNSET:
            decode_result[method](message.result)
        else:
            decode_params[message.method](message.params)


def value(item: Item) -> Any:
    kind, method, line = item
    message = decode_line(line)
    if kind == "result":
        return decode_result[method](message.result)
    return decode_params[method](message.params)


def encode(items: list[tuple[str, str, Any]]) -> None:
    for kind, method, value in items:
        if kind == "note":
            notification(method, value)
        elif kind == "request":
            request(1, method, value)
        else:
            response(1, value)


main(decode, value, encode)
