"""The benchmarks: `python tests/bench/run.py` measures the table of docs/explanation/performance.md."""
