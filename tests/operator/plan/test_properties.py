"""Whatever happens in whatever order, the plan keeps its promises, and in the end all is well."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from awa.manifest import ConditionType
from awa.scaling import Signals, Unknown
from awa_operator.actions import Plan, ProbeDatabase, SetReplicas
from awa_operator.conditions import Reason, find_condition
from awa_operator.observed import DatabaseProblem, JobPhase
from support.planning.world import Killed, World

NAMES = st.sampled_from(["alpha", "beta"])
IMAGES = st.sampled_from(["app:1", "app:2", "app:3", "bad:4"])
HOLDS = (Reason.SUSPENDED, Reason.HELD_BY_MIGRATION)
NATIVE = {"mode": "Native", "minReplicas": 0, "maxReplicas": 6, "targetJobsPerReplica": 10}
ENDS = st.sampled_from(
    [
        (0, "", None),
        (65, '{"error": "MigrationFailed", "message": "no"}', None),
        (65, '{"error": "SchemaTooNew", "message": "no", "knownVersion": 51}', None),
        (75, '{"error": "LockTimeout", "message": "no"}', None),
        (137, "", None),
        (143, "", "DeadlineExceeded"),
    ]
)
SIGNALS = st.one_of(
    st.just(Unknown()),
    st.builds(Signals, ready=st.integers(0, 200), running=st.integers(0, 50)),
    st.builds(Signals, due_soon=st.integers(0, 1), orphaned=st.integers(0, 1)),
)
EDITS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    IMAGES.map(lambda image: {"worker": {"image": image}}),
    st.booleans().map(lambda on: {"suspend": on}),
    st.booleans().map(lambda on: {"rollout": {"paused": on}}),
    st.booleans().map(lambda on: {"rollout": {"autoRollback": on}}),
    st.integers(0, 8).map(lambda count: {"replicas": count}),
    st.just({"replicas": None}),
    st.just({"scaling": NATIVE}),
    st.just({"scaling": {**NATIVE, "minReplicas": 2}}),
    st.just({"scaling": {"mode": "Fixed"}}),
    st.just({"scaling": {"mode": "External"}}),
    st.sampled_from(["Rolling", "Exclusive"]).map(lambda way: {"migration": {"strategy": way}}),
    st.integers(1, 3).map(lambda most: {"migration": {"maxAttempts": most}}),
    st.just({"migration": {"mode": "External"}}),
    st.just({"migration": {"mode": "Job"}}),
    st.booleans().map(lambda on: {"networkPolicy": {"enabled": on}}),
)


class Story(RuleBasedStateMachine):
    """Users, controllers, faults and an operator, one step at a time."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.world.create("alpha")

    # --- users

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        if name not in self.world.queues:
            self.world.create(name)

    @rule(name=NAMES, change=EDITS)
    def edit(self, name: str, change: dict[str, Any]) -> None:
        if name in self.world.queues:
            self.world.edit(name, **change)

    @rule()
    def delete(self) -> None:
        if "beta" in self.world.queues:
            self.world.delete("beta")

    @rule(count=st.integers(0, 9))
    def scale_by_hand(self, count: int) -> None:
        for deployment in self.world.deployments.values():
            deployment.scale_by_hand(count, "kubectl")

    @rule(found=st.booleans())
    def change_secret(self, found: bool) -> None:
        if found:
            self.world.secrets["app-db"] = f"{len(self.world.events):06x}"
        else:
            self.world.secrets.clear()

    # --- the world

    @rule()
    def run_pods(self) -> None:
        self.world.run_pods()

    @rule(name=NAMES)
    def exceed_deadline(self, name: str) -> None:
        found = self.world.deployments.get(name)
        if found is not None and found.progress == "ReplicaSetUpdated":
            self.world.exceed_deadline(name)

    @rule(end=ENDS)
    @precondition(lambda self: self.is_job_active())
    def end_job(self, end: tuple[int, str, str | None]) -> None:
        code, message, reason = end
        self.world.end_job(code, message, reason, version=self.world.schema_version + 1)

    @rule()
    def lose_jobs(self) -> None:
        for job in list(self.world.jobs.values()):
            if job.phase is not JobPhase.ACTIVE:
                del self.world.jobs[job.name]

    @rule(problem=st.sampled_from(DatabaseProblem))
    def lose_database(self, problem: DatabaseProblem) -> None:
        self.world.lose_database(problem)

    @rule()
    def return_database(self) -> None:
        self.world.return_database()

    @rule(name=NAMES, signals=SIGNALS)
    def poll(self, name: str, signals: Signals | Unknown) -> None:
        self.world.poll(name, signals)

    @rule(seconds=st.sampled_from([1, 10, 60, 700, 90000]))
    def advance(self, seconds: int) -> None:
        self.world.advance(seconds)
        self.world.expire_jobs()

    @rule(image=IMAGES)
    def break_image(self, image: str) -> None:
        self.world.broken_images ^= {image}

    # --- the operator

    @rule(name=NAMES)
    def reconcile(self, name: str) -> None:
        if name in self.world.queues:
            self.check(name, self.world.plan(name))
            self.world.reconcile(name)

    @rule(name=NAMES, writes=st.integers(0, 4))
    def reconcile_and_die(self, name: str, writes: int) -> None:
        if name not in self.world.queues:
            return
        self.world.kill_after = self.world.writes + writes
        try:
            self.world.reconcile(name)
        except Killed:
            self.world.restart()
        self.world.kill_after = None

    @rule()
    def restart(self) -> None:
        self.world.restart()

    # --- promises

    def is_job_active(self) -> bool:
        return any(job.phase is JobPhase.ACTIVE for job in self.world.jobs.values())

    @invariant()
    def nothing_forbidden_was_written(self) -> None:
        assert not self.world.violations

    @invariant()
    def at_most_one_job_is_active(self) -> None:
        active = [job for job in self.world.jobs.values() if job.phase is JobPhase.ACTIVE]
        assert len(active) <= 1

    def check(self, name: str, plan: Plan) -> None:
        queue = self.world.queues[name]
        ready = find_condition(plan.status, ConditionType.READY)
        assert ready is not None
        assert len(plan.status.conditions) == len(ConditionType)
        if not plan.actions and ready.status != "True":
            assert plan.waiting, "nothing is done, and nobody says why"
        if any(isinstance(action, ProbeDatabase) for action in plan.actions):
            assert plan.requeue_after, "nobody looks for the answer of a probe"
        scaling = find_condition(plan.status, ConditionType.SCALING_ACTIVE)
        assert scaling is not None
        is_held = scaling.reason in HOLDS
        for action in plan.actions:
            if isinstance(action, SetReplicas):
                self.check_count(name, action, is_held=is_held)
        assert not is_held or plan.status.desired_replicas == 0
        if queue.spec.scaling.mode == "Native" and not is_held:
            bounds = queue.spec.scaling
            assert plan.status.desired_replicas is not None
            assert bounds.min_replicas <= plan.status.desired_replicas <= bounds.max_replicas

    def check_count(self, name: str, action: SetReplicas, *, is_held: bool) -> None:
        spec = self.world.queues[name].spec
        if is_held or spec.scaling.mode != "Native" or action.after > 0 or action.before == 0:
            return
        seen = self.world.signals[name].signals
        assert isinstance(seen, Signals), "to zero without knowing"
        assert seen.is_idle, "to zero with work in hand"
        assert action.before == 1, "to zero from more than one"

    def teardown(self) -> None:
        """Take every fault away: all Queues settle, and a plan made again does nothing."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.secrets["app-db"] = "aaaaaa"
        world.broken_images.clear()
        # Who says that somebody else migrates has somebody else.
        world.schema_version = max(world.schema_version, 1)
        for name in world.queues:
            world.edit(name, suspend=False, rollout={"paused": False}, worker={"image": "app:3"})
        for _ in range(12):
            world.advance(700)
            world.return_database()
            world.settle()
            if not self.is_job_active():
                break
            world.end_job(version=world.schema_version + 1)
        assert not world.violations
        for name in world.queues:
            plan = world.plan(name)
            assert plan.actions == ()
            assert plan.status == world.status(name)
            assert world.condition(ConditionType.READY, name).status == "True", plan.waiting


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=60, stateful_step_count=40)
