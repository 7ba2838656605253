"""Layer-wise and channel-wise partial training in NumPy, written from the papers alone.

The tests hold the TFF processes against this file, so it shares no code with the package.

A network is a flat list [kernel 0, bias 0, kernel 1, bias 1, ...] of dense layers, ReLU after
each but the last; the loss is the mean softmax cross-entropy of the batch. All in float64.
"""

import math

import numpy as np


def activations(weights, inputs, first, last):
    """The inputs of layers first, ..., last; where last is the number of layers, ends in logits."""
    outputs = [inputs]
    for i in range(first, last):
        z = outputs[-1] @ weights[2 * i] + weights[2 * i + 1]
        outputs.append(z if 2 * i + 2 == len(weights) else np.maximum(z, 0.0))
    return outputs


def log_softmax(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def loss(weights, x, y):
    """Mean softmax cross-entropy of the whole network."""
    logits = activations(weights, x, 0, len(weights) // 2)[-1]
    return -log_softmax(logits)[np.arange(len(y)), y].mean()


def gradients(weights, inputs, y, trained_layers, first=0):
    """Gradient of the loss by index of variable, for the variables of `trained_layers` only.

    `inputs` enter at layer `first`. The error goes back as far as the earliest trained layer,
    through frozen layers too.
    """
    layers = len(weights) // 2
    values = activations(weights, inputs, first, layers)
    error = np.exp(log_softmax(values.pop()))
    error[np.arange(len(y)), y] -= 1.0
    error /= len(y)
    result = {}
    for i in range(layers - 1, min(trained_layers) - 1, -1):
        layer_input = values[i - first]
        if i in trained_layers:
            result[2 * i] = layer_input.T @ error
            result[2 * i + 1] = error.sum(axis=0)
        if i > first:
            error = (error @ weights[2 * i].T) * (layer_input > 0)
    return result


def local_round(
    weights,
    x,
    y,
    batches,
    lr,
    momentum,
    weight_decay,
    trained_layers,
    recorded,
    weight_decay_on="kernels",
    clip_norm=None,
):
    """The weights after one client's local steps; step t uses the examples `batches[t]`.

    Args:
      weights: the global weights at the start of the round.
      x: [n, features].
      y: [n], integer labels.
      batches: one index array for each local step.
      lr: v <- momentum * v + g, w <- w - lr * v, v = 0 at the start of the round.
      momentum: see lr.
      weight_decay: times w, added to the gradient of what is trained.
      trained_layers: indices of the layers that move.
      recorded: if true, the layers before the first trained one run once on all of x, with the
        weights of the start of the round, and training uses their recorded output (EmbracingFL,
        Algorithm 2); if false, every step runs the whole network (FedPMT, equation 6).
      weight_decay_on: "kernels": not of biases, before clipping; "all": of both, after clipping,
        as by PyTorch's SGD after `clip_grad_norm_`.
      clip_norm: if not None, what is trained has gradients of at most this norm, all together.
    """
    weights = [np.array(w, np.float64) for w in weights]
    if not trained_layers:
        return weights
    first = min(trained_layers) if recorded else 0
    inputs = activations(weights, np.asarray(x, np.float64), 0, first)[-1]
    velocity = [np.zeros_like(w) for w in weights]
    for batch in batches:
        # All gradients are taken before the first variable moves.
        grads = gradients(weights, inputs[batch], y[batch], trained_layers, first)
        if weight_decay_on == "kernels":
            decayed = {i: weight_decay * weights[i] for i in grads if i % 2 == 0}
            grads = {i: g + decayed.get(i, 0.0) for i, g in grads.items()}
        if clip_norm is not None:
            norm = math.sqrt(sum((g**2).sum() for g in grads.values()))
            grads = {i: g * min(1.0, clip_norm / norm) for i, g in grads.items()}
        if weight_decay_on == "all":
            grads = {i: g + weight_decay * weights[i] for i, g in grads.items()}
        for i, g in grads.items():
            velocity[i] = momentum * velocity[i] + g
            weights[i] = weights[i] - lr * velocity[i]
    return weights


def aggregate(global_weights, client_weights, contributions, client_weights_p):
    """w + sum_k p_k c_k (w_k - w) / sum_k p_k c_k; w itself where the denominator is 0.

    `contributions[k][i]` is 0, 1 or an array that broadcasts to variable i.
    """
    result = []
    for i, w in enumerate(global_weights):
        w = np.array(w, np.float64)
        numerator, denominator = np.zeros_like(w), np.zeros_like(w)
        for p, c, local in zip(client_weights_p, contributions, client_weights):
            numerator += p * np.asarray(c[i]) * (local[i] - w)
            denominator += p * np.asarray(c[i])
        moved = denominator > 0
        w[moved] += numerator[moved] / denominator[moved]
        result.append(w)
    return result


def by_layer(layers, trained_layers):
    """A client contributes kernel and bias of the layers it trained (FedPMT's f_k)."""
    return [float(i // 2 in trained_layers) for i in range(2 * layers)]


def by_channel(weights, share):
    """The first ceil(share * m) output channels of each layer, and the last layer whole."""
    masks = []
    for w in weights[:-2]:
        m = w.shape[-1]  # Output channels are the last axis of kernels and biases.
        kept = math.ceil(round(share * m, 9))  # 0.55 * 100 is 55.00000000000001.
        masks.append((np.arange(m) < kept).astype(np.float64))
    return [*masks, 1.0, 1.0]


def run(
    weights,
    clients,
    rounds_batches,
    trained,
    contributions,
    recorded,
    lr,
    momentum=0.0,
    weight_decay=0.0,
    by_examples=False,
    **options,
):
    """Rounds of local training and aggregation; `trained` and `contributions` go by client.

    Args:
      weights: the initial global weights.
      clients: (x, y) of each client; all take part in every round.
      rounds_batches: `rounds_batches[r][k][t]` are the examples of round r, client k, step t.
      trained: the layers that each client trains.
      contributions: see `aggregate`.
      recorded: see `local_round`, as lr, momentum and weight_decay.
      lr: see recorded.
      momentum: see recorded.
      weight_decay: see recorded.
      by_examples: weight clients by their number of examples instead of equally.
      options: weight_decay_on and clip_norm of `local_round`.

    Returns:
      The global weights after the last round.
    """
    p = [float(len(y)) if by_examples else 1.0 for _, y in clients]
    for batches in rounds_batches:
        client_weights = [
            local_round(
                weights, x, y, batches[k], lr, momentum, weight_decay, trained[k], recorded,
                **options,
            )
            for k, (x, y) in enumerate(clients)
        ]  # fmt: skip
        weights = aggregate(weights, client_weights, contributions, p)
    return weights


def embracing(weights, clients, cuts, rounds_batches, **options):
    """EmbracingFL: client k trains layers[cuts[k]:] on recorded activations; options as `run`."""
    layers = len(weights) // 2
    trained = [range(cut, layers) for cut in cuts]
    contributions = [by_layer(layers, t) for t in trained]
    return run(weights, clients, rounds_batches, trained, contributions, recorded=True, **options)


def fedpmt(weights, clients, cuts, rounds_batches, **options):
    """FedPMT: client k trains layers[cuts[k]:], with the whole forward pass at every step."""
    layers = len(weights) // 2
    trained = [range(cut, layers) for cut in cuts]
    contributions = [by_layer(layers, t) for t in trained]
    return run(weights, clients, rounds_batches, trained, contributions, recorded=False, **options)


def prefix(weights, clients, cuts, rounds_batches, **options):
    """InclusiveFL's "first half": client k trains all layers but the last cuts[k]."""
    layers = len(weights) // 2
    trained = [range(layers - cut) for cut in cuts]
    contributions = [by_layer(layers, t) for t in trained]
    return run(weights, clients, rounds_batches, trained, contributions, recorded=False, **options)


def channel(weights, clients, cuts, rounds_batches, share=0.5, **options):
    """Channel-wise: all train everything; a client with cuts[k] > 0 contributes a share of it."""
    trained = [range(len(weights) // 2) for _ in cuts]
    contributions = [by_channel(weights, share if cut else 1.0) for cut in cuts]
    return run(weights, clients, rounds_batches, trained, contributions, recorded=False, **options)


def fedpart(weights, clients, phases, rounds_batches, **options):
    """FedPart: in a round of phase l > 0 all clients train layer l alone, in phase 0 everything."""
    layers = len(weights) // 2
    for phase, batches in zip(phases, rounds_batches):
        trained = range(layers) if phase == 0 else [phase - 1]
        of_clients = [[trained] * len(clients), [by_layer(layers, trained)] * len(clients)]
        weights = run(weights, clients, [batches], *of_clients, recorded=False, **options)
    return weights
