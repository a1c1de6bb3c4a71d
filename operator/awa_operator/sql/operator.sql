-- What the operator says to a database. The role needs no more than the level `monitor`.

-- name: limits
-- What opens every transaction beside its kind: limits of the server's, gone with the transaction, so that a pooler keeps none.
set local statement_timeout = 2000;
set local lock_timeout = 1000;
set local idle_in_transaction_session_timeout = 10000;
set local search_path = '';
set local jit = off;

-- name: probe
-- What the server and the schema $1 are like, whether the schema exists or not; touches no table of the schema. A read-only
-- default counts where the server has it, not where the operator's own role was given it. $2: functions of interest.
select
    pg_is_in_recovery() as in_recovery,
    exists (
        select from pg_settings
        where name = 'default_transaction_read_only' and setting = 'on'
            and source in ('configuration file', 'command line', 'environment variable', 'global')
    ) as is_read_only,
    current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer
        - coalesce(current_setting('reserved_connections', true), '0')::integer as server_connections,
    (select datconnlimit from pg_database where datname = current_database()) as database_connections,
    n.oid is not null and c.oid is not null as has_schema,
    coalesce(
        has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'), false
    ) as may_read,
    array(
        select p.proname::text from pg_proc as p
        where p.pronamespace = n.oid and p.proname = any ($2::text[])
    ) as has,
    array(
        select p.proname::text from pg_proc as p
        where p.pronamespace = n.oid and p.proname = any ($2::text[])
            and has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute')
    ) as may
from (select $1::text as name) as wanted
left join pg_namespace as n on n.nspname = wanted.name
left join pg_class as c
    on c.relnamespace = n.oid and c.relname = 'schema_version' and c.relkind = 'r';

-- name: versions
-- The newest migration, and the newest that took something away; no row is version 0.
select
    coalesce(max(version), 0) as version,
    max(version) filter (where kind <> 'expand') as contract
from {schema}.schema_version;

-- name: signals
-- What scaling looks at, for all queues of interest; a queue that never had a job has no row.
select queue, ready, running, oldest_ready_seconds, due_soon, orphaned, set_aside
from {schema}.signals_v1($1::text[], $2::interval);

-- name: workers
-- Workers of some owners that count as alive, and their pods.
select worker_id, pod_owner, pod_name, pod_uid, started_at
from {schema}.workers_v1($1::text[]);

-- name: pod_loads
-- Pods of an owner that have jobs in hand, and for how long the oldest of them has been running.
select pod_name, running, oldest_running_seconds
from {schema}.pod_loads_v1($1::text);

-- name: rescue_lost
-- A worker is gone with its pod: its jobs are handed on. Answers how many, NULL when it was dead already.
select {schema}.rescue_lost_v1($1::bigint, $2::text);

-- name: queue_ids
-- Numbers of queues, for their channels and locks; a queue that never had a job or worker has none.
select queue, queue_id from {schema}.queue_ids_v1($1::text[]);

-- name: sleep
-- Says that this session sleeps on some queues: producers then notify. The lock is the session's, not the transaction's.
select pg_advisory_lock_shared(hashtext('{schema_name}'), 1000000 + id) from unnest($1::integer[]) as id;

-- name: wake
-- Says that this session no longer sleeps on them.
select pg_advisory_unlock_shared(hashtext('{schema_name}'), 1000000 + id) from unnest($1::integer[]) as id;
