-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- What the elected leader does. Each duty is safe beside itself, so a short overlap of leaders harms nothing. Leadership is a
-- row with an expiry, never a session lock, so it works through any pooler.

create function {schema}.lead_v1(p_duty text, p_worker bigint, p_lease interval) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    insert into {schema}.leader as l (duty, worker_id, expires_at)
    values (p_duty, p_worker, clock_timestamp() + p_lease)
    on conflict (duty) do update set worker_id = p_worker, expires_at = clock_timestamp() + p_lease
     where l.worker_id = p_worker or l.expires_at < clock_timestamp()
        or not exists (select from {schema}.runtime_instances i where i.worker_id = l.worker_id and i.dead_at is null);
    return found;
end $$;

create function {schema}.resign_v1(p_duty text, p_worker bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    delete from {schema}.leader where duty = p_duty and worker_id = p_worker;
    if found then
        perform {schema}.call_election();
    end if;
end $$;

-- Due deferred jobs of queues that are not paused become ready, lane by lane. Answers how many, when the next is due and in how
-- many seconds, whether claims have left holes to settle, and below which number every transaction had ended before it looked.
create function {schema}.promote_v1(p_limit integer, out promoted integer, out next_due timestamptz,
                                    out due_in_seconds double precision, out has_holes boolean, out ended_below bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_lane record;
    v_now timestamptz := clock_timestamp();
    v_count integer;
begin
    promoted := 0;
    ended_below := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    for v_lane in select l.lane_id, l.sequence, q.queue_id from {schema}.lanes l join {schema}.queue_meta q on q.queue = l.queue
                   where not q.paused order by l.lane_id loop
        v_count := 0;
        if exists (select from {schema}.deferred_jobs where lane_id = v_lane.lane_id and run_at <= v_now) then
            v_count := {schema}.promote_lane(v_lane.lane_id, v_lane.sequence, v_lane.queue_id, v_now, p_limit);
        end if;
        promoted := promoted + v_count;
        next_due := least(next_due, (select run_at from {schema}.deferred_jobs where lane_id = v_lane.lane_id
                                      order by run_at limit 1));
    end loop;
    due_in_seconds := extract(epoch from next_due - clock_timestamp());
    has_holes := exists (select from {schema}.lane_holes);
end $$;

create function {schema}.promote_lane(p_lane integer, p_sequence regclass, p_queue_id integer, p_now timestamptz,
                                      p_limit integer) returns integer
language plpgsql volatile
as $$
declare
    v_jobs {schema}.deferred_jobs[];
    v_lost bigint[];
begin
    v_jobs := array(
        select d from {schema}.deferred_jobs d
         where d.lane_id = p_lane and d.run_at <= p_now order by d.run_at, d.job_id limit p_limit for update skip locked);
    if cardinality(v_jobs) = 0 then
        return 0;
    end if;
    delete from {schema}.deferred_jobs d using unnest(v_jobs) j where d.job_id = j.job_id;
    v_lost := {schema}.promote_keys(v_jobs, p_now);
    insert into {schema}.ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args, run_at,
                                        unique_key, unique_mask, payload)
    select n.seq, j.job_id, j.created_at, j.lane_id, {schema}.current_slot(), j.attempt, j.max_attempts, j.kind, j.args,
           p_now, j.unique_key, j.unique_mask, j.payload
      from (select u.*, row_number() over (order by u.run_at, u.job_id) as n from unnest(v_jobs) u
             where u.job_id <> all (v_lost)) j
      join unnest({schema}.draw(p_sequence, cardinality(v_jobs) - cardinality(v_lost))) with ordinality n(seq, n)
        on n.n = j.n;
    perform {schema}.wake(p_queue_id);
    return cardinality(v_jobs);
end $$;

-- Keys of jobs that become available. One that cannot take its key back ends as a cancelled duplicate.
create function {schema}.promote_keys(p_jobs {schema}.deferred_jobs[], p_now timestamptz) returns bigint[]
language plpgsql volatile
as $$
declare
    v_job {schema}.deferred_jobs;
    v_lost bigint[] := '{}';
begin
    foreach v_job in array p_jobs loop
        continue when v_job.unique_key is null;
        if not {schema}.mask_has(v_job.unique_mask, 'available') then
            delete from {schema}.job_unique_claims where unique_key = v_job.unique_key and job_id = v_job.job_id;
        elsif not {schema}.mask_has(v_job.unique_mask, v_job.state) then
            insert into {schema}.job_unique_claims (unique_key, job_id) values (v_job.unique_key, v_job.job_id)
            on conflict do nothing;
            if not found then
                v_lost := v_lost || v_job.job_id;
                insert into {schema}.done_entries (job_id, run_lease, run_at, created_at, finalized_at, lane_id, attempt,
                    max_attempts, state, kind, args, unique_key, unique_mask, payload)
                values (v_job.job_id, v_job.run_lease, v_job.run_at, v_job.created_at, p_now, v_job.lane_id, v_job.attempt,
                    v_job.max_attempts, 'cancelled', v_job.kind, v_job.args, v_job.unique_key, v_job.unique_mask,
                    {schema}.with_error(v_job.payload, 'promoted as duplicate: unique claim held by a newer job',
                                        v_job.attempt, true, null, p_now));
            end if;
        end if;
    end loop;
    return v_lost;
end $$;

-- Numbers that claims left to the leader: holes that had no room in a claim row, and runs of kinds that nobody knew. A body that
-- is visible in one moves to a new place of its lane, or waits for a worker that knows its kind; the rest is dropped when
-- everybody who could fill it has ended. xmin is read before the bodies are. Claims never look at these numbers, so they do not
-- wait for this; only a cancel does. Answers how many it moved, to be called again while there are any.
create function {schema}.settle_holes_v1() returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_row record;
    v_xmin xid8;
    v_bodies {schema}.claimed[];
    v_body {schema}.claimed;
    v_found int8multirange;
    v_tombs int8multirange;
    v_served text[];
    v_unknown bigint[];
    v_moved integer := 0;
    v_limit constant integer := 1000;
begin
    for v_row in select ctid, lane_id, holes, bound from {schema}.lane_holes order by lane_id, lower(holes)
                    for update skip locked loop
        exit when v_moved >= v_limit;
        -- A body that is being cancelled must not get another place.
        continue when not pg_try_advisory_xact_lock(hashtext('{schema_name}'), -2 - v_row.lane_id);
        select coalesce(range_agg(i), '{}') into v_tombs from {schema}.ready_tombstones t, unnest(t.items) i
         where t.lane_id = v_row.lane_id and t.last_seq >= lower(v_row.holes);
        v_xmin := pg_snapshot_xmin(pg_current_snapshot());
        v_bodies := {schema}.bodies_in(v_row.lane_id, '{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}', v_row.holes, null, v_tombs,
                                       v_limit);
        v_found := '{}';
        foreach v_body in array v_bodies loop
            v_found := v_found + {schema}.as_ranges(v_body);
            v_moved := v_moved + cardinality(v_body.seqs);
            v_served := coalesce(v_served, {schema}.served_kinds());
            v_unknown := array(select seq from unnest(v_body.seqs, v_body.kinds) u(seq, kind) where kind <> all (v_served));
            perform {schema}.defer_unknown(v_body.lane_id, v_body.slot, v_unknown);
            v_body := {schema}.without_places(v_body, v_unknown);
            if v_body.seqs is not null then
                perform {schema}.move_ready(v_body.lane_id, v_body.slot, v_body.seqs, 'hole');
            end if;
        end loop;
        if v_xmin >= v_row.bound and {schema}.size_of(v_found) < v_limit then
            delete from {schema}.lane_holes where ctid = v_row.ctid;
        elsif not isempty(v_found) then
            update {schema}.lane_holes set holes = holes - v_found where ctid = v_row.ctid;
        end if;
    end loop;
    return v_moved;
end $$;

-- Ready bodies that nobody knows how to run wait for somebody who does.
create function {schema}.defer_unknown(p_lane integer, p_slot smallint, p_seqs bigint[]) returns void
language plpgsql volatile
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_moves {schema}.moving[];
begin
    if cardinality(p_seqs) = 0 then
        return;
    end if;
    v_moves := array(
        select {schema}.decide(row(r.slot, 0, r.lane_id, r.lane_seq, r.job_id, r.kind, r.args, r.run_at, r.created_at, null, null,
                   null, null, r.attempt, r.max_attempts, r.unique_key, r.unique_mask, r.payload, null, null, null, null,
                   null)::{schema}.moving,
               row(r.slot, 0, r.lane_id, r.lane_seq, 'unknown_kind', null, null, null, null, null, null, null,
                   null)::{schema}.ending, v_now)
          from {schema}.ready_entries r where r.slot = p_slot and r.lane_id = p_lane and r.lane_seq = any (p_seqs));
    perform {schema}.entomb(p_lane, p_slot, p_seqs, 'unknown_kind');
    perform {schema}.place({schema}.move_keys(v_moves, 'available', v_now), v_now);
end $$;

-- Takes ready bodies out of their places (tombstones) and gives them new ones at the end of the same lane.
create function {schema}.move_ready(p_lane integer, p_slot smallint, p_seqs bigint[], p_reason text) returns integer
language plpgsql volatile
as $$
declare
    v_lane record;
begin
    select l.sequence, q.queue_id into v_lane from {schema}.lanes l join {schema}.queue_meta q on q.queue = l.queue
     where l.lane_id = p_lane;
    perform {schema}.entomb(p_lane, p_slot, p_seqs, p_reason);
    insert into {schema}.ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args, run_at,
                                        unique_key, unique_mask, payload)
    select n.seq, r.job_id, r.created_at, r.lane_id, {schema}.current_slot(), r.attempt, r.max_attempts, r.kind, r.args,
           r.run_at, r.unique_key, r.unique_mask, r.payload
      from (select *, row_number() over (order by lane_seq) as n from {schema}.ready_entries
             where slot = p_slot and lane_id = p_lane and lane_seq = any (p_seqs)) r
      join unnest({schema}.draw(v_lane.sequence, cardinality(p_seqs))) with ordinality n(seq, n) on n.n = r.n;
    perform {schema}.wake(v_lane.queue_id);
    return cardinality(p_seqs);
end $$;

create function {schema}.entomb(p_lane integer, p_slot smallint, p_seqs bigint[], p_reason text) returns void
language plpgsql volatile
as $$
begin
    insert into {schema}.ready_tombstones (last_seq, closed_at, lane_id, tomb_count, slot, reason, items)
    select max(s), clock_timestamp(), p_lane, count(*), p_slot, p_reason, range_agg(int8range(s, s + 1)) from unnest(p_seqs) s;
    update {schema}.lanes set tombstoned_to = greatest(tombstoned_to, (select max(s) from unnest(p_seqs) s))
     where lane_id = p_lane;
end $$;

-- Enters the next slot of the ring that is empty, when it is due: one in which a paused queue's jobs wait is passed by. Empty is
-- looked at under the exclusive lock, because a producer with an old snapshot may write to any slot. Answers rotated, early,
-- busy (none is empty), locked (somebody has read one and not
-- ended) or idle (nothing to close).
create function {schema}.rotate_v1(p_every interval, p_max_bytes bigint, p_force boolean default false) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_now record;
    v_next smallint;
    v_table text;
    v_used boolean;
begin
    perform pg_advisory_xact_lock(hashtext('{schema_name}'), -1);
    select generation, slot, rotated_at into v_now from {schema}.ring_rotations order by generation desc limit 1;
    if not p_force and clock_timestamp() < v_now.rotated_at + p_every and {schema}.slot_bytes(v_now.slot) < p_max_bytes then
        return 'early';
    end if;
    if pg_relation_size(format('{schema}.ready_entries_%s', lpad(v_now.slot::text, 2, '0'))) = 0 then
        return 'idle';
    end if;
    perform set_config('lock_timeout', '50ms', true);
    for v_step in 1 .. 15 loop
        v_next := (v_now.slot + v_step) % 16;
        -- What was written and not removed has a size, so most slots in use are told without a lock.
        v_used := {schema}.slot_has_pages(v_next);
        if not v_used then
            foreach v_table in array {schema}.slot_tables(v_next) loop
                execute format('lock table only {schema}.%I in access exclusive mode', v_table);
                execute format('select exists (select from only {schema}.%I)', v_table) into v_used;
                exit when v_used;
            end loop;
        end if;
        exit when not v_used;
    end loop;
    if v_used then
        return 'busy';
    end if;
    insert into {schema}.ring_rotations (generation, slot) values (v_now.generation + 1, v_next);
    delete from {schema}.ring_rotations where generation < v_now.generation - 1000;
    return 'rotated';
exception when lock_not_available or deadlock_detected then
    return 'locked';
end $$;

create function {schema}.slot_has_pages(p_slot smallint) returns boolean
language plpgsql volatile
as $$
begin
    return exists (select from unnest({schema}.slot_tables(p_slot)) t where pg_relation_size(format('{schema}.%I', t)) > 0);
end $$;

create function {schema}.slot_tables(p_slot smallint) returns text[]
language plpgsql immutable
as $$
begin
    return array(select t || '_' || lpad(p_slot::text, 2, '0')
                   from unnest(array['ready_entries', 'claim_batches', 'receipt_completion_batches', 'claim_closures',
                                     'ready_tombstones', 'completion_tombstones']) with ordinality u(t, n) order by n);
end $$;

create function {schema}.slot_bytes(p_slot smallint) returns bigint
language plpgsql volatile
as $$
begin
    return (select sum(pg_total_relation_size(format('{schema}.%I', t)::regclass)) from unnest({schema}.slot_tables(p_slot)) t);
end $$;

-- Live slots, oldest first: every slot with content, with the time at which it was left (NULL while it is current).
create function {schema}.live_slots() returns table (slot smallint, left_at timestamptz, generation bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    return query
    with latest as (
        select r.slot, max(r.generation) as generation from {schema}.ring_rotations r group by r.slot
    )
    select s::smallint, (select n.rotated_at from {schema}.ring_rotations n where n.generation = l.generation + 1),
           l.generation
      from generate_series(0, 15) s left join latest l on l.slot = s
     where pg_relation_size(format('{schema}.ready_entries_%s', lpad(s::text, 2, '0'))) > 0
        or pg_relation_size(format('{schema}.claim_batches_%s', lpad(s::text, 2, '0'))) > 0
     order by l.generation nulls first;
end $$;

-- Open and unclaimed work of a slot: bodies less everything that closes one.
create function {schema}.slot_open(p_slot smallint) returns bigint
language plpgsql volatile
as $$
begin
    return (select count(*) from {schema}.ready_entries where slot = p_slot)
         - (select coalesce(sum(completed_count), 0) from {schema}.receipt_completion_batches where slot = p_slot)
         - (select coalesce(sum(closed_count), 0) from {schema}.claim_closures where slot = p_slot)
         - (select coalesce(sum(tomb_count), 0) from {schema}.ready_tombstones where slot = p_slot);
end $$;

-- Since when every job is still there: when the newest slot that has been reclaimed was left. NULL when none has been.
create function {schema}.history_since() returns timestamptz
language plpgsql volatile
as $$
begin
    return (select max(n.rotated_at) from {schema}.ring_rotations r
              join {schema}.ring_rotations n on n.generation = r.generation + 1
             where not exists (select from {schema}.live_slots() s where s.generation = r.generation));
end $$;

-- Who holds a lock on a slot, for somebody to look at: the session whose transaction is the oldest.
create function {schema}.holder_of(p_slot smallint) returns text
language plpgsql volatile
as $$
begin
    return (select format('process %s of the server (%s), in a transaction for %s s', l.pid,
                       coalesce(nullif(a.application_name, ''), 'unnamed'),
                       coalesce(round(extract(epoch from clock_timestamp() - a.xact_start))::text, '?'))
              from pg_locks l left join pg_stat_activity a on a.pid = l.pid
             where l.granted and l.pid <> pg_backend_pid() and l.locktype = 'relation'
               and l.relation in (select format('{schema}.%I', t)::regclass from unnest({schema}.slot_tables(p_slot)) t)
             order by a.xact_start nulls last limit 1);
end $$;

-- Reclaims the oldest slot whose time or whose bytes are over; all queues share the slots, so a queue that keeps its jobs longer
-- than p_retention has those of all kept. Answers what happened: pruned, none, open, locked (and by whom),
-- cursor; whether the slot went before its time; and since when history is complete.
-- Gates are checked under a lock that keeps writers out, and only then TRUNCATE takes its own.
create function {schema}.prune_v1(p_retention interval, p_max_bytes bigint, out outcome text, out pruned_slot smallint,
                                  out pruned_jobs bigint, out before_its_time boolean, out horizon timestamptz,
                                  out horizon_seconds double precision, out blocker text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_slot record;
    v_bytes bigint;
    v_table text;
begin
    outcome := 'none';
    pruned_jobs := 0;
    perform {schema}.require_settled();
    p_retention := greatest(p_retention, (select max(completed_retention) from {schema}.queue_meta));
    perform pg_advisory_xact_lock(hashtext('{schema_name}'), -1);
    v_bytes := (select coalesce(sum({schema}.slot_bytes(slot)), 0) from {schema}.live_slots());
    for v_slot in select slot, left_at from {schema}.live_slots()
                   where slot <> {schema}.current_slot()
                     and (left_at is null or left_at < clock_timestamp() - p_retention or v_bytes > p_max_bytes) loop
        pruned_slot := v_slot.slot;
        begin
            -- Six waits of this length stay below deadlock_timeout: a reader that holds one table and wants another is
            -- let through, never chosen as the victim of a deadlock.
            perform set_config('lock_timeout', '50ms', true);
            foreach v_table in array {schema}.slot_tables(v_slot.slot) loop
                execute format('lock table only {schema}.%I in share mode', v_table);
            end loop;
            if {schema}.slot_open(v_slot.slot) <> 0 then
                outcome := 'open';
            elsif not {schema}.carry_cursors(v_slot.slot) then
                outcome := 'cursor';
            else
                pruned_jobs := {schema}.account_pruned(v_slot.slot);
                execute 'truncate ' || (select string_agg(format('only {schema}.%I', t), ', ')
                                          from unnest({schema}.slot_tables(v_slot.slot)) t);
                outcome := 'pruned';
                before_its_time := v_slot.left_at >= clock_timestamp() - p_retention;
                exit;
            end if;
        exception when lock_not_available or deadlock_detected then
            outcome := 'locked';
            pruned_jobs := 0;  -- what was counted is undone, what was assigned is not
            blocker := coalesce({schema}.holder_of(v_slot.slot), blocker);
        end;
        -- For size alone the oldest goes first, so one that is only held for a moment is waited for.
        exit when outcome in ('pruned', 'locked', 'cursor') and v_slot.left_at >= clock_timestamp() - p_retention;
    end loop;
    horizon := {schema}.history_since();
    horizon_seconds := extract(epoch from clock_timestamp() - horizon);
end $$;

-- The oldest transactions of the server that keep vacuum from removing rows, in this database or by being prepared. What other
-- roles run is seen only by an owner of the schema who is a member of pg_read_all_stats.
create function {schema}.oldest_transactions_v1() returns table (holder text, seconds double precision)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query
    select case when a.application_name ~ '^awa( |$)' then 'awa' else 'other' end,
           max(extract(epoch from clock_timestamp() - a.xact_start))::double precision
      from pg_stat_activity a
     where a.pid <> pg_backend_pid() and (a.backend_xmin is not null or a.backend_xid is not null)
       and a.xact_start is not null and a.datname = current_database()
     group by 1
    union all
    select 'prepared', max(extract(epoch from clock_timestamp() - p.prepared))::double precision from pg_prepared_xacts p
     where p.database = current_database()
    having count(*) > 0;
end $$;

-- Lanes whose newest claim row is about to go get a row without items in the current slot.
create function {schema}.carry_cursors(p_slot smallint) returns boolean
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    v_lane integer;
    v_row {schema}.claim_batches;
begin
    for v_lane in select lane_id from {schema}.lanes where queue is not null order by lane_id loop
        continue when not exists (select from {schema}.claim_batches where slot = p_slot and lane_id = v_lane limit 1);
        if not pg_try_advisory_xact_lock(hashtext('{schema_name}'), v_lane) then
            return false;
        end if;
        select * into v_row from {schema}.claim_batches where lane_id = v_lane order by next_seq desc, claim_id desc limit 1;
        if v_row.slot = p_slot then
            insert into {schema}.claim_batches (claim_id, token, worker_id, claimed_at, next_seq, lane_id, slot, items,
                                                holes_old, bound_old, holes_new, bound_new, looked_at)
            values (nextval('{schema}.claim_id'), 0, 0, clock_timestamp(), v_row.next_seq, v_lane, {schema}.current_slot(),
                    '{}', v_row.holes_old, v_row.bound_old, v_row.holes_new, v_row.bound_new, v_row.looked_at);
        end if;
    end loop;
    return true;
end $$;

-- Totals and unique keys of what goes with a slot. Keys of jobs that live on elsewhere stay.
create function {schema}.account_pruned(p_slot smallint) returns bigint
language plpgsql volatile
as $$
declare
    v_count bigint;
begin
    insert into {schema}.lane_totals as t (lane_id, state, removed)
    select lane_id, 'completed', sum(n) from (
        select lane_id, completed_count as n from {schema}.receipt_completion_batches where slot = p_slot
        union all
        select lane_id, -tomb_count from {schema}.completion_tombstones where slot = p_slot) c group by lane_id
    on conflict (lane_id, state) do update set removed = t.removed + excluded.removed;
    select coalesce(sum(completed_count), 0) into v_count from {schema}.receipt_completion_batches where slot = p_slot;
    delete from {schema}.job_unique_claims k
     using {schema}.ready_entries r
      join (select e.lane_id, range_agg(i) as items from {schema}.receipt_completion_batches e, unnest(e.items) i
             where e.slot = p_slot group by e.lane_id) done on done.lane_id = r.lane_id and done.items @> r.lane_seq
     where r.slot = p_slot and r.unique_key is not null and k.unique_key = r.unique_key and k.job_id = r.job_id;
    return v_count;
end $$;

-- Moves the few attempts that are still open in an old slot into leases, so that their slot can be reclaimed.
create function {schema}.evacuate_v1(p_older_than interval, p_limit integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_slot record;
    v_worker record;
    v_claims {schema}.open_claim[];
    v_ends {schema}.ending[];
    v_moved integer := 0;
begin
    for v_slot in select slot from {schema}.live_slots()
                   where slot <> {schema}.current_slot() and left_at < clock_timestamp() - p_older_than loop
        continue when {schema}.slot_open(v_slot.slot) not between 1 and p_limit;
        for v_worker in select worker_id, settled_below from {schema}.runtime_instances where dead_at is null
                         order by worker_id loop
            v_claims := array(select c from unnest({schema}.unsettled(v_worker.worker_id, v_worker.settled_below, 'infinity',
                                                                      10000)) c where c.slot = v_slot.slot);
            v_ends := array(select {schema}.ending_of(c, seq, 'evacuate')
                              from unnest(v_claims) c, unnest(c.open) i, generate_series(lower(i), upper(i) - 1) seq);
            perform {schema}.end_attempts(v_ends);
            v_moved := v_moved + cardinality(v_ends);
        end loop;
    end loop;
    return v_moved;
end $$;

-- Terminal jobs outside the ring whose retention is over; failed ones keep longer. Keys go with their jobs.
create function {schema}.retire_v1(p_completed interval, p_failed interval, p_limit integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_gone {schema}.done_entries[];
begin
    -- By state, so that the index leads to what is old enough; a queue's own retention is looked at only among those.
    v_gone := array(
        select o.d from unnest(enum_range(null::{schema}.job_state)) s(state)
         cross join lateral (
               select d from {schema}.done_entries d
                 join {schema}.lanes l on l.lane_id = d.lane_id join {schema}.queue_meta q on q.queue = l.queue
                where d.state = s.state
                  and d.finalized_at < clock_timestamp() - case s.state
                      when 'failed' then least(p_failed, (select min(failed_retention) from {schema}.queue_meta))
                      else least(p_completed, (select min(completed_retention) from {schema}.queue_meta)) end
                  and d.finalized_at < clock_timestamp() - case s.state
                      when 'failed' then coalesce(q.failed_retention, p_failed)
                      else coalesce(q.completed_retention, p_completed) end
                order by d.finalized_at limit p_limit for update of d skip locked) o
         limit p_limit);
    delete from {schema}.done_entries d using unnest(v_gone) g where d.job_id = g.job_id;
    delete from {schema}.job_unique_claims k using unnest(v_gone) g
     where k.unique_key = g.unique_key and k.job_id = g.job_id;
    insert into {schema}.lane_totals as t (lane_id, state, removed)
    select lane_id, state, count(*) from unnest(v_gone) group by lane_id, state
    on conflict (lane_id, state) do update set removed = t.removed + excluded.removed;
    delete from {schema}.runtime_instances i
     where i.dead_at < clock_timestamp() - interval '7 days'
       and not exists (select from {schema}.claim_batches c where c.worker_id = i.worker_id);
    return cardinality(v_gone);
end $$;
