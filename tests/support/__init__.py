"""Helpers that tests import: real servers, waiting, faults."""
