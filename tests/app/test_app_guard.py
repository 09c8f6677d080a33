"""Nobody but the page itself speaks with the workbench."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from windows import House, Window

from newkinds.app.guard import LARGEST_BODY
from newkinds.app.serving import Serving

ADDRESSES = ("/", "/api/state", "/api/kind?kind=new:0", "/api/suggest", "/static/main.js", "/thumb/x/0", "/picture/x/0")
MOVE = {"action": {"do": "move", "rows": [0], "to": "none"}}


@pytest.fixture
def serving(locked: House) -> Serving:
    return locked.serving


@pytest.fixture
def refused(locked: House) -> list[str]:
    return locked.refused


@pytest.fixture
def run(locked: House) -> Path:
    return locked.run


@pytest.fixture
def window(inside: Window) -> Window:
    return inside


def journal(run: Path) -> bytes:
    file = run / "journal.jsonl"
    return file.read_bytes() if file.exists() else b""


def test_the_token_works_once_and_gives_a_cookie_that_scripts_and_other_sites_do_not_get(serving: Serving) -> None:
    answer = httpx.get(serving.url)
    assert answer.status_code == 200
    (cookie,) = answer.headers.get_list("set-cookie")
    assert cookie.startswith(f"newkinds-{serving.port}=")
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert httpx.get(serving.url).status_code == 403
    session = answer.cookies[f"newkinds-{serving.port}"]
    again = httpx.get(serving.url, cookies={f"newkinds-{serving.port}": session})
    assert again.status_code == 200  # a reload of the first address
    assert "set-cookie" not in again.headers


@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_a_wrong_token_is_refused_and_logged(serving: Serving, refused: list[str], token: str) -> None:
    answer = httpx.get(f"http://127.0.0.1:{serving.port}/", params={"token": token})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert refused
    assert httpx.get(serving.url).status_code == 200  # the right one still works


@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_is_told_without_a_session(serving: Serving, refused: list[str], address: str) -> None:
    where = f"http://127.0.0.1:{serving.port}{address}"
    assert httpx.get(where).status_code == 403
    cookies = {f"newkinds-{serving.port}": "x" * 43, "newkinds": serving.keys.token}
    assert httpx.get(where, cookies=cookies).status_code == 403
    assert len(refused) == 2
    assert all("session" in line for line in refused)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{}", "[::1]:{}"])
def test_a_name_that_was_made_to_point_here_is_refused(
    window: Window, refused: list[str], run: Path, host: str
) -> None:
    headers = {"Host": host.format(window.serving.port)}
    assert window.http.get("/api/state", headers=headers).status_code == 403
    assert window.post("/api/say", MOVE, **headers).status_code == 403
    assert all(line.startswith("Refused: Host") for line in refused)
    assert journal(run) == b""


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{}", "http://127.0.0.1:1", ""])
def test_another_site_can_say_nothing(window: Window, refused: list[str], run: Path, origin: str) -> None:
    headers = {"Origin": origin.format(window.serving.port)}
    for path in ("/api/say", "/api/undo", "/api/redo", "/api/refuse"):
        assert window.post(path, MOVE, **headers).status_code == 403
    assert len(refused) == 4
    assert journal(run) == b""
    assert window.http.get("/api/state", headers=headers).status_code == 403


def test_a_request_that_says_no_origin_changes_nothing(window: Window, run: Path) -> None:
    assert window.http.post("/api/say", json=MOVE).status_code == 403
    assert journal(run) == b""


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_can_embed_nothing(window: Window, site: str) -> None:
    for path in ("/api/state", f"/thumb/{window.serving.bench.mark}/0", "/static/main.js"):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert window.http.get(path, headers=headers).status_code == 403
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert window.http.get("/", headers=headers).status_code == 200  # a link to it is no harm: its cookie stays away


def test_a_form_of_another_site_is_no_json(window: Window, run: Path) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        headers = {"Origin": window.origin, "Content-Type": kind}
        assert window.http.post("/api/say", content=b'{"action":{}}', headers=headers).status_code == 415
    assert journal(run) == b""


def test_a_body_that_is_too_large_is_refused_before_it_is_read(window: Window, refused: list[str]) -> None:
    request = (
        f"POST /api/say HTTP/1.1\r\nHost: 127.0.0.1:{window.serving.port}\r\nOrigin: {window.origin}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {LARGEST_BODY + 1}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", window.serving.port), timeout=10) as line:
        line.sendall(request.encode())
        assert line.recv(100).startswith(b"HTTP/1.1 413")
    assert "body" in refused[-1]


def test_a_body_that_does_not_say_how_large_it_is_is_counted(
    window: Window, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newkinds.app.guard.LARGEST_BODY", 1000)
    headers = {"Origin": window.origin, "Content-Type": "application/json"}
    parts = (b"x" * 400 for _ in range(5))
    assert window.http.post("/api/say", content=parts, headers=headers).status_code == 413
    assert journal(run) == b""


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(window: Window, method: str) -> None:
    answer = window.http.request(method, "/api/say", headers={"Origin": window.origin})
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/../../../../etc/passwd",
        "/thumb/{mark}/../../run.json",
        "/thumb/{mark}/-1",
        "/thumb/{mark}/240",
        "/thumb/{mark}/99999999999999999999999",
        "/thumb/other/0",
        "/picture/{mark}/0%00.png",
        "/thumb/{mark}/etc%2fpasswd",
    ],
)
def test_there_is_no_way_to_other_files(window: Window, path: str) -> None:
    with socket.create_connection(("127.0.0.1", window.serving.port), timeout=10) as line:
        cookie = "; ".join(f"{name}={value}" for name, value in window.http.cookies.items())
        where = path.format(mark=window.serving.bench.mark)
        host = f"127.0.0.1:{window.serving.port}"
        ask = f"GET {where} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        line.sendall(ask.encode())
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert answer.split(b" ")[1] == b"404", answer[:300]
    assert b"root:" not in answer


def test_every_answer_forbids_what_the_page_does_not_need(window: Window) -> None:
    for path in ("/", "/api/state", "/static/main.js", f"/thumb/{window.serving.bench.mark}/0", "/nowhere"):
        headers = window.http.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


def test_it_listens_on_this_machine_only(serving: Serving) -> None:
    name: Any = serving._socket.getsockname()
    assert name[0] == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for other in others:
        with socket.socket() as line:
            line.settimeout(1)
            assert line.connect_ex((other, serving.port)) != 0


def test_what_is_refused_is_logged_as_one_printable_line(window: Window, refused: list[str]) -> None:
    window.http.get("/api/state", headers={"Host": "evil\x1b[31m"})
    assert refused
    assert all(line.isprintable() for line in refused)
