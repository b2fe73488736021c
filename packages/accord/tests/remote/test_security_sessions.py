"""Sessions belong to the principal that created them (R-SEC-05)."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import MemoryStore, SessionStore, SqliteStore, Turn
from remote.attackers import Raw, Recording, raw, serving
from requirement import requirement

PROCESS = """
import sys
from accord import Agent, SqliteStore, Turn

class Stored(Agent):
    unstable = True
    store = SqliteStore(sys.argv[1])

    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"{turn.text}!")

Stored().run()
"""

WHOSE = """
import os
from accord import Agent

class Whose(Agent):
    async def extension_request(self, method, params, client):
        return {"principal": os.environ.get("ACCORD_PRINCIPAL")}

Whose().run()
"""


class Stored(Recording):
    unstable = True

    def __init__(self, store: SessionStore) -> None:
        super().__init__()
        self.store = store

    async def prompt(self, turn: Turn) -> None:
        self.prompts.append(f"{turn.session.client.principal}: {turn.text}")
        await turn.say(turn.text)


def authenticate(request: accord.RemoteRequest) -> accord.Principal | None:
    token = request.headers.get("authorization", [""])[0].removeprefix("Bearer ")
    return accord.Principal(token) if token in ("ada", "bob") else None


def served(agent: Any) -> Any:
    return serving(agent, token=None, authenticate=authenticate, allow_mcp=("stdio",))


async def listed(client: Raw) -> list[str]:
    answer = await client.request("session/list")
    return [session["sessionId"] for session in answer["result"]["sessions"]]


async def created(client: Raw, version: int) -> str:
    await client.initialize(version)
    return await new_session(client)


async def new_session(client: Raw) -> str:
    answer = await client.request("session/new", cwd="/", mcpServers=[])
    session_id: str = answer["result"]["sessionId"]
    await prompt(client, session_id)
    return session_id


async def prompt(client: Raw, session_id: str, text: str = "mine") -> Any:
    return await client.request(
        "session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}]
    )


# Names session `a` and its subagent `b`, and then answers everything.
NAMING = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "_name":
        update = {"sessionUpdate": "subagent_update", "sessionId": "b"}
        params = {"sessionId": "a", "update": update}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
"""

USES: dict[str, dict[str, Any]] = {
    "session/load": {"cwd": "/", "mcpServers": []},
    "session/resume": {"cwd": "/", "mcpServers": []},
    "session/fork": {"cwd": "/", "mcpServers": []},
    "session/prompt": {"prompt": [{"type": "text", "text": "theirs"}]},
    "session/close": {},
    "session/status": {},
    "session/set_title": {"title": "theirs"},
    "session/archive": {},
    "session/unarchive": {},
    "session/set_mode": {"modeId": "x"},
    "session/set_config_option": {"configId": "x", "value": "y"},
    "session/delete": {},
}


async def attack(client: Raw, session_id: str) -> None:
    """Try everything on the session of another; compare with a session that does not exist."""
    assert session_id not in await listed(client)
    for method, params in USES.items():
        unknown = await client.request(method, sessionId="session-0", **params)
        answer = await client.request(method, sessionId=session_id, **params)
        for found, given in ((unknown, "session-0"), (answer, session_id)):
            del found["id"]
            if (error := found.get("error")) is not None:
                error.get("data", {}).pop("sessionId", None)
                error["message"] = error["message"].replace(given, "…")  # what the client has sent
        assert answer == unknown, method
        if method not in ("session/close", "session/delete", "session/set_mode"):
            assert answer["error"]["code"] in (-32002, -32601, -32602), (method, answer)
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session_id}}
    await client.send(cancel)
    assert session_id not in await listed(client)


@requirement("R-SEC-05")
@pytest.mark.parametrize("version", [1, 2])
async def test_session_of_another_principal_does_not_exist(version: int) -> None:
    agent = Stored(MemoryStore())
    async with (
        served(agent) as address,
        raw(address, "ada") as ada,
        raw(address, "bob") as bob,
    ):
        session_id = await created(ada, version)
        assert await listed(ada) == [session_id]
        await bob.initialize(version)
        await attack(bob, session_id)
        assert "result" in await prompt(ada, session_id, "still open")
        assert await listed(ada) == [session_id]
        own = await new_session(bob)
        assert await listed(bob) == [own]
    assert set(agent.prompts) == {"ada: mine", "ada: still open", "bob: mine"}


@requirement("R-SEC-05")
@pytest.mark.parametrize("version", [1, 2])
async def test_owner_survives_a_restart_and_holds_on_every_server(
    tmp_path: Path, version: int
) -> None:
    file = tmp_path / "sessions.sqlite"
    opens = "session/load" if version == 1 else "session/resume"
    async with served(Stored(SqliteStore(file))) as address, raw(address, "ada") as ada:
        session_id = await created(ada, version)
        async with served(Stored(SqliteStore(file))) as other, raw(other, "bob") as bob:
            await bob.initialize(version)
            await attack(bob, session_id)
    async with served(Stored(SqliteStore(file))) as address, raw(address, "bob") as bob:
        await bob.initialize(version)
        await attack(bob, session_id)
        async with raw(address, "ada") as ada:
            await ada.initialize(version)
            assert await listed(ada) == [session_id]
            answer = await ada.request(opens, sessionId=session_id, cwd="/", mcpServers=[])
            assert "result" in answer, answer
            forked = await ada.request("session/fork", sessionId=session_id, cwd="/", mcpServers=[])
            assert set(await listed(ada)) == {session_id, forked["result"]["sessionId"]}
        await attack(bob, forked["result"]["sessionId"])


@requirement("R-SEC-05")
@pytest.mark.parametrize("version", [1, 2])
async def test_session_of_a_process_belongs_to_its_principal(tmp_path: Path, version: int) -> None:
    program = tmp_path / "agent.py"
    program.write_text(PROCESS)
    command = [sys.executable, str(program), str(tmp_path / "sessions.sqlite")]
    async with served(command) as address:
        async with raw(address, "ada") as ada:
            session_id = await created(ada, version)
            assert await listed(ada) == [session_id]
        async with raw(address, "bob") as bob, raw(address, "ada") as ada:
            await bob.initialize(version)
            await attack(bob, session_id)
            for spelling in ("SessionId", "se\u017f\u017fionId", "SESSIONID"):
                answer = await bob.request("session/load", **{spelling: session_id}, cwd="/")
                assert answer["error"]["code"] == -32002, answer
            text = '{"jsonrpc":"2.0","id":"x","Method":"session/delete","params":{}}'
            await bob.send(text)
            assert (await bob.response("x"))["error"]["code"] == -32600
            await ada.initialize(version)
            assert await listed(ada) == [session_id]
            again = {"sessionId": session_id, "cwd": "/", "mcpServers": []}
            assert "result" in await ada.request("session/resume", **again)
            assert "result" in await prompt(ada, session_id)
    async with served(command) as address, raw(address, "ada") as ada:
        await ada.initialize(version)
        assert await listed(ada) == []  # after a restart it belongs to nobody


async def test_sessions_that_a_process_names_to_the_client_can_be_used(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(NAMING)
    async with served([sys.executable, str(program)]) as address:
        async with raw(address, "ada") as ada:
            await ada.request("initialize")
            assert (await ada.request("_x", sessionId="b"))["error"]["code"] == -32002
            assert "result" in await ada.request("_name")
            assert "result" in await ada.request("_x", sessionId="a")
            assert "result" in await ada.request("_x", sessionId="b")
        async with raw(address, "bob") as bob:
            await bob.request("initialize")
            assert (await bob.request("_x", sessionId="b"))["error"]["code"] == -32002


async def test_an_agent_process_learns_the_principal_for_its_budgets(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(WHOSE)
    async with served([sys.executable, str(program)]) as address:
        for name in ("ada", "bob"):
            async with raw(address, name) as client:
                await client.initialize(1)
                assert (await client.request("_whose"))["result"] == {"principal": name}


async def test_single_token_sees_the_whole_store() -> None:
    agent = Stored(MemoryStore())
    async with served(agent) as address, raw(address, "ada") as ada:
        session_id = await created(ada, 1)
    async with serving(agent) as address, raw(address) as client:
        await client.initialize()
        assert await listed(client) == [session_id]


async def test_file_of_an_earlier_version_gains_the_owner(tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    store = SqliteStore(file)
    assert not (await store.list()).sessions
    await store.aclose()
    with sqlite3.connect(file) as db:
        db.execute("ALTER TABLE sessions DROP COLUMN principal")
        db.execute("INSERT INTO sessions VALUES ('s', '/', '[]', NULL, 0, 't', 0)")
    db.close()
    try:
        assert [session.principal for session in (await store.list()).sessions] == [None]
        assert not (await store.list(principal="ada")).sessions
    finally:
        await store.aclose()
