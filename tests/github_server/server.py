"""GitHub on loopback: HTTP around a `World`.

    http://127.0.0.1:PORT/api/v3/…          REST, checked against GitHub's own description
    http://127.0.0.1:PORT/api/graphql       GraphQL, checked against GitHub's own schema; a query is logged as
                                            `POST /graphql/Pull/1`
    http://127.0.0.1:PORT/owner/name.git    git, through its own `upload-pack` and `receive-pack`
    http://localhost:PORT/artifacts/…       storage, another host, which must get no token

Every request is logged, and a test can make it fail.  Requests and answers that GitHub's description does not allow are
kept in `faults`, and the `with` block ends with an error.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import socket
import struct
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import jwt

# Each registers its routes.
from tests.github_server import (  # noqa: F401
    actions_api,
    actions_settings_api,
    forks_api,
    git_api,
    git_http,
    graphql_api,
    pulls_api,
    settings_api,
    shapes,
)
from tests.github_server.contract import contract
from tests.github_server.failures import Failure, Failures, Way
from tests.github_server.routes import Answer, Call, Refusal, find_route, missing
from tests.github_server.world import Budget, Token, User, World

API = "/api/v3"
GRAPHQL = "/api/graphql"
JSON = "application/json; charset=utf-8"
HALF = Answer(200, {"number": 1, "title": "of a pull request, half is told"})
HTML = b"<!DOCTYPE html><html><body><h1>Unicorn!</h1></body></html>"


@dataclass(frozen=True)
class Logged:
    """A request in the log.  `route` is None if nothing serves it, and for git and storage."""

    method: str
    path: str
    query: str
    route: str | None
    status: int
    login: str
    body: Any
    has_token: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class GitHubServer:
    """A GitHub with one repository.  `with GitHubServer(World(tmp_path)) as server: …`"""

    def __init__(self, world: World) -> None:
        self.world = world
        self.failures = Failures()
        self.log: list[Logged] = []
        self.faults: list[str] = []
        self.busy_s = 0.0
        """The time that requests have taken."""
        self.git_bytes = 0
        """The size of all answers to git."""
        self.reset_at = time.time() + 3600
        """When the tokens' limits reset, in GitHub's form."""
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.github = self
        self._is_over = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{port}"
        self.api_url = f"{self.url}{API}"
        self.git_url = f"{self.url}/{world.repository}.git"
        world.web_url, world.api_url = self.url, self.api_url
        world.settings["storage_url"] = f"http://localhost:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        # The server waits for a connection, without a time-out: this is the last one.
        host, port = self._http.server_address[:2]
        socket.create_connection((str(host), port)).close()
        self._thread.join()
        self._http.server_close()
        if error is None:
            assert not self.faults, "\n".join(self.faults[:20])

    def _listen(self) -> None:
        while not self._is_over:
            self._http.handle_request()

    def fail(self, pattern: str, failure: Failure, *, nth: int = 1, times: int = 1) -> None:
        """Let the `nth` request that matches `METHOD /path` fail: `fail("POST */comments", Failure(status=500))`."""
        self.failures.add(pattern, failure, nth=nth, times=times)

    def requests(self, pattern: str = "*") -> list[Logged]:
        """The logged requests that match `METHOD /path`."""
        return [entry for entry in self.log if fnmatchcase(str(entry), pattern)]

    def rest_requests(self) -> list[Logged]:
        """The requests that count against the token's limit."""
        return [entry for entry in self.log if entry.path.startswith("/repos/") or entry.route]

    def queries(self) -> list[Logged]:
        """The GraphQL queries, which count separately."""
        return self.requests("POST /graphql/*")

    def counts(self) -> Counter[str]:
        """How often each route was asked."""
        return Counter(entry.route or f"{entry.method} (git or storage)" for entry in self.log)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    github: GitHubServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up needs no traceback; our own errors are already in `faults`."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Send small answers at once, not after the client's next packet.
    disable_nagle_algorithm = True
    server: _Http

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  the base class names it so
        pass

    def _serve(self) -> None:
        began = time.perf_counter()
        try:
            self._meet()
        finally:
            self.server.github.busy_s += time.perf_counter() - began

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _meet(self) -> None:
        github, parts = self.server.github, urlsplit(self.path)
        self.content = self._read_content()
        path = unquote(parts.path)
        is_rest = path.startswith(f"{API}/")
        shown = path.removeprefix(API) if is_rest else path
        is_query = path == GRAPHQL and b"mutation(" not in self.content
        if is_query:
            shown = graphql_api.path_of(json.loads(self.content))
        failure = github.failures.find(f"{self.command} {shown}")
        if failure and not failure.is_done:
            self._log(shown, None, None, 0)
            return self._fail(failure)
        try:
            if is_query:
                answer = self._answer_query(shown)
            elif is_rest or path == GRAPHQL:
                answer = self._answer(shown, parts.query)
            else:
                answer = self._elsewhere(path, parts.query)
        except Exception:
            github.faults.append(f"{self.command} {shown} broke the server:\n{traceback.format_exc()}")
            answer = Answer(500, {"message": "Server Error"})
        if failure:
            return self._fail(failure, answer)
        return self._send(answer)

    def _read_content(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def _log(self, path: str, route: str | None, token: Token | None, status: int, body: Any = None) -> None:
        login, query = token.user.login if token else "", urlsplit(self.path).query
        has_token = "Authorization" in self.headers
        entry = Logged(self.command, path, query, route, status, login, body, has_token)
        self.server.github.log.append(entry)

    # REST

    def _answer(self, path: str, query: str) -> Answer:
        """Answer any request: check, count and log it."""
        token, world = self._token(), self.server.github.world
        body = json.loads(self.content) if self.content else None
        found, asked = find_route(self.command, path), dict(parse_qsl(query, keep_blank_values=True))
        name = found[0].name if found else None
        operation = name if name in contract().operations else None
        if found is None:
            self.server.github.faults.append(f"{self.command} {path}: nothing serves this")
        if operation:
            self._blame("asks", operation, contract().faults_of_request(operation, asked, body))
        with world.lock:
            try:
                answer = self._handled(found, token, asked, body)
            except Refusal as refusal:
                answer = refusal.answer
        if operation:
            answer.body = contract().complete_answer(operation, answer.status, answer.body)
            self._blame("answers", operation, contract().faults_of_answer(operation, answer.status, answer.body))
        if self.command == "GET" and answer.status == 200:
            answer = self._unless_known(answer, token)
        if token:
            answer.headers |= _limits(token, self.server.github.reset_at)
        self._log(path, name, token, answer.status, body)
        return answer

    def _unless_known(self, answer: Answer, token: Token | None) -> Answer:
        """The answer with its ETag, or 304 if the client has it, which does not count."""
        etag = f'W/"{hashlib.sha256(json.dumps(answer.body).encode()).hexdigest()}"'
        if self.headers.get("If-None-Match") != etag:
            answer.headers |= {"ETag": etag}
            return answer
        if token:
            token.budget.used -= 1
            token.used -= 1
        return Answer(304, None, {"ETag": etag})

    def _answer_query(self, shown: str) -> Answer:
        token, github, body = self._token(), self.server.github, json.loads(self.content)
        faults: list[str] = []
        if token is None:
            answer = Answer(401, {"message": "Bad credentials"})
        else:
            with github.world.lock:
                answer, faults = graphql_api.answer(github.world, token, body)
        self._blame("asks", shown, faults)
        self._log(shown, None, token, answer.status, body)
        return answer

    def _handled(self, found: Any, token: Token | None, query: dict[str, str], body: Any) -> Answer:
        if token is None:
            raise Refusal(401, "Bad credentials")
        world = self.server.github.world
        if not token.budget.spend(world.clock()):
            raise Refusal(403, f"API rate limit exceeded for user ID {token.user.id}.")
        token.used += 1
        if found is None:
            raise Refusal(404, "Not Found")
        world.delete_old()
        route, path = found
        owner, name = world.repository.split("/")
        fork = path.get("owner", owner).lower() if path.get("owner", owner) != owner else ""
        if path.get("repo", name) != name or (fork and not (fork in world.forks and route.is_of_forks)):
            raise Refusal(404, "Not Found")
        may = token.user.login.lower() == fork if fork else route.is_open_to(token)
        if not may and "/actions/policies" in route.name:
            raise missing()
        if not may:
            who = "integration" if token.is_workflows else "personal access token"
            raise Refusal(403, f"Resource not accessible by {who}")
        answer: Answer = route.handler(Call(world, token, path, query, body, fork))
        return answer

    def _token(self) -> Token | None:
        """The token, from `token …`, `Bearer …`, or the password of `Basic …`."""
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "basic":
            with contextlib.suppress(ValueError):
                value = base64.b64decode(value).decode().partition(":")[2]
        world = self.server.github.world
        return _of_app(value, world) if value.count(".") == 2 else world.tokens.get(value)

    def _blame(self, what: str, operation: str, faults: list[str]) -> None:
        self.server.github.faults += [f"{operation} {what} {fault}" for fault in faults]

    # git and storage

    def _elsewhere(self, path: str, query: str) -> Answer:
        if path.startswith("/artifacts/"):
            answer = self._stored(path)
        elif path.startswith(f"/{self.server.github.world.repository}.git/"):
            answer = self._git(path, query)
        else:
            answer = Answer(404, b"Not Found")
        self._log(path, None, self._token(), answer.status)
        return answer

    def _stored(self, path: str) -> Answer:
        artifact = self.server.github.world.find_artifact(int(path.rpartition("/")[2]))
        if artifact is None or not self.headers["Host"].startswith("localhost"):
            return Answer(404, b"BlobNotFound")
        return Answer(200, artifact.content, {"Content-Type": "application/zip"})

    def _git(self, path: str, query: str) -> Answer:
        """Serve git.  All may read, except from a private repository; writing needs `contents: write`."""
        token = self._token()
        if token is None and shapes.repository(self.server.github.world)["private"]:
            return Answer(401, b"", {"WWW-Authenticate": 'Basic realm="GitHub"'})
        if "git-receive-pack" in (path.rpartition("/")[2], query.removeprefix("service=")):
            if token is None:
                return Answer(401, b"", {"WWW-Authenticate": 'Basic realm="GitHub"'})
            if not token.allows("contents", "write"):
                return Answer(403, b"Write access to repository not granted.")
            with self.server.github.world.lock:
                return self._pushed(token, path, query)
        return self._run_git(path, query)

    def _pushed(self, token: Token, path: str, query: str) -> Answer:
        """Take a push, and log it in the repository's activity."""
        world = self.server.github.world
        branches = {f"refs/heads/{name}" for name in (world.default_branch, "ledger")}
        before = {ref: world.git.find_commit(ref) for ref in branches}
        answer = self._run_git(path, query)
        for ref in branches:
            world.note_push(ref, before[ref], token.user)
        return answer

    def _run_git(self, path: str, query: str) -> Answer:
        repository, headers = self.server.github.world.git.path, self.headers
        how = headers.get("Content-Encoding", ""), headers.get("Git-Protocol", "")
        answer = git_http.answer(repository, self.command, path, query, self.content, *how)
        self.server.github.git_bytes += len(answer.body)
        return answer

    # The wire

    def _send(self, answer: Answer, *, keep: float = 1, is_cut_off: bool = False) -> None:
        """Send an answer; with `keep` below 1, only the first part of its body; if cut off, after the whole length."""
        raw = answer.body if isinstance(answer.body, bytes) else b""
        if answer.body is not None and not isinstance(answer.body, bytes):
            raw = json.dumps(answer.body).encode()
        kept = raw[: int(len(raw) * keep)]
        promised = len(raw if is_cut_off else kept)
        self.close_connection |= is_cut_off
        headers = {"Content-Type": JSON} | answer.headers
        with contextlib.suppress(ConnectionError):
            self.send_response(answer.status)
            for name, value in headers.items():
                self.send_header(name, value)
            if answer.status not in (204, 304):
                self.send_header("Content-Length", str(promised))
            self.end_headers()
            if answer.status not in (204, 304):
                self.wfile.write(kept)

    def _fail(self, failure: Failure, answer: Answer | None = None) -> None:
        wait = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
        match failure.way:
            case Way.STATUS:
                self._send(Answer(failure.status, {"message": "Server Error"}, wait))
            case Way.PRIMARY_LIMIT:
                reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Limit": "1000"}
                reset["X-RateLimit-Reset"] = str(int(time.time() + failure.seconds))
                self._send(Answer(403, {"message": "API rate limit exceeded for installation ID 1."}, reset))
            case Way.SECONDARY_LIMIT:
                message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
                self._send(Answer(403, {"message": message}, wait))
            case Way.HTML:
                self._send(Answer(200, HTML, {"Content-Type": "text/html"}))
            case Way.TRUNCATED:
                self._send(answer or HALF, keep=0.5)
            case Way.CUT_OFF:
                self._send(answer or HALF, keep=0.5, is_cut_off=True)
            case Way.NONSENSE:
                self._send(Answer(200, [["surprise"], {"id": "7", "head": 3}]))
            case Way.SILENCE:
                time.sleep(failure.seconds)
                self._hang_up()
            case Way.RESET:
                self._hang_up()

    def _hang_up(self) -> None:
        """End the connection as a crash does: with a reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        # The base class would flush and shut down a socket that is already closed.
        self.wfile = open(os.devnull, "wb")


def _of_app(value: str, world: World) -> Token | None:
    """The App that authenticates with its key, as `Bearer …`."""
    with contextlib.suppress(jwt.InvalidTokenError, KeyError):
        app = world.apps[jwt.decode(value, options={"verify_signature": False})["iss"]]
        jwt.decode(value, app.public_key, algorithms=["RS256"])
        return Token(value, User(0, app.client_id, "Bot"), {"app": "read"}, Budget(5000), Budget(5000))
    return None


def _limits(token: Token, reset_at: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(token.budget.limit),
        "X-RateLimit-Remaining": str(token.budget.remaining),
        "X-RateLimit-Used": str(token.budget.used),
        "X-RateLimit-Reset": str(int(reset_at)),
        "X-RateLimit-Resource": "core",
    }
