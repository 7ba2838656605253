"""Processes as TFF's programs take them; runtime/in_process/test_asynchronous.py runs one."""

import pytest

from tests import tiny
from tff_partial.algorithms import embracing
from tff_partial.core.local_training import LocalTraining
from tff_partial.processes.programs import for_programs

LOCAL = LocalTraining(steps=1, batch_size=4)


def test_only_the_place_of_metrics_changes():
    process = embracing.build(tiny.spec(), embracing.Params(LOCAL, tiers=("strong", "1")))
    state, data = process.initialize(), tiny.cohort(tiny.client_data(), tiers=2)
    plain, wrapped = (each.next(state, data) for each in (process, for_programs(process)))
    assert wrapped.metrics["client_work"] == {"train": plain.metrics["client_work"]}
    assert wrapped.metrics.keys() == plain.metrics.keys()
    for a, b in zip(tiny.flat(plain.state), tiny.flat(wrapped.state)):
        assert a.tobytes() == b.tobytes()


def test_client_states_are_refused():
    process = tiny.build("scaffold", LOCAL)
    with pytest.raises(ValueError, match="Received: a StatefulProcess"):
        for_programs(process)
