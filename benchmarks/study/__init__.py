"""The real-data study of the documentation: ``python -m benchmarks.study``, or ``make study``."""
