"""A Discord on loopback: webhooks that post, edit and refuse as Discord documents it.

    discord = Discord(); address = discord.add_webhook()
    discord.faults = ["502 after"]           how the next calls fail, in order
    discord.messages                         the messages in the channels, in order

From Discord's documentation: messages 200 with `?wait=true`, else 204; limits of embeds as 400 with code 50035; rate
limits as 429 with body and headers; 30046 too many edits of old messages; 10015 unknown webhook, 50027 invalid token, 10008 unknown message.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]

TOKEN = "tOkEn-of_a-webhook-that-nobody-may-read-0123456789abcdefghijklmnopqrstuv"
_USER_AGENT = re.compile(r"DiscordBot \(https?://[^\s,]+, [^\s)]+\)")
"""What Discord asks for; Cloudflare may block any other."""
_PATH = re.compile(r"/api(?:/v\d+)?/webhooks/(\d+)/([\w-]+)(?:/messages/(\d+))?/?")

FAULTS = (
    "429", "429 global", "429 html", "500 before", "500 after", "502 before", "502 after", "503", "drop before",
    "drop after", "hang before", "hang after", "garbled after",
)  # fmt: skip
"""`before`: the message is not posted; `after`: it is posted, but the answer is lost."""


@dataclass
class Message:
    id: str
    webhook: str
    body: Json
    thread: str = ""
    edits: int = 0

    @property
    def embed(self) -> Json:
        found: Json = self.body["embeds"][0]
        return found


@dataclass
class Call:
    method: str
    path: str
    query: Json
    body: Json | None
    fault: str
    at: float
    """On the monotonic clock, in seconds."""


@dataclass
class Discord:
    """A webhook takes `limit` posts in `per_s` seconds; a hanging call takes `hang_s`.

    A fault of 429 asks to wait for `asks_to_wait_s`.
    It takes edits of messages that are not in `old`, and `old_edits` of those that are; None means any number.
    `threads` are those that exist; None means all.  A post opens an archived thread; a forum takes posts in threads only.
    """

    limit: int = 1000
    per_s: float = 2.0
    hang_s: float = 1.0
    asks_to_wait_s: float = 0.05
    old: set[str] = field(default_factory=set)
    old_edits: int | None = None
    threads: set[str] | None = None
    archived: set[str] = field(default_factory=set)
    is_forum: bool = False
    faults: list[str] = field(default_factory=list)
    webhooks: dict[str, str] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    address: str = ""

    def __post_init__(self) -> None:
        self._ids = itertools.count(1_180_000_000_000_000_001)
        self._lock = threading.Lock()
        self._recent: dict[str, deque[float]] = {}
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.discord = self
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add_webhook(self, token: str = TOKEN) -> str:
        """A new webhook's address."""
        webhook = str(next(self._ids))
        self.webhooks[webhook] = token
        return f"{self.address}/api/webhooks/{webhook}/{token}"

    def titles(self) -> list[str]:
        return [message.embed["title"] for message in self.messages]

    def is_over_limit(self, webhook: str) -> float:
        """Seconds to wait before the next post; 0 if it is allowed now."""
        now, recent = time.monotonic(), self._recent.setdefault(webhook, deque())
        while recent and now - recent[0] > self.per_s:
            recent.popleft()
        if len(recent) >= self.limit:
            return self.per_s - (now - recent[0])
        recent.append(now)
        return 0.0

    def answer(self, call: Call) -> tuple[int, Json | None]:
        """Answer one request."""
        with self._lock:
            if not (found := _PATH.fullmatch(call.path)):
                return 404, {"message": "404: Not Found", "code": 0}
            webhook, token, message = found.groups()
            if webhook not in self.webhooks:
                return 404, {"message": "Unknown Webhook", "code": 10015}
            if self.webhooks[webhook] != token:
                return 401, {"message": "Invalid Webhook Token", "code": 50027}
            if call.method == "GET" and not message:
                return 200, {"id": webhook, "token": token, "type": 1, "name": "PullRank", "channel_id": "1"}
            if call.method == "POST" and not message:
                return self._post(webhook, call)
            if call.method == "PATCH" and message:
                return self._edit(webhook, message, call)
            return 405, {"message": "405: Method Not Allowed", "code": 0}

    def _post(self, webhook: str, call: Call) -> tuple[int, Json | None]:
        if wait_s := self.is_over_limit(webhook):
            return 429, {"message": "You are being rate limited.", "retry_after": wait_s, "global": False}
        if errors := faults_of(call.body):
            return 400, {"message": "Invalid Form Body", "code": 50035, "errors": errors}
        thread = call.query.get("thread_id", [""])[0]
        if thread and self.threads is not None and thread not in self.threads:
            return 404, {"message": "Unknown Channel", "code": 10003}
        if self.is_forum and not thread:
            return 400, {
                "message": "Webhooks posted to forum channels must have a thread_name or thread_id",
                "code": 220001,
            }
        self.archived.discard(thread)
        message = Message(str(next(self._ids)), webhook, call.body or {}, thread)
        self.messages.append(message)
        if call.query.get("wait") != ["true"]:
            return 204, None
        return 200, {"id": message.id, "channel_id": "1", "webhook_id": webhook, **message.body}

    def _edit(self, webhook: str, message_id: str, call: Call) -> tuple[int, Json | None]:
        found = next((one for one in self.messages if (one.id, one.webhook) == (message_id, webhook)), None)
        # A message in a thread is found only through its thread.
        if not found or found.thread != call.query.get("thread_id", [""])[0]:
            return 404, {"message": "Unknown Message", "code": 10008}
        if found.thread in self.archived:
            return 400, {"message": "Thread is archived", "code": 50083}
        if errors := faults_of(call.body):
            return 400, {"message": "Invalid Form Body", "code": 50035, "errors": errors}
        if found.id in self.old and self.old_edits is not None:
            if not self.old_edits:
                said = "Maximum number of edits to messages older than 1 hour reached. Try again later"
                return 429, {"message": said, "code": 30046, "retry_after": 900.0}
            self.old_edits -= 1
        found.body = {**found.body, **(call.body or {})}
        found.edits += 1
        return 200, {"id": found.id, **found.body}


_TEXTS = {"title": 256, "description": 4096}
_PARTS = {("footer", "text"): 2048, ("author", "name"): 256}


def faults_of(body: Json | None) -> list[str]:
    """What Discord would refuse in a message; empty if it takes it."""
    if body is None:
        return ["no JSON"]
    embeds, content = body.get("embeds") or [], body.get("content") or ""
    faults = [] if embeds or content else ["50006: Cannot send an empty message"]
    faults += ["content: 2000 or fewer"] if len(content) > 2000 else []
    faults += ["embeds: 10 or fewer"] if len(embeds) > 10 else []
    faults += [fault for embed in embeds for fault in _faults_of_embed(embed)]
    if sum(map(_size, embeds)) > 6000:
        faults.append("embeds: MAX_EMBED_SIZE_EXCEEDED: 6000")
    return faults


def _faults_of_embed(embed: Json) -> list[str]:
    faults = [f"{name}: {limit} or fewer" for name, limit in _TEXTS.items() if len(embed.get(name) or "") > limit]
    faults += [
        f"{part}.{name}: 1 to {limit}"
        for (part, name), limit in _PARTS.items()
        if part in embed and not 1 <= len(embed[part][name]) <= limit
    ]
    fields = embed.get("fields") or []
    faults += ["fields: 25 or fewer"] if len(fields) > 25 else []
    for one in fields:
        if not (1 <= len(one["name"]) <= 256 and 1 <= len(one["value"]) <= 1024):
            faults.append("fields: name 1 to 256, value 1 to 1024")
    for url in (embed.get("url"), (embed.get("image") or {}).get("url")):
        if url and not re.fullmatch(r"https?://\S{1,2040}", url):
            faults.append("url: not well formed")
    if not 0 <= embed.get("color", 0) < 2**24:
        faults.append("color")
    return faults


def _size(embed: Json) -> int:
    texts = [embed.get("title"), embed.get("description")]
    texts += [embed[part][name] for part, name in _PARTS if part in embed]
    texts += [text for one in embed.get("fields") or [] for text in (one["name"], one["value"])]
    return sum(len(text or "") for text in texts)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    discord: Discord

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # The client has gone, which is the purpose of some faults.


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def _handle(self) -> None:
        discord, url = self.server.discord, urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_json = self.headers.get("Content-Type") == "application/json"
        fault = discord.faults.pop(0) if discord.faults else ""
        body = json.loads(content) if content and is_json else None
        call = Call(self.command, url.path, parse_qs(url.query), body, fault, time.monotonic())
        discord.calls.append(call)
        if not _USER_AGENT.match(self.headers.get("User-Agent", "")):
            return self._reply(403, "error code: 1010")
        return self._fail(call) if fault else self._reply(*discord.answer(call))

    do_GET = do_POST = do_PATCH = _handle

    def _fail(self, call: Call) -> None:
        name, _, when = call.fault.partition(" ")
        asks_s = self.server.discord.asks_to_wait_s
        if when == "after":
            self.server.discord.answer(call)
        match name:
            case "429" if when == "html":
                self._reply(429, "<html>1015</html>", {"Retry-After": str(asks_s)})
            case "429":
                said = {"message": "You are being rate limited.", "retry_after": asks_s, "global": bool(when)}
                self._reply(429, said, {"Retry-After": "1", "X-RateLimit-Remaining": "0", "Via": "1.1 google"})
            case "500":
                self._reply(500, {"message": f"500: Internal Server Error {TOKEN}", "code": 0})
            case "hang":
                time.sleep(self.server.discord.hang_s)
                self._drop()
            case "drop":
                self._drop()
            case "garbled":
                self._reply(200, "<html>OK</html>")
            case _:
                self._reply(int(name), f"<html>Bad gateway for {self.path}</html>")

    def _drop(self) -> None:
        # A reset, not an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _reply(self, status: int, said: Json | str | None, headers: dict[str, str] | None = None) -> None:
        content = b"" if said is None else (said if isinstance(said, str) else json.dumps(said)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(said, str) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == 429 and isinstance(said, dict) and not headers:
            headers = {"Retry-After": str(int(said["retry_after"]) + 1), "X-RateLimit-Remaining": "0"}
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
