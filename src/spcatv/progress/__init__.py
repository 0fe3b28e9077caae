"""Watching a fit while it runs."""
