"""Benchmarks of spca-tv beside every peer: ``python -m benchmarks`` (see README.md in this folder)."""
