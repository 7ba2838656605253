import numpy as np

from tff_partial.runtime.ray import sums


def test_results_are_added_up_and_stay_as_they_were():
    rng = np.random.default_rng(0)
    clients = [[rng.normal(size=(2, 3)), np.int64(i), np.float32(np.inf)] for i in range(3)]
    first = clients[0][0].copy()
    total = sums.start(clients[0])
    for client in clients[1:]:
        sums.add(total, client)
    np.testing.assert_allclose(total[0], np.sum([client[0] for client in clients], axis=0))
    assert total[1] == 3
    assert total[2] == np.inf
    np.testing.assert_array_equal(clients[0][0], first)
