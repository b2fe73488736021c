"""nginx and Caddy in front of a gateway, with the configurations of the page."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import httpx
import pytest

from accord.remote.access import Access
from accord_bridges.gateways import gateway
from accord_bridges.gateways.turns import GatewaySettings
from bridges.gateway_harness import listening, named
from project import ROOT
from remote.test_proxies import HOST, running
from remote.test_tls import Files

pytest.importorskip("a2a", reason="the library `a2a-sdk` is not installed")
pytest.importorskip("mcp", reason="the library `mcp` is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PAGE = ROOT / "docs/how-to/operate-a-gateway.md"
TOKEN = "the token of the test"


@pytest.mark.parametrize("proxy", ["nginx", "caddy"])
async def test_gateway_behind_a_proxy(proxy: str, state: Path) -> None:
    app = gateway(
        {"caller": named("caller")},
        Access(token=TOKEN),
        GatewaySettings(cwd=state / "work", idle_s=30),
        public_url=f"https://{HOST}",
    )
    folder = state / "proxy"
    folder.mkdir()
    files = Files(folder)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        listening(app) as (url, _),
        running(proxy, url.removeprefix("http://"), files, PAGE) as port,
        httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{port}",
            headers={**headers, "Host": f"{HOST}:{port}"},
            verify=ssl.create_default_context(cafile=files.ca),
            trust_env=False,
            timeout=30,
        ) as client,
    ):
        tls = {"sni_hostname": HOST}
        for path in ("/.well-known/agent-card.json", "/a2a/caller/.well-known/agent-card.json"):
            card = await client.get(path, extensions=tls)
            assert card.json()["url"] == f"https://{HOST}/a2a/caller"
        for path in ("/health", "/ready", "/", "/other"):
            assert (await client.get(path, extensions=tls)).status_code == 404
        for path in ("/mcp", "/ag-ui/caller", "/v1/chat/completions"):
            refused = await client.post(
                path, json={}, headers={"Authorization": "no"}, extensions=tls
            )
            assert refused.status_code == 401
        said = {"role": "user", "content": "say one\nwait"}
        body = {"model": "caller", "messages": [said], "stream": True}
        found: list[str] = []
        async with client.stream(
            "POST", "/v1/chat/completions", json=body, extensions=tls
        ) as response:
            async for line in response.aiter_lines():  # the turn does not end
                if line.startswith("data: "):
                    delta = json.loads(line[6:])["choices"][0]["delta"]
                    found.append(delta.get("content") or "")
                if "waiting" in found:
                    break
        assert "".join(found) == "onewaiting"
