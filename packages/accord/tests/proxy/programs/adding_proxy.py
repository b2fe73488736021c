"""A proxy that changes `initialize` in both directions."""

from __future__ import annotations

import asyncio
import json

from msgspec import Raw

from accord.proxy.conductor import serve_stages
from accord.proxy.stage import RawRequest, RawResponse, Stage, raw_json
from accord.transports.stdio import stdio


class Adding(Stage):
    def request_from_client(self, request: RawRequest) -> None:
        if request.method != "initialize":
            self.agent.request(request)
            return
        assert isinstance(request.params, Raw)
        params = {**json.loads(bytes(request.params)), "_meta": {"team": 1.0}}

        def answered(response: RawResponse) -> None:
            if response.result is None:
                request.answer(response)
                return
            result = json.loads(bytes(response.result))
            result["info"]["title"] = "Team's agent"
            request.answer(RawResponse.of_result(result))

        self.agent.request(request.derive(answered, params=raw_json(params)))


asyncio.run(serve_stages([Adding()], stdio(restore=False)))
