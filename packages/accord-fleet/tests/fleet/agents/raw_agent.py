"""An agent of version 1 without any library, which misbehaves on request.

The first word of a prompt is what it does; only the first line counts. The arguments are what it
does at its start.
"""

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path

SESSION_CLOSE = {"sessionCapabilities": {"close": {}}}
cancelled = threading.Event()
sessions = 0
prompts = 0


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(session, **fields):
    send({"method": "session/update", "params": {"sessionId": session, "update": fields}})


def say(session, text):
    update(
        session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": str(text)}
    )


def usage(session, used, cost):
    fields = {} if cost is None else {"cost": {"amount": cost, "currency": "USD"}}
    update(session, sessionUpdate="usage_update", used=used, size=100_000, **fields)


def read(path):
    try:
        return Path(path).read_text()
    except OSError as error:
        return type(error).__name__


def ask_model(body):
    import urllib.error  # takes longer than all else that this program imports
    import urllib.request

    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
        body.encode(),
        {"x-api-key": os.environ["ANTHROPIC_API_KEY"]},
    )
    try:
        return urllib.request.urlopen(request, timeout=20).read().decode()[-40:]
    except urllib.error.HTTPError as error:
        return error.read().decode()


def judged(word):
    if word == "model":
        return ask_model("{}")
    name, is_variable, value = word.partition("=")
    return os.environ.get(value, "(unset)") if is_variable else read(name)


def run(session, text):
    """Return the stop reason, or a whole result."""
    command, _, rest = text.partition("\n")[0].partition(" ")
    match command:
        case "say":
            say(session, rest)
        case "pieces":
            size, name = rest.split()
            value = os.environ[name]
            for at in range(0, len(value), int(size)):
                say(session, value[at : at + int(size)])
                usage(session, at, None)
        case "stderr-lines":
            size, name = rest.split()
            value = os.environ[name]
            for at in range(0, len(value), int(size)):
                print(value[at : at + int(size)], file=sys.stderr, flush=True)
        case "stderr-long":
            filler, name = rest.split()
            sys.stderr.write("." * int(filler) + os.environ[name][:-8])
            sys.stderr.flush()
            sys.stderr.write(os.environ[name][-8:] + "\n")
        case "pid":
            say(session, f"{os.getpid()} {prompts} {sessions}")
        case "cwd":
            say(session, Path.cwd())
        case "remove-cwd":
            folder = Path.cwd()
            folder.rmdir()
            say(session, folder)
        case "env":
            say(session, os.environ.get(rest, "(unset)"))
        case "stderr":
            print(rest, file=sys.stderr, flush=True)
            say(session, "done")
        case "write":
            name, _, content = rest.partition(" ")
            Path(folders[session], name).write_text(content)
        case "wait":
            say(session, "waiting")
            if rest:
                Path(rest).write_text("begun")
            cancelled.wait()
            return "cancelled"
        case "wait-once":
            marker, begun = rest.split()
            if not Path(marker).exists():
                Path(marker).touch()
                Path(begun).write_text("begun")
                cancelled.wait()
                return "cancelled"
        case "pause":
            begun, go = rest.split()
            Path(begun).write_text("begun")
            Path(go).read_text()
        case "until":
            while not Path(rest).exists() and not cancelled.wait(0.05):
                pass
        case "hang":
            say(session, "hanging")
            if rest:
                Path(rest).write_text("begun")
            threading.Event().wait()
        case "die":
            say(session, "about to die")
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(int(rest or 3))
        case "die-at":
            dies_at.add(rest)
        case "close-output":
            os.close(1)
            threading.Event().wait()
        case "eat":
            data = bytearray(int(rest) * 2**20)
            data[::4096] = b"x" * len(data[::4096])
            threading.Event().wait()
        case "try":
            say(session, read(rest))
        case "model":
            say(session, ask_model(rest))
        case "judge":
            # `model`, `env=NAME` or a path; what each leads to is in the details of the verdict.
            said = {word: judged(word) for word in rest.split()}
            say(session, json.dumps({"passed": True, "details": said}))
        case "flood":
            while True:
                say(session, "x" * 8000)
        case "flood-line":
            while True:
                sys.stdout.write('{"jsonrpc":"2.0","x":"' + "y" * 65536)
        case "flood-noise":
            while True:
                sys.stdout.write("z" * 8000 + "\n")
        case "flood-stderr":
            while True:
                sys.stderr.write("e" * 8000 + "\n")
        case "children":
            import subprocess

            child = subprocess.Popen(
                ["sleep", "600"], start_new_session=rest == "apart", stdout=subprocess.DEVNULL
            )
            say(session, child.pid)
        case "tokens":
            return {
                "stopReason": "end_turn",
                "usage": {
                    "totalTokens": int(rest),
                    "inputTokens": int(rest) - 1,
                    "outputTokens": 1,
                },
            }
        case "spend":
            amount = float(rest)
            usage(session, 1000, amount)
            cancelled.wait(0 if amount < 100 else None)
        case "changes":
            for number in range(int(rest)):
                diff = {"type": "diff", "path": f"/f{number}", "newText": ""}
                call = {"toolCallId": f"c{number}", "title": "Change", "content": [diff]}
                update(session, sessionUpdate="tool_call", **call)
            cancelled.wait(None if int(rest) > 2 else 0)
        case "edit":
            call = {"toolCallId": "c1", "title": "Edit", "kind": "edit"}
            options = [
                {"optionId": kind, "name": kind, "kind": kind}
                for kind in ("allow_once", "reject_once")
            ]
            params = {"sessionId": session, "toolCall": call, "options": options}
            send({"id": "ask", "method": "session/request_permission", "params": params})
            say(session, answers.get()["outcome"]["optionId"])
        case "error":
            raise ValueError(rest)
        case "refuse":
            return "refusal"
    return "cancelled" if cancelled.is_set() else "end_turn"


def prompt(number, session, text):
    global prompts
    prompts += 1
    try:
        result = run(session, text)
    except ValueError as error:
        send({"id": number, "error": {"code": -32603, "message": str(error)}})
        return
    send({"id": number, "result": result if isinstance(result, dict) else {"stopReason": result}})


folders = {}
dies_at = set()
answers = queue.Queue()


def handle(message):
    global sessions
    number, params = message.get("id"), message.get("params") or {}
    if message.get("method") in dies_at:
        os._exit(4)
    match message.get("method"):
        case "initialize":
            if "silent" in sys.argv:
                return
            result = {"protocolVersion": 1, "agentCapabilities": SESSION_CLOSE}
            if "unmetered" not in sys.argv:
                result["_meta"] = {"accord": {"reports": ["tokens", "cost"]}}
            send({"id": number, "result": result})
        case "session/new":
            if "no-session" in sys.argv:
                error = {"code": -32000, "message": "Log in first"}
                send({"id": number, "error": error})
                return
            sessions += 1
            folders[f"s{sessions}"] = params["cwd"]
            send({"id": number, "result": {"sessionId": f"s{sessions}"}})
        case "session/close":
            send({"id": number, "result": {}})
        case "session/prompt":
            cancelled.clear()
            given = params["sessionId"], params["prompt"][0]["text"]
            threading.Thread(target=prompt, args=(number, *given), daemon=True).start()
        case None:
            answers.put(message["result"])
        case "session/cancel":
            cancelled.set()
        case str() if number is not None:
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "exit" in sys.argv:
    print("no license", file=sys.stderr)
    sys.exit(7)
for line in sys.stdin:
    handle(json.loads(line))
