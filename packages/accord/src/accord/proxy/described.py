"""What proxies do after the handshake, as they say themselves: for `accord chain --explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from accord.proxy.stage import RawResponse
from accord.text import lenient_json
from accord.text.excerpt import one_line

# Each proxy of Accord passes it on, and adds itself to the proxies of the result:
# `{"name": …, "handles": […], "tools": […], "commands": […]}`, with lists of names.
# Others pass it on, as everything that they do not know.
DESCRIBE = "_accord/proxy"
NO_PROXIES = RawResponse.of_result({"proxies": []})

_TITLES = {
    "handles": "handles",
    "tools": "gives the agent the tools",
    "commands": "adds the slash commands",
}


def with_description(
    response: RawResponse, name: str, described: dict[str, list[str]]
) -> RawResponse:
    """Return the response of the proxies after a proxy, with its own description."""
    proxies = [{"name": name, **described}, *_proxies(response)]
    return RawResponse.of_result({"proxies": proxies})


def description_lines(response: RawResponse) -> Iterator[str]:
    """Describe the proxies of one component; nothing if they do not say what they do."""
    proxies = _proxies(response)
    for proxy in proxies:
        lines = list(_lines(proxy))
        name = proxy.get("name")
        if len(proxies) > 1 and type(name) is str:  # a chain
            yield f"{one_line(name, 200)}:"
            lines = [f"  {line}" for line in lines]
        yield from lines


def _proxies(response: RawResponse) -> list[dict[str, Any]]:
    value: Any = None if response.result is None else lenient_json.loads(bytes(response.result))
    proxies: Any = value.get("proxies") if lenient_json.is_object(value) else None
    if type(proxies) is not list:
        return []
    return [one for one in cast("list[Any]", proxies) if lenient_json.is_object(one)]


def _lines(proxy: dict[str, Any]) -> Iterator[str]:
    for key, title in _TITLES.items():
        names: Any = proxy.get(key)
        if type(names) is not list:
            continue
        if known := [name for name in cast("list[Any]", names) if type(name) is str]:
            yield f"{title}: {one_line(', '.join(known), 300)}"
