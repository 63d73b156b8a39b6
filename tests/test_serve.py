"""The static server of `pullrank site serve`."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.records.errors import PullRankError
from scripts.cli import run
from scripts.pages.publishing.serve import site_server, url_of


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "index.html").write_text("<h1>boards</h1>")
    (tmp_path / "404.html").write_text("<h1>no such page</h1>")
    (tmp_path / "folder").mkdir()
    with site_server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield url_of(server)
        server.shutdown()


def test_the_server_listens_on_loopback_on_a_free_port(url: str) -> None:
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url) as answer:
        assert b"boards" in answer.read()


@pytest.mark.parametrize("path", ["nowhere", "a/b/c/", "folder/", "../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd"])
def test_a_missing_path_gets_the_sites_own_404_page(url: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(url + path)
    with error.value as answer:
        assert answer.code == 404
        assert b"no such page" in answer.read()


def test_the_server_prints_nothing(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    with urllib.request.urlopen(url) as answer:
        answer.read()
    assert capfd.readouterr() == ("", "")


def test_a_folder_without_a_site_is_refused_with_a_build_hint(tmp_path: Path) -> None:
    with pytest.raises(PullRankError, match="pullrank site build"):
        site_server(tmp_path)


def test_the_server_names_a_port_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("")
    with site_server(tmp_path) as first, pytest.raises(PullRankError, match=r"port \d+ .*--port 0"):
        site_server(tmp_path, first.server_address[1])


def test_a_demo_without_its_port_judges_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["demo", "--port", str(port)]) == 2
    said = capsys.readouterr()
    assert f"port {port} of 127.0.0.1: Address already in use; --port 0 picks a free one" in said.err and not said.out
    for command in ("demo", "site serve"):
        assert run([*command.split(), "--port", "70000"]) == 2
        assert "70000 is not in the range" in capsys.readouterr().err
