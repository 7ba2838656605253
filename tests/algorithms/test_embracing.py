"""EmbracingFL."""

import dataclasses

import numpy as np

from tests import tiny
from tests.algorithms import layer_rounds
from tests.algorithms.layer_rounds import LOCAL, build, run


class TestRounds(layer_rounds.Rounds):
    name = "embracing"
    moved = (*[False] * 4, *[True] * 4)


def test_a_record_on_disk_trains_the_same_model(tmp_path):
    data, tiers = tiny.client_data(), (0, 1, 2)
    in_memory = run(build("embracing"), data, tiers, rounds=2)
    on_disk = run(build("embracing", record_dir=str(tmp_path)), data, tiers, rounds=2)
    for a, b in zip(in_memory, on_disk):
        np.testing.assert_array_equal(a, b)
    local = dataclasses.replace(LOCAL, record_precision="bfloat16")
    short = run(build("embracing", local), data, tiers, rounds=2)
    short_on_disk = build("embracing", local, record_dir=str(tmp_path))
    for a, b, exact in zip(short, run(short_on_disk, data, tiers, rounds=2), in_memory):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, exact, atol=0.02)
    assert any(not np.array_equal(a, exact) for a, exact in zip(short, in_memory))
    clients = {name.name.split("-")[0] for name in tmp_path.iterdir()}
    assert clients == {"1", "2"}
