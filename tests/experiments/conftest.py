"""A process that is built once."""

import pytest

from tests import tiny
from tests.experiments.rounds import LOCAL


@pytest.fixture(scope="session")
def process():
    return tiny.build("scaffold", LOCAL, population=5)
