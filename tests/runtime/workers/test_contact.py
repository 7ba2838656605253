"""Addresses of workers, and whether they answer."""

import socket
import time

import portpicker
import pytest

from tff_partial.runtime.workers import contact, remote


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ([], "at least one host:port"),
        ("host:1", "at least one host:port"),
        (["host"], "Received: 'host'"),
        (["host:abc"], "Received: 'host:abc'"),
        (["host:0"], "Received: 'host:0'"),
        (["host:70000"], "Received: 'host:70000'"),
        ([":80"], "Received: ':80'"),
        ([""], "Received: ''"),
        (["::1:80"], "Received: '::1:80'"),
        (["a:1", "b:1", "a:1"], "Received twice: a:1"),
    ],
)
def test_bad_addresses(addresses, message):
    with pytest.raises(ValueError, match=message) as error:
        remote.create_context(addresses)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("address", ["localhost:1", "10.0.0.7:8000", "[::1]:65535", "a-b.c_d:80"])
def test_addresses_of_all_kinds(address):
    contact.check_addresses([address])


def test_a_port_where_nobody_listens_is_known_at_once():
    begin = time.monotonic()
    assert not contact.is_alive(f"localhost:{portpicker.pick_unused_port()}", timeout=20.0)
    assert time.monotonic() - begin < 15


def test_one_that_listens_and_says_nothing_is_asked_three_times():
    with socket.create_server(("localhost", 0)) as server:
        begin = time.monotonic()
        assert not contact.is_alive(f"localhost:{server.getsockname()[1]}", timeout=0.2)
        assert time.monotonic() - begin > 0.5
