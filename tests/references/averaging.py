"""Local SGD whose clients keep their own models, in NumPy, written from the paper alone.

The paper is "Partial Model Averaging in Federated Learning", for VRL-SGD Liang et al. 2019, for
AdaComm Wang and Joshi 2019, for post-local SGD Lin et al. 2020. The tests hold the TFF processes
against this file, so it shares no code with the package.

Inside, a model is one float64 vector; row s of x, v and delta belongs to the s-th active client,
and p has the weights of the active clients in the mean.
"""

import numpy as np

from tests.references import layers
from tests.references.stateful import Network


class Partial:
    """After iteration k, subset k mod tau of the parameters is averaged.

    Args:
      tau: the number of subsets.
      owners: for each variable the subset of its parameters, one integer, or one for each entry of
        the variable's last axis.
    """

    def __init__(self, tau, owners):
        self.tau, self.owners = tau, owners
        if any(np.min(o) < 0 or np.max(o) >= tau for o in owners):
            raise ValueError("A parameter of no subset would never be averaged.")

    def averaged(self, k, shapes):
        """True for each parameter of the model's vector that iteration k averages."""
        subsets = [np.broadcast_to(o, s).ravel() for o, s in zip(self.owners, shapes)]
        return np.concatenate(subsets) == k % self.tau


class Periodic:
    """After every tau iterations the whole model is averaged."""

    def __init__(self, tau):
        self.tau = tau

    def averaged(self, k, shapes):
        """True for each parameter of the model's vector that iteration k averages."""
        return np.full(sum(np.prod(s, dtype=int) for s in shapes), k % self.tau == self.tau - 1)


class Lengths:
    """The whole model is averaged at the end of each of these rounds, given by their lengths."""

    def __init__(self, lengths):
        self.last = np.cumsum(lengths) - 1

    def averaged(self, k, shapes):
        """True for each parameter of the model's vector that iteration k averages."""
        return np.full(sum(np.prod(s, dtype=int) for s in shapes), k in self.last)


class VrlSgd(Periodic):
    """As `Periodic`; client i steps with g_i - (1 - momentum) delta_i.

    At each averaging delta_i becomes (1 - momentum) (delta_i + (mean - x_i) / (tau rate)). It is
    the client's own: whatever happens in between, it has it when it is active again.
    """


def run(
    weights,
    clients,
    iterations,
    averaging,
    active=None,
    every=None,
    design=1,
    by_examples=False,
    momentum=0.0,
    weight_decay=0.0,
    reset_momentum=False,
    mu=0.0,
):
    """Local SGD from the same model on all clients.

    Args:
      weights: the initial model, a list [kernel 0, bias 0, ...] of dense layers.
      clients: (x, y) of each client.
      iterations: a dict for each iteration: `learning_rate`, and `batches`, by client the indices
        of its examples.
      averaging: a `Partial`, `Periodic`, `Lengths` or `VrlSgd`. It counts the iterations from 0,
        through the changes of the active clients.
      active: active[r] lists the active clients of period r; if None, all are, in one period.
      every: the iterations of a period.
      design: how new active clients start. 1: from the mean of the old ones; 2: the s-th from the
        model of the s-th old one. In both the s-th has the momentum of the s-th old one.
      by_examples: if true, means are weighted by the clients' numbers of examples.
      momentum: v <- momentum * v + g, x <- x - learning rate * v; v is never averaged.
      weight_decay: times x, added to the gradient of kernels, not of biases.
      reset_momentum: if true, momentum starts from 0 in each period.
      mu: of FedProx's term mu / 2 |x - z|^2, where z has what each parameter became when it was
        averaged last, or was at first. Design 1 makes the mean of the old models z, too.

    Returns:
      A dict for each iteration, of what there is after its averaging: `models` of the active
      clients, their `mean`, and the `discrepancy`, the mean squared distance of models to mean;
      and as `before` the discrepancy before the averaging; the mean `loss` of the batches.
    """
    if (active is None) != (every is None) or design not in (1, 2):
        raise ValueError("active and every belong together, and design is 1 or 2.")
    if active is None:
        active, every = [range(len(clients))], max(len(iterations), 1)
    net, results = Network(weights, clients, weight_decay=weight_decay), []
    examples = np.array([len(y) if by_examples else 1.0 for _, y in net.clients])
    p, x = np.ones(1), net.initial[np.newaxis]  # Before the first period: one model.
    deltas, v, z = np.zeros((len(clients), len(net.initial))), None, net.initial

    for k, iteration in enumerate(iterations):
        if k % every == 0:
            s = list(active[k // every])
            if k == 0 or design == 1:
                z = p @ x
                x = np.tile(z, (len(s), 1))  # p and x are those of the old active clients.
            elif len(s) != len(x):
                raise ValueError("Design 2 needs as many new active clients as old ones.")
            if v is None or reset_momentum or len(v) != len(x):
                v = np.zeros_like(x)
            p = examples[s] / examples[s].sum()

        rate = iteration["learning_rate"]
        g, losses = np.empty_like(x), []
        for row, i in enumerate(s):
            inputs, labels = net.clients[i]
            batch = iteration["batches"][i]
            g[row] = net.gradient(x[row], inputs[batch], labels[batch]) + net.decay * x[row]
            g[row] += mu * (x[row] - z)
            losses.append(layers.loss(net.weights(x[row]), inputs[batch], labels[batch]))
        v = momentum * v + g - (1 - momentum) * deltas[s]
        x = x - rate * v

        averaged = averaging.averaged(k, net.shapes)
        mean = p @ x
        before = float(p @ ((x - mean) ** 2).sum(axis=1))
        if isinstance(averaging, VrlSgd) and averaged.all():
            deltas[s] = (1 - momentum) * (deltas[s] + (mean - x) / (averaging.tau * rate))
        x[:, averaged] = z[averaged] = mean[averaged]

        mean = p @ x
        results.append(
            {
                "models": [net.weights(row) for row in x],
                "mean": net.weights(mean),
                "before": before,
                "loss": np.mean(losses),
                "discrepancy": float(p @ ((x - mean) ** 2).sum(axis=1)),
            }
        )
    return results


def adacomm_lengths(weights, clients, rounds, tau, **local):
    """The lengths of AdaComm's rounds and the results of `run` with them.

    rounds: the iterations of each round, tau of them, of which it makes the first ones.
    """
    lengths, results, losses = [tau], [], []
    for _ in rounds:
        cut = [it for length, its in zip(lengths, rounds) for it in its[:length]]
        results = run(weights, clients, cut, Lengths(lengths), **local)
        losses.append(np.mean([result["loss"] for result in results[-lengths[-1] :]]))
        lengths.append(max(1, min(tau, int(np.ceil(np.sqrt(losses[-1] / losses[0]) * tau)))))
    return lengths[: len(rounds)], results
