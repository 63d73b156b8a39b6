"""Run git in one folder, with our configuration only.

The token is passed in the environment of the git process, as a header for one host.  It never appears in an argument,
a file, a URL or a message.  Configuration of the user or the runner (hooks, filters, helpers, signing) is ignored, and
symbolic links in the branch are checked out as plain files.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.records.errors import PullRankError
from scripts.common.text import plain, shorten

TIMEOUT_S = 120.0
MOST_MEMORY = 1 << 30
"""Of each process of a limited git, in bytes.  A few small objects can name millions of files."""
MOST_WRITTEN = 256 << 20
"""The size of each file that a limited git writes, such as a pack, in bytes."""
MOST_OUTPUT = 32 << 20

_OF_WINDOWS = ("SYSTEMROOT", "TEMP", "TMP")
_PASSED_ON = ("PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", *_OF_WINDOWS)
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
_BOT = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")
BOT = "{} <{}>".format(*_BOT)
"""The committer, as git writes it."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

_CONFIG = {
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.symlinks": "false",
    "core.fsync": "none",  # all our folders are temporary; lasting data is pushed
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "credential.helper": "",
    "fastimport.unpackLimit": "1",  # no process to unpack what is pushed at once: 10 of the 40 ms of both
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "30",
    "submodule.recurse": "false",
}


class GitError(PullRankError):
    """git failed.  `said` is its whole output and `code` its exit code, for callers that distinguish failures."""

    def __init__(self, message: str, said: str = "", code: int | None = None) -> None:
        super().__init__(message)
        self.said, self.code = said, code


def blob_sha(content: bytes) -> str:
    """The hash of a file's content as a git blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Git:
    """git in `folder`, where `origin` is `url`; `token` is sent only to the host of `url`.

    `limited`: it reads commits of strangers, and fails if one takes too much memory or has too much output.
    """

    def __init__(self, folder: Path, url: str, token: str | None = None, *, limited: bool = False) -> None:
        self.folder = folder
        self._is_limited = limited
        self._secrets: list[str] = []
        self._environment = _environment(folder, self._config(url, token))

    def run(self, *arguments: str, stdin: bytes = b"", index: Path | None = None, offline: bool = False) -> bytes:
        """Run a command and return its output; `index` replaces the folder's own index.

        `offline`: treat objects that were never fetched as missing.  Otherwise git fetches them on access, of any size.

        Raises:
            GitError: the command failed or timed out.
        """
        environment = self._environment | ({"GIT_INDEX_FILE": str(index)} if index else {})
        environment |= {"GIT_ALLOW_PROTOCOL": "none"} if offline else {}
        run = _run_limited if self._is_limited else _run
        try:
            done = run(arguments, cwd=self.folder, env=environment, input=stdin, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise GitError(f"git {arguments[0]} took longer than {TIMEOUT_S:.0f} s") from None
        except FileNotFoundError:
            raise GitError("git is not installed; install it") from None
        if done.returncode:
            raise self._error(arguments[0], done)
        return done.stdout

    def read_blobs(self, shas: Iterable[str]) -> dict[str, bytes]:
        """The contents of blobs that are here, by their hashes; one process reads them all.

        Raises:
            GitError: one is damaged or was never fetched.
        """
        said = self.run("cat-file", "--batch", stdin="\n".join(shas).encode(), offline=True)
        found, start = {}, 0
        while start < len(said):
            # `<hash> blob <size>`, content, newline; or `<hash> missing`
            end = said.index(b"\n", start)
            sha, _, *size = said[start:end].decode().split()
            start = end + 1
            if size:
                found[sha] = said[start : start + int(size[0])]
                start += int(size[0]) + 1
        return found

    def _config(self, url: str, token: str | None) -> Mapping[str, str]:
        config = {**_CONFIG, "remote.origin.url": url} if url else _CONFIG
        if not token:
            return config
        address = urlsplit(url)
        if address.scheme != "https" and address.hostname not in _LOOPBACK:
            raise GitError(f"the token is sent over https only, not to {address.scheme}://{address.hostname}")
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        self._secrets = [token, basic]
        header = f"http.{address.scheme}://{address.netloc}/.extraheader"
        return {**config, header: f"Authorization: Basic {basic}"}

    def _error(self, command: str, done: subprocess.CompletedProcess[bytes]) -> GitError:
        said = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
        for secret in self._secrets:
            said = said.replace(secret, "***")
        lines = [line for line in plain(_without_progress(said)).splitlines() if line.strip()]
        short = shorten(" ".join(lines[-4:]), 400, keep_end=True)
        return GitError(f"git {command} failed: {short}", said, done.returncode)


def _run(arguments: Sequence[str], **how: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], capture_output=True, check=False, **how)


def _run_limited(arguments: Sequence[str], **how: Any) -> subprocess.CompletedProcess[bytes]:
    limits = f"ulimit -d {MOST_MEMORY >> 10}; ulimit -f {MOST_WRITTEN >> 9}"  # in KiB, and in blocks of 512 bytes
    command = ["sh", "-c", f'{limits}; exec git "$@"', "git", *arguments]
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, check=False, **how)
        output.seek(0)
        done.stdout = output.read(MOST_OUTPUT + 1)
    if len(done.stdout) > MOST_OUTPUT:
        raise GitError(f"git {arguments[0]} has more than {MOST_OUTPUT >> 20} MiB of output")
    return done


def _without_progress(said: str) -> str:
    """The output without progress lines, which git overwrites with carriage returns."""
    return "\n".join(line.rpartition("\r")[2] for line in said.split("\n"))


def _environment(home: Path, config: Mapping[str, str]) -> dict[str, str]:
    passed_on = {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.lower() in _PROXIES}
    name, mail = _BOT
    pairs: dict[str, str] = {}
    for number, (key, value) in enumerate(config.items()):
        pairs |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        **passed_on,
        "HOME": str(home),  # no .netrc, no .gitconfig
        "LC_ALL": "C",  # we parse git's messages
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
        "GIT_CONFIG_COUNT": str(len(config)),
        **pairs,
    }
