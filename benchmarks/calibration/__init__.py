"""Calibration of choices, verdicts and warnings on simulations: ``python -m benchmarks.calibration``."""
