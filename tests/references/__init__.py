"""NumPy versions of the algorithms, written without their code."""
