"""The federated processes that algorithms fill in."""
