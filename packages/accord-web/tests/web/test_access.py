"""Who gets in, and what each role may do: each attack over real HTTP."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from click.testing import CliRunner

from accord_terminal.sessions.named import open_session
from accord_web.command import command
from accord_web.devices import Role
from sessions_named.machine import Machine
from web.web_harness import WAIT_S, Server, serving

SCRIPT = f"{sys.executable} -m accord agent script"
ACTIONS = ("answer", "cancel", "cancel-tool-call", "prompt", "steer", "option", "withdraw", "close")


@pytest_asyncio.fixture
async def server(machine: Machine) -> AsyncIterator[Server]:
    (machine.base / "outside").mkdir()
    (machine.work / "link").symlink_to(machine.base / "outside")
    async with serving(roots=(machine.work,), agents=(SCRIPT,)) as found:
        yield found


def client(server: Server, **more: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.address, timeout=WAIT_S, **more)


@asynccontextmanager
async def device(
    server: Server, role: Role = "full", name: str = "Phone"
) -> AsyncIterator[httpx2.AsyncClient]:
    code = server.devices.new_code(role)
    async with client(server) as made:
        paired = await made.post("/api/pair", json={"code": code, "name": name})
        assert paired.status_code == 200, paired.text
        yield made


async def test_without_a_device_nothing_is_shown(server: Server) -> None:
    async with client(server) as stranger:
        for path in ("/api/me", "/api/live", "/api/conversation/session", "/api/devices"):
            refused = await stranger.get(path)
            assert refused.status_code == 401, path
            assert "accord web pair" in refused.json()["error"]
        for path in ("/api/new", "/api/devices/pair", "/api/conversation/prompt"):
            assert (await stranger.post(path, json={})).status_code == 401, path
        forged = {"Cookie": f"accord_web_{server.port}=AAAA; __Host-accord_web=AAAA"}
        assert (await stranger.get("/api/me", headers=forged)).status_code == 401


async def test_every_response_forbids_frames_and_inline_code(server: Server) -> None:
    async with device(server) as phone:
        for path in ("/", "/api/me", "/api/none", "/page/web.js", "/manifest.webmanifest"):
            found = await phone.get(path)
            policy = found.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy, path
            assert "unsafe" not in policy, path
            assert found.headers["x-content-type-options"] == "nosniff", path


async def test_cookie_is_for_this_site_only(server: Server) -> None:
    async with client(server) as phone:
        code = server.devices.new_code("full")
        paired = await phone.post("/api/pair", json={"code": code, "name": "Phone"})
        cookie = paired.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert code not in cookie
        again = await phone.post("/api/pair", json={"code": code, "name": "Thief"})
        assert again.status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),  # DNS rebinding
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),  # a form can send it from another site
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_requests_of_other_sites(
    server: Server, headers: dict[str, str], status: int
) -> None:
    async with device(server) as phone:
        sent = await phone.post("/api/devices/revoke", content=b'{"number": 1}', headers=headers)
        if "Content-Type" in headers:
            assert sent.status_code == status
        else:
            kind = {"Content-Type": "application/json", **headers}
            sent = await phone.post("/api/devices/revoke", content=b'{"number": 1}', headers=kind)
            assert sent.status_code == status
            assert (await phone.get("/api/me", headers=headers)).status_code == status
        assert len(server.devices.all()) == 1


async def test_reported_addresses_do_not_change_the_limit_of_codes(server: Server) -> None:
    async with client(server) as thief:
        for number in range(11):
            headers = {"X-Forwarded-For": f"10.0.0.{number}", "Forwarded": f"for=10.0.0.{number}"}
            body = {"code": f"guess {number}", "name": "x"}
            refused = await thief.post("/api/pair", json=body, headers=headers)
        assert refused.status_code == 429


async def test_roles_may_do_no_more(server: Server, machine: Machine) -> None:
    async with open_session("fix", machine.work, agent=SCRIPT, decides=False) as shared:
        session = shared.record.id
        roles: list[tuple[Role, tuple[str, ...]]] = [("watch", ()), ("answer", ACTIONS[:3])]
        for role, allowed in roles:
            async with device(server, role, role) as phone:
                for action in set(ACTIONS) - set(allowed):
                    sent = await phone.post(
                        f"/api/conversation/{action}", json={"session": session, "text": "x"}
                    )
                    assert sent.status_code == 403, (role, action)
                    assert f"is {role}" in sent.json()["error"]
                assert (await phone.post("/api/new", json={})).status_code == 403
                assert (await phone.get("/api/devices")).status_code == 403
                assert (await phone.post("/api/devices/pair", json={})).status_code == 403
                for action in allowed:
                    sent = await phone.post(
                        f"/api/conversation/{action}", json={"session": session, "question": 99}
                    )
                    assert sent.status_code != 403, (role, action)
        assert (await shared.status()).queue == ()


async def test_answer_to_a_question_that_is_closed(server: Server, machine: Machine) -> None:
    async with (
        open_session("fix", machine.work, agent=SCRIPT, decides=False) as shared,
        device(server) as phone,
    ):
        body = {"session": shared.record.id, "question": 1, "answer": {"option": 0}}
        refused = await phone.post("/api/conversation/answer", json=body)
        assert refused.status_code == 409
        assert "does not wait" in refused.json()["error"]


@pytest.mark.parametrize("folder", ["../..", "..", "link", "none", "", "a\0b"])
async def test_new_session_outside_of_the_roots(
    server: Server, machine: Machine, folder: str
) -> None:
    async with device(server) as phone:
        given = f"{machine.work}/{folder}" if folder else ""
        body = {"agent": SCRIPT, "folder": given, "text": "echo x"}
        refused = await phone.post("/api/new", json=body)
        assert refused.status_code in (400, 403), refused.text
        assert "folder" in refused.json()["error"]
        other = {"agent": "rm", "folder": str(machine.work), "text": "x"}
        assert (await phone.post("/api/new", json=other)).status_code == 403
        assert [*machine.store] == []


async def test_new_session_and_files_outside_of_its_folder(
    server: Server, machine: Machine
) -> None:
    secret = machine.base / "outside" / "secret.txt"
    secret.write_text("secret")
    async with device(server) as phone:
        body = {"agent": SCRIPT, "folder": str(machine.work), "text": "echo from the phone"}
        made = await phone.post("/api/new", json=body)
        assert made.status_code == 200, made.text
        session = made.json()["session"]
        for path in (str(secret), "../outside/secret.txt", "link/secret.txt"):
            body = {"session": session, "text": "x", "files": [{"path": path, "as": "content"}]}
            refused = await phone.post("/api/conversation/prompt", json=body)
            assert refused.status_code == 403, path
            assert "not in the folder" in refused.json()["error"]
        large = {"name": "a.png", "mime": "image/png", "data": "AAAA" * (3 * 1024 * 1024)}
        body = {"session": session, "text": "x", "files": [large]}
        refused = await phone.post("/api/conversation/prompt", json=body)
        assert refused.status_code == 413
        assert "exceeds 8 MB" in refused.json()["error"]


@pytest.mark.parametrize("session", ["", "s-", "../x", "s-0123456789abcdef", "s-.././/etc"])
async def test_odd_ids_of_sessions(server: Server, session: str) -> None:
    async with device(server) as phone:
        found = await phone.get("/api/conversation/session", params={"session": session})
        assert found.status_code == 404
        assert "session" in found.json()["error"]


async def events(phone: httpx2.AsyncClient, path: str, until: str) -> str:
    """Return the lines of a stream up to one that has a text."""
    async with asyncio.timeout(WAIT_S), phone.stream("GET", path) as stream:
        assert stream.status_code == 200
        async for line in stream.aiter_lines():
            if until in line:
                return line
    raise AssertionError("The stream has ended")


async def test_revoked_device_hears_it_while_it_streams(server: Server) -> None:
    async with device(server) as phone, device(server, name="Admin") as admin:
        waiting = asyncio.create_task(events(phone, "/api/live", "event: revoked"))
        await events(phone, "/api/live", "sessions")
        number = server.devices.all()[0].number
        sent = await admin.post("/api/devices/revoke", json={"number": number})
        assert sent.status_code == 200
        assert await waiting == "event: revoked"
        assert (await phone.get("/api/me")).status_code == 401


async def test_session_that_was_deleted(server: Server, machine: Machine) -> None:
    async with open_session("fix", machine.work, agent=SCRIPT, decides=False) as shared:
        await shared.close()
    machine.store.delete(shared.record.id)
    async with device(server) as phone:
        line = await events(phone, f"/api/live?session={shared.record.id}", "was deleted")
        assert "not there any more" in line


async def test_flood_of_streams(server: Server) -> None:
    async with device(server) as phone, AsyncExitStack() as streams:
        for _ in range(20):
            stream = await streams.enter_async_context(phone.stream("GET", "/api/live"))
            assert stream.status_code == 200
        refused = await phone.get("/api/live")
        assert refused.status_code == 429
        assert "Too many pages" in refused.json()["error"]


async def test_log_has_no_secret(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    code = server.devices.new_code("full")
    async with client(server) as phone:
        paired = await phone.post("/api/pair", json={"code": code, "name": "Phone"})
        token = paired.headers["set-cookie"].split("=", 1)[1].split(";")[0]
        await phone.get("/api/me")
    own = "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("accord"))
    assert "paired Phone" in own
    assert code not in own
    assert token not in own


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "needs TLS"),
        (["--public-url", "http://home.example"], "expected https"),
        (["--public-url", "home.example"], "expected https://HOST"),
    ],
)
def test_others_are_served_over_tls_only(machine: Machine, words: list[str], said: str) -> None:
    ended = CliRunner().invoke(command, words)
    assert ended.exit_code == 2
    assert said in ended.output


def test_devices_at_the_terminal(machine: Machine) -> None:
    run = CliRunner().invoke
    assert "No device is paired" in run(command, ["devices", "list"]).output
    printed = run(command, ["pair", "--role", "watch", "--address", "https://a.example"]).output
    assert "https://a.example/pair#" in printed
    ended = run(command, ["devices", "revoke", "7"])
    assert ended.exit_code == 1
    assert "No device has the number 7" in ended.output
    assert Path(machine.base / "state" / "web.db").exists()
