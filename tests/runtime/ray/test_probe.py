"""Servers that answer in one way; a cluster with TLS is in test_faults.py."""

import contextlib
import socket
import threading

import pytest

from tff_partial.runtime.ray import probe

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"


@contextlib.contextmanager
def server(answer):
    """Answer the first bytes of each connection; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(100)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(SETTINGS, ""), (TLS_ALERT, "it does not speak as Ray"), (b"", "it does not speak as Ray")],
)
def test_without_tls(answer, problem, monkeypatch):
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    with server(answer) as address:
        assert probe.answers(address)
        assert probe.problem(address).startswith(problem)
        assert bool(probe.problem(address)) == bool(problem)


def test_nobody_there():
    with server(b"") as address:
        pass
    assert not probe.answers(address)
    assert probe.problem(address).startswith("it does not answer: ")


def test_tls_without_certificates(monkeypatch):
    monkeypatch.setenv("RAY_USE_TLS", "1")
    monkeypatch.delenv("RAY_TLS_CA_CERT", raising=False)
    with server(SETTINGS) as address:
        assert probe.problem(address) == "with RAY_USE_TLS the variable RAY_TLS_CA_CERT must be set"
