"""A real Kubernetes for the tests: whatever this machine can offer, see `cluster.source`."""
