--------------------------- MODULE MigrationGate ---------------------------
(* How the operator migrates a database once, and lets new workers in only
   when that is recorded, although a replica may die or be replaced between any
   two writes and a write may arrive long after it was decided.

   For a reader who knows Kubernetes: a variable without a prime is its value
   before a step, with a prime (x') after it. /\ is "and", \/ is "or", \E picks
   any value that fits. TLC, the model checker, walks through every order of
   steps and tests every invariant in every state that can be reached.

   The story in prose, and what is left out: docs/reference/migration-gate.md.
   `Wrong` switches one known mistake on; "none" is the gate without any.     *)
EXTENDS Integers, FiniteSets, Sequences

CONSTANTS
    Operators,  \* how many replicas of the operator
    Queues,     \* how many Queues share the database; the first one tidies up
    Images,     \* how many images there are; number n brings the schema to version n
    Exclusive,  \* Queues that migrate while no worker of the database runs
    Asleep,     \* Queues that begin without a worker; there is work for them
    Numbers,    \* how many names of Jobs there are
    Edits,      \* how often a user asks for another image
    Failures,   \* how many Jobs may fail
    Evictions,  \* how many pods of Jobs may be evicted
    Wrong       \* the mistake, or "none"

VARIABLES
    leader,     \* the replica that holds the lease
    queue,      \* Queues at the API server: image of the spec, and status
    jobs,       \* Jobs at the API server, by the number in their names
    workers,    \* per Queue: image of the pod template, replicas, whether a pod exists
    version,    \* of the schema in the database
    known,      \* what each replica was told: Queues and Jobs
    todo,       \* what each replica still writes for each Queue, the next one on its way
    left,       \* edits, failures and evictions that may still come
    past        \* bookkeeping: images whose migration was recorded, done, dropped by the user, made again
vars == <<leader, queue, jobs, workers, version, known, todo, left, past>>

Operator == 1..Operators
Queue == 1..Queues
Number == 1..Numbers
Max(s) == CHOOSE x \in s : \A y \in s : y <= x

NoJob == [at |-> "none", image |-> 0, pods |-> 0, alone |-> FALSE, armed |-> FALSE]
(* good: images whose migration is recorded as done. job: the number of the last Job that this
   Queue followed, and ended: whether its end is in the history. window: no worker may run.   *)
Status == [good |-> {1}, job |-> 0, ended |-> FALSE, window |-> FALSE]
(* What operators look at; a pod that is left shows as a Job that is "ending". *)
Seen(j) == [j EXCEPT !.pods = 0]
Facts == [queue |-> queue, jobs |-> [n \in Number |-> Seen(jobs[n])]]

Init ==
    /\ leader = 1
    /\ queue = [q \in Queue |-> [image |-> 1, st |-> Status]]
    /\ jobs = [n \in Number |-> NoJob]
    /\ workers = [q \in Queue |-> [image |-> 1, want |-> IF q \in Asleep THEN 0 ELSE 1, up |-> q \notin Asleep]]
    /\ version = 1
    /\ known = [o \in Operator |-> Facts]
    /\ todo = [o \in Operator |-> [q \in Queue |-> <<>>]]
    /\ left = [edits |-> Edits, failures |-> Failures, evictions |-> Evictions]
    /\ past = [good |-> {1}, done |-> {}, dropped |-> {}, again |-> {}]

----------------------------------------------------------------------------
(* The user, and Kubernetes. *)
Edit(q, i) ==
    /\ left.edits > 0 /\ i # queue[q].image
    /\ left' = [left EXCEPT !.edits = @ - 1]
    /\ queue' = [queue EXCEPT ![q].image = i]
    \* Who turns away from a migration before it is recorded may have to wait for it once more.
    /\ past' = [past EXCEPT !.dropped =
                    IF queue[q].image \in queue[q].st.good THEN @ ELSE @ \cup {queue[q].image}]
    /\ UNCHANGED <<leader, jobs, workers, version, known, todo>>

(* The pod of a Job moves the schema; a failure may come before or after that. *)
Migrate(n) ==
    /\ jobs[n].pods > 0 /\ version < jobs[n].image /\ version' = jobs[n].image
    /\ UNCHANGED <<leader, queue, jobs, workers, known, todo, left, past>>

(* An image that finds a newer schema has nothing to do, or is refused: it fails. *)
Complete(n) ==
    /\ jobs[n].at = "runs" /\ jobs[n].pods > 0 /\ version >= jobs[n].image
    /\ jobs' = [jobs EXCEPT ![n].at = "complete", ![n].pods = 0]
    /\ past' = [past EXCEPT !.done = @ \cup {jobs[n].image}]
    /\ UNCHANGED <<leader, queue, workers, version, known, todo, left>>

(* The controller has given a Job up, its pod is still there. *)
Fail(n) ==
    /\ jobs[n].at = "runs" /\ left.failures > 0
    /\ left' = [left EXCEPT !.failures = @ - 1]
    /\ jobs' = [jobs EXCEPT ![n].at = "ending"]
    /\ UNCHANGED <<leader, queue, workers, version, known, todo, past>>

(* "failed" is tried again, after "hopeless" a human is needed. *)
PodEnds(n) ==
    /\ jobs[n].at = "ending"
    /\ \E how \in {"failed", "hopeless"} : jobs' = [jobs EXCEPT ![n].at = how, ![n].pods = 0]
    /\ UNCHANGED <<leader, queue, workers, version, known, todo, left, past>>

(* Another pod of the same Job follows, only when the old one is gone. *)
Evict(n) ==
    /\ jobs[n].at = "runs" /\ jobs[n].pods = 1 /\ left.evictions > 0
    /\ left' = [left EXCEPT !.evictions = @ - 1]
    /\ jobs' = [jobs EXCEPT ![n].pods = IF Wrong = "pod_replaced_early" THEN 2 ELSE 0]
    /\ UNCHANGED <<leader, queue, workers, version, known, todo, past>>

Replace(n) ==
    /\ jobs[n].at = "runs" /\ jobs[n].pods = 0
    /\ jobs' = [jobs EXCEPT ![n].pods = 1]
    /\ UNCHANGED <<leader, queue, workers, version, known, todo, left, past>>

PodsFollow(q) ==
    /\ workers[q].up # (workers[q].want > 0)
    /\ workers' = [workers EXCEPT ![q].up = ~@]
    /\ UNCHANGED <<leader, queue, jobs, version, known, todo, left, past>>

(* A TTL is longer than anything is late: what every replica knows includes the mark and what it
   rests on, and no request for a Job of this name is on its way.                             *)
IsLate(o, n) ==
    \/ ~known[o].jobs[n].armed
    \/ \E q \in Queue : \E i \in 1..Len(todo[o][q]) : todo[o][q][i].do = "create"
    \/ \E q \in Queue : LET told == known[o].queue[q].st
                         IN told.good # queue[q].st.good \/ told.job # queue[q].st.job

Expire(n) ==
    /\ jobs[n].armed /\ (Wrong = "short_ttl" \/ ~\E o \in Operator : IsLate(o, n))
    /\ jobs' = [jobs EXCEPT ![n] = NoJob]
    /\ UNCHANGED <<leader, queue, workers, version, known, todo, left, past>>

----------------------------------------------------------------------------
(* The operator. What a replica knows, k, is what there was at one moment, and its own writes
   since. How long ago that was, nobody says. How many workers run is looked up at once.      *)
Hear(o) ==
    /\ known[o] # Facts
    /\ \/ known' = [known EXCEPT ![o] = Facts]
       \/ Wrong = "jobs_told_late" /\ known' = [known EXCEPT ![o].queue = queue]
       \/ Wrong = "statuses_told_late" /\ known' = [known EXCEPT ![o].jobs = Facts.jobs]
    /\ UNCHANGED <<leader, queue, jobs, workers, version, todo, left, past>>

Elect(o) ==
    /\ leader # o /\ leader' = o
    /\ UNCHANGED <<queue, jobs, workers, version, known, todo, left, past>>

Leads(o) == leader = o \/ Wrong = "both_act"

IsOver(j) == j.at \in {"failed", "hopeless", "complete"} \/ (j.at = "ending" /\ Wrong = "pods_may_be_left")
OfTarget(k, i) == {n \in Number : k.jobs[n] # NoJob /\ (k.jobs[n].image = i \/ Wrong = "verdict_of_another")}
Busy(k, i) == \E n \in Number : k.jobs[n] # NoJob /\ ~IsOver(k.jobs[n])
                                /\ (Wrong = "one_job_per_image" => k.jobs[n].image = i)
NextNumber(k) == 1 + Max({n \in Number : k.jobs[n] # NoJob} \cup {k.queue[p].st.job : p \in Queue} \cup {0})
Recorded(k, i) == \E p \in Queue : i \in k.queue[p].st.good
Running == {q \in Queue : workers[q].want > 0 \/ (workers[q].up /\ Wrong # "drained_by_count")}

(* S4 to S9. The status of before, with the end of a Job whose image the spec has left. *)
Begun(k, q) ==
    LET st == k.queue[q].st
        n == st.job
        left_behind == n \in Number /\ IsOver(k.jobs[n]) /\ k.jobs[n].image # k.queue[q].image
    IN [st EXCEPT !.ended = @ \/ left_behind]
Followed(st, n) == [st EXCEPT !.job = n, !.ended = @ /\ st.job = n]
WithGood(st, i) == [st EXCEPT !.good = IF Wrong = "last_success_only" THEN {i} ELSE @ \cup {i}]

(* What a plan says: the new status, the number of a Job to be made or 0, whether the template
   may move, whether no worker may run.                                                       *)
Answer(st, n, open, holds) == [st |-> [st EXCEPT !.window = holds], n |-> n, open |-> open, holds |-> holds]

Attempt(k, q, st) ==
    LET alone == q \in Exclusive
    IN IF Busy(k, k.queue[q].image) THEN Answer(st, 0, FALSE, alone /\ st.window)
       ELSE IF alone /\ Running # {} THEN Answer(st, 0, FALSE, TRUE)
       ELSE IF NextNumber(k) \notin Number THEN Answer(st, 0, FALSE, st.window)  \* the bound of the model
       ELSE Answer([st EXCEPT !.job = NextNumber(k), !.ended = FALSE], NextNumber(k), FALSE, alone)

Judge(k, q) ==
    LET i == k.queue[q].image
        st == Begun(k, q)
        mine == OfTarget(k, i)
        n == Max(mine)
        j == k.jobs[n]
        alone == q \in Exclusive
        success == Answer([WithGood(Followed(st, n), i) EXCEPT !.ended = TRUE], 0,
                          Wrong = "template_with_record", alone)
    IN IF Recorded(k, i) THEN
           LET noted == st.job \in mine /\ k.jobs[st.job].at = "complete"
           IN Answer([WithGood(st, i) EXCEPT !.ended = @ \/ noted], 0, TRUE, FALSE)
       ELSE IF mine = {} \/ (j.at = "complete" /\ j.armed) THEN Attempt(k, q, st)
       ELSE IF ~IsOver(j) THEN Answer(Followed(st, n), 0, FALSE, alone)
       ELSE IF j.at = "complete" \/ Wrong = "end_is_success" THEN success
       ELSE IF j.at = "hopeless" THEN Answer([Followed(st, n) EXCEPT !.ended = TRUE], 0, FALSE, FALSE)
       ELSE Attempt(k, q, st)

(* What a decision still depends on does not get a TTL. *)
IsEvidence(k, n) ==
    LET j == k.jobs[n]
        asking == {p \in Queue : k.queue[p].image = j.image}
        follows(p) == k.queue[p].st.job = n /\ ~k.queue[p].st.ended
    IN \/ \E p \in Queue \ asking : follows(p)
       \/ j.at = "complete" /\ Wrong # "ttl_at_the_end" /\ \E p \in asking : j.image \notin k.queue[p].st.good
       \/ j.at # "complete" /\ asking # {} /\ n = Max(OfTarget(k, j.image))
Surplus(k) == {n \in Number : k.jobs[n] # NoJob /\ IsOver(k.jobs[n]) /\ ~k.jobs[n].armed /\ ~IsEvidence(k, n)}

(* All that one plan writes, in the order in which it is written: the status last. *)
Writes(o, q) ==
    LET k == known[o]
        i == k.queue[q].image
        a == Judge(k, q)
        hopeless == \E n \in OfTarget(k, i) : k.jobs[n].at = "hopeless"
        held == \/ a.holds \/ \E p \in Exclusive \ {q} : k.queue[p].st.window
                \/ Wrong # "window_in_status" /\ \E n \in Number : k.jobs[n].alone /\ ~IsOver(k.jobs[n])
                \/ Wrong = "failure_ends_workers" /\ hopeless
        moves == a.open /\ workers[q].image # i
        want == IF held THEN 0 ELSE 1
        waits == moves /\ workers[q].want = 0   \* so that no pod of the old template comes up
        When(is_due, write) == IF is_due THEN <<write>> ELSE <<>>
    IN When(a.n # 0, [do |-> "create", n |-> a.n, image |-> i])
       \o When(workers[q].want # want /\ ~waits, [do |-> "scale", want |-> want, seen |-> workers[q]])
       \o When(moves, [do |-> "template", image |-> i])
       \o When(q = 1 /\ Surplus(k) # {}, [do |-> "arm", which |-> Surplus(k)])
       \o When(a.st # k.queue[q].st, [do |-> "status", st |-> a.st, seen |-> k.queue[q]])

(* Each write is let pass while the lease is held, and may arrive much later: a replica that was
   paused, or a request that was, writes what another leader would not. Where a Queue migrates
   exclusively, plans for the Queues of the database are made and carried out one by one.     *)
Plan(o, q) ==
    /\ Leads(o) /\ todo[o][q] = <<>> /\ Writes(o, q) # <<>>
    /\ Exclusive = {} \/ Wrong = "plans_overlap" \/ \A p \in Queue : todo[o][p] = <<>>
    /\ todo' = [todo EXCEPT ![o][q] = Writes(o, q)]
    /\ UNCHANGED <<leader, queue, jobs, workers, version, known, left, past>>

(* What is left of a plan after a write arrived: nothing when it did not hold, or without the lease. *)
Rest(o, q, holds) == [todo EXCEPT ![o][q] = IF holds /\ Leads(o) THEN Tail(@) ELSE <<>>]

(* Creating what exists is an answer, too: look what there is, then plan anew. *)
Create(o, q, w) ==
    LET free == {m \in Number : jobs[m] = NoJob /\ m >= w.n}
        n == IF Wrong = "random_names" /\ free # {} THEN CHOOSE m \in free : \A x \in free : m <= x ELSE w.n
        made == [NoJob EXCEPT !.at = "runs", !.image = w.image, !.pods = 1, !.alone = q \in Exclusive]
    IN IF jobs[n] = NoJob
       THEN /\ jobs' = [jobs EXCEPT ![n] = made]
            /\ known' = [known EXCEPT ![o].jobs[n] = Seen(made)]
            /\ past' = [past EXCEPT !.again = @ \cup ({w.image} \cap past.good)]
            /\ todo' = Rest(o, q, TRUE)
            /\ UNCHANGED <<queue, workers>>
       ELSE /\ known' = IF Wrong = "statuses_told_late" THEN [known EXCEPT ![o].jobs[n] = Facts.jobs[n]]
                        ELSE [known EXCEPT ![o] = Facts]
            /\ todo' = Rest(o, q, FALSE)
            /\ UNCHANGED <<queue, jobs, workers, past>>

(* A count names the version of the Deployment that it was decided for; a template does not. *)
Scale(o, q, w) ==
    /\ workers' = IF workers[q] = w.seen THEN [workers EXCEPT ![q].want = w.want] ELSE workers
    /\ todo' = Rest(o, q, workers[q] = w.seen)
    /\ UNCHANGED <<queue, jobs, known, past>>

MoveTemplate(o, q, w) ==
    /\ workers' = [workers EXCEPT ![q].image = w.image]
    /\ todo' = Rest(o, q, TRUE)
    /\ UNCHANGED <<queue, jobs, known, past>>

Arm(o, q, w) ==
    LET there == {n \in w.which : jobs[n] # NoJob}
    IN /\ jobs' = [n \in Number |-> [jobs[n] EXCEPT !.armed = @ \/ n \in there]]
       /\ known' = [known EXCEPT ![o].jobs = [n \in Number |-> IF n \in there THEN Seen(jobs'[n]) ELSE @[n]]]
       /\ todo' = Rest(o, q, TRUE)
       /\ UNCHANGED <<queue, workers, past>>

(* A status names the version of the Queue that it was decided for. *)
Report(o, q, w) ==
    LET holds == queue[q] = w.seen \/ Wrong = "status_unfenced"
    IN /\ queue' = IF holds THEN [queue EXCEPT ![q].st = w.st] ELSE queue
       /\ known' = IF holds THEN [known EXCEPT ![o].queue[q] = queue'[q]] ELSE known
       /\ past' = [past EXCEPT !.good = @ \cup queue'[q].st.good]
       /\ todo' = Rest(o, q, holds)
       /\ UNCHANGED <<jobs, workers>>

Arrive(o, q) ==
    /\ todo[o][q] # <<>>
    /\ LET w == Head(todo[o][q])
       IN CASE w.do = "create" -> Create(o, q, w)
            [] w.do = "scale" -> Scale(o, q, w)
            [] w.do = "template" -> MoveTemplate(o, q, w)
            [] w.do = "arm" -> Arm(o, q, w)
            [] w.do = "status" -> Report(o, q, w)
    /\ UNCHANGED <<leader, version, left>>

(* A replica is killed: what is not on its way is not written. It begins with a list of all. *)
Restart(o) ==
    /\ \E q \in Queue : todo[o][q] # <<>>
    /\ todo' = [todo EXCEPT ![o] = [q \in Queue |-> <<>>]]
    /\ known' = [known EXCEPT ![o] = Facts]
    /\ UNCHANGED <<leader, queue, jobs, workers, version, left, past>>

Next ==
    \/ \E q \in Queue : PodsFollow(q) \/ \E i \in 1..Images : Edit(q, i)
    \/ \E n \in Number :
        Migrate(n) \/ Complete(n) \/ Fail(n) \/ PodEnds(n) \/ Evict(n) \/ Replace(n) \/ Expire(n)
    \/ \E o \in Operator : Hear(o) \/ Elect(o) \/ Restart(o) \/ \E q \in Queue : Plan(o, q) \/ Arrive(o, q)
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
Good == UNION {queue[p].st.good : p \in Queue}
OneMigrationRuns == \A n, m \in Number : jobs[n].pods + (IF n = m THEN 0 ELSE jobs[m].pods) <= 1
TemplateAfterRecord == \A q \in Queue : workers[q].image \in Good
SchemaBeforeWorkers == \A q \in Queue : workers[q].image <= version
SuccessIsNotLost ==
    \A i \in past.done \ past.dropped :
        i \in Good \/ \E n \in Number : jobs[n].at = "complete" /\ jobs[n].image = i
RecordedIsNotRepeated == past.again = {}
OldWorkersStay == Exclusive = {} => \A q \in Queue \ Asleep : workers[q].want > 0
ExclusiveIsAlone == \A n \in Number : jobs[n].pods > 0 /\ jobs[n].alone => \A q \in Queue : ~workers[q].up
=============================================================================
