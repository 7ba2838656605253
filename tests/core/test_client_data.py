"""Clients' records."""

import numpy as np
import pytest

from tff_partial.core import client_data


@pytest.mark.parametrize(("examples", "labels"), [(60, 50), (50, 60), (0, 1)])
def test_a_record_must_have_a_label_for_each_example(examples, labels):
    x, y = np.zeros((examples, 4), np.float32), np.zeros(labels, np.int32)
    with pytest.raises(ValueError, match=f"{examples} examples and {labels} labels$"):
        client_data.create_record(x, y)


def test_a_record_may_be_empty():
    record = client_data.create_record(np.zeros((0, 4), np.float32), []).get_single_element()
    assert (record["x"].shape, record["y"].shape) == ((0, 4), (0,))
