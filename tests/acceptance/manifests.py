"""Manifests for `awa up`, with windows short enough to watch."""

QUEUE = """\
apiVersion: awa.dev/v1alpha1
kind: Queue
metadata:
  name: {name}
spec:
  database:
    connectionSecretRef: {{name: db, key: url}}
  worker:
    image: registry.example/project:1
    command: {command}
    concurrency: 2
    drainTimeoutSeconds: {drain}
    env:
      - {{name: GREETING, value: "hello from $(AWA_QUEUE)"}}
  migration:
    command: [awa, migrate]
"""
SCALED = """\
  scaling:
    mode: Native
    minReplicas: {least}
    maxReplicas: 3
    targetJobsPerReplica: 2
    pollIntervalSeconds: 1
    cooldownSeconds: 2
    tolerancePercent: 0
    behavior:
      scaleUp:
        policies: [{{type: Pods, value: 10, periodSeconds: 1}}]
      scaleDown:
        stabilizationWindowSeconds: 1
        policies: [{{type: Pods, value: 10, periodSeconds: 1}}]
"""
FIXED = "  replicas: {replicas}\n"
HANDLERS = "[awa, worker, handlers]"


def scaled(name: str = "work", *, least: int = 0, drain: int = 60, command: str = HANDLERS) -> str:
    head = QUEUE.format(name=name, drain=drain, command=command)
    return head + SCALED.format(least=least)


def fixed(
    name: str = "work", *, replicas: int = 1, drain: int = 60, command: str = HANDLERS
) -> str:
    return QUEUE.format(name=name, drain=drain, command=command) + FIXED.format(replicas=replicas)
