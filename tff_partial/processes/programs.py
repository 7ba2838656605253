"""What `tff.learning.programs` takes: processes that report as TFF's do, and sources of records."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Sequence

from tff_partial.core.lazy import tf, tff
from tff_partial.core.types import ClientDataset, Federated, LearningProcess, Record, Structure


def for_programs(process: LearningProcess) -> LearningProcess:
    """Return the process with `client_work` of its metrics under `train`, as TFF's programs want.

    Not for a process with client states: programs know no value that stays with clients.
    """
    if not isinstance(process, tff.learning.templates.LearningProcess):
        raise ValueError(
            "process must be a tff.learning.templates.LearningProcess. "
            f"Received: a {type(process).__name__}, whose clients keep something between rounds"
        )
    metrics_type = process.next.type_signature.result.metrics.member

    @tff.tensorflow.computation(metrics_type)
    def rewrap(metrics: Structure) -> Structure:
        return OrderedDict(metrics, client_work=OrderedDict(train=metrics["client_work"]))

    @tff.federated_computation(*process.next.type_signature.parameter)
    def next_fn(state: Federated, data: Federated) -> Federated:
        done = process.next(state, data)
        metrics = tff.federated_map(rewrap, done.metrics)
        return tff.learning.templates.LearningProcessOutput(done.state, metrics)

    return tff.learning.templates.LearningProcess(
        process.initialize,
        next_fn,
        process.get_model_weights,
        process.set_model_weights,
        get_hparams_fn=process.get_hparams,
        set_hparams_fn=process.set_hparams,
    )


def data_source(records: Sequence[ClientDataset]) -> tff.program.FederatedDataSource:
    """Return a source that draws clients, by their records, with TFF's own randomness.

    Clients have different numbers of examples, and TFF's source wants data sets of one type.
    """

    def relaxed(record: Record) -> Record:
        with_default = tf.compat.v1.placeholder_with_default
        examples = {x: with_default(record[x], [None, *record[x].shape[1:]]) for x in ("x", "y")}
        return OrderedDict((name, examples.get(name, value)) for name, value in record.items())

    return _source_class()([record.map(relaxed) for record in records])


@functools.cache
def _source_class() -> type:
    class Iterator(tff.program.DatasetDataSourceIterator):
        """TFF's iterator, which programs copy; it has no state, and data sets cannot be copied."""

        @classmethod
        def from_bytes(cls, buffer: bytes) -> tff.program.FederatedDataSourceIterator:
            read = tff.program.DatasetDataSourceIterator.from_bytes(buffer)
            return cls(read._datasets, read._federated_type)

        def __deepcopy__(self, memo: object) -> tff.program.FederatedDataSourceIterator:
            return self

    class Source(tff.program.DatasetDataSource):
        """TFF's source with that iterator."""

        def iterator(self) -> tff.program.FederatedDataSourceIterator:
            return Iterator(self._datasets, self._federated_type)

    return Source
