"""A Ray cluster of two nodes on loopback, with a token, for tests; they are skipped without Ray."""

import os
import secrets
import warnings

import pytest

# Before Ray is imported: nodes on loopback, not on the address of this machine.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
# Actors would wait for all else that runs on this machine.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112

NEEDS_RAY = "Ray is not installed: make ray"


@pytest.fixture(scope="module")
def cluster():
    """A head, to which the driver connects, and a second node; both have a CPU for one actor.

    The head says that it has two GPUs. Its object store is small.
    """
    pytest.importorskip("ray", reason=NEEDS_RAY)
    from ray.cluster_utils import Cluster

    room = {"num_cpus": 1, "object_store_memory": 80 * 10**6}
    head = {**room, "num_gpus": 2, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Ray for Python 3.9 leaves files open
        started = Cluster(initialize_head=True, head_node_args=head)
        started.add_node(num_cpus=1)
    yield started
    started.shutdown()


@pytest.fixture(scope="module")
def context(cluster):
    """A context of the cluster with all actors that fit: two."""
    from tff_partial.runtime import RayOptions
    from tff_partial.runtime.ray.context import RayContext

    context = RayContext(RayOptions(address=cluster.address))
    yield context
    context.close()
