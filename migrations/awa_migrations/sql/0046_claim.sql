-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- Claim. The rules that keep every committed job claimable (model: correctness/):
--   * one claim of a lane at a time: the lane's advisory transaction lock, and the cursor is read after it is held
--   * statement 1 reads the cursor and this snapshot's xmin; statement 2, with a newer snapshot, reads bodies
--   * a number passed over becomes a hole; its bound is this claim's own transaction id, taken after all reading.
--     So a call reads all its lanes first and writes afterwards, and refuses a transaction that already has an id
--   * a hole is dropped when xmin >= its bound and a look into every slot, not cut by a limit, found no body for it
--   * two generations of holes, so that new ones do not move the bound of old ones

-- What a call took from one slot of one lane, as the worker gets it. The last row of a call has no claim: it says whether more
-- may be on its way, and how many bodies were taken or passed over, also those that went back at once.
create type {schema}.claimed as (
    queue text, priority smallint, effective_priority smallint, slot smallint, claim_id bigint, lane_id integer,
    claimed_at timestamptz, deadline_at timestamptz, seqs bigint[], job_ids bigint[], kinds text[], args jsonb[],
    created_ats timestamptz[], run_ats timestamptz[], attempts smallint[], max_attempts smallint[], payloads jsonb[],
    has_unique boolean, first_seq bigint, last_seq bigint, in_flight boolean, passed integer);

create type {schema}.lane_look as (
    lane_id integer, queue text, priority smallint, effective_priority smallint, deadline_seconds double precision,
    next_seq bigint, holes_old int8multirange, bound_old xid8, holes_new int8multirange, bound_new xid8,
    looked_at timestamptz, gaps int8multirange, current_slot smallint, bodies {schema}.claimed[], taken integer,
    changed boolean, in_flight boolean, passed int8range);

-- Slots are listed one by one (sixteen places, NULL where fewer are asked for) because only such a list lets the executor leave
-- out the partitions that are not asked for when it starts; = any (array) opens all of them.

-- Visible bodies of a lane in some holes, or from a number up; grouped by slot. The order is that of the index.
create function {schema}.bodies_in(p_lane integer, p_slots smallint[], p_holes int8multirange, p_from bigint,
                                   p_tombs int8multirange, p_limit integer) returns {schema}.claimed[]
language plpgsql volatile
as $$
declare
    v_bodies {schema}.claimed[];
begin
    if p_holes is not null then
        v_bodies := array(
            select row(null, null, null, slot, null, p_lane, null, null, array_agg(lane_seq), array_agg(job_id), array_agg(kind), array_agg(args),
                       array_agg(created_at), array_agg(run_at), array_agg(attempt), array_agg(max_attempts),
                       array_agg(payload), count(unique_key) > 0, min(lane_seq), max(lane_seq), null, null)::{schema}.claimed
              from (select b.slot, b.lane_seq, b.job_id, b.kind, b.args, b.created_at, b.run_at, b.attempt, b.max_attempts,
                           b.payload, b.unique_key from unnest(p_holes) h
                     cross join lateral (
                        select * from {schema}.ready_entries r
                         where r.slot in (p_slots[1], p_slots[2], p_slots[3], p_slots[4], p_slots[5], p_slots[6], p_slots[7], p_slots[8],
                             p_slots[9], p_slots[10], p_slots[11], p_slots[12], p_slots[13], p_slots[14], p_slots[15], p_slots[16]) and r.lane_id = p_lane
                           and r.lane_seq >= lower(h) and r.lane_seq < upper(h) and not p_tombs @> r.lane_seq
                         order by r.lane_seq limit p_limit) b
                     limit p_limit) b
             group by slot);
        return v_bodies;
    end if;
    return array(
        select row(null, null, null, slot, null, p_lane, null, null, array_agg(lane_seq), array_agg(job_id), array_agg(kind), array_agg(args),
                   array_agg(created_at), array_agg(run_at), array_agg(attempt), array_agg(max_attempts),
                   array_agg(payload), count(unique_key) > 0, min(lane_seq), max(lane_seq), null, null)::{schema}.claimed
          from (select * from {schema}.ready_entries r
                 where r.slot in (p_slots[1], p_slots[2], p_slots[3], p_slots[4], p_slots[5], p_slots[6], p_slots[7], p_slots[8],
                             p_slots[9], p_slots[10], p_slots[11], p_slots[12], p_slots[13], p_slots[14], p_slots[15], p_slots[16]) and r.lane_id = p_lane and r.lane_seq >= p_from
                   and not p_tombs @> r.lane_seq
                 order by r.lane_seq limit p_limit) b
         group by slot);
end $$;

create function {schema}.as_ranges(p_bodies {schema}.claimed) returns int8multirange
language plpgsql immutable
as $$
begin
    -- Apart from the query, this expression needs no executor.
    if p_bodies.last_seq - p_bodies.first_seq + 1 = cardinality(p_bodies.seqs) then
        return int8multirange(int8range(p_bodies.first_seq, p_bodies.last_seq + 1));
    end if;
    return (select range_agg(int8range(s, s + 1)) from unnest(p_bodies.seqs) s);
end $$;

-- Whether some bodies are all of other kinds.
create function {schema}.none_of(p_bodies {schema}.claimed[], p_kinds text[]) returns boolean
language plpgsql immutable
as $$
declare
    v_body {schema}.claimed;
begin
    foreach v_body in array p_bodies loop
        if v_body.kinds && p_kinds then
            return false;
        end if;
    end loop;
    return true;
end $$;

-- How far a lane holds nothing from a number up but kinds that neither the caller nor any live worker knows: to the first
-- other body, or so far as this looks.
create function {schema}.unknown_ahead(p_lane integer, p_slots smallint[], p_from bigint, p_kinds text[],
                                       out passed_to bigint, out places bigint, out is_end boolean)
language plpgsql volatile
as $$
declare
    v_known constant text[] := p_kinds || {schema}.served_kinds();
    v_first bigint;
begin
    select min(b.lane_seq) filter (where b.kind = any (v_known)), max(b.lane_seq) + 1 into v_first, passed_to
      from (select r.lane_seq, r.kind from {schema}.ready_entries r
             where r.slot in (p_slots[1], p_slots[2], p_slots[3], p_slots[4], p_slots[5], p_slots[6], p_slots[7], p_slots[8],
                             p_slots[9], p_slots[10], p_slots[11], p_slots[12], p_slots[13], p_slots[14], p_slots[15], p_slots[16])
               and r.lane_id = p_lane and r.lane_seq >= p_from
             order by r.lane_seq limit 4096) b;
    is_end := v_first is not null;
    passed_to := coalesce(v_first, passed_to);
    places := passed_to - p_from;
end $$;

create function {schema}.served_kinds() returns text[]
language plpgsql volatile
as $$
begin
    return array(select distinct k from {schema}.runtime_instances i, unnest(i.kinds) k
                  where i.dead_at is null and i.last_seen > clock_timestamp() - i.stale_after);
end $$;

-- Reads one lane whose lock is held. Writes nothing and takes no transaction id.
create function {schema}.look(p_lane integer, p_limit integer, p_kinds text[] default null) returns {schema}.lane_look
language plpgsql volatile
as $$
declare
    v_look {schema}.lane_look;
    v_recent smallint[];
    v_every constant smallint[] := '{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}';
    v_slots smallint[];
    v_sequence regclass;
    v_tombstoned_to bigint;
    v_tombs int8multirange := '{}';
    v_xmin xid8;
    v_drawn bigint;
    v_holes int8multirange;
    v_found {schema}.claimed[];
    v_passed boolean;
    v_left integer;
    v_next bigint;
    v_taken int8multirange := '{}';
    v_body {schema}.claimed;
    v_ahead record;
begin
    v_recent := array(select slot from {schema}.ring_rotations order by generation desc limit 2);
    v_look := {schema}.cursor_of(p_lane, v_recent[1]);
    v_look.current_slot := v_recent[1];
    select pg_snapshot_xmin(pg_current_snapshot()), sequence, tombstoned_to into v_xmin, v_sequence, v_tombstoned_to
      from {schema}.lanes where lane_id = p_lane;
    v_holes := v_look.holes_old + v_look.holes_new;
    v_drawn := coalesce(pg_sequence_last_value(v_sequence), 0);
    if isempty(v_holes) and v_drawn = v_look.next_seq - 1 then
        -- No number was drawn since the cursor and none is missing before it, so no slot can hold a body for this lane.
        select '{}', 0, '{}', false into v_look.bodies, v_look.taken, v_look.gaps, v_look.in_flight;
        return v_look;
    end if;
    if v_tombstoned_to >= least(v_look.next_seq, lower(v_holes)) then
        select coalesce(range_agg(i), '{}') into v_tombs
          from {schema}.ready_tombstones t, unnest(t.items) i
         where lane_id = p_lane and last_seq >= least(v_look.next_seq, lower(v_holes));
    end if;

    v_passed := not isempty(v_look.holes_old) and v_xmin >= v_look.bound_old;
    v_slots := case when v_passed and coalesce(v_look.looked_at < clock_timestamp() - interval '20 milliseconds', true)
                    then v_every else v_recent end;
    loop
        v_look.bodies := '{}';
        v_left := p_limit;
        if not isempty(v_holes) then
            v_look.bodies := {schema}.bodies_in(p_lane, v_slots, v_holes, null, v_tombs, p_limit);
            v_left := p_limit - coalesce((select sum(cardinality(seqs)) from unnest(v_look.bodies)), 0);
        end if;
        v_found := '{}';
        if v_left > 0 then
            v_found := {schema}.bodies_in(p_lane, v_slots, null, v_look.next_seq, v_tombs, v_left);
        end if;
        exit when cardinality(v_look.bodies) + cardinality(v_found) > 0 or v_slots = v_every;
        v_slots := v_every;
    end loop;

    if p_kinds is not null and v_left = p_limit and cardinality(v_found) > 0 and {schema}.none_of(v_found, p_kinds) then
        -- A long run of kinds that nobody knows is passed over as a whole, as a range for the leader to settle: handing back
        -- job by job would keep those behind it waiting.
        select * into v_ahead from {schema}.unknown_ahead(p_lane, v_slots, v_look.next_seq, p_kinds);
        if v_ahead.places >= 16 then
            v_look.passed := int8range(v_look.next_seq, v_ahead.passed_to);
            v_look.next_seq := v_ahead.passed_to;
            v_look.changed := true;
            v_found := case when v_ahead.is_end
                then {schema}.bodies_in(p_lane, v_slots, null, v_look.next_seq, v_tombs, v_left) else '{}' end;
        end if;
    end if;

    v_look.taken := 0;
    foreach v_body in array v_look.bodies loop
        if not isempty(v_holes) then
            v_taken := v_taken + {schema}.as_ranges(v_body);
        end if;
        v_look.taken := v_look.taken + cardinality(v_body.seqs);
    end loop;
    if v_passed and v_slots = v_every and v_left > 0 then
        v_look.holes_old := '{}';
        v_look.looked_at := clock_timestamp();
        v_look.changed := true;
    end if;
    if not isempty(v_holes) then
        v_look.holes_old := v_look.holes_old - v_taken;
        v_look.holes_new := v_look.holes_new - v_taken;
        if isempty(v_look.holes_old) and not isempty(v_look.holes_new) then
            v_look.holes_old := v_look.holes_new;
            v_look.bound_old := v_look.bound_new;
            v_look.holes_new := '{}';
            v_look.changed := true;
        end if;
    end if;
    v_look.gaps := '{}';
    if cardinality(v_found) > 0 then
        v_next := v_look.next_seq;
        foreach v_body in array v_found loop
            v_next := greatest(v_next, v_body.last_seq + 1);
            v_look.taken := v_look.taken + cardinality(v_body.seqs);
        end loop;
        -- One group that covers the whole range leaves no gap; only otherwise is there something to work out.
        if v_next - v_look.next_seq <> cardinality(v_found[1].seqs) then
            v_look.gaps := int8multirange(int8range(v_look.next_seq, v_next)) - v_tombs;
            foreach v_body in array v_found loop
                v_look.gaps := v_look.gaps - {schema}.as_ranges(v_body);
            end loop;
        end if;
        v_look.next_seq := v_next;
        v_look.bodies := v_look.bodies || v_found;
    end if;
    v_look.changed := v_look.changed or v_look.taken > 0;
    v_look.in_flight := not isempty(v_look.holes_old) or not isempty(v_look.holes_new) or not isempty(v_look.gaps)
        or coalesce(pg_sequence_last_value(v_sequence), 0) >= v_look.next_seq;
    return v_look;
end $$;

-- The cursor of a lane: its newest claim row. A claim leaves its last row in the slot that is current when it runs,
-- so only after a rotation does this look further.
create function {schema}.cursor_of(p_lane integer, p_current smallint) returns {schema}.lane_look
language plpgsql stable
as $$
declare
    v_look {schema}.lane_look;
begin
    select next_seq, holes_old, bound_old, holes_new, bound_new, looked_at
      into v_look.next_seq, v_look.holes_old, v_look.bound_old, v_look.holes_new, v_look.bound_new, v_look.looked_at
      from {schema}.claim_batches where slot = p_current and lane_id = p_lane
     order by next_seq desc, claim_id desc limit 1;
    if not found then
        select next_seq, holes_old, bound_old, holes_new, bound_new, looked_at
          into v_look.next_seq, v_look.holes_old, v_look.bound_old, v_look.holes_new, v_look.bound_new, v_look.looked_at
          from {schema}.claim_batches where lane_id = p_lane
         order by next_seq desc, claim_id desc limit 1;
    end if;
    v_look.lane_id := p_lane;
    v_look.next_seq := coalesce(v_look.next_seq, 1);
    v_look.holes_old := coalesce(v_look.holes_old, '{}');
    v_look.holes_new := coalesce(v_look.holes_new, '{}');
    v_look.changed := false;
    return v_look;
end $$;

-- The age of what a lane would hand out first; NULL when nothing is in sight. For the order of a queue's lanes only.
create function {schema}.lane_head(p_lane integer) returns timestamptz
language plpgsql volatile
as $$
declare
    v_recent smallint[] := array(select slot from {schema}.ring_rotations order by generation desc limit 2);
    v_next bigint;
    v_at timestamptz;
begin
    select next_seq into v_next from {schema}.claim_batches where slot in (v_recent[1], v_recent[2]) and lane_id = p_lane
     order by next_seq desc, claim_id desc limit 1;
    select coalesce(run_at, created_at) into v_at from {schema}.ready_entries
     where slot in (v_recent[1], v_recent[2]) and lane_id = p_lane and lane_seq >= coalesce(v_next, 1) order by lane_seq limit 1;
    return v_at;
end $$;

-- The priority at which a lane competes with the other lanes of its queue: one better for each interval that its head waits.
create function {schema}.aged_priority(p_priority smallint, p_head timestamptz, p_interval double precision)
returns smallint
language plpgsql volatile
as $$
begin
    if p_head is null or p_interval <= 0 then
        return p_priority;
    end if;
    return greatest(1, p_priority - floor(greatest(0, extract(epoch from clock_timestamp() - p_head)) / p_interval));
end $$;

create function {schema}.require_own_transaction(p_what text) returns void
language plpgsql volatile
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception '% needs READ COMMITTED, not %', p_what, current_setting('transaction_isolation')
            using errcode = '25001', hint = 'call it outside of other transactions';
    end if;
    if p_what = 'claim' and pg_current_xact_id_if_assigned() is not null then
        raise exception 'claim must be a transaction of its own' using errcode = '25001';
    end if;
end $$;

-- Everything that a claim call writes, after everything that it read. p_bound is its own transaction id.
create function {schema}.write_claims(p_worker bigint, p_token bigint, p_kinds text[], p_looks {schema}.lane_look[],
                                      p_bound xid8) returns setof {schema}.claimed
language plpgsql volatile
as $$
declare
    v_look {schema}.lane_look;
    v_body {schema}.claimed;
    v_now timestamptz := clock_timestamp();
    v_deadline timestamptz;
    v_claim bigint;
    v_items int8multirange;
    v_unique boolean;
    v_slots smallint[];
    v_slot smallint;
begin
    foreach v_look in array p_looks loop
        if not isempty(v_look.gaps) then
            v_look := {schema}.add_holes(v_look, p_bound);
        end if;
        if v_look.passed is not null then
            perform {schema}.leave_holes(v_look.lane_id, int8multirange(v_look.passed), p_bound);
        end if;
        v_deadline := case when v_look.deadline_seconds > 0 then v_now + make_interval(secs => v_look.deadline_seconds) end;
        -- The last row of the call lies in the current slot, empty if need be: there the next claim finds the cursor.
        v_slots := '{}';
        foreach v_body in array v_look.bodies loop
            if v_body.slot <> v_look.current_slot and v_body.slot <> all (v_slots) then
                v_slots := v_slots || v_body.slot;
            end if;
        end loop;
        foreach v_slot in array v_slots || v_look.current_slot loop
            v_claim := nextval('{schema}.claim_id');
            v_items := '{}';
            v_unique := false;
            foreach v_body in array v_look.bodies loop
                if v_body.slot = v_slot then
                    v_items := v_items + {schema}.as_ranges(v_body);
                    v_unique := v_unique or v_body.has_unique;
                end if;
            end loop;
            insert into {schema}.claim_batches (claim_id, token, worker_id, claimed_at, deadline_at, next_seq, lane_id,
                                                slot, has_unique, items, holes_old, bound_old, holes_new, bound_new,
                                                looked_at)
            values (v_claim, p_token, p_worker, v_now, v_deadline, v_look.next_seq, v_look.lane_id, v_slot,
                    v_unique, v_items,
                    nullif(v_look.holes_old, '{}'), v_look.bound_old, nullif(v_look.holes_new, '{}'), v_look.bound_new,
                    v_look.looked_at);
            foreach v_body in array v_look.bodies loop
                continue when v_body.slot <> v_slot;
                if v_body.has_unique then
                    v_body := {schema}.move_keys_of_claim(v_claim, v_body);
                    continue when v_body.seqs is null;
                end if;
                if p_kinds is not null and not v_body.kinds <@ p_kinds then
                    v_body := {schema}.hand_back_unknown(v_claim, v_body, p_kinds);
                    continue when v_body.seqs is null;
                end if;
                v_body.queue := v_look.queue;
                v_body.priority := v_look.priority;
                v_body.effective_priority := v_look.effective_priority;
                v_body.claim_id := v_claim;
                v_body.claimed_at := v_now;
                v_body.deadline_at := v_deadline;
                return next v_body;
            end loop;
        end loop;
    end loop;
end $$;

-- New holes with their bound. A set that has grown too large for a row goes to lane_holes, for the leader to settle.
create function {schema}.add_holes(p_look {schema}.lane_look, p_bound xid8) returns {schema}.lane_look
language plpgsql volatile
as $$
begin
    p_look.holes_new := p_look.holes_new + p_look.gaps;
    p_look.bound_new := p_bound;
    if isempty(p_look.holes_old) then
        p_look.holes_old := p_look.holes_new;
        p_look.bound_old := p_bound;
        p_look.holes_new := '{}';
    elsif (select count(*) from unnest(p_look.holes_new)) > 512 then
        perform {schema}.leave_holes(p_look.lane_id, p_look.holes_new, p_bound);
        p_look.holes_new := '{}';
    end if;
    return p_look;
end $$;

-- Leaves numbers to the leader: holes that were too many, and runs of kinds that nobody knows.
create function {schema}.leave_holes(p_lane integer, p_holes int8multirange, p_bound xid8) returns void
language plpgsql volatile
as $$
begin
    insert into {schema}.lane_holes (lane_id, holes, bound) values (p_lane, p_holes, p_bound);
    perform {schema}.wake(0);
end $$;

create function {schema}.claim_v1(
    p_worker bigint, p_token bigint, p_queues text[], p_limits integer[], p_deadlines double precision[],
    p_agings double precision[], p_kinds text[])
returns setof {schema}.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_key constant integer := hashtext('{schema_name}');
    v_quota integer[] := p_limits;
    v_lane record;
    v_busy record;
    v_busy_lane integer;
    v_looks {schema}.lane_look[] := '{}';
    v_look {schema}.lane_look;
    v_locked boolean := false;
    v_end {schema}.claimed;
begin
    if current_setting('transaction_isolation') <> 'read committed' or pg_current_xact_id_if_assigned() is not null then
        perform {schema}.require_own_transaction('claim');
    end if;
    if not exists (select from {schema}.runtime_instances where worker_id = p_worker and dead_at is null) then
        raise exception 'worker % is not registered or has been declared dead', p_worker
            using errcode = 'AWA01', hint = 'register again under a new identity';
    end if;
    if current_setting('awa_cluster.{schema_name}', true) is distinct from 'settled' then
        perform {schema}.require_settled();
    end if;
    v_end.in_flight := false;
    v_end.passed := 0;
    for v_lane in
        select l.lane_id, q.queue, l.priority, l.effective, q.deadline, q.n
          from unnest(p_queues, p_deadlines, p_agings) with ordinality q(queue, deadline, aging, n)
          join {schema}.queue_meta m on m.queue = q.queue
         cross join lateral (
               select a.lane_id, a.priority, a.rivals, a.head,
                      case when a.rivals > 1 then {schema}.aged_priority(a.priority, a.head, q.aging)
                           else a.priority end as effective
                 from (select c.lane_id, c.priority, c.rivals,
                              case when c.rivals > 1 then {schema}.lane_head(c.lane_id) end as head
                         from (select b.lane_id, b.priority, count(*) over () as rivals
                                 from {schema}.lanes b where b.queue = q.queue) c) a) l
         where not m.paused
         order by q.n, l.effective, l.head nulls last, l.priority
    loop
        continue when v_quota[v_lane.n] <= 0;
        if not pg_try_advisory_xact_lock(v_key, v_lane.lane_id) then
            v_end.in_flight := true;
            if v_busy_lane is null then
                v_busy_lane := v_lane.lane_id;
                v_busy := v_lane;
            end if;
            continue;
        end if;
        v_locked := true;
        v_look := {schema}.look(v_lane.lane_id, v_quota[v_lane.n], p_kinds);
        v_quota[v_lane.n] := v_quota[v_lane.n] - v_look.taken;
        v_end.in_flight := v_end.in_flight or v_look.in_flight;
        if v_look.changed then
            v_look.queue := v_lane.queue;
            v_look.priority := v_lane.priority;
            v_look.effective_priority := v_lane.effective;
            v_look.deadline_seconds := v_lane.deadline;
            v_looks := v_looks || v_look;
            v_end.passed := v_end.passed + v_look.taken + coalesce(upper(v_look.passed) - lower(v_look.passed), 0);
        end if;
    end loop;
    -- Waiting is safe only while no other lane is held; the look after it has a snapshot of its own.
    if not v_locked and v_busy_lane is not null then
        perform pg_advisory_xact_lock(v_key, v_busy_lane);
        v_look := {schema}.look(v_busy_lane, v_quota[v_busy.n], p_kinds);
        v_end.in_flight := v_look.in_flight;
        if v_look.changed then
            v_look.queue := v_busy.queue;
            v_look.priority := v_busy.priority;
            v_look.effective_priority := v_busy.effective;
            v_look.deadline_seconds := v_busy.deadline;
            v_looks := v_looks || v_look;
            v_end.passed := v_look.taken + coalesce(upper(v_look.passed) - lower(v_look.passed), 0);
        end if;
    end if;
    if cardinality(v_looks) > 0 then
        return query select * from {schema}.write_claims(p_worker, p_token, p_kinds, v_looks, pg_current_xact_id());
    end if;
    return next v_end;
end $$;
