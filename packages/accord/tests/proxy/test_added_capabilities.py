"""Capabilities that a proxy adds, for the agent and for the client."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from accord import Proxy, v1, v2
from proxy.conversation import conversation
from requirement import requirement


class Adds(Proxy):
    def client_capabilities_v1(self, offered: v1.ClientCapabilities) -> v1.ClientCapabilities:
        return replace(offered, fs=replace(offered.fs, read_text_file=True))

    def client_capabilities_v2(self, offered: v2.ClientCapabilities) -> v2.ClientCapabilities:
        elicitation = v2.ElicitationCapabilities(form=v2.ElicitationFormCapabilities())
        return replace(offered, elicitation=elicitation)

    def agent_capabilities_v1(self, offered: v1.AgentCapabilities) -> v1.AgentCapabilities:
        return replace(offered, prompt_capabilities=v1.PromptCapabilities(image=True))

    def agent_capabilities_v2(self, offered: v2.AgentCapabilities) -> v2.AgentCapabilities:
        assert offered.session is not None
        prompt = v2.PromptCapabilities(image=v2.PromptImageCapabilities())
        return replace(offered, session=replace(offered.session, prompt=prompt))


@pytest.mark.parametrize("version", [1, 2])
@requirement("R-PROXY-06")
async def test_added_capabilities_reach_the_other_side_with_those_that_were_offered(
    version: int,
) -> None:
    async with conversation(Adds().stage(), version=version, initialize=False) as talk:
        offered: dict[str, Any] = {"_x": 1.0}
        if version == 1:
            offered["fs"] = {"writeTextFile": True, "_y": 2}
        params, response = await talk.initialize(**offered)
        result = response["result"]
    if version == 1:
        fs = {"writeTextFile": True, "_y": 2, "readTextFile": True}
        assert params["clientCapabilities"] == {"_x": 1.0, "fs": fs}
        added = {"promptCapabilities": {"image": True}}
        assert result["agentCapabilities"] == {"loadSession": True, "x": 2, **added}
    else:
        assert params["capabilities"] == {"_x": 1.0, "elicitation": {"form": {}}}
        assert result["capabilities"] == {"session": {"x": 2, "prompt": {"image": {}}}}
