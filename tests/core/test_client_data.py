"""Clients' records."""

import numpy as np
import pytest

from tests import tiny
from tff_partial.core import client_data


@pytest.mark.parametrize(("examples", "labels"), [(60, 50), (50, 60), (0, 1)])
def test_a_record_must_have_a_label_for_each_example(examples, labels):
    x, y = np.zeros((examples, 4), np.float32), np.zeros(labels, np.int32)
    with pytest.raises(ValueError, match=f"{examples} examples and {labels} labels$"):
        client_data.create_record(x, y)


def test_a_record_may_be_empty():
    record = client_data.create_record(np.zeros((0, 4), np.float32), []).get_single_element()
    assert (record["x"].shape, record["y"].shape) == ((0, 4), (0,))


def test_a_client_draws_other_batches_in_another_round():
    record = tiny.cohort(tiny.client_data())[0].get_single_element()
    first, second, again = (
        client_data.in_round(record, r)["seed"].numpy().tolist() for r in (0, 1, 0)
    )
    assert first == again != second
