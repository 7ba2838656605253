# %% [markdown]
# # Your own model and data
# Ten clients, of which half can train only a part of the model.
# %%
import tff_partial as fl

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

# %%
rng = np.random.default_rng(0)
examples = rng.normal(size=(11, 60, 6))
*clients, test = [(x, np.argmax(x[:, :4], axis=1)) for x in examples]


def create():
    """Return a model with a skip connection that yields logits."""
    inputs = tf.keras.Input([6])
    x = tf.keras.layers.Dense(32, "relu")(inputs)
    y = tf.keras.layers.Dense(32, "relu")(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(4)(x + y))


# %%
settings = {"model": create, "clients": clients, "test": test, "tiers": "strong:5,1:5"}
runs = {
    algo: fl.run(**settings, algo=algo, rounds=15, output_dir=f"results/own-{algo}")
    for algo in ("embracing", "fedpmt")
}
# %%
for algo, run in runs.items():
    plt.plot([row["test_accuracy"] for row in run.rows], label=algo)
plt.xlabel("round")
plt.ylabel("test accuracy")
plt.legend()
plt.savefig("results/own.png")
