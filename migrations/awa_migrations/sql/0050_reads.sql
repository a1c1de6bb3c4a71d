-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- What there is: jobs, counts, signals for scaling, and what workers have in hand. Reads are STABLE, so each sees one
-- snapshot, in which every job is in exactly one place.

create type {schema}.job_row as (
    id bigint, kind text, queue text, args jsonb, state {schema}.job_state, priority smallint, attempt smallint,
    run_lease bigint, max_attempts smallint, run_at timestamptz, deadline_at timestamptz, attempted_at timestamptz,
    finalized_at timestamptz, created_at timestamptz, unique_key bytea, unique_mask smallint, payload jsonb,
    lane_id integer, slot smallint, lane_seq bigint, worker_id bigint);

create view {schema}.terminal_jobs as
select d.job_id as id, d.kind, l.queue, d.args, d.state, l.priority, d.attempt, d.run_lease, d.max_attempts, d.run_at,
       null::timestamptz as deadline_at, d.attempted_at, d.finalized_at, d.created_at, d.unique_key, d.unique_mask,
       d.payload
  from {schema}.done_entries d join {schema}.lanes l on l.lane_id = d.lane_id
union all
select r.job_id, r.kind, l.queue, r.args, 'completed'::{schema}.job_state, l.priority, (r.attempt + 1)::smallint, e.claim_id,
       r.max_attempts, coalesce(r.run_at, r.created_at), null, e.claimed_at, e.finalized_at, r.created_at, r.unique_key,
       r.unique_mask, r.payload - 'progress' - 'returns'
  from {schema}.receipt_completion_batches e
  join {schema}.lanes l on l.lane_id = e.lane_id
 cross join lateral unnest(e.items) i
 cross join lateral generate_series(lower(i), upper(i) - 1) s(seq)
 cross join lateral (
       -- offset 0: always look a body up by its place; joining whole slots with batches is quadratic
       select * from {schema}.ready_entries b
        where b.slot = e.slot and b.lane_id = e.lane_id and b.lane_seq = s.seq offset 0) r
 where not exists (select from {schema}.completion_tombstones t
                    where t.slot = e.slot and t.claim_id = e.claim_id and t.items @> s.seq);

-- The claim that holds a place of a lane, if any.
create function {schema}.claim_at(p_slot smallint, p_lane integer, p_seq bigint) returns {schema}.claim_batches
language plpgsql stable
set enable_seqscan = off
set enable_sort = off
as $$
declare
    v_claim {schema}.claim_batches;
begin
    select * into v_claim from {schema}.claim_batches
     where slot = p_slot and lane_id = p_lane and next_seq > p_seq and items @> p_seq
     order by next_seq, claim_id limit 1;
    return v_claim;
end $$;

-- A body of the ring as a job, or NULL when the job has moved on from this place.
create function {schema}.ring_job(p_body {schema}.ready_entries) returns {schema}.job_row
language plpgsql stable
set enable_seqscan = off
as $$
declare
    v_job {schema}.job_row;
    v_claim {schema}.claim_batches;
begin
    select l.queue, l.priority into v_job.queue, v_job.priority from {schema}.lanes l where l.lane_id = p_body.lane_id;
    v_job.id := p_body.job_id;
    v_job.kind := p_body.kind;
    v_job.args := p_body.args;
    v_job.attempt := p_body.attempt;
    v_job.max_attempts := p_body.max_attempts;
    v_job.run_at := coalesce(p_body.run_at, p_body.created_at);
    v_job.created_at := p_body.created_at;
    v_job.unique_key := p_body.unique_key;
    v_job.unique_mask := p_body.unique_mask;
    v_job.payload := nullif(p_body.payload - 'returns', '{}');
    v_job.lane_id := p_body.lane_id;
    v_job.slot := p_body.slot;
    v_job.lane_seq := p_body.lane_seq;
    v_job.run_lease := 0;
    v_claim := {schema}.claim_at(p_body.slot, p_body.lane_id, p_body.lane_seq);
    if v_claim.claim_id is null then
        if exists (select from {schema}.ready_tombstones t where t.slot = p_body.slot and t.lane_id = p_body.lane_id
                      and t.last_seq >= p_body.lane_seq and t.items @> p_body.lane_seq) then
            return null;
        end if;
        v_job.state := 'available';
        return v_job;
    end if;
    v_job.run_lease := v_claim.claim_id;
    v_job.attempt := p_body.attempt + 1;
    v_job.attempted_at := v_claim.claimed_at;
    v_job.deadline_at := v_claim.deadline_at;
    v_job.worker_id := v_claim.worker_id;
    select e.finalized_at into v_job.finalized_at from {schema}.receipt_completion_batches e
     where e.slot = p_body.slot and e.claim_id = v_claim.claim_id and e.items @> p_body.lane_seq;
    if found then
        if exists (select from {schema}.completion_tombstones t where t.slot = p_body.slot
                      and t.claim_id = v_claim.claim_id and t.items @> p_body.lane_seq) then
            return null;
        end if;
        v_job.state := 'completed';
        v_job.payload := nullif(v_job.payload - 'progress', '{}');
        return v_job;
    end if;
    if exists (select from {schema}.claim_closures c where c.slot = p_body.slot and c.claim_id = v_claim.claim_id
                  and c.items @> p_body.lane_seq) then
        return null;
    end if;
    v_job.state := 'running';
    return v_job;
end $$;

create function {schema}.find_job(p_id bigint) returns {schema}.job_row
language plpgsql stable
set enable_seqscan = off
as $$
declare
    v_job {schema}.job_row;
    v_body {schema}.ready_entries;
begin
    select d.job_id, d.kind, l.queue, d.args, d.state, l.priority, d.attempt, d.run_lease, d.max_attempts, d.run_at, null,
           null, d.finalized_at, d.created_at, d.unique_key, d.unique_mask, nullif(d.payload - 'returns', '{}'), d.lane_id,
           null, null, null
      into v_job from {schema}.deferred_jobs d join {schema}.lanes l on l.lane_id = d.lane_id where d.job_id = p_id;
    if found then return v_job; end if;
    select d.job_id, d.kind, l.queue, d.args, d.state, l.priority, d.attempt, d.claim_id, d.max_attempts,
           coalesce(d.run_at, d.created_at), d.deadline_at, d.claimed_at, null, d.created_at, d.unique_key, d.unique_mask,
           d.payload, d.lane_id, null, d.lane_seq, d.worker_id
      into v_job from {schema}.leases d join {schema}.lanes l on l.lane_id = d.lane_id where d.job_id = p_id;
    if found then return v_job; end if;
    select d.job_id, d.kind, l.queue, d.args, d.state, l.priority, d.attempt, d.run_lease, d.max_attempts, d.run_at, null,
           d.attempted_at, d.finalized_at, d.created_at, d.unique_key, d.unique_mask, d.payload, d.lane_id, null, null, null
      into v_job from {schema}.done_entries d join {schema}.lanes l on l.lane_id = d.lane_id where d.job_id = p_id;
    if found then return v_job; end if;
    for v_body in
        select * from {schema}.ready_entries where job_id = p_id and job_id <> lane_seq * 1024 + lane_id
        union all
        select * from {schema}.ready_entries where lane_id = (p_id % 1024)::integer and lane_seq = p_id / 1024 and job_id = p_id
    loop
        v_job := {schema}.ring_job(v_body);
        if v_job.id is not null then return v_job; end if;
    end loop;
    return null;
end $$;

create function {schema}.get_job_v1(p_id bigint) returns setof {schema}.job_row
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_job {schema}.job_row := {schema}.find_job(p_id);
begin
    if v_job.id is not null then
        return next v_job;
    end if;
end $$;

-- Unclaimed bodies of a lane in the order in which they would be claimed, at most p_limit.
create function {schema}.available_bodies(p_lane integer, p_kind text, p_limit bigint) returns setof {schema}.ready_entries
language plpgsql stable
set enable_seqscan = off
set enable_sort = off
as $$
declare
    v_look {schema}.lane_look := {schema}.cursor_of(p_lane, {schema}.current_slot());
    v_holes int8multirange;
    v_tombs int8multirange;
begin
    v_holes := v_look.holes_old + v_look.holes_new
        + coalesce((select range_agg(h) from {schema}.lane_holes s, unnest(s.holes) h where s.lane_id = p_lane), '{}');
    select coalesce(range_agg(i), '{}') into v_tombs from {schema}.ready_tombstones t, unnest(t.items) i
     where t.lane_id = p_lane and t.last_seq >= least(v_look.next_seq, lower(v_holes));
    return query
    select r.* from unnest(v_holes) h
      cross join lateral (select * from {schema}.ready_entries r where r.lane_id = p_lane and r.lane_seq >= lower(h)
                             and r.lane_seq < upper(h) and not v_tombs @> r.lane_seq
                             and (p_kind is null or r.kind = p_kind)) r limit p_limit;
    return query
    select * from {schema}.ready_entries r where r.lane_id = p_lane and r.lane_seq >= v_look.next_seq
       and not v_tombs @> r.lane_seq and (p_kind is null or r.kind = p_kind) order by r.lane_seq limit p_limit;
end $$;

-- How many unclaimed bodies a lane has, p_limit at most, and since when the first of them has been due.
create function {schema}.available_in(p_lane integer, p_limit bigint, out waiting bigint, out oldest timestamptz)
language plpgsql stable
set enable_seqscan = off
set enable_sort = off
as $$
declare
    v_look {schema}.lane_look := {schema}.cursor_of(p_lane, {schema}.current_slot());
    v_holes int8multirange;
    v_tombs int8multirange;
    v_late bigint;
begin
    v_holes := v_look.holes_old + v_look.holes_new
        + coalesce((select range_agg(h) from {schema}.lane_holes s, unnest(s.holes) h where s.lane_id = p_lane), '{}');
    select coalesce(range_agg(i), '{}') into v_tombs from {schema}.ready_tombstones t, unnest(t.items) i
     where t.lane_id = p_lane and t.last_seq >= least(v_look.next_seq, lower(v_holes));
    select count(*) into waiting from (
        select from {schema}.ready_entries r where r.lane_id = p_lane and r.lane_seq >= v_look.next_seq
           and not v_tombs @> r.lane_seq limit p_limit) b;
    select count(*) into v_late from unnest(v_holes) h
      cross join lateral (select from {schema}.ready_entries r where r.lane_id = p_lane and r.lane_seq >= lower(h)
                             and r.lane_seq < upper(h) and not v_tombs @> r.lane_seq) r;
    waiting := waiting + v_late;
    if waiting > 0 then
        oldest := (select min(coalesce(b.run_at, b.created_at)) from {schema}.available_bodies(p_lane, null, 1) b);
    end if;
end $$;

-- Open items of ring claims, from one snapshot and without locks.
create function {schema}.open_items() returns table (slot smallint, claim_id bigint, lane_id integer, worker_id bigint,
                                                     claimed_at timestamptz, open int8multirange)
language plpgsql stable
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    return query
    select o.slot, o.claim_id, o.lane_id, o.worker_id, o.claimed_at, o.open
      from {schema}.runtime_instances i
     cross join lateral (
           select c.slot, c.claim_id, c.lane_id, c.worker_id, c.claimed_at, c.items - coalesce((
                      select range_agg(r) from (
                          select items from {schema}.receipt_completion_batches e
                           where e.slot = c.slot and e.claim_id = c.claim_id
                          union all
                          select items from {schema}.claim_closures e
                           where e.slot = c.slot and e.claim_id = c.claim_id) e, unnest(e.items) r), '{}') as open
             from {schema}.claim_batches c
            where c.worker_id = i.worker_id and c.claim_id > i.settled_below and not isempty(c.items)) o
     where i.settled_below < 9223372036854775807 and not isempty(o.open);
end $$;

-- Exact counts of every queue, each job once. Cost follows what waits and runs, not history.
create type {schema}.queue_count as (
    queue text, paused boolean, scheduled bigint, available bigint, running bigint, waiting_external bigint,
    retryable bigint, completed bigint, failed bigint, cancelled bigint, oldest_available_at timestamptz,
    unknown_kinds text[]);

create function {schema}.count_queues(p_queue text) returns setof {schema}.queue_count
language plpgsql stable
as $$
#variable_conflict use_column
begin
    return query
    with lane as (
        select l.lane_id, l.queue from {schema}.lanes l where l.queue is not null and (p_queue is null or l.queue = p_queue)
    ), part as (
        select lane_id, 'available' as state, a.waiting as n, a.oldest
          from lane cross join lateral {schema}.available_in(lane.lane_id, 9223372036854775807) a
        union all
        select lane_id, 'running', sum({schema}.size_of(open)), null from {schema}.open_items() group by lane_id
        union all
        select lane_id, state::text, count(*), null from {schema}.leases group by lane_id, state
        union all
        select lane_id, state::text, count(*), null from {schema}.deferred_jobs group by lane_id, state
        union all
        select lane_id, state::text, count(*), null from {schema}.done_entries group by lane_id, state
        union all
        select lane_id, 'completed', sum(completed_count), null from {schema}.receipt_completion_batches group by lane_id
        union all
        select lane_id, 'completed', -sum(tomb_count), null from {schema}.completion_tombstones group by lane_id
        union all
        select lane_id, state::text, removed, null from {schema}.lane_totals
    )
    select m.queue, m.paused,
           coalesce(sum(n) filter (where state = 'scheduled'), 0)::bigint,
           coalesce(sum(n) filter (where state = 'available'), 0)::bigint,
           coalesce(sum(n) filter (where state = 'running'), 0)::bigint,
           coalesce(sum(n) filter (where state = 'waiting_external'), 0)::bigint,
           coalesce(sum(n) filter (where state = 'retryable'), 0)::bigint,
           coalesce(sum(n) filter (where state = 'completed'), 0)::bigint,
           coalesce(sum(n) filter (where state = 'failed'), 0)::bigint,
           coalesce(sum(n) filter (where state = 'cancelled'), 0)::bigint,
           min(oldest),
           (select array_agg(distinct d.kind) from {schema}.deferred_jobs d join lane l on l.lane_id = d.lane_id
             where d.reason = 'unknown_kind' and l.queue = m.queue)
      from {schema}.queue_meta m left join lane on lane.queue = m.queue left join part on part.lane_id = lane.lane_id
     where p_queue is null or m.queue = p_queue
     group by m.queue, m.paused order by m.queue;
end $$;

-- TRUNCATE is seen by snapshots from before it, the total that replaces what it took is not. So a count beside which totals have
-- changed is taken again; within a transaction that keeps its snapshot that cannot be noticed.
create function {schema}.queue_counts_v1(p_queue text default null) returns setof {schema}.queue_count
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_totals numeric;
    v_counts {schema}.queue_count[];
begin
    for v_try in 1 .. 10 loop
        select coalesce(sum(removed), 0) into v_totals from {schema}.lane_totals;
        v_counts := array(select c from {schema}.count_queues(p_queue) c);
        exit when v_totals = (select coalesce(sum(removed), 0) from {schema}.lane_totals);
    end loop;
    return query select * from unnest(v_counts);
end $$;

-- Identities of jobs in one state, next or newest first. Completed jobs are looked for in the newest 10,000 batches.
create function {schema}.jobs_in(p_state {schema}.job_state, p_kind text, p_queue text, p_limit integer)
returns table (id bigint)
language plpgsql stable
as $$
#variable_conflict use_column
declare
    v_lanes integer[] := array(select lane_id from {schema}.lanes
                                where queue is not null and (p_queue is null or queue = p_queue) order by lane_id);
begin
    case p_state
    when 'scheduled', 'retryable' then
        return query select job_id from {schema}.deferred_jobs
            where state = p_state and lane_id = any (v_lanes) and (p_kind is null or kind = p_kind)
            order by run_at, job_id limit p_limit;
    when 'available' then
        return query select b.job_id from unnest(v_lanes) lane
            cross join lateral {schema}.available_bodies(lane, p_kind, p_limit) b limit p_limit;
    when 'running', 'waiting_external' then
        return query select job_id from {schema}.leases
            where state = p_state and lane_id = any (v_lanes) and (p_kind is null or kind = p_kind) limit p_limit;
        if p_state = 'running' then
            return query select r.job_id from {schema}.open_items() o, unnest(o.open) i, generate_series(lower(i), upper(i) - 1) q(seq),
                   {schema}.ready_entries r
             where o.lane_id = any (v_lanes) and r.slot = o.slot and r.lane_id = o.lane_id and r.lane_seq = q.seq
               and (p_kind is null or r.kind = p_kind) limit p_limit;
        end if;
    when 'completed' then
        return query select n.id from (
            select d.job_id as id, d.finalized_at from {schema}.done_entries d
             where d.state = 'completed' and d.lane_id = any (v_lanes) and (p_kind is null or d.kind = p_kind)
            union all
            select r.job_id, e.finalized_at
              from (select * from {schema}.receipt_completion_batches where lane_id = any (v_lanes)
                     order by finalized_at desc limit case when p_kind is null then p_limit else 10000 end) e,
                   unnest(e.items) i, generate_series(lower(i), upper(i) - 1) q(seq), {schema}.ready_entries r
             where r.slot = e.slot and r.lane_id = e.lane_id and r.lane_seq = q.seq and (p_kind is null or r.kind = p_kind)
        ) n order by n.finalized_at desc, n.id desc limit p_limit;
    else
        return query select job_id from {schema}.done_entries
            where state = p_state and lane_id = any (v_lanes) and (p_kind is null or kind = p_kind)
            order by finalized_at desc limit p_limit;
    end case;
end $$;

-- Jobs of one state, or of all states in turn; bounded, and without outputs.
create function {schema}.list_jobs_v1(p_state {schema}.job_state, p_kind text, p_queue text, p_limit integer)
returns setof {schema}.job_row
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_state {schema}.job_state;
    v_left integer := least(p_limit, 10000);
    v_count integer;
begin
    foreach v_state in array case when p_state is not null then array[p_state] else array['running', 'waiting_external',
        'available', 'retryable', 'scheduled', 'failed', 'cancelled', 'completed']::{schema}.job_state[] end loop
        return query select j.* from {schema}.jobs_in(v_state, p_kind, p_queue, v_left) n
            cross join lateral {schema}.find_job(n.id) j where j.state = v_state limit v_left;
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
        exit when v_left <= 0;
    end loop;
end $$;

-- Like available_in, and as cheap for a long lane as for a short one: beyond p_exact the lane's numbers say how many there are,
-- those of rolled-back producers among them.
create function {schema}.available_about(p_lane integer, p_sequence regclass, p_exact bigint, out waiting bigint,
                                         out oldest timestamptz)
language plpgsql stable
set enable_seqscan = off
set enable_sort = off
as $$
declare
    v_look {schema}.lane_look := {schema}.cursor_of(p_lane, {schema}.current_slot());
    v_holes int8multirange;
    v_tombs int8multirange;
    v_late bigint;
    v_late_oldest timestamptz;
begin
    v_holes := v_look.holes_old + v_look.holes_new
        + coalesce((select range_agg(h) from {schema}.lane_holes s, unnest(s.holes) h where s.lane_id = p_lane), '{}');
    select coalesce(range_agg(i), '{}') into v_tombs from {schema}.ready_tombstones t, unnest(t.items) i
     where t.lane_id = p_lane and t.last_seq >= least(v_look.next_seq, lower(v_holes));
    select count(*), min(b.at) into waiting, oldest from (
        select coalesce(r.run_at, r.created_at) as at from {schema}.ready_entries r
         where r.lane_id = p_lane and r.lane_seq >= v_look.next_seq and not v_tombs @> r.lane_seq
         order by r.lane_seq limit p_exact) b;
    if waiting >= p_exact then
        waiting := greatest(waiting, pg_sequence_last_value(p_sequence) - v_look.next_seq + 1
            - {schema}.size_of(v_tombs * int8multirange(int8range(v_look.next_seq, null))));
    end if;
    if not isempty(v_holes) then
        select count(*), min(r.at) into v_late, v_late_oldest from unnest(v_holes) h
         cross join lateral (select coalesce(r.run_at, r.created_at) as at from {schema}.ready_entries r
                              where r.lane_id = p_lane and r.lane_seq >= lower(h) and r.lane_seq < upper(h)
                                and not v_tombs @> r.lane_seq
                              limit 10000) r;
        waiting := waiting + v_late;
        oldest := least(oldest, v_late_oldest);
    end if;
end $$;

-- What workers have in hand, only of some if p_workers names them: one row for each claim that is not all closed, and for each
-- attempt outside of the ring. Counts alone, set by set, so that thousands of claims since the last heartbeats cost little.
create function {schema}.in_hand(p_workers bigint[] default null)
returns table (lane_id integer, worker_id bigint, claimed_at timestamptz, jobs bigint)
language plpgsql stable
set enable_seqscan = off
set enable_mergejoin = off
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
    v_claims bigint[];
    v_lanes integer[];
    v_workers bigint[];
    v_times timestamptz[];
    v_sizes bigint[];
    v_slots smallint[];
begin
    select array_agg(c.claim_id), array_agg(c.lane_id), array_agg(i.worker_id), array_agg(c.claimed_at), array_agg(c.n),
           array_agg(distinct c.slot)
      into v_claims, v_lanes, v_workers, v_times, v_sizes, v_slots
      from {schema}.runtime_instances i
     cross join lateral (
           select b.claim_id, b.slot, b.lane_id, b.claimed_at,
                  case when b.items = int8multirange(range_merge(b.items)) then upper(b.items) - lower(b.items)
                       else (select sum(upper(r) - lower(r)) from unnest(b.items) r)::bigint end as n
             from {schema}.claim_batches b
            where b.worker_id = i.worker_id and b.claim_id > i.settled_below) c
     where i.settled_below < 9223372036854775807 and (p_workers is null or i.worker_id = any (p_workers));
    return query
    select c.lane_id, c.worker_id, c.claimed_at, c.n - coalesce(e.n, 0)
      from unnest(v_claims, v_lanes, v_workers, v_times, v_sizes) c(claim_id, lane_id, worker_id, claimed_at, n)
      left join (
           select x.claim_id, sum(x.n)::bigint as n
             from (select r.claim_id, r.completed_count as n from {schema}.receipt_completion_batches r
                    where r.slot = any (v_slots) and r.claim_id = any (v_claims)
                   union all
                   select k.claim_id, k.closed_count from {schema}.claim_closures k
                    where k.slot = any (v_slots) and k.claim_id = any (v_claims)) x
            group by x.claim_id) e on e.claim_id = c.claim_id
     where c.n > coalesce(e.n, 0);
    return query
    select e.lane_id, e.worker_id, e.claimed_at, 1::bigint from {schema}.leases e
     where e.state = 'running' and (p_workers is null or e.worker_id = any (p_workers));
end $$;

-- Signals for scaling, cheap enough to ask every few seconds. orphaned: attempts whose worker is gone. set_aside: jobs whose
-- kind no worker knew, up to 100 of a lane.
create function {schema}.signals_v1(p_queues text[], p_lead interval)
returns table (queue text, ready bigint, running bigint, oldest_ready_seconds double precision, due_soon bigint,
               orphaned bigint, set_aside bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_exact bigint := greatest(50, 1000 / greatest(1, cardinality(p_queues)));
    -- Not in the query: what changes from row to row is no bound for an index.
    v_due timestamptz := clock_timestamp() + p_lead;
begin
    return query
    with lane as (
        select l.lane_id, l.sequence, l.queue from {schema}.lanes l where l.queue = any (p_queues)
    ), part as (
        select l.queue, a.waiting as ready, 0::bigint as running, 0::bigint as orphaned, a.oldest, d.n as due,
               u.n as set_aside
          from lane l join {schema}.queue_meta m on m.queue = l.queue
         cross join lateral {schema}.available_about(l.lane_id, l.sequence, v_exact) a
         cross join lateral (
               select count(*) as n from (
                   select from {schema}.deferred_jobs d
                    where d.lane_id = l.lane_id and d.run_at <= v_due and d.reason <> 'unknown_kind'
                    limit 10000) d) d
         cross join lateral (
               select count(*) as n from (
                   select from {schema}.deferred_jobs d where d.lane_id = l.lane_id and d.reason = 'unknown_kind'
                    limit 100) d) u
         where not m.paused
        union all
        select l.queue, 0, h.jobs, case when i.dead_at is null and i.last_seen >= clock_timestamp() - i.stale_after then 0
                                        else h.jobs end, null, 0, 0
          from {schema}.in_hand() h
          join lane l on l.lane_id = h.lane_id
          left join {schema}.runtime_instances i on i.worker_id = h.worker_id
    )
    select m.queue, coalesce(sum(p.ready), 0)::bigint, coalesce(sum(p.running), 0)::bigint,
           coalesce(extract(epoch from clock_timestamp() - min(p.oldest)), 0)::double precision,
           coalesce(sum(p.due), 0)::bigint, coalesce(sum(p.orphaned), 0)::bigint, coalesce(sum(p.set_aside), 0)::bigint
      from {schema}.queue_meta m left join part p on p.queue = m.queue
     where m.queue = any (p_queues)
     group by m.queue;
end $$;

-- Jobs that wait for a worker that knows their kind; only these are read.
create function {schema}.unknown_kinds_v1() returns table (queue text, kind text, jobs bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select case when n <= 100 then r.queue else 'other' end, case when n <= 100 then r.kind else 'other' end,
           sum(r.jobs)::bigint
      from (select l.queue, d.kind, count(*) as jobs, row_number() over (order by count(*) desc, l.queue, d.kind) as n
              from {schema}.deferred_jobs d join {schema}.lanes l on l.lane_id = d.lane_id
             where d.reason = 'unknown_kind' group by l.queue, d.kind) r
     group by 1, 2 order by 3 desc;
end $$;

-- Live workers of some owners with the pods that they run in, and since when each has been silent.
create function {schema}.workers_v1(p_owners text[])
returns table (worker_id bigint, pod_owner text, pod_name text, pod_uid text, started_at timestamptz, last_seen timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select i.worker_id, i.pod_owner, i.pod_name, i.pod_uid, i.started_at, i.last_seen
      from {schema}.runtime_instances i
     where i.pod_owner = any (p_owners) and i.pod_owner <> '' and i.dead_at is null
     order by i.worker_id;
end $$;

-- What the pods of an owner have in hand: how many jobs, and for how long the oldest has been running. Idle pods are left out.
create function {schema}.pod_loads_v1(p_owner text)
returns table (pod_name text, pod_uid text, running bigint, oldest_running_seconds double precision)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select i.pod_name, i.pod_uid, sum(h.jobs)::bigint,
           extract(epoch from clock_timestamp() - min(h.claimed_at))::double precision
      from {schema}.runtime_instances i
      join {schema}.in_hand(array(select w.worker_id from {schema}.runtime_instances w
                                   where w.pod_owner = p_owner and w.pod_owner <> '' and w.dead_at is null)) h
        on h.worker_id = i.worker_id
     where i.pod_owner = p_owner and i.pod_owner <> '' and i.dead_at is null
     group by i.pod_name, i.pod_uid;
end $$;

-- Numbers of queues, for their notification channels and locks.
create function {schema}.queue_ids_v1(p_queues text[]) returns table (queue text, queue_id integer)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query select m.queue, m.queue_id from {schema}.queue_meta m where m.queue = any (p_queues);
end $$;

-- Places of some claims that their own worker has finished in the ring. The token tells a claim from one that drew the same
-- number after a server crash had taken the first one back.
create function {schema}.closed_as_v1(p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_worker bigint)
returns table (claim_id bigint, items int8multirange)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    with mine as (
        select c.slot, c.claim_id
          from unnest(p_slots, p_claims, p_tokens) u(slot, claim_id, token)
          join {schema}.claim_batches c
            on c.slot = u.slot and c.worker_id = p_worker and c.claim_id = u.claim_id and c.token = u.token
    )
    select e.claim_id, e.items
      from mine join {schema}.receipt_completion_batches e on e.slot = mine.slot and e.claim_id = mine.claim_id
    union all
    select e.claim_id, e.items
      from mine join {schema}.claim_closures e on e.slot = mine.slot and e.claim_id = mine.claim_id
     where e.outcome in ('retried', 'snoozed', 'failed');
end $$;

