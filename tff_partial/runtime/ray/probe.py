"""Asks a cluster's head whether it is there and speaks as this process does.

Ray itself tries for minutes where one side has TLS and the other has not.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl

# What a client of gRPC sends first: HTTP/2's preface and empty settings.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_SETTINGS = 4  # the type of the frame that answers it
_SECONDS = 2.0


def answers(address: str) -> bool:
    """Return whether somebody accepts connections there."""
    with contextlib.suppress(OSError), _connect(address):
        return True
    return False


def problem(address: str) -> str:
    """Return in a line why no cluster can be joined at an address; empty if there is nothing."""
    uses_tls = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    try:
        with _connect(address) as connection:
            if not uses_tls:
                return "" if _speaks(connection) else "it does not speak as Ray does without TLS"
            with _secure_context().wrap_socket(connection) as secured:
                return "" if _speaks(secured) else "TLS failed: it refuses this certificate"
    except ssl.SSLError as error:
        return f"TLS failed: {error.reason or error}"
    except KeyError as error:
        return f"with RAY_USE_TLS the variable {error.args[0]} must be set"
    except OSError as error:
        return f"it does not answer: {error}"


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS)


def _secure_context() -> ssl.SSLContext:
    """Return what Ray uses: certificates on both sides, of one authority, whatever their names."""
    context = ssl.create_default_context(cafile=os.environ["RAY_TLS_CA_CERT"])
    context.check_hostname = False
    context.load_cert_chain(os.environ["RAY_TLS_SERVER_CERT"], os.environ["RAY_TLS_SERVER_KEY"])
    context.set_alpn_protocols(["h2"])
    return context


def _speaks(connection: socket.socket) -> bool:
    """Return whether the other side answers as gRPC does."""
    connection.sendall(_PREFACE)
    answer = connection.recv(9)
    return len(answer) > 3 and answer[3] == _SETTINGS
