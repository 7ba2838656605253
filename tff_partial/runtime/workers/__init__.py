"""Runs TFF computations in TFF's stock worker, beside this process or on other hosts."""
