"""Scripts that measure ratios within one run; see docs/benchmarks.md."""
