"""Spreads clients over Ray actors: processes on this machine or on the nodes of a Ray cluster.

The driver (this process) compiles, plans and folds as `runtime.in_process` does; only what clients
do in a level runs elsewhere (`clients`):

1. `cluster` starts a Ray of its own on loopback, or connects to one; `pool` keeps its actors.
2. `store` puts into Ray's object store what actors need: a computation once, a client's data set
   once, what clients share once a round. `wire` says in which form.
3. `schedule` says which clients a free actor gets. An `actor` traces a computation once.
4. Results are folded in the order of the clients, so they equal those of `in_process`, bit for bit.
"""
