"""Flags of a small study, for several test files."""

SMALL = [
    "--task=mnist",
    "--data=embedded",
    "--model=mlp_100",
    "--partition=classes:2",
    "--clients=3",
    "--rounds=3",
    "--local_steps=2",
    "--batch_size=8",
    "--examples=40",
    "--batches=2",
]
