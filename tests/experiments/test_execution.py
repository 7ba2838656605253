"""Where and how a run is executed."""

import pytest
import tensorflow_federated as tff

from tff_partial import runtime
from tff_partial.experiments import client_store
from tff_partial.experiments.execution import Execution


def test_workers_are_addresses():
    assert Execution().addresses == []
    one, two = (Execution("remote", workers) for workers in ("a:1", "a:1,b:2"))
    assert (one.addresses, one.several_workers) == (["a:1"], False)
    assert (two.addresses, two.several_workers) == (["a:1", "b:2"], True)


@pytest.mark.parametrize(
    ("where", "given", "cache"),
    [("memory", None, None), ("disk", None, client_store.CACHE), ("disk", 3, 3)],
)
def test_client_states_in_memory_have_no_limit(where, given, cache):
    assert Execution(client_state=where, client_state_cache=given).cache == cache


@pytest.mark.parametrize(
    "wrong",
    [
        {"runtime": "gpu"},
        {"runtime": "remote"},
        {"workers": "a:1"},
        {"runtime": "local_cpp", "client_parallelism": 2},
        {"client_state": "tape"},
        {"client_state_cache": 3},
    ],
)
def test_what_does_not_fit_is_refused_at_once(wrong):
    with pytest.raises(ValueError, match="Received: "):
        Execution(**wrong)
    with pytest.raises(ValueError, match="Received: client_state='paper'"):
        Execution(client_state="paper")


def test_config_json_has_lists_and_the_cache_in_use():
    config = Execution("remote", "a:1,b:2").as_config()
    assert (config["workers"], config["checkpoint_every"]) == (["a:1", "b:2"], 10)
    assert config["client_state_cache"] == client_store.CACHE


def test_a_runtime_is_installed_for_a_block_and_closed_after_it(monkeypatch):
    class Context(tff.framework.SyncContext):
        is_closed = False

        def invoke(self, comp, arg):
            raise NotImplementedError

        def close(self):
            self.is_closed = True

    context, stack = Context(), tff.framework.get_context_stack()
    before = stack.current
    monkeypatch.setattr(runtime, "create", lambda *arguments: context)

    def fail():
        with Execution().installed():
            assert stack.current is context
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert stack.current is before
    assert context.is_closed
