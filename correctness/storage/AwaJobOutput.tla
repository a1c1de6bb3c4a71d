---------------------------- MODULE AwaJobOutput ----------------------------
(* How what a handler records becomes the output of its job: with the one
   transition that its own attempt commits, unchanged, and with no other.

   For a reader who knows PostgreSQL: a variable without a prime is its value
   before a step, with a prime (x') after it. /\ is "and", \/ is "or", \E picks
   any value that fits. TLC, the model checker, walks through every order of
   steps and tests every invariant in every state that can be reached.

   The story in prose, and what is left out: docs/reference/job-output.md.
   `Wrong` switches one known mistake on; "none" is the protocol as built.   *)
EXTENDS Integers, FiniteSets, Sequences

CONSTANTS
    Jobs,      \* how many jobs; attempts that end together are sent together
    General,   \* those whose attempts have left the ring: each end is a row of its own
    Attempts,  \* how many attempts a job has at most
    Records,   \* how often handlers may record or clear
    Losses,    \* how many requests or answers may be lost
    Rescues,   \* how many attempts may be given up for dead although they go on
    Wrong      \* the mistake, or "none"

VARIABLES
    job,       \* in the database
    attempt,   \* in the process: what its handler has recorded, and what was sealed
    flush,     \* what is being written: ended attempts, sent as one call until there is an answer
    left       \* records, losses and rescues that may still come
vars == <<job, attempt, flush, left>>

Job == 1..Jobs
Attempt == 1..Attempts

(* An output is known by the attempt that recorded it, 0 for an external completion, and by its
   number; number 0 is that nothing was recorded.                                             *)
Nothing == [of |-> 0, n |-> 0]
Value(a, n) == [of |-> a, n |-> n]

Idle == [at |-> "new", slot |-> Nothing, sealed |-> Nothing, how |-> "none"]
Nobody == [items |-> <<>>, at |-> "none"]

Init ==
    /\ job = [j \in Job |-> [at |-> "ready", attempt |-> 0, by |-> 0, output |-> Nothing, errors |-> {}]]
    /\ attempt = [j \in Job |-> [a \in Attempt |-> Idle]]
    /\ flush = Nobody
    /\ left = [records |-> Records, losses |-> Losses, rescues |-> Rescues]

----------------------------------------------------------------------------
(* The attempt. A handler may record whenever it runs, also after its job was given to another. *)
Claim(j) ==
    /\ job[j].at = "ready" /\ job[j].attempt < Attempts
    /\ job' = [job EXCEPT ![j].at = "running", ![j].attempt = @ + 1]
    /\ attempt' = [attempt EXCEPT ![j][job[j].attempt + 1].at = "runs"]
    /\ UNCHANGED <<flush, left>>

Record(j, a) ==
    /\ attempt[j][a].at = "runs" \/ (Wrong = "slot_stays_open" /\ attempt[j][a].at \in {"ended", "sent"})
    /\ left.records > 0 /\ left' = [left EXCEPT !.records = @ - 1]
    /\ \E value \in {Nothing, Value(a, left.records)} :
        /\ attempt' = [attempt EXCEPT ![j][a].slot = value]
        /\ job' = IF Wrong = "write_when_recorded" THEN [job EXCEPT ![j].output = value] ELSE job
    /\ UNCHANGED flush

(* The handler is over: what it recorded is sealed, whatever the outcome. *)
Seal(j, a) ==
    /\ attempt[j][a].at = "runs"
    /\ \E how \in {"completed", "failed", "waits"} :
        attempt' = [attempt EXCEPT ![j][a].at = "ended", ![j][a].how = how,
                                   ![j][a].sealed = attempt[j][a].slot]
    /\ UNCHANGED <<job, flush, left>>

----------------------------------------------------------------------------
(* The database. *)
WithError(errors, a, output) ==
    LET older == IF output = Nothing \/ Wrong = "each_error_keeps_output" THEN errors
                 ELSE {[e EXCEPT !.output = Nothing] : e \in errors}
    IN older \cup {[attempt |-> a, output |-> output]}
AfterFailure(a) == IF a < Attempts THEN "ready" ELSE "failed"

Completed(row, a, output) == [row EXCEPT !.at = "completed", !.by = a, !.output = output]
Ended(row, item, output) ==
    CASE item.how = "completed" ->
            Completed(row, item.a, IF \/ Wrong = "write_after_commit"
                                      \/ Wrong = "dropped_in_batches" /\ item.j \notin General
                                   THEN Nothing ELSE output)
      [] item.how = "failed" ->
            [row EXCEPT !.at = AfterFailure(item.a), !.errors = WithError(@, item.a, output)]
      [] item.how = "waits" ->
            [row EXCEPT !.at = "waiting"]

(* A flush is one call. What is stale drops out of it; the outputs of the rest stay with theirs. *)
Accepted(items) ==
    {i \in 1..Len(items) : LET row == job[items[i].j]
                           IN (row.at = "running" /\ row.attempt = items[i].a) \/ Wrong = "no_guard"}
Output(items, i) ==
    IF Wrong = "outputs_shift" THEN items[Cardinality({x \in Accepted(items) : x <= i})].output
    ELSE items[i].output

Rescue(j) ==
    /\ job[j].at = "running" /\ left.rescues > 0
    /\ left' = [left EXCEPT !.rescues = @ - 1]
    /\ LET a == job[j].attempt
           output == IF Wrong = "rescue_keeps_output" THEN attempt[j][a].slot ELSE Nothing
       IN job' = [job EXCEPT ![j].at = AfterFailure(a), ![j].errors = WithError(@, a, output)]
    /\ UNCHANGED <<attempt, flush>>

(* Somebody else completes a job that waits for it, with an output or without. *)
CompleteExternally(j) ==
    /\ job[j].at = "waiting"
    /\ \E output \in {Nothing, Value(0, 1)} : job' = [job EXCEPT ![j] = Completed(@, 0, output)]
    /\ UNCHANGED <<attempt, flush, left>>

PublishLate(j) ==
    /\ Wrong = "write_after_commit" /\ job[j].at = "completed" /\ job[j].by > 0
    /\ job' = [job EXCEPT ![j].output = attempt[j][job[j].by].sealed]
    /\ UNCHANGED <<attempt, flush, left>>

----------------------------------------------------------------------------
(* The finisher: it sends the same until there is an answer. *)
Take ==
    /\ flush = Nobody
    /\ \E chosen \in [Job -> 0..Attempts] :
        LET asked == {j \in Job : chosen[j] > 0}
            Item(j) == [j |-> j, a |-> chosen[j], how |-> attempt[j][chosen[j]].how,
                        output |-> attempt[j][chosen[j]].sealed]
            Items[j \in 0..Jobs] == IF j = 0 THEN <<>>
                                    ELSE IF j \in asked THEN Append(Items[j - 1], Item(j)) ELSE Items[j - 1]
        IN /\ asked # {} /\ \A j \in asked : attempt[j][chosen[j]].at = "ended"
           /\ flush' = [items |-> Items[Jobs], at |-> "to send"]
           /\ attempt' = [j \in Job |-> [a \in Attempt |->
                IF a = chosen[j] THEN [attempt[j][a] EXCEPT !.at = "sent"] ELSE attempt[j][a]]]
    /\ UNCHANGED <<job, left>>

Sent(item) == IF Wrong = "slot_stays_open" THEN [item EXCEPT !.output = attempt[item.j][item.a].slot] ELSE item

Commit ==
    /\ flush.at = "to send" /\ flush' = [flush EXCEPT !.at = "committed"]
    /\ LET items == [i \in 1..Len(flush.items) |-> Sent(flush.items[i])]
       IN job' = [j \in Job |->
            LET at == {i \in Accepted(items) : items[i].j = j}
            IN IF at = {} THEN job[j]
               ELSE LET i == CHOOSE i \in at : TRUE IN Ended(job[j], items[i], Output(items, i))]
    /\ UNCHANGED <<attempt, left>>

(* A request that never came, or an answer that did not come back: it is sent again. *)
Lose ==
    /\ flush # Nobody /\ left.losses > 0
    /\ left' = [left EXCEPT !.losses = @ - 1]
    /\ flush' = [flush EXCEPT !.at = "to send", !.items =
            IF Wrong = "drained_by_sending" THEN [i \in 1..Len(@) |-> [@[i] EXCEPT !.output = Nothing]] ELSE @]
    /\ UNCHANGED <<job, attempt>>

Answer ==
    /\ flush.at = "committed" /\ flush' = Nobody
    /\ UNCHANGED <<job, attempt, left>>

Next ==
    \/ \E j \in Job :
        \/ Claim(j) \/ Rescue(j) \/ CompleteExternally(j) \/ PublishLate(j)
        \/ \E a \in Attempt : Record(j, a) \/ Seal(j, a)
    \/ Take \/ Commit \/ Lose \/ Answer
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
Sealed(j, a, how, output) == attempt[j][a].sealed = output /\ attempt[j][a].how = how /\ output.of = a
OutputIsSealed ==
    \A j \in Job : job[j].at = "completed" /\ job[j].by > 0 /\ job[j].output # Nothing =>
        Sealed(j, job[j].by, "completed", job[j].output) /\ job[j].by = job[j].attempt
OnlyCompletedHaveOutput == \A j \in Job : job[j].output # Nothing => job[j].at = "completed"
NoOutputIsLost ==
    \A j \in Job : job[j].at = "completed" /\ job[j].by > 0 => job[j].output.n = attempt[j][job[j].by].sealed.n
ErrorOutputIsSealed ==
    \A j \in Job : \A e \in job[j].errors : e.output # Nothing => Sealed(j, e.attempt, "failed", e.output)
OneErrorKeepsOutput ==
    \A j \in Job : Cardinality({e \in job[j].errors : e.output # Nothing}) <= 1
=============================================================================
