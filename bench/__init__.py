"""Benchmarks of the queue beside a baseline, on a PostgreSQL server of their own.

`python -m bench` from the checkout measures and prints; docs/operations/benchmarks.md explains
the scenarios, the figures and the gates.
"""
