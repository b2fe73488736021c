"""A model endpoint with the API of OpenAI that always says the same; prints its URL."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("hello ", "world")
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"id": "c-1", "created": 1, "model": asked["model"]}
        self.send_response(200)
        if not asked.get("stream"):
            message = {"role": "assistant", "content": "".join(WORDS)}
            chosen = {"index": 0, "message": message, "finish_reason": "stop"}
            body = {**answer, "object": "chat.completion", "choices": [chosen], "usage": USAGE}
            data = json.dumps(body).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        answer["object"] = "chat.completion.chunk"
        for word in WORDS:
            delta = {"role": "assistant", "content": word}
            self.send_part({**answer, "choices": [choice(delta, None)]})
        self.send_part({**answer, "choices": [choice({}, "stop")]})
        self.send_part({**answer, "choices": [], "usage": USAGE})
        self.wfile.write(b"data: [DONE]\n\n")

    def send_part(self, part: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(part).encode() + b"\n\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def choice(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
