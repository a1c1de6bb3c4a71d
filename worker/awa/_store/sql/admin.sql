-- name: get_job
-- One job; no row when there is none. Without outputs.
select id, kind, queue, args, state::text as state, priority, attempt, run_lease, max_attempts, run_at, deadline_at,
       attempted_at, finalized_at, created_at, payload, null::text as output
  from {schema}.get_job_v1($1::bigint);

-- name: get_job_with_output
-- One job with its output; no row when there is none.
select (g.job).id, (g.job).kind, (g.job).queue, (g.job).args, (g.job).state::text as state, (g.job).priority,
       (g.job).attempt, (g.job).run_lease, (g.job).max_attempts, (g.job).run_at, (g.job).deadline_at,
       (g.job).attempted_at, (g.job).finalized_at, (g.job).created_at, (g.job).payload, g.output::text as output
  from {schema}.get_job_v2($1::bigint) g where (g.job).id is not null;

-- name: list_jobs
-- Jobs of one state, or of all states in turn; bounded, without outputs.
select id, kind, queue, args, state::text as state, priority, attempt, run_lease, max_attempts, run_at, deadline_at,
       attempted_at, finalized_at, created_at, payload, null::text as output
  from {schema}.list_jobs_v1($1::text::{schema}.job_state, $2::text, $3::text, $4::integer);

-- name: cancel
-- Cancels a job; answers the state that it was found in, NULL when there is no such job.
select {schema}.cancel_v1($1::bigint)::text;

-- name: retry
-- Runs a job again; answers the state that it was found in, NULL when there is no such job.
select {schema}.retry_v1($1::bigint)::text;

-- name: pause_queue
-- Stops claims of a queue until it is resumed.
select {schema}.pause_queue_v1($1::text, $2::text);

-- name: resume_queue
-- Ends a pause; false when there was none.
select {schema}.resume_queue_v1($1::text);

-- name: queue_counts
-- Exact counts of every queue or of one.
select queue, paused, scheduled, available, running, waiting_external, retryable, completed, failed, cancelled,
       oldest_available_at, unknown_kinds
  from {schema}.queue_counts_v1($1::text);

-- name: signals
-- What scaling looks at, for some queues.
select queue, ready, running, oldest_ready_seconds, due_soon, orphaned, set_aside
  from {schema}.signals_v1($1::text[], $2::interval);

-- name: clock
-- The time of the server.
select clock_timestamp();

-- name: schema_version
-- The newest migration that this schema has, and whether one after $1 took away what an older release may need.
select max(version) as version, coalesce(bool_or(kind <> 'expand') filter (where version > $1::integer), false) as took_away
  from {schema}.schema_version;

-- name: grow_lane_pool
-- Makes the pool of lanes at least so large; answers how many there are. For the owner of the schema.
select {schema}.grow_lane_pool($1::integer);

-- name: grant_level
-- Gives a role what a level needs; answers how many functions it may call. For the owner of the schema.
select {schema}.grant_v1($1::text, $2::text);
