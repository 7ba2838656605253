"""Sub-model federated learning in NumPy, written from the papers alone.

HeteroFL, FedRolex, Federated Dropout, FjORD and FedDSE differ in which channels a client keeps.
The tests hold the TFF processes against this file: it shares no code with the package. In float64.

Weights are a dict from name to array, in the layouts of Keras, of one of two networks:
  DENSE: x [n, d], fc1, ReLU, fc2, ReLU, out. Group 0 is the units of fc1, group 1 those of fc2.
  CONV: x [n, h, w, c], a = ReLU(conv1(x)), s = ReLU(a + conv2(a)), t = ReLU(conv3(s)), flatten,
    out. Convolutions are 3x3 'same'. Group 0 is the channels of conv1 and of conv2, which are
    added, group 1 those of conv3.
`kept` has one array of indices for each group; inputs and classes are always kept whole.

A client is a dict of
  x, y: its examples,
  kept: what it keeps of the server's channels; for Federated Dropout, whatever the caller draws,
  batches: one index array into x for each local step,
  rate: by which `scale` divides; 1 if absent,
  steps: for FjORD only, what each local step keeps of the client's channels (`fjord_steps`),
  weight: its weight in a mean by examples; the number of its examples if absent.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence

import numpy as np

Arrays = dict[str, np.ndarray]
Kept = Sequence[np.ndarray]

# The passes, and for each group the names of its activations after a ReLU.
Net = namedtuple("Net", ["forward", "backward", "activations"])
# The groups of the inputs and of the outputs of each layer; None for what is kept whole.
DENSE_LAYERS = {"fc1": (None, 0), "fc2": (0, 1)}
CONV_LAYERS = {"conv1": (None, 0), "conv2": (0, 0), "conv3": (0, 1)}
LAYERS = {**DENSE_LAYERS, **CONV_LAYERS, "out": (1, None)}


def affine(w: Arrays, layer: str, x: np.ndarray) -> np.ndarray:
    return x @ w[f"{layer}/kernel"] + w[f"{layer}/bias"]


def affine_gradients(layer: str, x: np.ndarray, error: np.ndarray) -> Arrays:
    return {f"{layer}/kernel": x.T @ error, f"{layer}/bias": error.sum(axis=0)}


def dense_forward(w: Arrays, x: np.ndarray, rate: float) -> Arrays:
    """The rate changes nothing: only outputs of convolutions are scaled."""
    h1 = np.maximum(affine(w, "fc1", x), 0.0)
    h2 = np.maximum(affine(w, "fc2", h1), 0.0)
    return {"x": x, "h1": h1, "h2": h2, "logits": affine(w, "out", h2)}


def dense_backward(w: Arrays, acts: Arrays, error: np.ndarray, rate: float) -> Arrays:
    x, h1, h2 = acts["x"], acts["h1"], acts["h2"]
    e2 = (error @ w["out/kernel"].T) * (h2 > 0)
    e1 = (e2 @ w["fc2/kernel"].T) * (h1 > 0)
    last = {**affine_gradients("fc2", h1, e2), **affine_gradients("out", h2, error)}
    return {**affine_gradients("fc1", x, e1), **last}


def shifted(x: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
    """What each of the 3x3 taps of a 'same' convolution sees."""
    _, h, w, _ = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return {(i, j): padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)}


def correlate(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    return sum(seen @ kernel[tap] for tap, seen in shifted(x).items())


def conv(w: Arrays, layer: str, x: np.ndarray, rate: float) -> np.ndarray:
    return (correlate(x, w[f"{layer}/kernel"]) + w[f"{layer}/bias"]) / rate


def conv_gradients(w: Arrays, layer: str, x: np.ndarray, error: np.ndarray) -> tuple:
    """The gradients of the layer's variables, and the error of its input."""
    kernel = w[f"{layer}/kernel"]
    taps = [np.einsum("nhwc,nhwd->cd", seen, error) for seen in shifted(x).values()]
    back = correlate(error, kernel[::-1, ::-1].transpose(0, 1, 3, 2))
    gradient = np.reshape(taps, kernel.shape)
    return {f"{layer}/kernel": gradient, f"{layer}/bias": error.sum(axis=(0, 1, 2))}, back


def conv_forward(w: Arrays, x: np.ndarray, rate: float) -> Arrays:
    a = np.maximum(conv(w, "conv1", x, rate), 0.0)
    s = np.maximum(a + conv(w, "conv2", a, rate), 0.0)
    t = np.maximum(conv(w, "conv3", s, rate), 0.0)
    return {"x": x, "a": a, "s": s, "t": t, "logits": affine(w, "out", t.reshape(len(x), -1))}


def conv_backward(w: Arrays, acts: Arrays, error: np.ndarray, rate: float) -> Arrays:
    x, a, s, t = (acts[name] for name in "xast")
    e3 = (error @ w["out/kernel"].T).reshape(t.shape) * (t > 0)
    g3, back = conv_gradients(w, "conv3", s, e3 / rate)
    e2 = back * (s > 0)
    g2, back = conv_gradients(w, "conv2", a, e2 / rate)
    g1, _ = conv_gradients(w, "conv1", x, (back + e2) * (a > 0) / rate)
    return {**g1, **g2, **g3, **affine_gradients("out", t.reshape(len(x), -1), error)}


DENSE = Net(dense_forward, dense_backward, (("h1",), ("h2",)))
CONV = Net(conv_forward, conv_backward, (("a", "s"), ("t",)))


def forward(net: Net, weights: Arrays, x: np.ndarray, rate: float = 1.0) -> Arrays:
    """All activations by name, "logits" among them; outputs of convolutions divided by the rate."""
    return net.forward(weights, np.asarray(x, np.float64), rate)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    top = logits - logits.max(axis=1, keepdims=True)
    return top - np.log(np.exp(top).sum(axis=1, keepdims=True))


def loss(net: Net, weights: Arrays, x, y, rate: float = 1.0, present=1.0) -> float:
    """Mean softmax cross-entropy; the logits are multiplied by `present`, 0 or 1 by class."""
    logits = forward(net, weights, x, rate)["logits"] * present
    return -log_softmax(logits)[np.arange(len(y)), y].mean()


def gradients(net: Net, weights: Arrays, x, y, rate: float = 1.0, present=1.0) -> Arrays:
    """Gradients of `loss`, by name of variable."""
    acts = forward(net, weights, x, rate)
    error = np.exp(log_softmax(acts["logits"] * present))
    error[np.arange(len(y)), y] -= 1.0
    return net.backward(weights, acts, error * present / len(y), rate)


def scores(net: Net, weights: Arrays, x: np.ndarray) -> list[np.ndarray]:
    """FedDSE's: the mean of a channel over examples and positions, then over its activations."""
    acts = forward(net, weights, x)
    means = {name: a.mean(axis=tuple(range(a.ndim - 1))) for name, a in acts.items()}
    return [np.mean([means[name] for name in names], axis=0) for names in net.activations]


def widths(weights: Arrays) -> list[int]:
    """The number of channels of each group."""
    first, second = ("fc1", "fc2") if "fc1/bias" in weights else ("conv1", "conv3")
    return [len(weights[f"{first}/bias"]), len(weights[f"{second}/bias"])]


def size(rate: float, m: int, rounding: str = "ceil") -> int:
    """How many of m channels a rate keeps, at least one; both roundings forgive float error."""
    rounded = {"ceil": math.ceil(round(rate * m, 9)), "floor": math.floor(rate * m + 1e-9)}
    return max(1, rounded[rounding])


def ordered(k: int, m: int) -> np.ndarray:
    """HeteroFL and FjORD: the first k of m."""
    return np.arange(m)[:k]


def rolling(k: int, m: int, round_index: int) -> np.ndarray:
    """FedRolex: k in a row from the number of the round on, around the end."""
    return np.sort((round_index + np.arange(k)) % m)


def top_k(values: np.ndarray, k: int) -> np.ndarray:
    """FedDSE at temperature 0: the k largest, the lower index first among equals."""
    return np.sort(np.argsort(-np.asarray(values), kind="stable")[:k])


def fjord_steps(full: Sequence[int], rates: Sequence[float], rounding: str = "ceil") -> list[Kept]:
    """What steps at these rates of the server's widths keep of their client's channels."""
    return [[ordered(size(rate, m, rounding), m) for m in full] for rate in rates]


def positions(name: str, shape: tuple[int, ...], kept: Kept, full: Sequence[int]) -> tuple:
    """The index of the kept part of a variable; after a flatten, channel = row % width."""
    axes, groups = [], (None, None, *LAYERS[name.split("/")[0]])[-len(shape) :]
    for length, group in zip(shape, groups):
        m, k = (length, np.arange(length)) if group is None else (full[group], kept[group])
        axes.append((m * np.arange(length // m)[:, None] + np.asarray(k)).ravel())
    return np.ix_(*axes)


def extract(weights: Arrays, kept: Kept) -> Arrays:
    """The weights of the small model."""
    return {n: w[positions(n, w.shape, kept, widths(weights))] for n, w in weights.items()}


def restore(small: Arrays, kept: Kept, weights: Arrays) -> tuple[Arrays, Arrays]:
    """Small arrays at full shape with 0 elsewhere, and the 0/1 masks of where they are."""
    delta, mask = ({n: np.zeros(w.shape) for n, w in weights.items()} for _ in range(2))
    for name, w in weights.items():
        where = positions(name, w.shape, kept, widths(weights))
        delta[name][where], mask[name][where] = small[name], 1.0
    return delta, mask


def held_outputs(weights: Arrays, kept: Kept) -> Arrays:
    """FedDSE's literal mask: 1 for all that makes a kept channel, whatever it receives from."""
    masks = {}
    for name, w in weights.items():
        group = LAYERS[name.split("/")[0]][1]
        channels = np.arange(w.shape[-1])
        masks[name] = np.isin(channels, channels if group is None else kept[group]) + 0.0 * w
    return masks


def clipped(gradient: Arrays, clip_norm: float) -> Arrays:
    norm = math.sqrt(sum((g**2).sum() for g in gradient.values()))
    return {n: g * min(1.0, clip_norm / norm if norm else 1.0) for n, g in gradient.items()}


def train(
    net: Net,
    weights: Arrays,
    client: dict,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    weight_decay_on: str = "kernels",
    clip_norm: float | None = None,
    scale: bool = False,
    masked: bool = False,
    held: Arrays | None = None,
) -> Arrays:
    """The client's weights after its steps v <- momentum * v + g, w <- w - lr * v, v = 0 at first.

    The weights are of the client's own size, and so is all that follows, for FjORD too, where
    gradients are 0 outside of what a step keeps. clip_norm bounds the norm of all gradients
    together; the decay is of "kernels" only and within that norm, or of "all" and added to the
    clipped gradient, as by PyTorch's SGD after `clip_grad_norm_`; `scale` divides what
    convolutions put out by the client's rate; `masked` sets the logits of classes that are not in
    its y to 0. `held` masks weights of full size and their gradients.
    """
    x, y, rate = client["x"], client["y"], client.get("rate", 1.0) if scale else 1.0
    held = held or dict.fromkeys(weights, 1.0)
    w = {n: np.asarray(value, np.float64) * held[n] for n, value in weights.items()}
    v = {n: np.zeros(value.shape) for n, value in w.items()}
    present = np.isin(np.arange(len(w["out/bias"])), y) if masked else 1.0
    steps = client.get("steps", [[np.arange(m) for m in widths(w)]] * len(client["batches"]))
    for t, batch in enumerate(client["batches"]):
        g = gradients(net, extract(w, steps[t]), x[batch], y[batch], rate, present)
        g, _ = restore(g, steps[t], w)
        g = {n: g[n] * held[n] for n in g}
        if weight_decay_on == "kernels":
            g = {n: g[n] + weight_decay * w[n] * n.endswith("/kernel") for n in w}
        g = g if clip_norm is None else clipped(g, clip_norm)
        if weight_decay_on == "all":
            g = {n: g[n] + weight_decay * w[n] for n in w}
        v = {n: momentum * v[n] + g[n] for n in w}
        w = {n: w[n] - lr * v[n] for n in w}
    return w


def thresholds(weights: Arrays, rate: float, of_layers: bool) -> Arrays:
    """FIARSE: the magnitude that a share of the weights reaches, of all or of the same layer."""
    layer = {n: n.split("/")[0] if of_layers else "" for n in weights}
    found = {}
    for name in weights:
        own = [np.abs(w).ravel() for n, w in weights.items() if layer[n] == layer[name]]
        ascending = np.sort(np.concatenate(own))
        kept = max(1, int(rate * len(ascending)))
        found[name] = 0.0 if rate == 1 else ascending[-kept]
    return found


def fiarse_round(
    net: Net,
    weights: Arrays,
    clients: Sequence[dict],
    of_layers: bool,
    lr: float,
    momentum: float,
    weight_decay: float,
    clip_norm: float,
) -> Arrays:
    """The server's weights after a round of FIARSE, with a uniform mean over the holders.

    A client has a `rate` instead of `kept`. Its weights are 0 where it holds nothing, and so are
    those in a step that have fallen below its threshold.
    """
    total, holders = ({n: np.zeros(w.shape) for n, w in weights.items()} for _ in range(2))
    for client in clients:
        theta = thresholds(weights, client["rate"], of_layers)
        held = {n: np.abs(w) >= theta[n] for n, w in weights.items()}
        start = {n: np.where(held[n], w, 0.0) for n, w in weights.items()}
        w, v = dict(start), {n: np.zeros(value.shape) for n, value in start.items()}
        for batch in client["batches"]:
            m = {n: 1.0 * (np.abs(w[n]) >= theta[n]) for n in w}
            g = gradients(net, {n: m[n] * w[n] for n in w}, client["x"][batch], client["y"][batch])
            for n in w:
                size = np.abs(w[n])
                # The quotient is 0 / 0 where a weight and the threshold are 0: nothing is added.
                slope = 2 * theta[n] / np.where(size + theta[n] > 0, size + theta[n], 1.0) ** 2
                g[n] = g[n] * m[n] * (1 + slope * size)
                g[n] = g[n] + weight_decay * w[n] * n.endswith("/kernel")
            g = clipped(g, clip_norm)
            v = {n: momentum * v[n] + g[n] for n in w}
            w = {n: w[n] - lr * v[n] for n in w}
        for n in w:
            total[n] += held[n] * (w[n] - start[n])
            holders[n] += held[n]
    return {n: w + total[n] / np.where(holders[n] > 0, holders[n], 1.0) for n, w in weights.items()}


def magnitudes(weights: Arrays) -> list[np.ndarray]:
    """Of each channel, the mean of |w| of the weights that make it, added up over layers."""
    found = [np.zeros(m) for m in widths(weights)]
    for name, w in weights.items():
        layer, kind = name.split("/")
        group = LAYERS[layer][1]
        if kind == "kernel" and group is not None:
            found[group] += np.abs(w).mean(axis=tuple(range(w.ndim - 1)))
    return found


def federated_round(
    net: Net,
    weights: Arrays,
    clients: Sequence[dict],
    weighting: str = "uniform",
    masked_rows: bool = False,
    outputs_only: bool = False,
    **local,
) -> Arrays:
    """The server's weights after a round: w + sum(c * mask * delta) / sum(c * mask).

    With `outputs_only` a client holds all that makes its channels (`held_outputs`).

    What no client holds stays as it was; with masked logits or `masked_rows`, a client holds the
    outputs of its own classes only. c is 1, or with the weighting "examples" the client's
    weight; `local` are the arguments of `train`.
    """
    total, held = ({n: np.zeros(w.shape) for n, w in weights.items()} for _ in range(2))
    for client in clients:
        if outputs_only:
            mask = held_outputs(weights, client["kept"])
            new = train(net, weights, client, held=mask, **local)
            delta = {n: new[n] - weights[n] * mask[n] for n in weights}
        else:
            small = extract(weights, client["kept"])
            new = train(net, small, client, **local)
            delta, mask = restore({n: new[n] - small[n] for n in small}, client["kept"], weights)
        if masked_rows or local.get("masked"):
            present = np.isin(np.arange(len(weights["out/bias"])), client["y"])
            mask = {n: m * present if n.startswith("out/") else m for n, m in mask.items()}
        c = {"uniform": 1.0, "examples": client.get("weight", len(client["y"]))}[weighting]
        for n in weights:
            total[n] += c * mask[n] * delta[n]
            held[n] += c * mask[n]
    return {n: w + total[n] / np.where(held[n] > 0, held[n], 1.0) for n, w in weights.items()}
