"""The HTTP client outside GitHub's API, with servers that are slow or endless, hang up, or redirect."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from scripts.common.http_request import BadRedirect, NotSent, RequestFailed, RequestLimits, _redirected, download, send
from tests.test_boards import hostile, serving

LIMITS = RequestLimits(max_bytes=1000, timeout_s=5)
SECRET = "a-secret-in-the-address"


def redirecting(status: int, location: str) -> type[Any]:
    return hostile(b"", status, (("Location", location),))


@contextmanager
def speaking(words: bytes, *, is_heard: bool = True) -> Iterator[str]:
    """The address of a server that sends these bytes after a request, or at once, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            with listener.accept()[0] as connection:
                if is_heard:
                    connection.recv(1 << 16)
                connection.sendall(words)

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("status", [200, 204, 302, 401, 404, 429, 500, 503, 530])
def test_an_answer_with_any_status_is_returned(status: int) -> None:
    with serving(redirecting(status, "http://127.0.0.1:9/")) as url:
        answer = send("GET", url, LIMITS)
    assert answer.status == status and answer.is_ok == (status < 300)
    assert answer.headers["Location"] == "http://127.0.0.1:9/"


def test_an_answer_may_be_as_large_as_the_limit_and_no_larger() -> None:
    with serving(hostile(b"x" * 1000)) as url:
        assert send("GET", url, LIMITS).content == b"x" * 1000
    with serving(hostile(b"x" * 1001)) as url, pytest.raises(RequestFailed, match="larger than 1,000 bytes"):
        send("GET", url, LIMITS)


def test_an_endless_answer_to_a_redirect_is_not_read_to_its_end() -> None:
    with (
        serving(hostile(b"x" * 10_000_000, 302, (("Location", "/"),))) as url,
        pytest.raises(RequestFailed, match="larger"),
    ):
        download(url, LIMITS)


@pytest.mark.parametrize(
    "words",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\nabc",
        b"HTTP/1.1 OK\r\n\r\n",
        b"Hello /a-secret-in-the-address\r\n\r\n",
        b"",
    ],
)
def test_a_broken_answer_fails_without_showing_it_or_the_address(words: bytes) -> None:
    with speaking(words) as host, pytest.raises(RequestFailed) as caught:
        send("GET", f"http://{host}/{SECRET}", LIMITS)
    assert not isinstance(caught.value, NotSent)
    assert SECRET not in str(caught.value) and "abc" not in str(caught.value)


def test_a_cut_off_refusal_still_counts_as_a_refusal() -> None:
    with speaking(b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 99\r\n\r\n{") as host:
        answer = send("POST", f"http://{host}/", LIMITS, body=b"{}")
    assert (answer.status, answer.headers["Retry-After"], answer.content) == (429, "3", b"")


def test_a_slow_trickle_of_bytes_does_not_outlast_the_time_limit() -> None:
    class Slow(hostile(b"")):  # type: ignore[misc]
        def do_GET(self) -> None:
            super().do_GET()
            for _ in range(30):
                time.sleep(0.1)
                self.wfile.write(b"x")

        def handle(self) -> None:
            with suppress(OSError):  # The client hangs up.
                super().handle()

    began = time.monotonic()
    with serving(Slow) as url, pytest.raises(RequestFailed, match="took over 0 s"):
        send("GET", url, RequestLimits(max_bytes=1000, timeout_s=5, longest_s=0.2))
    assert time.monotonic() - began < 2.5


def test_a_request_to_a_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(RequestFailed, match="timed out") as caught:
        send("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/", RequestLimits(max_bytes=9, timeout_s=0.2))
    assert not isinstance(caught.value, NotSent)


# A caller that posts must know whether the request was sent.


def test_a_failed_connection_counts_as_not_sent() -> None:
    with pytest.raises(NotSent, match="refused"):
        send("POST", "http://127.0.0.1:9/", LIMITS, body=b"{}")


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x28"])
def test_an_unfinished_tls_handshake_counts_as_not_sent(words: bytes) -> None:
    with speaking(words) as host, pytest.raises(NotSent):
        send("POST", f"https://{host}/", LIMITS, body=b"{}")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "127.0.0.1/x", "", "http://", "https://[x", "http://127.0.0.1:9/a b"],
)  # fmt: skip
def test_an_invalid_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(RequestFailed) as caught:
        send("GET", f"{url}{SECRET}", LIMITS)
    assert SECRET not in str(caught.value)


# Redirects.


class Shop(hostile(b"")):  # type: ignore[misc]
    """`/0` redirects to `/1`, and so on, without end; `/here` answers with the method."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.send_response(302 if name.isdecimal() else 200)
        if name.isdecimal():
            self.send_header("Location", f"../cup/{int(name) + 1}" if name != "5" else "here")
        self.end_headers()
        self.wfile.write(self.command.encode() if self.command != "HEAD" else b"")

    do_HEAD = do_GET


def test_redirects_are_followed_up_to_a_limit() -> None:
    with serving(Shop) as url:
        assert download(f"{url}/0", LIMITS).content == b"GET"
        assert download(f"{url}/0", LIMITS, method="HEAD", same_host=True).content == b""
        assert download(f"{url}/6", LIMITS).status == 302
        assert send("GET", f"{url}/0", LIMITS).status == 302


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/", "file:///etc/passwd", "https://[x", "gopher:x"])
def test_a_redirect_to_another_scheme_or_an_invalid_address_is_refused(location: str) -> None:
    with serving(redirecting(302, location)) as url, pytest.raises(BadRedirect):
        download(url, LIMITS)


def test_no_redirect_leads_from_https_to_http() -> None:
    assert _redirected("https://acme.org/a/b", "../c d\xe9", same_host=True) == "https://acme.org/c%20d%E9"
    assert _redirected("http://acme.org/", "https://acme.org/", same_host=True) == "https://acme.org/"
    with pytest.raises(BadRedirect, match="away from https"):
        _redirected("https://acme.org/", "http://acme.org/", same_host=False)


def test_a_redirect_to_another_host_is_followed_only_if_allowed() -> None:
    with serving(Shop) as there, serving(redirecting(307, f"{there}/here")) as url:
        assert download(url, LIMITS).content == b"GET"
        with pytest.raises(BadRedirect, match="redirects to another host, 127"):
            download(url, LIMITS, same_host=True)


# Proxies.


def test_the_environments_proxy_is_used_except_for_no_proxy_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Shop) as url, speaking(b"HTTP/1.1 200 OK\r\n\r\nby the proxy") as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert download(f"{url}/here", LIMITS).content == b"GET"
        monkeypatch.setenv("no_proxy", "")
        assert download(f"{url}/here", LIMITS).content == b"by the proxy"


def test_a_request_counts_as_not_sent_if_the_proxy_refuses_the_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    with speaking(b"HTTP/1.1 407 Who are you\r\n\r\n") as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy}")
        with pytest.raises(NotSent, match="407"):
            send("POST", f"https://discord.example/{SECRET}", LIMITS, body=b"{}")
