--------------------------- MODULE ClaimProtocol ---------------------------
(* How a lane hands out each committed body exactly once although producers
   commit in any order and never wait for one another.

   For a reader who knows PostgreSQL: a variable without a prime is its value
   before a step, with a prime (x') after it. /\ is "and", \/ is "or", \E picks
   any value that fits. TLC, the model checker, walks through every order of
   steps and tests every invariant in every state that can be reached.

   The story in prose, and what is left out: docs/reference/claim-protocol.md.
   `Wrong` switches one known mistake on; "none" is the protocol as built.   *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Producers,  \* how many transactions enqueue, one step at a time
    Draws,      \* how many numbers each of them may draw
    Brief,      \* how many waste one number, fill the next and commit, all in one step
    Bystanders, \* how many write something else and may stay open for long
    NSlots,     \* slots of the ring; rotation goes from 1 to NSlots
    Claims,     \* how many claims may start
    Limits,     \* batch limits that a claim may come with
    Unknown,    \* numbers whose body is of a kind that the worker does not know
    GiveUps,    \* how many claims may roll back
    Crashes,    \* how often the server may crash
    Watch,      \* which promise about dead holes to follow: "none", "quiet", "busy"
    Wrong       \* the mistake, or "none"

VARIABLES
    xact,       \* the server: last assigned xid, last completed xid, xids still running
    seq,        \* last number drawn from the lane's sequence
    slot,       \* current slot
    tx,         \* the transactions of producers and bystanders
    lane,       \* the newest committed claim row: the lane's cursor
    claim,      \* the claim that holds the lane's lock, or Nobody
    early,      \* what a claim that still waits for the lock has read too soon (a mistake)
    left,       \* claims, roll-backs of claims and crashes that may still come
    claimed,    \* numbers in committed claim rows
    again,      \* numbers claimed although they were claimed before
    age,        \* bookkeeping for the promises about dead holes
    safe        \* what a crash would leave behind
vars == <<xact, seq, slot, tx, lane, claim, early, left, claimed, again, age, safe>>

Producer == 1..Producers
Hasty == (Producers + 1)..(Producers + Brief)
Everyone == 1..(Producers + Brief + Bystanders)
Slots == 1..NSlots
Max(s) == CHOOSE x \in s : \A y \in s : y <= x
Min(s) == CHOOSE x \in s : \A y \in s : x <= y
First(k, s) == {n \in s : Cardinality({m \in s : m < n}) < k}

----------------------------------------------------------------------------
(* PostgreSQL. xmax is the last *completed* xid plus one, so transactions at
   or above xmax can be running; xmin knows of them only through xmax.       *)
Xmax == xact.done + 1
Xmin == Min({x \in xact.running : x < Xmax} \cup {Xmax})
NextXid == xact.last + 1
Assign == [xact EXCEPT !.last = NextXid, !.running = @ \cup {NextXid}]
Complete(x) == [xact EXCEPT !.running = @ \ {x}, !.done = Max({@, x})]

(* A snapshot taken now sees exactly what is committed now. *)
Committed == UNION {tx[p].nums : p \in {q \in Everyone : tx[q].at = "committed"}}
Visible(where) == {n \in Committed : \E p \in Everyone : n \in tx[p].nums /\ tx[p].slot \in where}

(* What a claim takes for a body: every kind, also those its worker does not know. *)
Offered(where) == IF Wrong = "unknown_kind_is_hole" THEN Visible(where) \ Unknown ELSE Visible(where)

Holes(row) == row.old \cup row.new
Nobody == [at |-> "nobody"]
Fresh == [at |-> "new", xid |-> 0, slot |-> 0, nums |-> {}]
Gone == [Fresh EXCEPT !.at = "gone"]
EmptyRow == [next |-> 1, old |-> {}, oldBound |-> 0, new |-> {}, newBound |-> 0]

Init ==
    /\ xact = [last |-> 0, done |-> 0, running |-> {}]
    /\ seq = 0 /\ slot = 1
    /\ left = [claims |-> Claims, giveUps |-> GiveUps, crashes |-> Crashes]
    /\ tx = [p \in Everyone |-> Fresh]
    /\ lane = EmptyRow /\ claim = Nobody /\ early = Nobody
    /\ claimed = {} /\ again = {}
    /\ age = [quiet |-> 0, mark |-> 1, here |-> {}, since |-> {}, overdue |-> {}]
    /\ safe = [lane |-> EmptyRow, claimed |-> {}, xid |-> 0, seq |-> 0]

----------------------------------------------------------------------------
(* Those of one sort are alike, so it is enough to let them start in order. *)
Starts(p, sort) == p \in sort /\ p = Min({q \in sort : tx[q] = Fresh} \cup {p})

(* Producers: transaction id, then numbers, then bodies. Any slot up to the
   current one may be chosen, because the snapshot that chose it may be old.
   A body is not seen before its transaction commits, so drawing a number and
   inserting its body are one step here; a number may also stay without one.  *)
Begin(p) ==
    /\ p \notin Hasty /\ tx[p].at = "new"
    /\ tx[p] = Fresh => Starts(p, IF p \in Producer THEN Producer ELSE Everyone \ (Producer \cup Hasty))
    /\ \E s \in 1..slot : tx' = [tx EXCEPT ![p].at = "open", ![p].xid = NextXid, ![p].slot = s]
    /\ xact' = Assign
    /\ UNCHANGED <<seq, slot, lane, claim, early, left, claimed, again, age, safe>>

Draw(p) ==
    /\ p \in Producer /\ Cardinality(tx[p].nums) < Draws
    /\ tx[p].at = (IF Wrong = "draw_before_xid" THEN "new" ELSE "open")
    /\ seq' = seq + 1
    /\ tx' = [tx EXCEPT ![p].nums = @ \cup {seq'}]
    /\ UNCHANGED <<xact, slot, lane, claim, early, left, claimed, again, age, safe>>

(* A producer's commit waits for the log (WAL), and there is one log: all that
   was written before, claim rows included, is safe from here on.            *)
Flushed(row, taken, xid, n) ==
    IF Crashes = 0 THEN safe
    ELSE [safe EXCEPT !.lane = row, !.claimed = taken, !.seq = Max({@, n}),
                      !.xid = Max({@, xid, row.oldBound, row.newBound})]

Commit(p) ==
    /\ p \in Producer /\ tx[p].at = "open"
    /\ tx' = [tx EXCEPT ![p].at = "committed", ![p].xid = 0]
    /\ xact' = Complete(tx[p].xid)
    /\ safe' = Flushed(lane, claimed, tx[p].xid, Max(tx[p].nums \cup {0}))
    /\ UNCHANGED <<seq, slot, lane, claim, early, left, claimed, again, age>>

Rollback(p) ==
    /\ tx[p].at = "open"
    /\ tx' = [tx EXCEPT ![p] = Gone]
    /\ xact' = Complete(tx[p].xid)
    /\ UNCHANGED <<seq, slot, lane, claim, early, left, claimed, again, age, safe>>

EnqueueBriefly(p) ==
    /\ tx[p] = Fresh /\ Starts(p, Hasty)
    /\ xact' = [xact EXCEPT !.last = NextXid, !.done = NextXid]
    /\ seq' = seq + 2
    /\ tx' = [tx EXCEPT ![p] = [at |-> "committed", xid |-> 0, slot |-> slot, nums |-> {seq'}]]
    /\ safe' = Flushed(lane, claimed, NextXid, seq')
    /\ UNCHANGED <<slot, lane, claim, early, left, claimed, again, age>>

Rotate ==
    /\ slot < NSlots /\ slot' = slot + 1
    /\ UNCHANGED <<xact, seq, tx, lane, claim, early, left, claimed, again, age, safe>>

----------------------------------------------------------------------------
(* The claim. The lane's lock makes claims of one lane follow each other, and
   it is released only after the claim row can be seen.                      *)
Opened(row, xmin, calm) ==
    [at |-> "read", row |-> row, xmin |-> xmin, calm |-> calm, everywhere |-> FALSE, xid |-> 0,
     where |-> {}, limit |-> 0, taken |-> {}, spare |-> FALSE, next |-> row.next, gaps |-> {},
     blind |-> FALSE, xmax |-> 0]
ReadNow == Opened(lane, Xmin, xact.running = {})

(* Statement 1: the newest claim row, and this snapshot's xmin. *)
Read ==
    /\ claim = Nobody /\ left.claims > 0 /\ left' = [left EXCEPT !.claims = @ - 1]
    /\ claim' = (IF early = Nobody THEN ReadNow ELSE early) /\ early' = Nobody
    /\ UNCHANGED <<xact, seq, slot, tx, lane, claimed, again, age, safe>>

ReadTooSoon ==
    /\ Wrong = "read_before_lock" /\ claim # Nobody /\ early = Nobody /\ left.claims > 0
    /\ early' = ReadNow
    /\ UNCHANGED <<xact, seq, slot, tx, lane, claim, left, claimed, again, age, safe>>

TakeXidTooSoon ==
    /\ Wrong = "xid_before_look" /\ claim.at = "read" /\ claim.xid = 0
    /\ claim' = [claim EXCEPT !.xid = NextXid] /\ xact' = Assign
    /\ UNCHANGED <<seq, slot, tx, lane, early, left, claimed, again, age, safe>>

(* Statement 2 reads twice. First bodies in the holes, at most `limit`. The look
   may be into the current slot only. `spare`: the limit did not cut it short. *)
LookIntoHoles ==
    /\ claim.at = "read" /\ (Wrong = "xid_before_look" => claim.xid # 0)
    /\ \E where \in (IF claim.everywhere THEN {Slots} ELSE {{slot}, Slots}), limit \in Limits :
        LET held(s) == Offered(s) \cap Holes(claim.row)
        IN claim' = [claim EXCEPT
            !.at = "half", !.where = where, !.limit = limit, !.taken = First(limit, held(where)),
            !.spare = Cardinality(held(where)) < limit,
            !.blind = held(where) = {} /\ Visible(Slots) \cap Holes(claim.row) # {},
            !.xmin = IF Wrong = "same_snapshot" THEN Xmin ELSE @]
    /\ UNCHANGED <<xact, seq, slot, tx, lane, early, left, claimed, again, age, safe>>

(* Then bodies from `next` up, with what is left of the limit. When a look into
   some slots finds nothing at all, it is made again everywhere.             *)
LookAhead ==
    /\ claim.at = "half"
    /\ LET c == claim
           ahead(s) == {n \in s : n >= c.row.next}
           found == First(c.limit - Cardinality(c.taken), ahead(Offered(c.where)))
           last == Max(found \cup {c.row.next - 1})
           skipped == (c.row.next..last) \ found
           nothing == c.taken \cup found = {}
       IN claim' =
            IF nothing /\ c.where # Slots /\ Wrong # "empty_by_one_slot"
            THEN [Opened(c.row, c.xmin, c.calm) EXCEPT !.everywhere = TRUE, !.xid = c.xid]
            ELSE [c EXCEPT
                !.at = "looked", !.limit = 0, !.taken = @ \cup found, !.next = last + 1,
                !.gaps = IF Wrong = "cursor_by_one_slot" THEN skipped \ Visible(Slots) ELSE skipped,
                !.blind = nothing /\ (@ \/ ahead(Visible(Slots)) # {}),
                !.xmin = IF Wrong = "late_xmin" THEN Xmin ELSE @,
                !.xmax = IF Wrong = "bound_is_xmax" THEN Xmax ELSE 0]
    /\ UNCHANGED <<xact, seq, slot, tx, lane, early, left, claimed, again, age, safe>>

(* The row that claim c writes; its own new holes get the bound `own`. *)
RowOf(c, own) ==
    LET taken == IF Wrong = "taken_stay_holes" THEN {} ELSE c.taken
        drop == /\ c.xmin >= c.row.oldBound
                /\ c.where = Slots \/ Wrong = "drop_by_one_slot"
                /\ c.spare \/ Wrong = "drop_by_bound"
        old == IF drop THEN {} ELSE c.row.old \ taken
        new == c.row.new \ taken
        Row(o, ob, n, nb) == [next |-> c.next, old |-> o, oldBound |-> IF o = {} THEN 0 ELSE ob,
                              new |-> n, newBound |-> IF n = {} THEN 0 ELSE nb]
        turned == IF old = {} THEN Row(new, c.row.newBound, {}, 0)
                  ELSE Row(old, c.row.oldBound, new, c.row.newBound)
    IN IF c.gaps = {} THEN turned
       ELSE IF turned.old = {} \/ Wrong = "one_generation" THEN Row(turned.old \cup c.gaps, own, {}, 0)
       ELSE Row(turned.old, turned.oldBound, turned.new \cup c.gaps, own)

(* A claim that took nothing and settled nothing writes nothing. *)
Idle(c) == c.taken = {} /\ (RowOf(c, 0) = c.row \/ Wrong = "no_row_when_empty")

(* Only now the claim's own transaction id, and with it the claim row. *)
Write ==
    /\ claim.at = "looked" /\ ~Idle(claim)
    /\ LET own == IF claim.xid # 0 THEN claim.xid ELSE NextXid
       IN /\ xact' = IF claim.xid # 0 THEN xact ELSE Assign
          /\ claim' = [claim EXCEPT !.at = "written", !.xid = own,
                                    !.row = RowOf(claim, IF claim.xmax # 0 THEN claim.xmax ELSE own)]
    /\ UNCHANGED <<seq, slot, tx, lane, early, left, claimed, again, age, safe>>

(* Bookkeeping only. A round ends with a claim that looked everywhere, left no
   visible body in a hole, and began when all transactions older than the
   round were over. `here`: holes when the round began; `since`: those of them
   that already were there a round before.                                   *)
Aged(c, row, xid) ==
    LET thorough == c.where = Slots /\ c.spare
    IN CASE Watch = "quiet" ->
              [age EXCEPT !.quiet = IF thorough /\ c.calm /\ c.gaps = {} THEN Min({2, @ + 1}) ELSE 0]
         [] Watch = "busy" /\ thorough /\ c.xmin >= age.mark ->
              [age EXCEPT !.mark = xid + 1, !.here = Holes(row),
                          !.since = age.here \cap Holes(row), !.overdue = age.since \cap Holes(row)]
         [] OTHER -> age

Finish ==
    /\ \/ claim.at = "written" /\ lane' = claim.row /\ xact' = Complete(claim.xid)
       \/ claim.at = "looked" /\ Idle(claim) /\ lane' = lane
          /\ xact' = IF claim.xid # 0 THEN Complete(claim.xid) ELSE xact
    /\ claimed' = claimed \cup claim.taken
    /\ again' = again \cup (claimed \cap claim.taken)
    /\ age' = Aged(claim, lane', xact.last)
    /\ safe' \in {safe, Flushed(lane', claimed', claim.xid, 0)}  \* no wait for the log
    /\ claim' = Nobody
    /\ UNCHANGED <<seq, slot, tx, early, left>>

GiveUp ==
    /\ claim # Nobody /\ claim' = Nobody
    /\ left.giveUps > 0 /\ left' = [left EXCEPT !.giveUps = @ - 1]
    /\ xact' = IF claim.xid # 0 THEN Complete(claim.xid) ELSE xact
    /\ UNCHANGED <<seq, slot, tx, lane, early, claimed, again, age, safe>>

(* Claim rows that the log had not reached are lost; so are transaction ids
   and numbers that nothing in the surviving log mentions: they come again.  *)
Crash ==
    /\ left.crashes > 0 /\ left' = [left EXCEPT !.crashes = @ - 1]
    /\ tx' = [p \in Everyone |-> IF tx[p].at = "open" THEN Gone ELSE tx[p]]
    /\ lane' = (IF Wrong = "cursor_outside_log" THEN lane ELSE safe.lane)
    /\ claimed' = safe.claimed /\ claim' = Nobody
    /\ \E x \in safe.xid..xact.last : xact' = [last |-> x, done |-> x, running |-> {}]
    /\ \E n \in safe.seq..seq : seq' = n
    /\ UNCHANGED <<slot, early, again, age, safe>>

Next ==
    \/ \E p \in Everyone : Begin(p) \/ Draw(p) \/ Commit(p) \/ Rollback(p) \/ EnqueueBriefly(p)
    \/ Read \/ LookIntoHoles \/ LookAhead \/ Write \/ Finish \/ GiveUp
    \/ ReadTooSoon \/ TakeXidTooSoon \/ Rotate \/ Crash
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
NothingLost == \A n \in Committed : n \in claimed \/ n >= lane.next \/ n \in Holes(lane)
ClaimedOnce == again = {}
HolesAreUnclaimed == Holes(lane) \cap claimed = {} /\ lane.old \cap lane.new = {}
EmptyIsEmpty == claim.at = "looked" => ~claim.blind
(* Two thorough claims that began while nobody wrote and skipped nothing. *)
QuietLaneIsClean == age.quiet = 2 => Holes(lane) = {}
(* No hole outlives two whole rounds, however busy the lane is. *)
BusyLaneIsClean == age.overdue = {}
=============================================================================
