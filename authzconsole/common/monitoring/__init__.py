"""Readiness and metrics for monitoring systems: `/readyz` and `/metrics`."""
