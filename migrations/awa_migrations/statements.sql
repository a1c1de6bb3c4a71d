-- What the migrator itself says to PostgreSQL. Everything is qualified; nothing relies on a search path.

-- name: open_step
-- Per-transaction settings (gone with it, so a pooler keeps nothing), and what the session found.
-- $1 is the lock limit in ms or NULL (keep the session's own, 2 s when it has none), $2 the wait for
-- another migrator in ms, $3 the statement limit in ms. A migrator that stands still or is gone is
-- ended by the server, so that its locks go.
select
    pg_backend_pid() as pid,
    found.lock_ms,
    set_config('search_path', '', true),
    set_config('lock_timeout', $2::text, true),
    set_config('statement_timeout', $3::text, true),
    set_config('idle_in_transaction_session_timeout', '10s', true),
    set_config('client_min_messages', 'warning', true),
    case when version() ~ 'linux|darwin|freebsd'
        then set_config('client_connection_check_interval', '1s', true) end
from (
    select coalesce($1::int, nullif(setting::int, 0), 2000) as lock_ms
    from pg_catalog.pg_settings
    where name = 'lock_timeout'
) as found;

-- name: exclude_others
-- One migrator of a schema at a time, to the end of the transaction.
select pg_advisory_xact_lock($1::bigint);

-- name: limit_locks
-- From here on no lock is waited for longer than $1 ms.
select set_config('lock_timeout', $1::text, true);

-- name: look
-- What there is of the schema $1 and what this role may do with it, without touching it.
select
    current_user::text as role_name,
    current_database()::text as database_name,
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only,
    n.oid is not null as schema_exists,
    coalesce(
        has_schema_privilege(n.oid, 'USAGE') and has_schema_privilege(n.oid, 'CREATE'), false
    ) as may_create_objects,
    has_database_privilege(current_database(), 'CREATE') as may_create_schema,
    c.oid is not null as table_exists,
    coalesce(
        has_schema_privilege(n.oid, 'USAGE') and has_table_privilege(c.oid, 'SELECT'), false
    ) as may_read,
    (
        select count(*) = 4
        from pg_catalog.pg_attribute as a
        where a.attrelid = c.oid and a.attname in ('version', 'name', 'kind', 'checksum')
    ) as is_ours,
    coalesce(pg_has_role(c.relowner, 'USAGE'), true) as is_owner
from (select $1::text as name) as wanted
left join pg_catalog.pg_namespace as n on n.nspname = wanted.name
left join pg_catalog.pg_class as c
    on c.relnamespace = n.oid and c.relname = 'schema_version' and c.relkind = 'r';

-- name: read_history
-- Every migration that was applied.
select version, name, kind, checksum
from {schema}.schema_version
order by version;

-- name: create_schema
-- Asked only when it is missing: IF NOT EXISTS would want the right to create one all the same.
create schema {schema};

-- name: create_history
-- One row per applied migration, written by its own transaction.
create table {schema}.schema_version (
    version integer primary key,
    name text not null,
    kind text not null check (kind in ('expand', 'contract')),
    checksum text not null,
    applied_at timestamptz not null default now(),
    duration interval not null
);
comment on table {schema}.schema_version is 'Applied migrations of the awa job queue, one row each';

-- name: start_clock
-- Remember when the file began, for its duration.
do $$ begin perform set_config('awa_migrations.began', clock_timestamp()::text, true); end $$;

-- name: record
-- The last statement of a file: it was applied.
insert into {schema}.schema_version (version, name, kind, checksum, duration)
values ($1, $2, $3, $4, clock_timestamp() - current_setting('awa_migrations.began')::timestamptz);

-- name: blockers
-- Who stands in the way of session $1. pid 0 is a prepared transaction.
select
    blocking.pid,
    coalesce(a.application_name, '') as application_name,
    a.state,
    extract(epoch from clock_timestamp() - a.xact_start)::float8 as age_seconds
from (select distinct unnest(pg_blocking_pids($1::int)) as pid) as blocking
left join pg_catalog.pg_stat_activity as a on a.pid = blocking.pid
order by a.xact_start nulls last, blocking.pid;

-- name: script_open
-- The same limits for somebody who runs the script by hand.
set local search_path = '';
set local lock_timeout = '2s';
set local client_min_messages = warning;
do $$ begin perform pg_advisory_xact_lock($1); end $$;

-- name: script_guard
-- Refuse when the schema is not exactly at version $1, the one the next file builds on.
do $guard$
declare
    v_found integer := 0;
begin
    if to_regclass('{schema}.schema_version') is not null then
        select coalesce(max(version), 0) into v_found from {schema}.schema_version;
    end if;
    if v_found <> $1 then
        raise exception 'schema "{schema_name}" is at version %, this part continues from %', v_found, $1
            using hint = 'print a script that starts from the version the schema is at';
    end if;
end $guard$;

-- name: script_create_schema
-- A script cannot look first; asking for a schema that exists needs no right this way.
do $$
begin
    if to_regnamespace('{schema}') is null then
        create schema {schema};
    end if;
end $$;
