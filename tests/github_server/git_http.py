"""Git's smart HTTP: `git upload-pack` and `git receive-pack` as `git http-backend` serves them, without its processes.

GET  /info/refs?service=git-upload-pack      the server's capabilities, and for a push its refs
POST /git-upload-pack, /git-receive-pack     the exchange itself, one process for each
"""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path
from urllib.parse import parse_qs

from tests.github_server.git import IDENTITY
from tests.github_server.routes import Answer

SERVICES = ("git-upload-pack", "git-receive-pack")
NO_CACHE = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}

_capabilities: dict[bytes, bytes] = {}
"""The answers of the protocol's version 2, which depend only on a repository's settings."""


def answer(
    repository: Path, method: str, path: str, query: str, content: bytes, encoding: str, protocol: str
) -> Answer:
    """Answer a request for a repository; `protocol` is its header `Git-Protocol`."""
    if method == "GET" and path.endswith("/info/refs"):
        (service,) = parse_qs(query).get("service", [""])
        if service in SERVICES:
            return Answer(200, _advertised(repository, service, protocol), _headers(service, "advertisement"))
    service = path.rpartition("/")[2]
    if method == "POST" and service in SERVICES:
        asked = gzip.decompress(content) if encoding in ("gzip", "x-gzip") else content
        return Answer(200, _served(repository, service, protocol, content=asked), _headers(service, "result"))
    return Answer(404, b"Not Found")


def _headers(service: str, what: str) -> dict[str, str]:
    return {"Content-Type": f"application/x-{service}-{what}", **NO_CACHE}


def _advertised(repository: Path, service: str, protocol: str) -> bytes:
    if service == "git-upload-pack" and protocol == "version=2":
        config = (repository / "config").read_bytes()
        if config not in _capabilities:
            _capabilities[config] = _served(repository, service, protocol, "--http-backend-info-refs")
        return _capabilities[config]
    said = _served(repository, service, protocol, "--http-backend-info-refs")
    banner = f"# service={service}\n"
    # Version 2 of the protocol leaves it out.
    return said if said.startswith(b"000eversion 2") else f"{len(banner) + 4:04x}{banner}0000".encode() + said


def _served(repository: Path, service: str, protocol: str, *options: str, content: bytes = b"") -> bytes:
    # It also exits with an error after it has told the client that a commit does not exist.
    done = subprocess.run(
        ["git", service.removeprefix("git-"), "--stateless-rpc", *options, str(repository)],
        env={"PATH": os.environ["PATH"], "GIT_PROTOCOL": protocol, **IDENTITY},
        input=content,
        capture_output=True,
        check=False,
    )
    if done.returncode and not done.stdout:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return done.stdout
