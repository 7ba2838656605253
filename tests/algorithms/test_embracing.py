"""EmbracingFL."""

import numpy as np

from tests import tiny
from tests.algorithms import layer_rounds
from tests.algorithms.layer_rounds import build, run


class TestRounds(layer_rounds.Rounds):
    name = "embracing"
    moved = (*[False] * 4, *[True] * 4)


def test_a_record_on_disk_trains_the_same_model(tmp_path):
    data, tiers = tiny.client_data(), (0, 1, 2)
    in_memory = run(build("embracing"), data, tiers, rounds=2)
    on_disk = run(build("embracing", record_dir=str(tmp_path)), data, tiers, rounds=2)
    for a, b in zip(in_memory, on_disk):
        np.testing.assert_array_equal(a, b)
    clients = {name.name.split("-")[0] for name in tmp_path.iterdir()}
    assert clients == {"1", "2"}
