"""Benchmarks of spca-tv against other packages: ``python -m benchmarks`` (see README.md in this folder)."""
