-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- The ring: partitions by slot, append-only, reclaimed by TRUNCATE of a slot. A body is written once. What happens to it
-- is appended to the same slot as one row per batch, and its items are lane numbers. The newest claim row of a
-- lane is the lane's cursor. No row of a partitioned table is ever updated or deleted.
--
-- job_id = lane_seq * 1024 + lane_id for a body in the place it was first given, so that place is found from the
-- identity alone and only bodies that came back (retried, promoted, moved) need an index entry of their own.

create table {schema}.ring_rotations (
    generation bigint primary key,
    slot       smallint not null check (slot between 0 and 15),
    rotated_at timestamptz not null default now()
);
insert into {schema}.ring_rotations (generation, slot) values (1, 0);

create table {schema}.ready_entries (
    lane_seq     bigint not null,
    job_id       bigint not null,
    created_at   timestamptz not null,
    lane_id      integer not null,
    slot         smallint not null,
    attempt      smallint not null,
    max_attempts smallint not null,
    kind         text collate "C" not null,
    args         jsonb not null,
    run_at       timestamptz,
    unique_key   bytea,
    unique_mask  smallint,
    payload      jsonb
) partition by list (slot);

create table {schema}.claim_batches (
    claim_id    bigint not null,
    token       bigint not null,
    worker_id   bigint not null,
    claimed_at  timestamptz not null,
    deadline_at timestamptz,
    next_seq    bigint not null,
    lane_id     integer not null,
    slot        smallint not null,
    has_unique  boolean not null default false,
    items       int8multirange not null,
    holes_old   int8multirange,
    bound_old   xid8,
    holes_new   int8multirange,
    bound_new   xid8,
    looked_at   timestamptz
) partition by list (slot);

create table {schema}.receipt_completion_batches (
    claim_id        bigint not null,
    claimed_at      timestamptz not null,
    finalized_at    timestamptz not null,
    lane_id         integer not null,
    completed_count integer not null,
    slot            smallint not null,
    items           int8multirange not null
) partition by list (slot);

create table {schema}.claim_closures (
    claim_id  bigint not null,
    closed_at timestamptz not null,
    lane_id   integer not null,
    closed_count integer not null,
    slot      smallint not null,
    outcome   text not null check (outcome in ('retried', 'snoozed', 'failed', 'cancelled', 'parked', 'rescued',
                                               'evacuated', 'returned')),
    items     int8multirange not null
) partition by list (slot);

create table {schema}.ready_tombstones (
    last_seq   bigint not null,
    closed_at  timestamptz not null,
    lane_id    integer not null,
    tomb_count integer not null,
    slot       smallint not null,
    reason     text not null,
    items      int8multirange not null
) partition by list (slot);

create table {schema}.completion_tombstones (
    claim_id   bigint not null,
    closed_at  timestamptz not null,
    lane_id    integer not null,
    tomb_count integer not null,
    slot       smallint not null,
    items      int8multirange not null
) partition by list (slot);

create index ready_entries_returned on {schema}.ready_entries (job_id) where job_id <> lane_seq * 1024 + lane_id;
create index ready_entries_unique on {schema}.ready_entries (lane_id, lane_seq) where unique_key is not null;
create index claim_batches_cursor on {schema}.claim_batches (lane_id, next_seq, claim_id);
create index claim_batches_worker on {schema}.claim_batches (worker_id, claim_id);
create index receipt_completion_batches_claim on {schema}.receipt_completion_batches (claim_id);
create index claim_closures_claim on {schema}.claim_closures (claim_id);
create index ready_tombstones_lane on {schema}.ready_tombstones (lane_id, last_seq);
create index completion_tombstones_claim on {schema}.completion_tombstones (claim_id);

do $$
declare
    v_table text;
begin
    foreach v_table in array array['ready_entries', 'claim_batches', 'receipt_completion_batches', 'claim_closures',
                                   'ready_tombstones', 'completion_tombstones'] loop
        for v_slot in 0 .. 15 loop
            execute format('create table {schema}.%I partition of {schema}.%I for values in (%s) '
                           'with (autovacuum_vacuum_insert_threshold = -1)',
                           v_table || '_' || lpad(v_slot::text, 2, '0'), v_table, v_slot);
        end loop;
    end loop;
    -- Per child, because a unique index of the parent would have to carry the slot in every entry.
    for v_slot in 0 .. 15 loop
        execute format('create unique index %1$I on {schema}.%2$I (lane_id, lane_seq)',
                       'ready_entries_' || lpad(v_slot::text, 2, '0') || '_place',
                       'ready_entries_' || lpad(v_slot::text, 2, '0'));
    end loop;
end $$;

create sequence {schema}.claim_id as bigint;

-- Holes that a claim row has no room for. The maintenance leader moves their bodies, once visible, to new places.
create table {schema}.lane_holes (
    lane_id integer not null,
    holes   int8multirange not null,
    bound   xid8 not null
);

create table {schema}.deferred_jobs (
    job_id       bigint primary key,
    run_at       timestamptz not null,
    created_at   timestamptz not null,
    finalized_at timestamptz,
    run_lease    bigint not null default 0,
    lane_id      integer not null,
    attempt      smallint not null,
    max_attempts smallint not null,
    state        {schema}.job_state not null check (state in ('scheduled', 'retryable')),
    reason       text not null,
    kind         text collate "C" not null,
    args         jsonb not null,
    unique_key   bytea,
    unique_mask  smallint,
    payload      jsonb
);
create index deferred_jobs_due on {schema}.deferred_jobs (lane_id, run_at, job_id);
create index deferred_jobs_unknown on {schema}.deferred_jobs (kind) where reason = 'unknown_kind';
create index deferred_jobs_set_aside on {schema}.deferred_jobs (lane_id) where reason = 'unknown_kind';

-- Attempts taken out of the ring while they run, so that their slot can be reclaimed. attempt counts this attempt.
create table {schema}.leases (
    job_id       bigint primary key,
    claim_id     bigint not null,
    token        bigint not null,
    worker_id    bigint not null,
    lane_seq     bigint not null,
    created_at   timestamptz not null,
    run_at       timestamptz,
    claimed_at   timestamptz not null,
    deadline_at  timestamptz,
    lane_id      integer not null,
    attempt      smallint not null,
    max_attempts smallint not null,
    state        {schema}.job_state not null default 'running' check (state in ('running', 'waiting_external')),
    kind         text collate "C" not null,
    args         jsonb not null,
    unique_key   bytea,
    unique_mask  smallint,
    payload      jsonb,
    unique (claim_id, lane_seq)
);

create table {schema}.done_entries (
    job_id       bigint primary key,
    run_lease    bigint not null,
    run_at       timestamptz not null,
    created_at   timestamptz not null,
    attempted_at timestamptz,
    finalized_at timestamptz not null,
    lane_id      integer not null,
    attempt      smallint not null,
    max_attempts smallint not null,
    state        {schema}.job_state not null check (state in ('completed', 'failed', 'cancelled')),
    kind         text collate "C" not null,
    args         jsonb not null,
    unique_key   bytea,
    unique_mask  smallint,
    payload      jsonb
);
create index done_entries_final on {schema}.done_entries (state, finalized_at);

-- Totals of what prune and retention have taken away, so that counts stay exact.
create table {schema}.lane_totals (
    lane_id   integer not null,
    state     {schema}.job_state not null,
    removed   bigint not null,
    primary key (lane_id, state)
);

-- One row per start of a worker process. worker_id is its identity; names may repeat. pod_owner: uid of the object in whose
-- pod it runs, so that only who knows all pods of that object judges it by them; several clusters may share a database.
create table {schema}.runtime_instances (
    worker_id     bigint generated always as identity primary key,
    name          text not null,
    version       text not null,
    host          text not null,
    pid           integer not null,
    queues        text[] not null,
    kinds         text[] not null,
    started_at    timestamptz not null default now(),
    last_seen     timestamptz not null default now(),
    stale_after   interval not null,
    dead_at       timestamptz,
    dead_reason   text,
    settled_below bigint not null default 0,
    pod_owner     text collate "C" not null default '',
    pod_name      text not null default '',
    pod_uid       text not null default '',
    started_claims bigint[] not null default '{}',
    started_seqs   bigint[] not null default '{}'
) with (fillfactor = 50);
-- No column that a heartbeat changes.
create index runtime_instances_pods on {schema}.runtime_instances (pod_owner) where dead_at is null and pod_owner <> '';

create table {schema}.leader (
    duty       text primary key,
    worker_id  bigint not null,
    expires_at timestamptz not null
);

-- Where the tables are: one row for each cluster or timeline that they came to, the newest counts. Rows are copied by a dump, by
-- replication, by a base backup; sequences and transaction ids are not always, so whoever uses these compares first.
create table {schema}.incarnations (
    incarnation       integer primary key,
    system_identifier bigint not null,
    timeline          integer not null,
    mark              bigint not null,
    since             timestamptz not null default now()
);

-- No counter: it remembers for which cluster and which rows all other sequences were found to be high enough. A sequence,
-- because it is left behind just when they are, and because setting it is seen at once and survives a rollback.
create sequence {schema}.sequences_fit as bigint;

create function {schema}.cluster_now(out system_identifier bigint, out timeline integer)
language plpgsql volatile
as $$
begin
    if pg_is_in_recovery() then
        raise exception 'this server is a standby, which takes no writes' using errcode = '25006';
    end if;
    system_identifier := (select c.system_identifier from pg_control_system() c);
    timeline := ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer;
exception when insufficient_privilege or feature_not_supported then
    -- Some hosted servers keep this to themselves; there only the mark of the rows tells.
    system_identifier := 0;
    timeline := 0;
end $$;

create function {schema}.fit_of(p_system_identifier bigint, p_mark bigint) returns bigint
language plpgsql immutable
as $$
begin
    return greatest(1, hashtextextended(format('%s:%s', p_system_identifier, p_mark), 0) & 9223372036854775807);
end $$;

insert into {schema}.incarnations (incarnation, system_identifier, timeline, mark)
select 1, c.system_identifier, c.timeline, (random() * 4503599627370496)::bigint from {schema}.cluster_now() c;
select setval('{schema}.sequences_fit', {schema}.fit_of(system_identifier, mark)) from {schema}.incarnations;
