-- name: engine
-- Which engine this is: the cluster, the database, the schema. No row when there is no schema.
select format('%s-%s-%s', c.system_identifier, d.oid, n.oid)
  from pg_catalog.pg_control_system() c, pg_catalog.pg_database d, pg_catalog.pg_namespace n
 where d.datname = current_database() and n.nspname = '{schema_name}';

-- name: arrive
-- Settles the tables in this cluster if they came from another one or another timeline, and lets this session claim.
select incarnation, moved, raised, holes from {schema}.arrive_v1();

-- name: register_worker
-- A new identity for this process start, the pod it runs in, if any, and what its queues say of retention.
select {schema}.register_worker_v1($1::text, $2::text, $3::text, $4::integer, $5::text[], $6::text[], $7::interval,
                                   $8::text, $9::text, $10::text, $11::interval[], $12::interval[]);

-- name: heartbeat
-- This process lives, holds these claims and runs these items; which of those has somebody else ended?
select alive, ended_claims, ended_seqs
  from {schema}.heartbeat_v1($1::bigint, $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::interval);

-- name: give_back
-- Gives back a claim whose answer was lost.
select {schema}.give_back_v1($1::bigint, $2::bigint);

-- name: mark_dead
-- Somebody who knows says that a worker is gone; false when that was known.
select {schema}.mark_dead_v1($1::bigint, $2::text);

-- name: settle
-- The exact end of a dead process: started attempts crashed, all others go back.
select {schema}.settle_v1($1::bigint, $2::text, $3::bigint[], $4::bigint[]);

-- name: queue_ids
-- Numbers of queues, for their notification channels and locks.
select queue, queue_id from {schema}.queue_ids_v1($1::text[]);

-- name: notify
-- Tells whoever listens on a channel, to prove that it hears.
select pg_notify($1::text, '');

-- name: free_share
-- Which part of the connections that ordinary roles may have nobody has.
select (1 - sum(numbackends) / (current_setting('max_connections')::integer
                                - current_setting('superuser_reserved_connections')::integer))::double precision
  from pg_catalog.pg_stat_database;

-- name: own_backend
-- The process on the server that this session has, told apart from a later one of the same number.
select pid, backend_start from pg_catalog.pg_stat_activity where pid = pg_backend_pid();

-- name: end_backend
-- Ends a session of this role's that its client has given up, with what it may still hold.
select pg_terminate_backend(pid)
  from pg_catalog.pg_stat_activity
 where pid = $1::integer and backend_start = $2::timestamptz and usename = current_user;

-- name: sleep_lock
-- Says that this session sleeps on a queue: producers then notify.
select pg_advisory_lock_shared(hashtext('{schema_name}'), 1000000 + id) from unnest($1::integer[]) id;

-- name: sleep_unlock
-- Says that this session is awake.
select pg_advisory_unlock_shared(hashtext('{schema_name}'), 1000000 + id) from unnest($1::integer[]) id;

-- name: own_transaction
-- A number above those of all transactions that have written so far.
select pg_current_xact_id()::text::bigint;

-- name: give_up_after
-- For how many milliseconds the server tries to send to this session before it ends it, where the system can do that.
select set_config('tcp_user_timeout', $1::text, false);
