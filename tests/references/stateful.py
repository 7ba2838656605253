"""Federated algorithms whose clients keep a state, in NumPy, written from the papers alone.

The tests hold the TFF processes against this file, so it shares no code with the package.

Every algorithm is a function of
  weights: the initial model, a list [kernel 0, bias 0, ...] of dense layers (`reference_layers`),
  clients: (x, y) of each of the N clients of the population,
  rounds: a dict for each round: `selected`, the clients that upload; `learning_rate`; `batches`,
    where batches[i] has one index array for each local step of client i, for every client that
    trains in the round,
  its own hyperparameters, and those of `Network`.
It returns the server's model after each round; FedDyn, FedDC and FedUMF with FedDC return pairs
(server's model, mean over all N clients of their latest models).

Inside, a model is one float64 vector and the states of all clients are the rows of a matrix, so
that the lines read as the formulas: x is the server's model, row j of y the trained model of the
j-th selected client (in FedUMF, of client j), n the size of the population.
"""

import numpy as np

from tests.references import layers as reference_layers


class Network:
    """The dense network on vectors, and the local SGD that all the algorithms have in common.

    Args:
      weights: see above, as clients.
      clients: see weights.
      momentum: v <- momentum * v + g, w <- w - learning rate * v, v = 0 at the start of the round.
      weight_decay: times w, added to the gradient.
      weight_decay_on: "kernels": of kernels, not of biases, before clipping; "all": of all
        variables, after clipping, as by PyTorch's SGD after `clip_grad_norm_`.
      clip_norm: if not None, g is scaled down to this norm over all variables together.
    """

    def __init__(
        self,
        weights,
        clients,
        momentum=0.0,
        weight_decay=0.0,
        weight_decay_on="kernels",
        clip_norm=None,
    ):
        self.shapes = [np.shape(w) for w in weights]
        self.clients = [(np.asarray(x, np.float64), np.asarray(y)) for x, y in clients]
        self.initial = self.vector(weights)
        self.momentum, self.clip_norm = momentum, clip_norm
        kernels = self.vector([np.full(s, i % 2 == 0) for i, s in enumerate(self.shapes)])
        self.decay, self.decay_after = {
            "kernels": (weight_decay * kernels, 0.0),
            "all": (0.0, weight_decay),
        }[weight_decay_on]

    def vector(self, weights):
        return np.concatenate([np.ravel(w) for w in weights]).astype(np.float64)

    def weights(self, vector):
        parts = np.split(vector, np.cumsum([np.prod(s) for s in self.shapes])[:-1])
        return [part.reshape(s).copy() for part, s in zip(parts, self.shapes)]

    def gradient(self, w, x, y):
        """Of the mean cross-entropy alone."""
        trained = range(len(self.shapes) // 2)
        by_index = reference_layers.gradients(self.weights(w), x, y, trained)
        return self.vector([by_index[i] for i in range(len(self.shapes))])

    def train(self, i, r, start, pull=0.0, center=0.0, drift=0.0):
        """What client i has at the end of round r.

        The algorithm's own term of the gradient is pull * (w - center) + drift.
        """
        x, y = self.clients[i]
        w, v = start, np.zeros_like(start)
        for batch in r["batches"][i]:
            g = self.gradient(w, x[batch], y[batch]) + self.decay * w
            g = g + pull * (w - center) + drift
            norm = np.linalg.norm(g)
            if self.clip_norm is not None and norm > self.clip_norm:
                g = g * (self.clip_norm / norm)
            g = g + self.decay_after * w
            v = self.momentum * v + g
            w = w - r["learning_rate"] * v
        return w

    def step_sizes(self, r):
        """By how much a gradient that stays the same moves each selected client, as a column.

        Followed step by step: v grows from 0, the client moves by eta v.
        """
        moved = []
        for i in r["selected"]:
            v, distance = 0.0, 0.0
            for _ in r["batches"][i]:
                v = self.momentum * v + 1.0
                distance += r["learning_rate"] * v
            moved.append([distance])
        return np.array(moved)


def fedprox(weights, clients, rounds, mu, **local):
    """FedProx: each client minimizes its loss + mu / 2 * |w - x|^2."""
    net, models = Network(weights, clients, **local), []
    x = net.initial
    for r in rounds:
        y = np.array([net.train(i, r, x, pull=mu, center=x) for i in r["selected"]])
        x = y.mean(axis=0)
        models.append(net.weights(x))
    return models


def fednova(weights, clients, rounds, **local):
    """FedNova with a uniform mean: each y - x counts per gradient that it holds."""
    net, models = Network(weights, clients, **local), []
    x = net.initial
    for r in rounds:
        y = np.array([net.train(i, r, x) for i in r["selected"]])
        a = net.step_sizes(r) / r["learning_rate"]
        x = x + a.mean() * ((y - x) / a).mean(axis=0)
        models.append(net.weights(x))
    return models


def scaffold(weights, clients, rounds, **local):
    """SCAFFOLD, option II, with a global step size of 1; all control variates start from 0.

    With momentum the correction is damped by 1 - momentum.
    """
    net, models, n = Network(weights, clients, **local), [], len(clients)
    x = net.initial
    c, c_i = np.zeros_like(x), np.zeros((n, len(x)))
    for r in rounds:
        s = list(r["selected"])
        correction = (1 - net.momentum) * (c - c_i[s])
        y = np.array([net.train(i, r, x, drift=d) for i, d in zip(s, correction)])
        c_new = (x - y) / net.step_sizes(r) - correction
        c = c + (c_new - c_i[s]).sum(axis=0) / n
        c_i[s] = c_new
        x = y.mean(axis=0)
        models.append(net.weights(x))
    return models


def feddyn(weights, clients, rounds, alpha, **local):
    """FedDyn; row i of d is -1 / alpha times the paper's gradient of client i."""
    net, models, n = Network(weights, clients, **local), [], len(clients)
    x = net.initial
    latest = np.tile(x, (n, 1))
    d, d_server = np.zeros((n, len(x))), np.zeros_like(x)
    for r in rounds:
        s = list(r["selected"])
        y = np.array([net.train(i, r, x, pull=alpha, center=x, drift=alpha * d[i]) for i in s])
        latest[s] = y
        d[s] += y - x
        d_server = d_server + (y - x).sum(axis=0) / n
        x = y.mean(axis=0) + d_server
        models.append((net.weights(x), net.weights(latest.mean(axis=0))))
    return models


def feddc(weights, clients, rounds, alpha, **local):
    """FedDC: row i of h is the drift of client i, c and c_i as in SCAFFOLD."""
    net, models, n = Network(weights, clients, **local), [], len(clients)
    x = net.initial
    latest = np.tile(x, (n, 1))
    h, h_server = np.zeros((n, len(x))), np.zeros_like(x)
    c_i, c = np.zeros((n, len(x))), np.zeros_like(x)
    for r in rounds:
        s = list(r["selected"])
        correction = (1 - net.momentum) * (c - c_i)
        y = np.array(
            [net.train(i, r, x, pull=alpha, center=x - h[i], drift=correction[i]) for i in s]
        )
        latest[s] = y
        h[s] += y - x
        h_server = h_server + (y - x).sum(axis=0) / n
        c_new = (x - y) / net.step_sizes(r) - correction[s]
        c = c + (c_new - c_i[s]).sum(axis=0) / n
        c_i[s] = c_new
        x = y.mean(axis=0) + h_server
        models.append((net.weights(x), net.weights(latest.mean(axis=0))))
    return models


def fused_starts(x, g, fusion, r, before):
    """Where each client starts round r of FedUMF; `before` is the round before, None at first."""
    start = np.tile(x, (len(g), 1))
    if before is not None:
        for i in set(r["selected"]) - set(before["selected"]):
            start[i] += fusion * r["learning_rate"] / before["learning_rate"] * g[i]
    return start


def fedumf(weights, clients, rounds, alpha, **local):
    """FedUMF, Algorithm 1: all clients train in every round, the selected ones upload."""
    net, models, n = Network(weights, clients, **local), [], len(clients)
    x = net.initial
    g = np.zeros((n, len(x)))
    for r, before in zip(rounds, [None, *rounds]):
        start = fused_starts(x, g, alpha, r, before)
        y = np.array([net.train(i, r, start[i]) for i in range(n)])
        g = y - start
        x = y[list(r["selected"])].mean(axis=0)
        models.append(net.weights(x))
    return models


def fedumf_feddc(weights, clients, rounds, fusion, alpha, **local):
    """FedUMF on top of FedDC: all train with FedDC's term, only the selected change their state."""
    net, models, n = Network(weights, clients, **local), [], len(clients)
    x = net.initial
    latest = np.tile(x, (n, 1))
    g, h, h_server = np.zeros((n, len(x))), np.zeros((n, len(x))), np.zeros_like(x)
    c_i, c = np.zeros((n, len(x))), np.zeros_like(x)
    for r, before in zip(rounds, [None, *rounds]):
        s = list(r["selected"])
        start = fused_starts(x, g, fusion, r, before)
        correction = (1 - net.momentum) * (c - c_i)
        y = np.array(
            [
                net.train(i, r, start[i], pull=alpha, center=x - h[i], drift=correction[i])
                for i in range(n)
            ]
        )
        g = y - start
        latest[s] = y[s]
        h[s] += y[s] - x
        h_server = h_server + (y[s] - x).sum(axis=0) / n
        c_new = (start[s] - y[s]) / net.step_sizes(r) - correction[s]
        c = c + (c_new - c_i[s]).sum(axis=0) / n
        c_i[s] = c_new
        x = y[s].mean(axis=0) + h_server
        models.append((net.weights(x), net.weights(latest.mean(axis=0))))
    return models
