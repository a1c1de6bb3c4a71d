-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- Numbering starts at 0043 so that 0052, which adds job output, carries the number the decision record gives it.
--
-- A lane is one (queue, priority). Its numbers come from a sequence of a pool created here, so that nothing runs DDL
-- later. A sequence must keep CACHE 1: numbers that a session keeps back and uses in a later transaction would
-- fall below holes that claims have already retired.

create type {schema}.job_state as enum (
    'scheduled', 'available', 'running', 'completed', 'retryable', 'failed', 'cancelled', 'waiting_external');

create table {schema}.queue_meta (
    queue      text collate "C" primary key check (char_length(queue) between 1 and 200),
    queue_id   integer generated always as identity unique,
    paused     boolean not null default false,
    paused_at  timestamptz,
    paused_by  text,
    completed_retention interval,
    failed_retention    interval,
    created_at timestamptz not null default now()
);

create table {schema}.lanes (
    lane_id       integer primary key check (lane_id between 1 and 1023),
    sequence      regclass not null,
    queue         text collate "C" references {schema}.queue_meta,
    priority      smallint check (priority between 1 and 4),
    tombstoned_to bigint not null default 0,
    unique (queue, priority)
);

-- Jobs that start in deferred storage, or on a lane that is not theirs, take their identity from here.
create sequence {schema}.deferred_id as bigint;

create function {schema}.grow_lane_pool(p_size integer) returns integer
language plpgsql
as $$
declare
    v_lane integer;
begin
    if p_size not between 1 and 1023 then
        raise exception 'the lane pool holds 1 to 1023 lanes, not %', p_size using errcode = '22023';
    end if;
    for v_lane in select n from generate_series(1, p_size) n
                   where not exists (select from {schema}.lanes l where l.lane_id = n) order by n loop
        execute format('create sequence {schema}.lane_seq_%s as bigint cache 1', v_lane);
        insert into {schema}.lanes (lane_id, sequence)
        values (v_lane, format('{schema}.lane_seq_%s', v_lane)::regclass);
    end loop;
    return (select count(*) from {schema}.lanes);
end $$;

select {schema}.grow_lane_pool(256);

create function {schema}.check_lane(p_queue text, p_priority smallint) returns void
language plpgsql immutable
as $$
begin
    if p_queue is null or char_length(p_queue) not between 1 and 200 or p_queue ~ '[[:cntrl:]]' then
        raise exception 'a queue name has 1 to 200 printable characters' using errcode = '22023';
    end if;
    if p_priority is null or p_priority not between 1 and 4 then
        raise exception 'priority is 1 (first) to 4 (last), not %', p_priority using errcode = '22023';
    end if;
end $$;

-- The lane of (queue, priority); registers both at first use. Callers that can, do so in a short transaction of their
-- own beforehand (register_lane_v1): a long transaction that registers a lane holds up others that want the same one.
create function {schema}.lane_of(p_queue text, p_priority smallint, out lane_id integer, out sequence regclass,
                                 out queue_id integer)
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    select l.lane_id, l.sequence, m.queue_id into lane_id, sequence, queue_id
      from {schema}.lanes l join {schema}.queue_meta m using (queue)
     where l.queue = p_queue and l.priority = p_priority;
    if found then
        return;
    end if;
    perform {schema}.check_lane(p_queue, p_priority);
    if (current_setting('awa_cluster.{schema_name}', true) <> '') is not true then
        perform {schema}.check_sequences();
    end if;
    insert into {schema}.queue_meta (queue) values (p_queue) on conflict do nothing;
    perform pg_advisory_xact_lock(hashtext('{schema_name}'), 0);
    if not exists (select from {schema}.lanes l where l.queue = p_queue and l.priority = p_priority) then
        update {schema}.lanes l set queue = p_queue, priority = p_priority
         where l.lane_id = (select f.lane_id from {schema}.lanes f where f.queue is null order by f.lane_id limit 1);
        if not found then
            raise exception 'all lanes are in use: every (queue, priority) takes one of %',
                (select count(*) from {schema}.lanes)
                using errcode = '53400', hint = 'awa migrate --lane-pool N adds lanes, up to 1023';
        end if;
    end if;
    select l.lane_id, l.sequence, m.queue_id into strict lane_id, sequence, queue_id
      from {schema}.lanes l join {schema}.queue_meta m using (queue)
     where l.queue = p_queue and l.priority = p_priority;
end $$;

create function {schema}.register_lane_v1(p_queue text, p_priority smallint) returns integer
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$ select lane_id from {schema}.lane_of(p_queue, p_priority) $$;

create table {schema}.job_unique_claims (
    unique_key bytea not null,
    job_id     bigint not null,
    constraint idx_awa_jobs_unique primary key (unique_key)
);
create index job_unique_claims_job on {schema}.job_unique_claims (job_id);
