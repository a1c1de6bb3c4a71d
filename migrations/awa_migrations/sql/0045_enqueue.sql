-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- Enqueue. The order is the promise on which claims retire holes: take the transaction id, then draw numbers, then insert.

create function {schema}.current_slot() returns smallint
language plpgsql stable
as $$ begin return (select slot from {schema}.ring_rotations order by generation desc limit 1); end $$;

-- Tells sleeping workers of a queue, and only those: a worker holds the queue's shared advisory lock while it sleeps, and
-- looks once more after it took the lock. Numbers are drawn before this looks, so one of both sees the other.
create function {schema}.wake(p_queue_id integer) returns void
language plpgsql volatile
as $$
begin
    -- Tried and given back in one expression: other producers who look meanwhile would take this lock for a sleeper's.
    if (case when pg_try_advisory_lock(hashtext('{schema_name}'), 1000000 + p_queue_id)
             then not pg_advisory_unlock(hashtext('{schema_name}'), 1000000 + p_queue_id) else true end) then
        perform pg_notify('{schema_name}:' || p_queue_id, '');
    end if;
end $$;

-- Tells the maintenance leader, while it sleeps, that something is due before it looks by itself: it sleeps for 5 seconds at most.
-- Called after the transaction has its id and has written what it tells of. 0 stands for no queue.
create function {schema}.wake_leader(p_due timestamptz) returns void
language plpgsql volatile
as $$
begin
    if p_due < clock_timestamp() + interval '6 seconds' then
        perform {schema}.wake(0);
    end if;
end $$;

-- Takes the transaction id, then n numbers of a lane. What inserts bodies calls this first. A session that has not looked yet
-- whether the sequences belong to the rows does so once.
create function {schema}.draw(p_sequence regclass, p_count integer) returns bigint[]
language plpgsql volatile
as $$
declare
    v_xid constant xid8 := pg_current_xact_id();
begin
    if (current_setting('awa_cluster.{schema_name}', true) <> '') is not true then
        perform {schema}.check_sequences();
    end if;
    if p_count = 1 then
        return array[nextval(p_sequence)];
    end if;
    return array(select nextval(p_sequence) from generate_series(1, p_count));
end $$;

create function {schema}.mask_has(p_mask smallint, p_state {schema}.job_state) returns boolean
language plpgsql immutable
as $$
begin
    return p_mask >> case p_state
        when 'scheduled' then 0 when 'available' then 1 when 'running' then 2 when 'completed' then 3
        when 'retryable' then 4 when 'failed' then 5 when 'cancelled' then 6 else 7 end & 1 = 1;
end $$;

-- SQL-language functions with settings are planned at every call, so what runs per batch is plpgsql, whose plans stay.

-- Takes the unique keys of new jobs. Conflicts raise, or are answered as the positions to leave out.
create function {schema}.take_keys(p_ids bigint[], p_keys bytea[], p_masks smallint[], p_states {schema}.job_state[],
                                   p_skip boolean) returns integer[]
language plpgsql volatile
as $$
declare
    v_lost integer[];
    v_holder bigint;
begin
    with wanted as (
        select n, id, key from unnest(p_ids, p_keys, p_masks, p_states) with ordinality u(id, key, mask, state, n)
         where key is not null and {schema}.mask_has(mask, state)
    ), taken as (
        insert into {schema}.job_unique_claims (unique_key, job_id)
        select key, id from wanted order by key, n
        on conflict do nothing
        returning job_id
    )
    select array_agg(n) into v_lost from wanted where id not in (select job_id from taken);
    if v_lost is not null and not p_skip then
        select job_id into v_holder from {schema}.job_unique_claims where unique_key = p_keys[v_lost[1]];
        raise exception 'a job with the same unique key exists'
            using errcode = '23505', constraint = 'idx_awa_jobs_unique',
                  detail = format('holder=%s position=%s', v_holder, v_lost[1] - 1);
    end if;
    return coalesce(v_lost, '{}');
end $$;

-- A batch for one lane. Every optional array is NULL when all its elements are the default; p_kinds may hold a single
-- element that stands for all. Answers identities in order, NULL for a duplicate that was left out.
create function {schema}.enqueue_v1(
    p_queue text, p_priority smallint, p_kinds text[], p_args jsonb[], p_run_at timestamptz[] default null,
    p_max_attempts smallint[] default null, p_payloads jsonb[] default null, p_unique_keys bytea[] default null,
    p_unique_masks smallint[] default null, p_skip_duplicates boolean default false)
returns bigint[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    v_count integer := cardinality(p_args);
    v_lane record;
    v_seqs bigint[];
    v_ids bigint[];
    v_lost integer[] := '{}';
    v_now timestamptz := clock_timestamp();
    v_slot smallint;
begin
    if v_count = 0 then
        return '{}';
    end if;
    if cardinality(p_kinds) is distinct from 1 or p_max_attempts is not null
            or (char_length(p_kinds[1]) between 1 and 200) is not true then
        perform {schema}.check_batch(p_kinds, v_count, p_max_attempts);
    end if;
    select l.lane_id, l.sequence, m.queue_id into v_lane
      from {schema}.lanes l join {schema}.queue_meta m on m.queue = l.queue
     where l.queue = p_queue and l.priority = p_priority;
    if not found then
        select * into v_lane from {schema}.lane_of(p_queue, p_priority);
    end if;
    if p_run_at is not null then
        return {schema}.enqueue_mixed(v_lane.lane_id, v_lane.sequence, v_lane.queue_id, p_kinds, p_args, p_run_at,
            p_max_attempts, p_payloads, p_unique_keys, p_unique_masks, p_skip_duplicates);
    end if;
    v_seqs := {schema}.draw(v_lane.sequence, v_count);
    v_slot := (select slot from {schema}.ring_rotations order by generation desc limit 1);
    if p_unique_keys is not null then
        select array_agg(s * 1024 + v_lane.lane_id) into v_ids from unnest(v_seqs) s;
        v_lost := {schema}.take_keys(v_ids, p_unique_keys, p_unique_masks,
            array_fill('available'::{schema}.job_state, array[v_count]), p_skip_duplicates);
    end if;
    if p_max_attempts is null and p_payloads is null and p_unique_keys is null and cardinality(p_kinds) = 1 then
        insert into {schema}.ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args)
        select seq, seq * 1024 + v_lane.lane_id, v_now, v_lane.lane_id, v_slot, 0, 25, p_kinds[1], args
          from unnest(v_seqs, p_args) u(seq, args);
    else
        insert into {schema}.ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind,
                                            args, unique_key, unique_mask, payload)
        select seq, seq * 1024 + v_lane.lane_id, v_now, v_lane.lane_id, v_slot, 0, coalesce(tries, 25),
               coalesce(kind, p_kinds[1]), args, key, mask, payload
          from unnest(v_seqs, p_args, p_kinds, p_max_attempts, p_payloads, p_unique_keys, p_unique_masks)
               with ordinality u(seq, args, kind, tries, payload, key, mask, n)
         where n <> all (v_lost);
    end if;
    perform {schema}.wake(v_lane.queue_id);
    if v_count = 1 and v_lost = '{}' then
        return array[v_seqs[1] * 1024 + v_lane.lane_id];
    end if;
    return array(select case when n <> all (v_lost) then seq * 1024 + v_lane.lane_id end
                   from unnest(v_seqs) with ordinality u(seq, n) order by n);
end $$;

create function {schema}.check_batch(p_kinds text[], p_count integer, p_max_attempts smallint[]) returns void
language plpgsql immutable
as $$
begin
    if p_kinds is null or cardinality(p_kinds) not in (1, p_count) then
        raise exception 'kinds: one for all jobs or one for each, not % for %', cardinality(p_kinds), p_count
            using errcode = '22023';
    end if;
    if exists (select from unnest(p_kinds) k where k is null or char_length(k) not between 1 and 200) then
        raise exception 'a kind has 1 to 200 characters' using errcode = '22023';
    end if;
    if p_max_attempts is not null and exists (select from unnest(p_max_attempts) t where t not between 1 and 1000) then
        raise exception 'max_attempts is 1 to 1000' using errcode = '22023';
    end if;
end $$;

-- A batch in which some jobs have a time to run: those wait in deferred storage.
create function {schema}.enqueue_mixed(
    p_lane integer, p_sequence regclass, p_queue_id integer, p_kinds text[], p_args jsonb[], p_run_at timestamptz[],
    p_max_attempts smallint[], p_payloads jsonb[], p_unique_keys bytea[], p_unique_masks smallint[], p_skip boolean)
returns bigint[]
language plpgsql volatile
as $$
declare
    v_count integer := cardinality(p_args);
    v_ready integer := (select count(*) from generate_series(1, v_count) n where p_run_at[n] is null);
    v_seqs bigint[] := {schema}.draw(p_sequence, v_ready);
    v_ids bigint[];
    v_lost integer[] := '{}';
    v_now timestamptz := clock_timestamp();
begin
    select array_agg(case when p_run_at[n] is null then v_seqs[rank] * 1024 + p_lane
                          else nextval('{schema}.deferred_id') * 1024 end order by n)
      into v_ids
      from (select n, count(*) filter (where p_run_at[n] is null) over (order by n) as rank
              from generate_series(1, v_count) n) r;
    if p_unique_keys is not null then
        v_lost := {schema}.take_keys(v_ids, p_unique_keys, p_unique_masks,
            array(select case when p_run_at[n] is null then 'available' else 'scheduled' end::{schema}.job_state
                    from generate_series(1, v_count) n order by n), p_skip);
    end if;
    insert into {schema}.ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args,
                                        unique_key, unique_mask, payload)
    select id / 1024, id, v_now, p_lane, {schema}.current_slot(), 0, coalesce(tries, 25), coalesce(kind, p_kinds[1]),
           args, key, mask, payload
      from unnest(v_ids, p_run_at, p_args, p_kinds, p_max_attempts, p_payloads, p_unique_keys, p_unique_masks)
           with ordinality u(id, run_at, args, kind, tries, payload, key, mask, n)
     where run_at is null and n <> all (v_lost);
    insert into {schema}.deferred_jobs (job_id, run_at, created_at, lane_id, attempt, max_attempts, state, reason, kind,
                                        args, unique_key, unique_mask, payload)
    select id, run_at, v_now, p_lane, 0, coalesce(tries, 25), 'scheduled', 'scheduled', coalesce(kind, p_kinds[1]),
           args, key, mask, payload
      from unnest(v_ids, p_run_at, p_args, p_kinds, p_max_attempts, p_payloads, p_unique_keys, p_unique_masks)
           with ordinality u(id, run_at, args, kind, tries, payload, key, mask, n)
     where run_at is not null and n <> all (v_lost);
    perform {schema}.wake_leader((select min(at) from unnest(p_run_at) at));
    if v_ready > 0 then
        perform {schema}.wake(p_queue_id);
    end if;
    return array(select case when n <> all (v_lost) then v_ids[n] end from generate_series(1, v_count) n order by n);
end $$;

-- For the COPY form: reserves places of a lane in the caller's transaction, which then copies bodies into ready_entries.
create function {schema}.reserve_v1(p_queue text, p_priority smallint, p_count integer,
                                    out lane_id integer, out slot smallint, out created_at timestamptz, out seqs bigint[])
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_lane record;
begin
    select * into v_lane from {schema}.lane_of(p_queue, p_priority);
    lane_id := v_lane.lane_id;
    seqs := {schema}.draw(v_lane.sequence, p_count);
    slot := {schema}.current_slot();
    created_at := clock_timestamp();
    perform {schema}.wake(v_lane.queue_id);
end $$;
