"""Who takes part in a round."""

import numpy as np
import pytest

from tests import tiny
from tests.experiments.rounds import Data, evaluate
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import loop, participation


def test_cohorts_of_fedumf_have_few_sizes(tmp_path):
    """Runtimes keep an executor for each."""
    process = tiny.build("fedumf", LocalTraining(steps=1, batch_size=2), population=5)
    sizes, original = set(), process.next

    def next_fn(state, clients, records):
        sizes.add(len(records))
        return original(state, clients, records)

    process.next = next_fn
    options = loop.LoopOptions(rounds=12, clients_per_round=2)
    loop.train(process, Data(5), evaluate, options, str(tmp_path))
    assert sizes <= {2, 4}


def test_clients_are_drawn_by_seed_and_round_without_repetition():
    drawn = participation.sample_clients(100, 50, round_num=3, seed=1).tolist()
    assert len({*drawn}) == 50
    assert drawn == participation.sample_clients(100, 50, 3, 1).tolist()
    assert drawn != participation.sample_clients(100, 50, 4, 1).tolist()
    assert drawn != participation.sample_clients(100, 50, 3, 2).tolist()


def test_poisson_sampling_draws_each_client_by_itself():
    ids = np.array([3, 5, 8, 9])
    drawn = [participation.poisson_sample(ids, 1, round_num, seed=4) for round_num in range(4000)]
    counts = np.array([[i in each for i in ids] for each in drawn])
    # Of 4,000 draws with probability 1/4; their standard deviation is 27.
    assert np.abs(counts.sum(axis=0) - 1000).max() < 4 * 27
    assert {len(each) for each in drawn} == {0, 1, 2, 3, 4}
    assert np.abs(np.corrcoef(counts.T)[0, 1:]).max() < 0.06
    again = participation.poisson_sample(ids, 1, 17, seed=4)
    np.testing.assert_array_equal(again, drawn[17])


def test_only_participants_are_drawn():
    process = tiny.build("fedavg", LocalTraining(steps=1, batch_size=2))
    options = loop.LoopOptions(rounds=1, clients_per_round=2, participants=np.array([1, 4]))
    drawing = participation.Participation(process, Data(5), options)
    assert [sorted(drawing.cohort(round_num)) for round_num in range(5)] == [[1, 4]] * 5


def test_active_clients_stay_for_some_rounds():
    local = LocalTraining(steps=1, batch_size=2)
    process = tiny.build("partial_averaging", local, population=9, active=3, rounds_active=2)
    drawing = participation.Participation(process, Data(9), loop.LoopOptions(4, 3))
    cohorts = [drawing.cohort(round_num) for round_num in range(4)]
    assert cohorts[0] == cohorts[1] != cohorts[2] == cohorts[3]


def test_without_clients_the_model_stays():
    process = tiny.build("fedavg", LocalTraining(steps=1, batch_size=2))
    state = process.initialize()
    drawing = participation.Participation(process, Data(5), loop.LoopOptions(1, 2))
    result = drawing.run(state, 0, [])
    before, after = (tiny.flat(process.get_model_weights(s)) for s in (state, result.state))
    assert all(np.array_equal(a, b) for a, b in zip(before, after))
    assert result.kept == {}


def drawing(sampler, algo="fedavg", **options):
    process = tiny.build(algo, LocalTraining(steps=1, batch_size=2))
    options = {"rounds": 1, "clients_per_round": 2, "sampler": sampler, **options}
    return participation.Participation(process, Data(5), loop.LoopOptions(**options))


def test_an_own_sampler_draws_the_clients():
    asked = []

    def available(ids, count, round_num, seed):
        asked.append((ids.tolist(), count, round_num, seed))
        return [ids[round_num], ids[0]][: 1 + round_num]

    mine = drawing(available, seed=7)
    assert [mine.cohort(r) for r in (0, 1)] == [[0], [1, 0]]
    assert asked == [([0, 1, 2, 3, 4], 2, 0, 7), ([0, 1, 2, 3, 4], 2, 1, 7)]
    some = drawing(lambda ids, *_: ids[::-1], participants=np.array([1, 4]))
    assert some.cohort(0) == [4, 1]


@pytest.mark.parametrize(
    ("algo", "drawn"),
    [
        ("fedavg", []),
        ("fedavg", [1, 1]),
        ("fedavg", [5]),
        ("fedavg", [0, 1, 2]),
        ("periodic_averaging", [1]),
    ],
)
def test_what_a_sampler_must_not_draw(algo, drawn):
    with pytest.raises(ValueError, match="sampler must return from .* Received: .* in round"):
        drawing(lambda *_: drawn, algo).cohort(3)
