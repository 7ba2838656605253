import os
import socket
import sys
import types

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make ray")

import ray

from tff_partial.runtime import RayOptions, WorkersLostError
from tff_partial.runtime.ray import cluster as clusters


@pytest.fixture
def info(monkeypatch):
    """What `ray.init` got; it starts nothing."""
    calls = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def init(**options):
            calls.append({**options, "one_node": os.environ[clusters._ONE_NODE]})
            return types.SimpleNamespace(address_info={"gcs_address": address, "webui_url": ""})

        monkeypatch.setattr(ray, "init", init)
        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        yield calls


def test_a_ray_of_its_own_has_room_for_the_actors_and_is_for_this_machine_only(info):
    started = clusters.Cluster(RayOptions(actors=500, cpus_per_actor=0.5))
    (call,) = info
    assert call["address"] == "local"
    assert call["num_cpus"] == max(250, os.cpu_count())
    assert (call["one_node"], call["include_dashboard"]) == ("0", False)
    assert len(os.environ["RAY_AUTH_TOKEN"]) >= 32
    assert started.is_own
    assert started.kind == "started here, on loopback"
    started.check()  # something accepts connections there


def test_a_head_that_is_gone_is_named(info):
    started = clusters.Cluster(RayOptions())
    started._head = "127.0.0.1:1"
    with pytest.raises(WorkersLostError, match="head of the Ray cluster, 127.0.0.1:1, does not"):
        started.check()


def test_nobody_at_the_address():
    with pytest.raises(
        WorkersLostError, match="no Ray cluster could be joined at 127.0.0.1:1: it does not"
    ):
        clusters.Cluster(RayOptions("127.0.0.1:1"))


def test_a_ray_that_is_in_use_is_not_replaced(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    with pytest.raises(ValueError, match="Received: a Ray in use"):
        clusters.Cluster(RayOptions())


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("W gcs_client.cc: InvalidAuthToken: ...", "asks for a token"),
        ("", "broken"),
    ],
)
def test_what_ray_writes_becomes_one_line(written, reason):
    assert reason in clusters._reason(RuntimeError("broken\nat\nline 5"), written)


def test_what_ray_libraries_write_is_kept_from_the_terminal(capfd):
    with clusters._quiet() as written:
        os.write(2, b"from C++\n")
        assert written() == "from C++\n"
    print("after", file=sys.stderr)
    assert capfd.readouterr().err == "after\n"
