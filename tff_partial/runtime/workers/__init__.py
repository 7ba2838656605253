"""Runs TFF computations in TFF's stock C++ worker, beside this process or on other hosts.

`local_cpp` starts a worker (`process`) and stops it again; `remote` uses workers that
`python -m tff_partial.runtime.worker` started elsewhere (`process` as well). Either way a
computation is compiled by TFF to its native form and run by a `client`: it holds a gRPC connection
(`contact`), sends the computation and its argument, and watches whether the worker still answers.
With several workers `remote` first cuts the computation at its aggregation, lets every worker train
its share of the clients, and repeats a share elsewhere if its worker is lost.
"""
