"""What is on the three dashboards: panels with their queries."""

from dataclasses import dataclass
from typing import Literal

type Kind = Literal["stat", "timeseries"]

RATE = "[$__rate_interval]"
OF_QUEUE = 'namespace="$namespace", name="$name"'
OF_JOBS = 'namespace="$namespace", awa_job_queue=~"$queue"'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; each query has its legend."""

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: Kind = "timeseries"


@dataclass(frozen=True, slots=True)
class Variable:
    """What a reader chooses, from the values that a query finds."""

    name: str
    label: str
    query: str
    several: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One file. Annotations are name, query and colour."""

    name: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    annotations: tuple[tuple[str, str, str], ...]
    panels: tuple[Panel, ...]


def _one(title: str, description: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, description, unit, ((expression, ""),), "stat")


def _percentiles(
    title: str, description: str, metric: str, matching: str, by: str = "", *, is_rare: bool = False
) -> Panel:
    """Return a panel of the middle and of the slow ones, from a histogram.

    What `is_rare` is counted since the start of the process: of minutes there would be nothing.
    """
    labels = f"le, {by}" if by else "le"
    legend = f"{{{{{by}}}}} " if by else ""
    counted = f"{metric}_bucket{{{matching}}}"
    counted = counted if is_rare else f"rate({counted}{RATE})"
    return Panel(
        title,
        description,
        "s",
        tuple(
            (f"histogram_quantile({share}, sum by ({labels}) ({counted}))", f"{legend}{name}")
            for share, name in ((0.5, "half"), (0.95, "95 %"), (0.99, "99 %"))
        ),
    )


FLEET = Dashboard(
    name="fleet",
    title="Awa / Fleet",
    description="All Queues: how they are, what they have to do, who works on it.",
    variables=(
        Variable(
            "namespace", "Namespace", "label_values(awa_operator_queue_condition, namespace)", True
        ),
    ),
    annotations=(),
    panels=(
        _one(
            "Queues",
            "Queues that the operator serves.",
            "count(count by (namespace, name)"
            ' (awa_operator_queue_condition{namespace=~"$namespace"}))',
        ),
        _one(
            "Ready",
            "Queues whose spec is fulfilled.",
            'sum(awa_operator_queue_condition{namespace=~"$namespace", type="Ready",'
            ' status="True"})',
        ),
        _one(
            "Stalled",
            "Queues that wait for a human.",
            'sum(awa_operator_queue_condition{namespace=~"$namespace", type="Stalled",'
            ' status="True"}) or vector(0)',
        ),
        _one(
            "Waiting jobs",
            "Jobs that could be claimed now.",
            'sum(awa_operator_queue_jobs{namespace=~"$namespace", state="ready"})',
        ),
        _one(
            "Workers",
            "Ready worker pods.",
            'sum(awa_operator_queue_replicas{namespace=~"$namespace", kind="ready"})',
        ),
        _one("Leaders", "Operators that act; it should be one.", "sum(awa_operator_leader)"),
        Panel(
            "Queues by condition",
            "How many Queues each condition holds for. Reconciling and Stalled should be rare.",
            "short",
            (
                (
                    "sum by (type)"
                    ' (awa_operator_queue_condition{namespace=~"$namespace", status="True"})',
                    "{{type}}",
                ),
            ),
        ),
        Panel(
            "Jobs by state",
            "Ready can be claimed now, running is in hand, due comes within the next moments.",
            "short",
            (
                (
                    'sum by (state) (awa_operator_queue_jobs{namespace=~"$namespace"})',
                    "{{state}}",
                ),
            ),
        ),
        Panel(
            "Oldest claimable job",
            "Age of the oldest job that no worker has taken, the ten worst Queues.",
            "s",
            (
                (
                    'topk(10, awa_operator_queue_lag_seconds{namespace=~"$namespace"})',
                    "{{namespace}}/{{name}}",
                ),
            ),
        ),
        Panel(
            "Workers",
            "Pods of all Queues: that exist, that should, that are ready.",
            "short",
            (
                (
                    "sum by (kind) (awa_operator_queue_replicas"
                    '{namespace=~"$namespace", kind=~"current|desired|ready"})',
                    "{{kind}}",
                ),
            ),
        ),
        Panel(
            "Finished attempts",
            "Attempts that ended, by outcome, as the workers count them.",
            "ops",
            (
                (
                    "sum by (awa_job_outcome)"
                    f' (rate(awa_job_finished_total{{namespace=~"$namespace"}}{RATE}))',
                    "{{awa_job_outcome}}",
                ),
            ),
        ),
        Panel(
            "Schema of each database",
            "Version of the schema that was last seen, by the identity of the database.",
            "short",
            (("max by (database) (awa_operator_schema_version)", "{{database}}"),),
        ),
        Panel(
            "Migrations",
            "Attempts within the last hour, by the identity of the database.",
            "short",
            (
                (
                    "sum by (database) (increase(awa_operator_migration_attempts_total[1h]))",
                    "{{database}}",
                ),
            ),
        ),
        Panel(
            "Reconciles",
            "Looks at a Queue, by what came of them.",
            "ops",
            ((f"sum by (result) (rate(awa_operator_reconcile_total{RATE}))", "{{result}}"),),
        ),
        Panel(
            "Requests to the API server",
            "What the operator asks of Kubernetes; close to nothing when nothing happens.",
            "reqps",
            (
                (
                    f"sum by (verb, resource) (rate(awa_operator_api_requests_total{RATE}))",
                    "{{verb}} {{resource}}",
                ),
            ),
        ),
        Panel(
            "Memory of the operator",
            "Resident memory of each replica.",
            "bytes",
            (
                (
                    "process_resident_memory_bytes and on (job, instance) awa_operator_build_info",
                    "{{instance}}",
                ),
            ),
        ),
    ),
)

QUEUE = Dashboard(
    name="queue",
    title="Awa / Queue",
    description="One Queue: its jobs, its workers, its rollouts.",
    variables=(
        Variable("namespace", "Namespace", "label_values(awa_operator_queue_condition, namespace)"),
        Variable(
            "name",
            "Queue",
            'label_values(awa_operator_queue_condition{namespace="$namespace"}, name)',
        ),
        Variable(
            "queue",
            "Name in the database",
            'label_values(awa_job_claimed_total{namespace="$namespace"}, awa_job_queue)',
            True,
        ),
    ),
    annotations=(
        (
            "Schema migrated",
            "changes(awa_operator_migration_last_success_timestamp_seconds[2m]) > 0",
            "purple",
        ),
        (
            "Rolling out",
            f'max(awa_operator_queue_condition{{{OF_QUEUE}, type="Reconciling", status="True",'
            ' reason="RollingOut"}) == 1',
            "blue",
        ),
    ),
    panels=(
        _one(
            "Ready",
            "1 when the spec is fulfilled.",
            f'max(awa_operator_queue_condition{{{OF_QUEUE}, type="Ready", status="True"}})',
        ),
        _one(
            "Waiting jobs",
            "Jobs that could be claimed now.",
            f'max(awa_operator_queue_jobs{{{OF_QUEUE}, state="ready"}})',
        ),
        _one(
            "Running jobs",
            "Jobs in hand.",
            f'max(awa_operator_queue_jobs{{{OF_QUEUE}, state="running"}})',
        ),
        _one(
            "Oldest claimable job",
            "Its age.",
            f"max(awa_operator_queue_lag_seconds{{{OF_QUEUE}}})",
            "s",
        ),
        _one(
            "Workers",
            "Ready worker pods.",
            f'max(awa_operator_queue_replicas{{{OF_QUEUE}, kind="ready"}})',
        ),
        _one(
            "At most",
            "The most workers that it may have.",
            f'max(awa_operator_queue_replicas{{{OF_QUEUE}, kind="max"}})',
        ),
        Panel(
            "Jobs",
            "Ready can be claimed now, running is in hand, due comes within the next moments.",
            "short",
            ((f"max by (state) (awa_operator_queue_jobs{{{OF_QUEUE}}})", "{{state}}"),),
        ),
        Panel(
            "Oldest claimable job",
            "Its age, and the target if there is one.",
            "s",
            (
                (f"max(awa_operator_queue_lag_seconds{{{OF_QUEUE}}})", "age"),
                (f"max(awa_operator_queue_lag_target_seconds{{{OF_QUEUE}}})", "target"),
            ),
        ),
        Panel(
            "Workers",
            "Pods that exist, that should, that are ready, and the bounds.",
            "short",
            ((f"max by (kind) (awa_operator_queue_replicas{{{OF_QUEUE}}})", "{{kind}}"),),
        ),
        Panel(
            "Throughput",
            "Attempts that ended, by outcome.",
            "ops",
            (
                (
                    f"sum by (awa_job_outcome) (rate(awa_job_finished_total{{{OF_JOBS}}}{RATE}))",
                    "{{awa_job_outcome}}",
                ),
            ),
        ),
        _percentiles("Wait", "From due to claimed.", "awa_job_wait_duration_seconds", OF_JOBS),
        _percentiles("Run", "Run time of attempts.", "awa_job_duration_seconds", OF_JOBS),
        Panel(
            "Busy places",
            "Jobs that run now, and how many could.",
            "short",
            (
                (f"sum(awa_job_in_flight{{{OF_JOBS}}})", "busy"),
                ('sum(awa_worker_places{namespace="$namespace"})', "places of the namespace"),
            ),
        ),
        Panel(
            "Scaling",
            "Changes of the number of workers within the last hour.",
            "short",
            (
                (
                    "sum by (direction, reason)"
                    f" (increase(awa_operator_scale_decisions_total{{{OF_QUEUE}}}[1h]))",
                    "{{direction}} {{reason}}",
                ),
            ),
        ),
        Panel(
            "Conditions",
            "What holds for the Queue.",
            "short",
            (
                (
                    f'max by (type) (awa_operator_queue_condition{{{OF_QUEUE}, status="True"}})',
                    "{{type}}",
                ),
            ),
        ),
        Panel(
            "Work that was lost and taken up again",
            "Attempts taken from workers that died or hung, and ends that came too late.",
            "ops",
            (
                (
                    "sum by (reason)"
                    f' (rate(awa_job_rescued_total{{namespace="$namespace"}}{RATE})) or vector(0)',
                    "rescued {{reason}}",
                ),
                (f"sum(rate(awa_job_stale_total{{{OF_JOBS}}}{RATE})) or vector(0)", "too late"),
            ),
        ),
    ),
)

OPERATOR = Dashboard(
    name="operator",
    title="Awa / Operator",
    description="Inside of the operator: its queue, its watches, its databases.",
    variables=(),
    annotations=(),
    panels=(
        _one("Version", "Replicas by version.", "count(awa_operator_build_info)"),
        _one("Leaders", "Operators that act; it should be one.", "sum(awa_operator_leader)"),
        _one("Waiting Queues", "Queues to look at.", "sum(awa_operator_workqueue_depth)"),
        _one(
            "Silence of watches",
            "How long the quietest watch has told nothing.",
            "max(time() - awa_operator_watch_last_event_timestamp_seconds)",
            "s",
        ),
        _one(
            "Missed changes",
            "Differences that an audit found and no watch had told.",
            "sum(awa_operator_watch_audit_mismatch_total)",
        ),
        _one(
            "Sessions", "Sessions with databases.", "sum(awa_operator_db_connections) or vector(0)"
        ),
        _percentiles(
            "Reconcile",
            "How long a look at a Queue takes.",
            "awa_operator_reconcile_duration_seconds",
            "",
        ),
        Panel(
            "Parts of a reconcile",
            "How long the slow ones of each part take: 95 % are done by then.",
            "s",
            (
                (
                    "histogram_quantile(0.95, sum by (le, stage) "
                    f"(rate(awa_operator_reconcile_stage_duration_seconds_bucket{RATE})))",
                    "{{stage}}",
                ),
            ),
        ),
        _percentiles(
            "From event to done",
            "From an event of a watch to the end of the reconcile that it caused.",
            "awa_operator_reconcile_latency_seconds",
            "",
        ),
        _percentiles(
            "Wait for a look",
            "From an event to its reconcile.",
            "awa_operator_workqueue_wait_seconds",
            "",
        ),
        Panel(
            "Retries",
            "Reconciles that failed and are tried again.",
            "ops",
            ((f"sum(rate(awa_operator_workqueue_retries_total{RATE})) or vector(0)", "retries"),),
        ),
        _percentiles(
            "Lag of the event loop",
            "How late a timer comes; long lags mean that something blocks.",
            "awa_operator_event_loop_lag_seconds",
            "",
        ),
        Panel(
            "Watches opened again",
            "Watches that ended, were silent or out of date.",
            "short",
            (
                (
                    "sum by (pod) (increase(awa_operator_watch_restarts_total[1h]))",
                    "{{pod}}",
                ),
            ),
        ),
        _percentiles(
            "Round trip of the lease",
            "From writing the lease to hearing of it through its watch.",
            "awa_operator_watch_canary_roundtrip_seconds",
            "",
        ),
        Panel(
            "Answers of the API server",
            "Requests by the code of their answer.",
            "reqps",
            ((f"sum by (code) (rate(awa_operator_api_requests_total{RATE}))", "{{code}}"),),
        ),
        _percentiles(
            "Rollout",
            "From applying a template to available workers, since the operator's start.",
            "awa_operator_rollout_duration_seconds",
            "",
            is_rare=True,
        ),
        _percentiles(
            "Look at a database",
            "How long reading the counters of all its queues takes.",
            "awa_operator_db_probe_duration_seconds",
            "",
        ),
        Panel(
            "Failed looks at databases",
            "By reason.",
            "ops",
            (
                (
                    "sum by (reason)"
                    f" (rate(awa_operator_db_probe_failures_total{RATE})) or vector(0)",
                    "{{reason}}",
                ),
            ),
        ),
        _percentiles(
            "Migration",
            "How long Jobs ran, since the operator's start.",
            "awa_operator_migration_duration_seconds",
            "",
            is_rare=True,
        ),
        Panel(
            "Memory",
            "Resident memory of each replica.",
            "bytes",
            (
                (
                    "process_resident_memory_bytes and on (job, instance) awa_operator_build_info",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Processor",
            "Share of a core that each replica uses.",
            "percentunit",
            (
                (
                    f"rate(process_cpu_seconds_total{RATE})"
                    " and on (job, instance) awa_operator_build_info",
                    "{{instance}}",
                ),
            ),
        ),
    ),
)

DASHBOARDS = (FLEET, QUEUE, OPERATOR)
