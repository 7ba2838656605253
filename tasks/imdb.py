"""IMDB reviews: positive or negative (tfds `imdb_reviews`), or generated reviews.

Text becomes numbers by a Keras TextVectorization of 10,000 words fitted on the training texts. The
last 256 words are kept and padded with 0 on the left, as Keras's pad_sequences does: no mask is
used, so a forward LSTM ends on the text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Optional, Union

import numpy as np

from tff_partial.core.types import Tensor

from . import embedded, presets, real
from .task import Arrays, Settings, Task

if TYPE_CHECKING:
    import tensorflow as tf

_NAME = "imdb_reviews/plain_text"
_URL = "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
Texts = Union[np.ndarray, Tensor, list[str]]
_WORDS, _LENGTH, _EMBEDDED_LENGTH = 10_000, 256, 32


def vectorise(train_texts: Texts, test_texts: Texts, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return word numbers int32 [n, length] of both texts; 0 is padding, 1 an unknown word."""
    import tensorflow as tf

    train_texts, test_texts = (
        tf.strings.regex_replace(texts, "<br />", " ") for texts in (train_texts, test_texts)
    )
    layer = tf.keras.layers.TextVectorization(max_tokens=_WORDS, ragged=True)
    layer.adapt(tf.data.Dataset.from_tensor_slices(train_texts).batch(1024))
    return align_right(layer(train_texts), length), align_right(layer(test_texts), length)


def align_right(tokens: tf.RaggedTensor, length: int) -> np.ndarray:
    """Return the last `length` numbers of each row, padded with 0 on the left."""
    ends = tokens.row_limits().numpy()[:, None]
    positions = ends - length + np.arange(length)
    inside = positions >= tokens.row_starts().numpy()[:, None]
    flat = np.append(tokens.flat_values.numpy(), 0)
    return np.where(inside, flat[np.maximum(positions, 0)], 0).astype(np.int32)


def load_embedded(seed: int) -> Arrays:
    """Return generated reviews, 32 words of each."""
    train_texts, train_y, test_texts, test_y = embedded.reviews(seed)
    train_x, test_x = vectorise(train_texts, test_texts, _EMBEDDED_LENGTH)
    description = f"embedded: generated reviews of {_EMBEDDED_LENGTH} words"
    return Arrays(train_x, train_y, test_x, test_y, description=description, real=False)


def load_real(data_dir: Optional[str]) -> Arrays:
    """Return the 25,000 training and 25,000 test reviews."""
    builder = real.open_builder(_NAME, _URL, data_dir)
    with real.one_line_errors(_NAME):
        train_texts, train_y = real.read_texts(builder, "train")
        test_texts, test_y = real.read_texts(builder, "test")
    train_x, test_x = vectorise(train_texts, test_texts, _LENGTH)
    description = f"real: imdb_reviews {builder.version}, {_WORDS:,} words, length {_LENGTH}"
    return Arrays(train_x, train_y, test_x, test_y, description=description, real=True)


def _preprocess(x: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.cast(x, tf.int32)


TASK = Task(
    name="imdb",
    description="IMDB reviews, positive or negative; 256 words of a vocabulary of 10,000",
    num_classes=2,
    input_shape=(_LENGTH,),
    loss="binary",
    x_dtype="int32",
    preprocess=_preprocess,
    tfds_name="imdb_reviews",
    examples=(25_000, 25_000),
    load_embedded=load_embedded,
    load_real=load_real,
    is_prepared=real.prepared_check(_NAME),
    demo=Settings(
        model="bilstm",
        width=0.125,
        partition="dirichlet:5",
        clients=32,
        clients_per_round=8,
        rounds=30,
        local_steps=10,
        batch_size=32,
        learning_rate="1.0,20:0.3",
        momentum=0.9,
        tiers="strong:8,moderate:8,weak:16",
        target_accuracy=0.8,
    ),
    # Long local training with clipped gradients: without either a short run on the reviews guesses.
    real_demo=Settings(
        model="bilstm",
        width=0.25,
        partition="dirichlet:10",
        clients=16,
        clients_per_round=4,
        rounds=25,
        local_steps=50,
        batch_size=32,
        learning_rate="1.0",
        momentum=0.9,
        clip_norm=1.0,
        tiers="strong:4,moderate:4,weak:8",
        target_accuracy=0.8,
        eval_every=5,  # 25,000 reviews are many
    ),
    papers={
        "embracingfl": replace(
            presets.EMBRACINGFL,
            model="bilstm",
            partition="dirichlet:0.1,fill",
            rounds=400,
            learning_rate="0.1,200:0.01,300:0.001",
            source=(
                "EmbracingFL, sections 4 and 4.2, appendix 6.1 and 6.2; table 5, case 10. With "
                "128 clients and two classes Dirichlet 0.1 leaves clients empty, and how they are "
                "treated is not stated: filled up to 10."
            ),
        ),
        "partial_averaging": replace(
            presets.PARTIAL_AVERAGING,
            model="bilstm",
            partition="dirichlet:0.5",
            rounds=200,
            batch_size=10,
            learning_rate="0.4~9.75,150:0.04,180:0.004",
            weight_decay=0.0,
            source=(
                "Partial averaging, table 3 (non-IID, alpha 0.5, 25 % active), experimental "
                "settings and appendix: 2,000 iterations, warm-up over 5 epochs (here of 19.5 "
                "local steps, from 0, its start not being stated). Interval 10 is "
                "the table's; the partial averaging itself has one 10 % longer, 11. Not stated: "
                "length of the text (256)."
            ),
        ),
    },
    default_paper="embracingfl",
)
