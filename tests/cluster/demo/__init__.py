"""The main job on a real Kubernetes: `make demo-kube`."""
