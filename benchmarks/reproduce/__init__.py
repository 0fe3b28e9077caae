"""The paper's studies, reproduced: ``python -m benchmarks.reproduce``."""
