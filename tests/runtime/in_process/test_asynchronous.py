"""TFF's programs train and evaluate in this process."""

import asyncio
import datetime

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tff_partial.algorithms import fedavg
from tff_partial.core.local_training import LocalTraining
from tff_partial.processes.programs import data_source, for_programs
from tff_partial.runtime.in_process.asynchronous import AsyncInProcessContext

ROUNDS = 3


@pytest.fixture(scope="module")
def context():
    asynchronous = AsyncInProcessContext()
    yield tff.program.NativeFederatedContext(asynchronous)
    asynchronous.close()


def test_train_model_and_its_evaluations(context, tmp_path):
    spec, data = tiny.spec(), tiny.client_data()
    local = LocalTraining(steps=3, batch_size=4, learning_rate=0.3)
    process = fedavg.build(spec, fedavg.Params(local))
    trained, models, evaluated = (tff.program.MemoryReleaseManager() for _ in range(3))

    def state_manager(name):
        return tff.program.FileProgramStateManager(str(tmp_path / name))

    def create_evaluation(name):
        evaluation = tff.learning.algorithms.build_fed_eval(spec.to_tff_model)
        return evaluation, None

    tests = [tf.data.Dataset.from_tensor_slices(client).batch(32) for client in data]
    manager = tff.learning.programs.EvaluationManager(
        tff.program.DatasetDataSource(tests),
        aggregated_metrics_manager=evaluated,
        create_state_manager_fn=state_manager,
        create_process_fn=create_evaluation,
        cohort_size=len(data),
        duration=datetime.timedelta(milliseconds=10),
    )
    with tff.framework.get_context_stack().install(context):
        asyncio.run(
            tff.learning.programs.train_model(
                train_process=for_programs(process),
                train_data_source=data_source(tiny.cohort(data)),
                train_per_round_clients=len(data),
                train_total_rounds=ROUNDS,
                program_state_manager=state_manager("training"),
                model_output_manager=models,
                train_metrics_manager=trained,
                evaluation_manager=manager,
                evaluation_periodicity=ROUNDS,
            )
        )
    reported = [trained.values()[r]["model_metrics"]["train_loss"] for r in range(1, ROUNDS + 1)]
    assert reported[-1] < reported[0]
    # All clients in every round, in whatever order: the rounds of any loop.
    expected, _ = tiny.run(process, data, ROUNDS)
    (state,) = models.values().values()
    for a, b in zip(tiny.flat(state.global_model_weights), tiny.flat(expected[0])):
        np.testing.assert_allclose(a, b, atol=1e-5)
    (metrics,) = evaluated.values().values()
    assert 0 < metrics["model_metrics"]["accuracy"] <= 1


def test_an_error_of_a_computation_reaches_who_awaits_it(context):
    @tff.tensorflow.computation(np.int32)
    def check(number):
        with tf.control_dependencies([tf.debugging.Assert(number > 0, ["must be positive"])]):
            return tf.identity(number)

    async def call():
        return await check(-1).get_value()

    refused = pytest.raises(tf.errors.InvalidArgumentError, match="must be positive")
    with tff.framework.get_context_stack().install(context), refused:
        asyncio.run(call())
