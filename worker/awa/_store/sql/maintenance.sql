-- name: lead
-- Takes or renews a duty for a while; false when another live worker has it.
select {schema}.lead_v1($1::text, $2::bigint, $3::interval);

-- name: resign
-- Lets go of a duty.
select {schema}.resign_v1($1::text, $2::bigint);

-- name: promote
-- Makes due jobs ready.
select promoted, next_due, due_in_seconds, has_holes, ended_below from {schema}.promote_v1($1::integer);

-- name: rescue
-- Takes the work of workers that are dead or unknown; silent ones are declared dead only if $1.
select worker_id, rescued from {schema}.rescue_v1($1::boolean);

-- name: rescue_overdue
-- Ends attempts whose hard deadline has passed.
select job_id, claim_id, worker_id from {schema}.rescue_overdue_v1();

-- name: unknown_kinds
-- Jobs that wait for a worker that knows their kind, by queue and kind.
select queue, kind, jobs from {schema}.unknown_kinds_v1();

-- name: settle_holes
-- Settles numbers that claims left to the leader; answers how many jobs it moved.
select {schema}.settle_holes_v1();

-- name: rotate
-- Enters the next slot of the ring when it is due.
select {schema}.rotate_v1($1::interval, $2::bigint);

-- name: evacuate
-- Moves the last open attempts out of old slots.
select {schema}.evacuate_v1($1::interval, $2::integer);

-- name: prune
-- Reclaims the oldest slot whose time or whose bytes are over.
select outcome, pruned_slot, pruned_jobs, before_its_time, horizon_seconds, blocker
  from {schema}.prune_v1($1::interval, $2::bigint);

-- name: retire
-- Deletes terminal jobs outside the ring whose retention is over.
select {schema}.retire_v1($1::interval, $2::interval, $3::integer);

-- name: oldest_transactions
-- For how long the oldest transactions have kept vacuum from removing rows, by whose they are.
select holder, seconds from {schema}.oldest_transactions_v1();
