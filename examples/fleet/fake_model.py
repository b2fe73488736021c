"""A model with OpenAI's chat API, which always gives the same answer: no account, no network."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "I am a model that always says heron."


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        streams = bool(request.get("stream"))
        key = "delta" if streams else "message"
        choice = {
            "index": 0,
            key: {"role": "assistant", "content": ANSWER},
            "finish_reason": "stop",
        }
        reply = {
            "id": "fake",
            "object": "chat.completion.chunk" if streams else "chat.completion",
            "created": int(time.time()),
            "model": "fake-model",
            "choices": [choice],
            "usage": {"prompt_tokens": 10, "completion_tokens": 9, "total_tokens": 19},
        }
        text = json.dumps(reply)
        body = (f"data: {text}\n\ndata: [DONE]\n\n" if streams else text).encode()
        self.send_response(200)
        kind = "text/event-stream" if streams else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no log."""


@contextmanager
def serving() -> Iterator[str]:
    """Serve the model on a free port; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
