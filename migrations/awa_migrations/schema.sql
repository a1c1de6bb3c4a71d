-- The newest schema as a whole, for readers. Generated from sql/ by
-- `python -m awa_migrations.snapshot --write`; databases are made by the migrations alone.

-- Name: awa; Type: SCHEMA; Schema: -; Owner: -

CREATE SCHEMA awa;

-- Name: claimed; Type: TYPE; Schema: awa; Owner: -

CREATE TYPE awa.claimed AS (
	queue text,
	priority smallint,
	effective_priority smallint,
	slot smallint,
	claim_id bigint,
	lane_id integer,
	claimed_at timestamp with time zone,
	deadline_at timestamp with time zone,
	seqs bigint[],
	job_ids bigint[],
	kinds text[],
	args jsonb[],
	created_ats timestamp with time zone[],
	run_ats timestamp with time zone[],
	attempts smallint[],
	max_attempts smallint[],
	payloads jsonb[],
	has_unique boolean,
	first_seq bigint,
	last_seq bigint,
	in_flight boolean,
	passed integer
);

-- Name: ending; Type: TYPE; Schema: awa; Owner: -

CREATE TYPE awa.ending AS (
	slot smallint,
	claim_id bigint,
	lane_id integer,
	lane_seq bigint,
	outcome text,
	delay_seconds double precision,
	error text,
	error_output text,
	progress text,
	claimed_at timestamp with time zone,
	deadline_at timestamp with time zone,
	token bigint,
	worker_id bigint
);

-- Name: job_state; Type: TYPE; Schema: awa; Owner: -

CREATE TYPE awa.job_state AS ENUM (
    'scheduled',
    'available',
    'running',
    'completed',
    'retryable',
    'failed',
    'cancelled',
    'waiting_external'
);

-- Name: job_row; Type: TYPE; Schema: awa; Owner: -

CREATE TYPE awa.job_row AS (
	id bigint,
	kind text,
	queue text,
	args jsonb,
	state awa.job_state,
	priority smallint,
	attempt smallint,
	run_lease bigint,
	max_attempts smallint,
	run_at timestamp with time zone,
	deadline_at timestamp with time zone,
	attempted_at timestamp with time zone,
	finalized_at timestamp with time zone,
	created_at timestamp with time zone,
	unique_key bytea,
	unique_mask smallint,
	payload jsonb,
	lane_id integer,
	slot smallint,
	lane_seq bigint,
	worker_id bigint
);

-- Name: lane_look; Type: TYPE; Schema: awa; Owner: -

CREATE TYPE awa.lane_look AS (
	lane_id integer,
	queue text,
	priority smallint,
	effective_priority smallint,
	deadline_seconds double precision,
	next_seq bigint,
	holes_old int8multirange,
	bound_old xid8,
	holes_new int8multirange,
	bound_new xid8,
	looked_at timestamp with time zone,
	gaps int8multirange,
	current_slot smallint,
	bodies awa.claimed[],
	taken integer,
	changed boolean,
	in_flight boolean,
	passed int8range
);

-- Name: moving; Type: TYPE; Schema: awa; Owner: -

CREATE TYPE awa.moving AS (
	slot smallint,
	claim_id bigint,
	lane_id integer,
	lane_seq bigint,
	job_id bigint,
	kind text,
	args jsonb,
	run_at timestamp with time zone,
	created_at timestamp with time zone,
	claimed_at timestamp with time zone,
	deadline_at timestamp with time zone,
	token bigint,
	worker_id bigint,
	attempt smallint,
	max_attempts smallint,
	unique_key bytea,
	unique_mask smallint,
	payload jsonb,
	outcome text,
	state awa.job_state,
	reason text,
	due_at timestamp with time zone,
	attempt_after smallint
);

-- Name: open_claim; Type: TYPE; Schema: awa; Owner: -

CREATE TYPE awa.open_claim AS (
	n integer,
	slot smallint,
	claim_id bigint,
	lane_id integer,
	worker_id bigint,
	token bigint,
	has_unique boolean,
	was_open int8multirange,
	open int8multirange,
	done int8multirange,
	deadline_at timestamp with time zone,
	claimed_at timestamp with time zone
);

-- Name: queue_count; Type: TYPE; Schema: awa; Owner: -

CREATE TYPE awa.queue_count AS (
	queue text,
	paused boolean,
	scheduled bigint,
	available bigint,
	running bigint,
	waiting_external bigint,
	retryable bigint,
	completed bigint,
	failed bigint,
	cancelled bigint,
	oldest_available_at timestamp with time zone,
	unknown_kinds text[]
);

-- Name: account_pruned(smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.account_pruned(p_slot smallint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
declare
    v_count bigint;
begin
    insert into "awa".lane_totals as t (lane_id, state, removed)
    select lane_id, 'completed', sum(n) from (
        select lane_id, completed_count as n from "awa".receipt_completion_batches where slot = p_slot
        union all
        select lane_id, -tomb_count from "awa".completion_tombstones where slot = p_slot) c group by lane_id
    on conflict (lane_id, state) do update set removed = t.removed + excluded.removed;
    select coalesce(sum(completed_count), 0) into v_count from "awa".receipt_completion_batches where slot = p_slot;
    delete from "awa".job_unique_claims k
     using "awa".ready_entries r
      join (select e.lane_id, range_agg(i) as items from "awa".receipt_completion_batches e, unnest(e.items) i
             where e.slot = p_slot group by e.lane_id) done on done.lane_id = r.lane_id and done.items @> r.lane_seq
     where r.slot = p_slot and r.unique_key is not null and k.unique_key = r.unique_key and k.job_id = r.job_id;
    return v_count;
end $$;

-- Name: add_holes(awa.lane_look, xid8); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.add_holes(p_look awa.lane_look, p_bound xid8) RETURNS awa.lane_look
    LANGUAGE plpgsql
    AS $$
begin
    p_look.holes_new := p_look.holes_new + p_look.gaps;
    p_look.bound_new := p_bound;
    if isempty(p_look.holes_old) then
        p_look.holes_old := p_look.holes_new;
        p_look.bound_old := p_bound;
        p_look.holes_new := '{}';
    elsif (select count(*) from unnest(p_look.holes_new)) > 512 then
        perform "awa".leave_holes(p_look.lane_id, p_look.holes_new, p_bound);
        p_look.holes_new := '{}';
    end if;
    return p_look;
end $$;

-- Name: aged_priority(smallint, timestamp with time zone, double precision); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.aged_priority(p_priority smallint, p_head timestamp with time zone, p_interval double precision) RETURNS smallint
    LANGUAGE plpgsql
    AS $$
begin
    if p_head is null or p_interval <= 0 then
        return p_priority;
    end if;
    return greatest(1, p_priority - floor(greatest(0, extract(epoch from clock_timestamp() - p_head)) / p_interval));
end $$;

-- Name: arrive_v1(boolean); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.arrive_v1(p_anyway boolean DEFAULT false, OUT incarnation integer, OUT moved boolean, OUT raised integer, OUT holes bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
declare
    v_known "awa".incarnations;
    v_now record := "awa".cluster_now();
    v_fit bigint;
begin
    perform "awa".require_own_transaction('arrive');
    for v_look in 1 .. 2 loop
        select * into v_known from "awa".incarnations i order by i.incarnation desc limit 1;
        v_fit := "awa".fit_of(v_now.system_identifier, v_known.mark);
        incarnation := v_known.incarnation;
        moved := p_anyway or v_known.system_identifier is distinct from v_now.system_identifier
            or v_known.timeline is distinct from v_now.timeline
            or pg_sequence_last_value('"awa".sequences_fit') is distinct from v_fit;
        raised := 0;
        holes := 0;
        if not moved then
            perform set_config('awa_cluster.awa', 'settled', false);
            return;
        end if;
        -- Held from the first look on, so that the second is the one that counts.
        perform pg_advisory_xact_lock(hashtext('awa'), -3);
    end loop;
    -- Claim sessions do not wait for the disk; this has to reach it.
    perform set_config('synchronous_commit', 'on', true);
    raised := "awa".raise_sequences(v_fit, p_anyway);
    perform setval('"awa".claim_id', coalesce(pg_sequence_last_value('"awa".claim_id'), 0) + 4294967296);
    holes := "awa".bind_holes(pg_current_xact_id());
    incarnation := incarnation + 1;
    insert into "awa".incarnations (incarnation, system_identifier, timeline, mark)
    values (incarnation, v_now.system_identifier, v_now.timeline, v_known.mark);
    perform set_config('awa_cluster.awa', 'settled', false);
end $$;

-- Name: as_ranges(awa.claimed); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.as_ranges(p_bodies awa.claimed) RETURNS int8multirange
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    -- Apart from the query, this expression needs no executor.
    if p_bodies.last_seq - p_bodies.first_seq + 1 = cardinality(p_bodies.seqs) then
        return int8multirange(int8range(p_bodies.first_seq, p_bodies.last_seq + 1));
    end if;
    return (select range_agg(int8range(s, s + 1)) from unnest(p_bodies.seqs) s);
end $$;

-- Name: available_about(integer, regclass, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.available_about(p_lane integer, p_sequence regclass, p_exact bigint, OUT waiting bigint, OUT oldest timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
declare
    v_look "awa".lane_look := "awa".cursor_of(p_lane, "awa".current_slot());
    v_holes int8multirange;
    v_tombs int8multirange;
    v_late bigint;
    v_late_oldest timestamptz;
begin
    v_holes := v_look.holes_old + v_look.holes_new
        + coalesce((select range_agg(h) from "awa".lane_holes s, unnest(s.holes) h where s.lane_id = p_lane), '{}');
    select coalesce(range_agg(i), '{}') into v_tombs from "awa".ready_tombstones t, unnest(t.items) i
     where t.lane_id = p_lane and t.last_seq >= least(v_look.next_seq, lower(v_holes));
    select count(*), min(b.at) into waiting, oldest from (
        select coalesce(r.run_at, r.created_at) as at from "awa".ready_entries r
         where r.lane_id = p_lane and r.lane_seq >= v_look.next_seq and not v_tombs @> r.lane_seq
         order by r.lane_seq limit p_exact) b;
    if waiting >= p_exact then
        waiting := greatest(waiting, pg_sequence_last_value(p_sequence) - v_look.next_seq + 1
            - "awa".size_of(v_tombs * int8multirange(int8range(v_look.next_seq, null))));
    end if;
    if not isempty(v_holes) then
        select count(*), min(r.at) into v_late, v_late_oldest from unnest(v_holes) h
         cross join lateral (select coalesce(r.run_at, r.created_at) as at from "awa".ready_entries r
                              where r.lane_id = p_lane and r.lane_seq >= lower(h) and r.lane_seq < upper(h)
                                and not v_tombs @> r.lane_seq
                              limit 10000) r;
        waiting := waiting + v_late;
        oldest := least(oldest, v_late_oldest);
    end if;
end $$;

-- Name: ready_entries; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.ready_entries (
    lane_seq bigint NOT NULL,
    job_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    slot smallint NOT NULL,
    attempt smallint NOT NULL,
    max_attempts smallint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    args jsonb NOT NULL,
    run_at timestamp with time zone,
    unique_key bytea,
    unique_mask smallint,
    payload jsonb
)
PARTITION BY LIST (slot);

-- Name: available_bodies(integer, text, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.available_bodies(p_lane integer, p_kind text, p_limit bigint) RETURNS SETOF awa.ready_entries
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
declare
    v_look "awa".lane_look := "awa".cursor_of(p_lane, "awa".current_slot());
    v_holes int8multirange;
    v_tombs int8multirange;
begin
    v_holes := v_look.holes_old + v_look.holes_new
        + coalesce((select range_agg(h) from "awa".lane_holes s, unnest(s.holes) h where s.lane_id = p_lane), '{}');
    select coalesce(range_agg(i), '{}') into v_tombs from "awa".ready_tombstones t, unnest(t.items) i
     where t.lane_id = p_lane and t.last_seq >= least(v_look.next_seq, lower(v_holes));
    return query
    select r.* from unnest(v_holes) h
      cross join lateral (select * from "awa".ready_entries r where r.lane_id = p_lane and r.lane_seq >= lower(h)
                             and r.lane_seq < upper(h) and not v_tombs @> r.lane_seq
                             and (p_kind is null or r.kind = p_kind)) r limit p_limit;
    return query
    select * from "awa".ready_entries r where r.lane_id = p_lane and r.lane_seq >= v_look.next_seq
       and not v_tombs @> r.lane_seq and (p_kind is null or r.kind = p_kind) order by r.lane_seq limit p_limit;
end $$;

-- Name: available_in(integer, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.available_in(p_lane integer, p_limit bigint, OUT waiting bigint, OUT oldest timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
declare
    v_look "awa".lane_look := "awa".cursor_of(p_lane, "awa".current_slot());
    v_holes int8multirange;
    v_tombs int8multirange;
    v_late bigint;
begin
    v_holes := v_look.holes_old + v_look.holes_new
        + coalesce((select range_agg(h) from "awa".lane_holes s, unnest(s.holes) h where s.lane_id = p_lane), '{}');
    select coalesce(range_agg(i), '{}') into v_tombs from "awa".ready_tombstones t, unnest(t.items) i
     where t.lane_id = p_lane and t.last_seq >= least(v_look.next_seq, lower(v_holes));
    select count(*) into waiting from (
        select from "awa".ready_entries r where r.lane_id = p_lane and r.lane_seq >= v_look.next_seq
           and not v_tombs @> r.lane_seq limit p_limit) b;
    select count(*) into v_late from unnest(v_holes) h
      cross join lateral (select from "awa".ready_entries r where r.lane_id = p_lane and r.lane_seq >= lower(h)
                             and r.lane_seq < upper(h) and not v_tombs @> r.lane_seq) r;
    waiting := waiting + v_late;
    if waiting > 0 then
        oldest := (select min(coalesce(b.run_at, b.created_at)) from "awa".available_bodies(p_lane, null, 1) b);
    end if;
end $$;

-- Name: backoff(integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.backoff(p_attempt integer) RETURNS interval
    LANGUAGE plpgsql
    AS $$
begin
    return make_interval(secs => least(86400, power(2, least(p_attempt, 20)) * (1 + random() * 0.25)));
end $$;

-- Name: bind_holes(xid8); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.bind_holes(p_bound xid8) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
declare
    v_lane integer;
    v_look "awa".lane_look;
    v_holes int8multirange;
    v_count bigint;
begin
    select coalesce(sum("awa".size_of(h.holes)), 0) into v_count from "awa".lane_holes h;
    update "awa".lane_holes set bound = p_bound;
    for v_lane in select lane_id from "awa".lanes where queue is not null order by lane_id loop
        perform pg_advisory_xact_lock(hashtext('awa'), v_lane);
        v_look := "awa".cursor_of(v_lane, "awa".current_slot());
        v_holes := v_look.holes_old + v_look.holes_new;
        continue when isempty(v_holes);
        v_count := v_count + "awa".size_of(v_holes);
        insert into "awa".claim_batches (claim_id, token, worker_id, claimed_at, next_seq, lane_id, slot, items, holes_old,
                                            bound_old)
        values (nextval('"awa".claim_id'), 0, 0, clock_timestamp(), v_look.next_seq, v_lane, "awa".current_slot(), '{}',
                v_holes, p_bound);
    end loop;
    return v_count;
end $$;

-- Name: bodies_in(integer, smallint[], int8multirange, bigint, int8multirange, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.bodies_in(p_lane integer, p_slots smallint[], p_holes int8multirange, p_from bigint, p_tombs int8multirange, p_limit integer) RETURNS awa.claimed[]
    LANGUAGE plpgsql
    AS $$
declare
    v_bodies "awa".claimed[];
begin
    if p_holes is not null then
        v_bodies := array(
            select row(null, null, null, slot, null, p_lane, null, null, array_agg(lane_seq), array_agg(job_id), array_agg(kind), array_agg(args),
                       array_agg(created_at), array_agg(run_at), array_agg(attempt), array_agg(max_attempts),
                       array_agg(payload), count(unique_key) > 0, min(lane_seq), max(lane_seq), null, null)::"awa".claimed
              from (select b.slot, b.lane_seq, b.job_id, b.kind, b.args, b.created_at, b.run_at, b.attempt, b.max_attempts,
                           b.payload, b.unique_key from unnest(p_holes) h
                     cross join lateral (
                        select * from "awa".ready_entries r
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
                   array_agg(payload), count(unique_key) > 0, min(lane_seq), max(lane_seq), null, null)::"awa".claimed
          from (select * from "awa".ready_entries r
                 where r.slot in (p_slots[1], p_slots[2], p_slots[3], p_slots[4], p_slots[5], p_slots[6], p_slots[7], p_slots[8],
                             p_slots[9], p_slots[10], p_slots[11], p_slots[12], p_slots[13], p_slots[14], p_slots[15], p_slots[16]) and r.lane_id = p_lane and r.lane_seq >= p_from
                   and not p_tombs @> r.lane_seq
                 order by r.lane_seq limit p_limit) b
         group by slot);
end $$;

-- Name: call_election(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.call_election() RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    perform pg_notify('awa:0', 'lead');
end $$;

-- Name: cancel_v1(bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.cancel_v1(p_id bigint) RETURNS awa.job_state
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_job "awa".job_row;
    v_claims "awa".open_claim[];
    v_gone integer;
    v_now timestamptz := clock_timestamp();
begin
    perform "awa".require_short_transaction('cancel');
    for i in 1 .. 20 loop
        v_job := "awa".find_job(p_id);
        if v_job.id is null or v_job.state in ('completed', 'failed', 'cancelled') then
            return v_job.state;
        elsif v_job.state in ('scheduled', 'retryable') then
            delete from "awa".deferred_jobs where job_id = p_id;
            get diagnostics v_gone = row_count;
        elsif v_job.slot is null then
            delete from "awa".leases where job_id = p_id and claim_id = v_job.run_lease;
            get diagnostics v_gone = row_count;
        elsif v_job.state = 'available' then
            perform pg_advisory_xact_lock(hashtext('awa'), -2 - v_job.lane_id);
            perform pg_advisory_xact_lock(hashtext('awa'), v_job.lane_id);
            v_gone := 0;
            if ("awa".find_job(p_id)).lane_seq = v_job.lane_seq and ("awa".find_job(p_id)).state = 'available' then
                perform "awa".entomb(v_job.lane_id, v_job.slot, array[v_job.lane_seq], 'cancelled');
                v_gone := 1;
            end if;
        else
            v_claims := array(select c from unnest("awa".open_claims(array[v_job.slot], v_job.worker_id,
                                  array[v_job.run_lease], null)) c where c.open @> v_job.lane_seq);
            v_gone := 0;
            if cardinality(v_claims) = 1 then
                perform "awa".end_attempts(array["awa".ending_of(v_claims[1], v_job.lane_seq, 'admin_cancel')]);
                perform pg_notify('awa:cancel', json_build_object('job_id', p_id, 'run_lease', v_job.run_lease)::text);
                return v_job.state;
            end if;
        end if;
        if v_gone > 0 then
            perform "awa".place("awa".move_keys(array["awa".job_to_move(v_job, 'cancelled')], v_job.state, v_now), v_now);
            if v_job.state = 'running' then
                perform pg_notify('awa:cancel', json_build_object('job_id', p_id, 'run_lease', v_job.run_lease)::text);
            end if;
            return v_job.state;
        end if;
    end loop;
    raise exception 'job % keeps moving; try again', p_id using errcode = '55006';
end $$;

-- Name: carry_cursors(smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.carry_cursors(p_slot smallint) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
declare
    v_lane integer;
    v_row "awa".claim_batches;
begin
    for v_lane in select lane_id from "awa".lanes where queue is not null order by lane_id loop
        continue when not exists (select from "awa".claim_batches where slot = p_slot and lane_id = v_lane limit 1);
        if not pg_try_advisory_xact_lock(hashtext('awa'), v_lane) then
            return false;
        end if;
        select * into v_row from "awa".claim_batches where lane_id = v_lane order by next_seq desc, claim_id desc limit 1;
        if v_row.slot = p_slot then
            insert into "awa".claim_batches (claim_id, token, worker_id, claimed_at, next_seq, lane_id, slot, items,
                                                holes_old, bound_old, holes_new, bound_new, looked_at)
            values (nextval('"awa".claim_id'), 0, 0, clock_timestamp(), v_row.next_seq, v_lane, "awa".current_slot(),
                    '{}', v_row.holes_old, v_row.bound_old, v_row.holes_new, v_row.bound_new, v_row.looked_at);
        end if;
    end loop;
    return true;
end $$;

-- Name: check_batch(text[], integer, smallint[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.check_batch(p_kinds text[], p_count integer, p_max_attempts smallint[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
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

-- Name: check_lane(text, smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.check_lane(p_queue text, p_priority smallint) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    if p_queue is null or char_length(p_queue) not between 1 and 200 or p_queue ~ '[[:cntrl:]]' then
        raise exception 'a queue name has 1 to 200 printable characters' using errcode = '22023';
    end if;
    if p_priority is null or p_priority not between 1 and 4 then
        raise exception 'priority is 1 (first) to 4 (last), not %', p_priority using errcode = '22023';
    end if;
end $$;

-- Name: check_sequences(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.check_sequences() RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    v_fit bigint;
begin
    select "awa".fit_of(c.system_identifier, i.mark) into v_fit
      from "awa".cluster_now() c, "awa".incarnations i order by i.incarnation desc limit 1;
    if pg_sequence_last_value('"awa".sequences_fit') is distinct from v_fit then
        perform "awa".raise_sequences(v_fit, false);
    end if;
    perform set_config('awa_cluster.awa', 'fits', false);
end $$;

-- Name: claim_batches; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.claim_batches (
    claim_id bigint NOT NULL,
    token bigint NOT NULL,
    worker_id bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone,
    next_seq bigint NOT NULL,
    lane_id integer NOT NULL,
    slot smallint NOT NULL,
    has_unique boolean DEFAULT false NOT NULL,
    items int8multirange NOT NULL,
    holes_old int8multirange,
    bound_old xid8,
    holes_new int8multirange,
    bound_new xid8,
    looked_at timestamp with time zone
)
PARTITION BY LIST (slot);

-- Name: claim_at(smallint, integer, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.claim_at(p_slot smallint, p_lane integer, p_seq bigint) RETURNS awa.claim_batches
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
declare
    v_claim "awa".claim_batches;
begin
    select * into v_claim from "awa".claim_batches
     where slot = p_slot and lane_id = p_lane and next_seq > p_seq and items @> p_seq
     order by next_seq, claim_id limit 1;
    return v_claim;
end $$;

-- Name: claim_v1(bigint, bigint, text[], integer[], double precision[], double precision[], text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.claim_v1(p_worker bigint, p_token bigint, p_queues text[], p_limits integer[], p_deadlines double precision[], p_agings double precision[], p_kinds text[]) RETURNS SETOF awa.claimed
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_key constant integer := hashtext('awa');
    v_quota integer[] := p_limits;
    v_lane record;
    v_busy record;
    v_busy_lane integer;
    v_looks "awa".lane_look[] := '{}';
    v_look "awa".lane_look;
    v_locked boolean := false;
    v_end "awa".claimed;
begin
    if current_setting('transaction_isolation') <> 'read committed' or pg_current_xact_id_if_assigned() is not null then
        perform "awa".require_own_transaction('claim');
    end if;
    if not exists (select from "awa".runtime_instances where worker_id = p_worker and dead_at is null) then
        raise exception 'worker % is not registered or has been declared dead', p_worker
            using errcode = 'AWA01', hint = 'register again under a new identity';
    end if;
    if current_setting('awa_cluster.awa', true) is distinct from 'settled' then
        perform "awa".require_settled();
    end if;
    v_end.in_flight := false;
    v_end.passed := 0;
    for v_lane in
        select l.lane_id, q.queue, l.priority, l.effective, q.deadline, q.n
          from unnest(p_queues, p_deadlines, p_agings) with ordinality q(queue, deadline, aging, n)
          join "awa".queue_meta m on m.queue = q.queue
         cross join lateral (
               select a.lane_id, a.priority, a.rivals, a.head,
                      case when a.rivals > 1 then "awa".aged_priority(a.priority, a.head, q.aging)
                           else a.priority end as effective
                 from (select c.lane_id, c.priority, c.rivals,
                              case when c.rivals > 1 then "awa".lane_head(c.lane_id) end as head
                         from (select b.lane_id, b.priority, count(*) over () as rivals
                                 from "awa".lanes b where b.queue = q.queue) c) a) l
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
        v_look := "awa".look(v_lane.lane_id, v_quota[v_lane.n], p_kinds);
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
        v_look := "awa".look(v_busy_lane, v_quota[v_busy.n], p_kinds);
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
        return query select * from "awa".write_claims(p_worker, p_token, p_kinds, v_looks, pg_current_xact_id());
    end if;
    return next v_end;
end $$;

-- Name: claiming_workers(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.claiming_workers() RETURNS TABLE(worker_id bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
begin
    worker_id := 0;
    loop
        worker_id := (select c.worker_id from "awa".claim_batches c where c.worker_id > claiming_workers.worker_id
                       order by c.worker_id limit 1);
        exit when worker_id is null;
        return next;
    end loop;
end $$;

-- Name: closed_as_v1(smallint[], bigint[], bigint[], bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.closed_as_v1(p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_worker bigint) RETURNS TABLE(claim_id bigint, items int8multirange)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
begin
    return query
    with mine as (
        select c.slot, c.claim_id
          from unnest(p_slots, p_claims, p_tokens) u(slot, claim_id, token)
          join "awa".claim_batches c
            on c.slot = u.slot and c.worker_id = p_worker and c.claim_id = u.claim_id and c.token = u.token
    )
    select e.claim_id, e.items
      from mine join "awa".receipt_completion_batches e on e.slot = mine.slot and e.claim_id = mine.claim_id
    union all
    select e.claim_id, e.items
      from mine join "awa".claim_closures e on e.slot = mine.slot and e.claim_id = mine.claim_id
     where e.outcome in ('retried', 'snoozed', 'failed');
end $$;

-- Name: cluster_now(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.cluster_now(OUT system_identifier bigint, OUT timeline integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
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

-- Name: copy_grants(text, text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.copy_grants(p_from text, p_to text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_new regprocedure;
    v_role oid;
begin
    for v_new, v_role in
        select n.oid::regprocedure, a.grantee from pg_proc o, aclexplode(o.proacl) a, pg_proc n
         where o.pronamespace = to_regnamespace('awa') and o.proname = p_from
           and n.pronamespace = o.pronamespace and n.proname = p_to
           and a.privilege_type = 'EXECUTE' and a.grantee not in (0, n.proowner) loop
        execute format('grant execute on function %s to %I', v_new, pg_get_userbyid(v_role));
    end loop;
end $$;

-- Name: count_queues(text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.count_queues(p_queue text) RETURNS SETOF awa.queue_count
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
begin
    return query
    with lane as (
        select l.lane_id, l.queue from "awa".lanes l where l.queue is not null and (p_queue is null or l.queue = p_queue)
    ), part as (
        select lane_id, 'available' as state, a.waiting as n, a.oldest
          from lane cross join lateral "awa".available_in(lane.lane_id, 9223372036854775807) a
        union all
        select lane_id, 'running', sum("awa".size_of(open)), null from "awa".open_items() group by lane_id
        union all
        select lane_id, state::text, count(*), null from "awa".leases group by lane_id, state
        union all
        select lane_id, state::text, count(*), null from "awa".deferred_jobs group by lane_id, state
        union all
        select lane_id, state::text, count(*), null from "awa".done_entries group by lane_id, state
        union all
        select lane_id, 'completed', sum(completed_count), null from "awa".receipt_completion_batches group by lane_id
        union all
        select lane_id, 'completed', -sum(tomb_count), null from "awa".completion_tombstones group by lane_id
        union all
        select lane_id, state::text, removed, null from "awa".lane_totals
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
           (select array_agg(distinct d.kind) from "awa".deferred_jobs d join lane l on l.lane_id = d.lane_id
             where d.reason = 'unknown_kind' and l.queue = m.queue)
      from "awa".queue_meta m left join lane on lane.queue = m.queue left join part on part.lane_id = lane.lane_id
     where p_queue is null or m.queue = p_queue
     group by m.queue, m.paused order by m.queue;
end $$;

-- Name: current_slot(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.current_slot() RETURNS smallint
    LANGUAGE plpgsql STABLE
    AS $$ begin return (select slot from "awa".ring_rotations order by generation desc limit 1); end $$;

-- Name: cursor_of(integer, smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.cursor_of(p_lane integer, p_current smallint) RETURNS awa.lane_look
    LANGUAGE plpgsql STABLE
    AS $$
declare
    v_look "awa".lane_look;
begin
    select next_seq, holes_old, bound_old, holes_new, bound_new, looked_at
      into v_look.next_seq, v_look.holes_old, v_look.bound_old, v_look.holes_new, v_look.bound_new, v_look.looked_at
      from "awa".claim_batches where slot = p_current and lane_id = p_lane
     order by next_seq desc, claim_id desc limit 1;
    if not found then
        select next_seq, holes_old, bound_old, holes_new, bound_new, looked_at
          into v_look.next_seq, v_look.holes_old, v_look.bound_old, v_look.holes_new, v_look.bound_new, v_look.looked_at
          from "awa".claim_batches where lane_id = p_lane
         order by next_seq desc, claim_id desc limit 1;
    end if;
    v_look.lane_id := p_lane;
    v_look.next_seq := coalesce(v_look.next_seq, 1);
    v_look.holes_old := coalesce(v_look.holes_old, '{}');
    v_look.holes_new := coalesce(v_look.holes_new, '{}');
    v_look.changed := false;
    return v_look;
end $$;

-- Name: decide(awa.moving, awa.ending, timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.decide(p_move awa.moving, p_end awa.ending, p_now timestamp with time zone) RETURNS awa.moving
    LANGUAGE plpgsql
    AS $$
declare
    v_try integer := p_move.attempt + 1;
    v_given integer := coalesce((p_move.payload #>> '{returns,given}')::integer, 0);
    v_unknown integer := coalesce((p_move.payload #>> '{returns,unknown}')::integer, 0);
    v_error text := p_end.error;
    v_terminal boolean := false;
begin
    p_move.attempt_after := v_try;
    p_move.outcome := case p_end.outcome when 'retry' then 'retried' when 'retry_after' then 'retried'
        when 'snooze' then 'snoozed' when 'fail' then 'failed' when 'rescue' then 'rescued'
        when 'evacuate' then 'evacuated' when 'give_back' then 'returned' when 'unknown_kind' then 'returned'
        else 'cancelled' end;
    if p_end.progress is not null then
        p_move.payload := coalesce(p_move.payload, '{}') || jsonb_build_object('progress', p_end.progress::jsonb);
    end if;
    -- Counted apart: workers that do not know a kind use up nothing of what interrupted attempts may.
    if p_end.outcome = 'give_back' then
        v_given := v_given + 1;
    elsif p_end.delay_seconds is null then
        v_unknown := v_unknown + 1;
    end if;
    if p_end.outcome = 'give_back' and v_given > p_move.max_attempts then
        p_end.outcome := 'rescue';
        p_end.error := coalesce(p_end.error, 'given back too often without coming to an end');
        p_move.outcome := 'rescued';
    end if;
    if p_end.outcome in ('give_back', 'unknown_kind') then
        p_move.payload := coalesce(p_move.payload, '{}')
            || jsonb_build_object('returns', jsonb_build_object('given', v_given, 'unknown', v_unknown));
        p_move.attempt_after := p_move.attempt;
        if p_end.outcome = 'give_back' then
            p_move.state := 'available';
        else
            p_move.state := 'scheduled';
            p_move.reason := 'unknown_kind';
            p_move.due_at := p_now + make_interval(
                secs => coalesce(p_end.delay_seconds, least(3600, power(2, least(v_unknown, 12)))));
        end if;
        return p_move;
    end if;
    p_move.payload := p_move.payload - 'returns';
    case p_end.outcome
    when 'evacuate' then
        p_move.state := 'running';
    when 'snooze' then
        p_move.state := 'scheduled';
        p_move.reason := 'snooze';
        p_move.due_at := p_now + make_interval(secs => p_end.delay_seconds);
        p_move.attempt_after := p_move.attempt;
    when 'cancel', 'admin_cancel' then
        p_move.state := 'cancelled';
    when 'fail' then
        p_move.state := 'failed';
        v_terminal := true;
    else
        if v_try >= p_move.max_attempts then
            p_move.state := 'failed';
            v_terminal := true;
            v_error := case p_end.outcome when 'retry_after'
                then format('max_attempts exhausted (handler requested retry after %s)', p_end.error) else v_error end;
        else
            p_move.state := 'retryable';
            p_move.reason := p_end.outcome;
            p_move.due_at := p_now + coalesce(make_interval(secs => p_end.delay_seconds), "awa".backoff(v_try));
            v_error := case p_end.outcome when 'retry_after' then
                case when p_end.error_output is not null then 'retry requested after ' || p_end.error end else v_error end;
        end if;
    end case;
    if v_error is not null then
        p_move.payload := "awa".with_error(p_move.payload, v_error, v_try, v_terminal, p_end.error_output, p_now);
    end if;
    if p_move.payload = '{}' then
        p_move.payload := null;
    end if;
    return p_move;
end $$;

-- Name: defer_unknown(integer, smallint, bigint[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.defer_unknown(p_lane integer, p_slot smallint, p_seqs bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    v_now timestamptz := clock_timestamp();
    v_moves "awa".moving[];
begin
    if cardinality(p_seqs) = 0 then
        return;
    end if;
    v_moves := array(
        select "awa".decide(row(r.slot, 0, r.lane_id, r.lane_seq, r.job_id, r.kind, r.args, r.run_at, r.created_at, null, null,
                   null, null, r.attempt, r.max_attempts, r.unique_key, r.unique_mask, r.payload, null, null, null, null,
                   null)::"awa".moving,
               row(r.slot, 0, r.lane_id, r.lane_seq, 'unknown_kind', null, null, null, null, null, null, null,
                   null)::"awa".ending, v_now)
          from "awa".ready_entries r where r.slot = p_slot and r.lane_id = p_lane and r.lane_seq = any (p_seqs));
    perform "awa".entomb(p_lane, p_slot, p_seqs, 'unknown_kind');
    perform "awa".place("awa".move_keys(v_moves, 'available', v_now), v_now);
end $$;

-- Name: draw(regclass, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.draw(p_sequence regclass, p_count integer) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
declare
    v_xid constant xid8 := pg_current_xact_id();
begin
    if (current_setting('awa_cluster.awa', true) <> '') is not true then
        perform "awa".check_sequences();
    end if;
    if p_count = 1 then
        return array[nextval(p_sequence)];
    end if;
    return array(select nextval(p_sequence) from generate_series(1, p_count));
end $$;

-- Name: end_attempts(awa.ending[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.end_attempts(p_ends awa.ending[]) RETURNS awa.moving[]
    LANGUAGE plpgsql
    AS $$
declare
    v_now timestamptz := clock_timestamp();
    v_slots smallint[] := array(select distinct slot from unnest(p_ends));
    v_moves "awa".moving[];
begin
    if cardinality(p_ends) = 0 then
        return '{}';
    end if;
    v_moves := array(
        select "awa".decide(row(e.slot, e.claim_id, e.lane_id, e.lane_seq, r.job_id, r.kind, r.args, r.run_at,
                   r.created_at, e.claimed_at, e.deadline_at, e.token, e.worker_id, r.attempt, r.max_attempts,
                   r.unique_key, r.unique_mask, r.payload, null, null, null, null, null)::"awa".moving, e, v_now)
          from unnest(p_ends) e
          join "awa".ready_entries r
            on r.slot in (v_slots[1], v_slots[2], v_slots[3], v_slots[4], v_slots[5], v_slots[6], v_slots[7], v_slots[8],
                                    v_slots[9], v_slots[10], v_slots[11], v_slots[12], v_slots[13], v_slots[14], v_slots[15], v_slots[16])
           and r.slot = e.slot and r.lane_id = e.lane_id and r.lane_seq = e.lane_seq);
    if cardinality(v_moves) <> cardinality(p_ends) then
        raise exception 'bodies of open attempts are missing: % of %', cardinality(p_ends) - cardinality(v_moves),
            cardinality(p_ends) using errcode = 'XX001';
    end if;
    v_moves := "awa".move_keys(v_moves, 'running', v_now);
    insert into "awa".claim_closures (claim_id, closed_at, lane_id, closed_count, slot, outcome, items)
    select claim_id, v_now, lane_id, count(*), slot, outcome, range_agg(int8range(lane_seq, lane_seq + 1))
      from unnest(v_moves) group by claim_id, lane_id, slot, outcome;
    perform "awa".place(v_moves, v_now);
    return v_moves;
end $$;

-- Name: end_leases(bigint, text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.end_leases(p_worker bigint, p_error text) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    v_now timestamptz := clock_timestamp();
    v_lease "awa".leases;
    v_moves "awa".moving[] := '{}';
begin
    for v_lease in select * from "awa".leases where worker_id = p_worker and state = 'running'
                    order by claim_id, lane_seq for update skip locked loop
        v_moves := v_moves || "awa".decide("awa".moving_lease(v_lease),
            row(null, v_lease.claim_id, v_lease.lane_id, v_lease.lane_seq, 'rescue', null, p_error, null, null, null, null,
                null, null)::"awa".ending, v_now);
    end loop;
    delete from "awa".leases l using unnest(v_moves) m where l.job_id = m.job_id;
    perform "awa".place("awa".move_keys(v_moves, 'running', v_now), v_now);
    return cardinality(v_moves);
end $$;

-- Name: end_open(awa.open_claim[], bigint[], bigint[], text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.end_open(p_claims awa.open_claim[], p_started_claims bigint[], p_started_seqs bigint[], p_error text) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    v_ends "awa".ending[];
begin
    v_ends := array(
        select "awa".ending_of(c, s.seq,
                   case when st.claim is not null then 'rescue' else 'give_back' end, null, p_error)
          from unnest(p_claims) c
          cross join lateral (select seq from unnest(c.open) i, generate_series(lower(i), upper(i) - 1) seq) s
          left join unnest(p_started_claims, p_started_seqs) st(claim, seq) on st.claim = c.claim_id and st.seq = s.seq);
    perform "awa".end_attempts(v_ends);
    return cardinality(v_ends);
end $$;

-- Name: ending_of(awa.open_claim, bigint, text, double precision, text, text, text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.ending_of(p_claim awa.open_claim, p_seq bigint, p_outcome text, p_delay double precision DEFAULT NULL::double precision, p_error text DEFAULT NULL::text, p_output text DEFAULT NULL::text, p_progress text DEFAULT NULL::text) RETURNS awa.ending
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    return row(p_claim.slot, p_claim.claim_id, p_claim.lane_id, p_seq, p_outcome, p_delay, p_error, p_output, p_progress,
               p_claim.claimed_at, p_claim.deadline_at, p_claim.token, p_claim.worker_id)::"awa".ending;
end $$;

-- Name: enqueue_mixed(integer, regclass, integer, text[], jsonb[], timestamp with time zone[], smallint[], jsonb[], bytea[], smallint[], boolean); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.enqueue_mixed(p_lane integer, p_sequence regclass, p_queue_id integer, p_kinds text[], p_args jsonb[], p_run_at timestamp with time zone[], p_max_attempts smallint[], p_payloads jsonb[], p_unique_keys bytea[], p_unique_masks smallint[], p_skip boolean) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
declare
    v_count integer := cardinality(p_args);
    v_ready integer := (select count(*) from generate_series(1, v_count) n where p_run_at[n] is null);
    v_seqs bigint[] := "awa".draw(p_sequence, v_ready);
    v_ids bigint[];
    v_lost integer[] := '{}';
    v_now timestamptz := clock_timestamp();
begin
    select array_agg(case when p_run_at[n] is null then v_seqs[rank] * 1024 + p_lane
                          else nextval('"awa".deferred_id') * 1024 end order by n)
      into v_ids
      from (select n, count(*) filter (where p_run_at[n] is null) over (order by n) as rank
              from generate_series(1, v_count) n) r;
    if p_unique_keys is not null then
        v_lost := "awa".take_keys(v_ids, p_unique_keys, p_unique_masks,
            array(select case when p_run_at[n] is null then 'available' else 'scheduled' end::"awa".job_state
                    from generate_series(1, v_count) n order by n), p_skip);
    end if;
    insert into "awa".ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args,
                                        unique_key, unique_mask, payload)
    select id / 1024, id, v_now, p_lane, "awa".current_slot(), 0, coalesce(tries, 25), coalesce(kind, p_kinds[1]),
           args, key, mask, payload
      from unnest(v_ids, p_run_at, p_args, p_kinds, p_max_attempts, p_payloads, p_unique_keys, p_unique_masks)
           with ordinality u(id, run_at, args, kind, tries, payload, key, mask, n)
     where run_at is null and n <> all (v_lost);
    insert into "awa".deferred_jobs (job_id, run_at, created_at, lane_id, attempt, max_attempts, state, reason, kind,
                                        args, unique_key, unique_mask, payload)
    select id, run_at, v_now, p_lane, 0, coalesce(tries, 25), 'scheduled', 'scheduled', coalesce(kind, p_kinds[1]),
           args, key, mask, payload
      from unnest(v_ids, p_run_at, p_args, p_kinds, p_max_attempts, p_payloads, p_unique_keys, p_unique_masks)
           with ordinality u(id, run_at, args, kind, tries, payload, key, mask, n)
     where run_at is not null and n <> all (v_lost);
    perform "awa".wake_leader((select min(at) from unnest(p_run_at) at));
    if v_ready > 0 then
        perform "awa".wake(p_queue_id);
    end if;
    return array(select case when n <> all (v_lost) then v_ids[n] end from generate_series(1, v_count) n order by n);
end $$;

-- Name: enqueue_v1(text, smallint, text[], jsonb[], timestamp with time zone[], smallint[], jsonb[], bytea[], smallint[], boolean); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.enqueue_v1(p_queue text, p_priority smallint, p_kinds text[], p_args jsonb[], p_run_at timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], p_max_attempts smallint[] DEFAULT NULL::smallint[], p_payloads jsonb[] DEFAULT NULL::jsonb[], p_unique_keys bytea[] DEFAULT NULL::bytea[], p_unique_masks smallint[] DEFAULT NULL::smallint[], p_skip_duplicates boolean DEFAULT false) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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
        perform "awa".check_batch(p_kinds, v_count, p_max_attempts);
    end if;
    select l.lane_id, l.sequence, m.queue_id into v_lane
      from "awa".lanes l join "awa".queue_meta m on m.queue = l.queue
     where l.queue = p_queue and l.priority = p_priority;
    if not found then
        select * into v_lane from "awa".lane_of(p_queue, p_priority);
    end if;
    if p_run_at is not null then
        return "awa".enqueue_mixed(v_lane.lane_id, v_lane.sequence, v_lane.queue_id, p_kinds, p_args, p_run_at,
            p_max_attempts, p_payloads, p_unique_keys, p_unique_masks, p_skip_duplicates);
    end if;
    v_seqs := "awa".draw(v_lane.sequence, v_count);
    v_slot := (select slot from "awa".ring_rotations order by generation desc limit 1);
    if p_unique_keys is not null then
        select array_agg(s * 1024 + v_lane.lane_id) into v_ids from unnest(v_seqs) s;
        v_lost := "awa".take_keys(v_ids, p_unique_keys, p_unique_masks,
            array_fill('available'::"awa".job_state, array[v_count]), p_skip_duplicates);
    end if;
    if p_max_attempts is null and p_payloads is null and p_unique_keys is null and cardinality(p_kinds) = 1 then
        insert into "awa".ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args)
        select seq, seq * 1024 + v_lane.lane_id, v_now, v_lane.lane_id, v_slot, 0, 25, p_kinds[1], args
          from unnest(v_seqs, p_args) u(seq, args);
    else
        insert into "awa".ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind,
                                            args, unique_key, unique_mask, payload)
        select seq, seq * 1024 + v_lane.lane_id, v_now, v_lane.lane_id, v_slot, 0, coalesce(tries, 25),
               coalesce(kind, p_kinds[1]), args, key, mask, payload
          from unnest(v_seqs, p_args, p_kinds, p_max_attempts, p_payloads, p_unique_keys, p_unique_masks)
               with ordinality u(seq, args, kind, tries, payload, key, mask, n)
         where n <> all (v_lost);
    end if;
    perform "awa".wake(v_lane.queue_id);
    if v_count = 1 and v_lost = '{}' then
        return array[v_seqs[1] * 1024 + v_lane.lane_id];
    end if;
    return array(select case when n <> all (v_lost) then seq * 1024 + v_lane.lane_id end
                   from unnest(v_seqs) with ordinality u(seq, n) order by n);
end $$;

-- Name: entomb(integer, smallint, bigint[], text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.entomb(p_lane integer, p_slot smallint, p_seqs bigint[], p_reason text) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    insert into "awa".ready_tombstones (last_seq, closed_at, lane_id, tomb_count, slot, reason, items)
    select max(s), clock_timestamp(), p_lane, count(*), p_slot, p_reason, range_agg(int8range(s, s + 1)) from unnest(p_seqs) s;
    update "awa".lanes set tombstoned_to = greatest(tombstoned_to, (select max(s) from unnest(p_seqs) s))
     where lane_id = p_lane;
end $$;

-- Name: evacuate_v1(interval, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.evacuate_v1(p_older_than interval, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_slot record;
    v_worker record;
    v_claims "awa".open_claim[];
    v_ends "awa".ending[];
    v_moved integer := 0;
begin
    for v_slot in select slot from "awa".live_slots()
                   where slot <> "awa".current_slot() and left_at < clock_timestamp() - p_older_than loop
        continue when "awa".slot_open(v_slot.slot) not between 1 and p_limit;
        for v_worker in select worker_id, settled_below from "awa".runtime_instances where dead_at is null
                         order by worker_id loop
            v_claims := array(select c from unnest("awa".unsettled(v_worker.worker_id, v_worker.settled_below, 'infinity',
                                                                      10000)) c where c.slot = v_slot.slot);
            v_ends := array(select "awa".ending_of(c, seq, 'evacuate')
                              from unnest(v_claims) c, unnest(c.open) i, generate_series(lower(i), upper(i) - 1) seq);
            perform "awa".end_attempts(v_ends);
            v_moved := v_moved + cardinality(v_ends);
        end loop;
    end loop;
    return v_moved;
end $$;

-- Name: find_job(bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.find_job(p_id bigint) RETURNS awa.job_row
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $$
declare
    v_job "awa".job_row;
    v_body "awa".ready_entries;
begin
    select d.job_id, d.kind, l.queue, d.args, d.state, l.priority, d.attempt, d.run_lease, d.max_attempts, d.run_at, null,
           null, d.finalized_at, d.created_at, d.unique_key, d.unique_mask, nullif(d.payload - 'returns', '{}'), d.lane_id,
           null, null, null
      into v_job from "awa".deferred_jobs d join "awa".lanes l on l.lane_id = d.lane_id where d.job_id = p_id;
    if found then return v_job; end if;
    select d.job_id, d.kind, l.queue, d.args, d.state, l.priority, d.attempt, d.claim_id, d.max_attempts,
           coalesce(d.run_at, d.created_at), d.deadline_at, d.claimed_at, null, d.created_at, d.unique_key, d.unique_mask,
           d.payload, d.lane_id, null, d.lane_seq, d.worker_id
      into v_job from "awa".leases d join "awa".lanes l on l.lane_id = d.lane_id where d.job_id = p_id;
    if found then return v_job; end if;
    select d.job_id, d.kind, l.queue, d.args, d.state, l.priority, d.attempt, d.run_lease, d.max_attempts, d.run_at, null,
           d.attempted_at, d.finalized_at, d.created_at, d.unique_key, d.unique_mask, d.payload, d.lane_id, null, null, null
      into v_job from "awa".done_entries d join "awa".lanes l on l.lane_id = d.lane_id where d.job_id = p_id;
    if found then return v_job; end if;
    for v_body in
        select * from "awa".ready_entries where job_id = p_id and job_id <> lane_seq * 1024 + lane_id
        union all
        select * from "awa".ready_entries where lane_id = (p_id % 1024)::integer and lane_seq = p_id / 1024 and job_id = p_id
    loop
        v_job := "awa".ring_job(v_body);
        if v_job.id is not null then return v_job; end if;
    end loop;
    return null;
end $$;

-- Name: finish_ends(awa.open_claim[], integer[], bigint[], text[], double precision[], text[], text[], text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.finish_ends(p_claims awa.open_claim[], p_of integer[], p_seqs bigint[], p_outcomes text[], p_delays double precision[], p_errors text[], p_outputs text[], p_progress text[]) RETURNS integer
    LANGUAGE plpgsql
    AS $$
begin
    return cardinality("awa".end_attempts(array(
        select "awa".ending_of(c, u.seq, u.outcome, u.delay, u.error, u.output, u.progress)
          from unnest(p_of, p_seqs, p_outcomes, p_delays, p_errors, p_outputs, p_progress)
               u(k, seq, outcome, delay, error, output, progress)
          join unnest(p_claims) c on c.n = u.k and c.open @> u.seq)));
end $$;

-- Name: finish_leases(bigint, bigint, int8multirange, bigint[], integer[], integer, text[], double precision[], text[], text[], text[], bigint[], text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.finish_leases(p_claim bigint, p_token bigint, p_items int8multirange, p_end_seqs bigint[], p_end_of integer[], p_at integer, p_outcomes text[], p_delays double precision[], p_errors text[], p_outputs text[], p_progress text[], p_output_seqs bigint[], p_done_outputs text[], OUT left_over int8multirange) RETURNS int8multirange
    LANGUAGE plpgsql
    AS $$
declare
    v_now timestamptz := clock_timestamp();
    v_lease "awa".leases;
    v_move "awa".moving;
    v_moves "awa".moving[] := '{}';
    v_end integer;
begin
    left_over := p_items;
    for v_lease in select * from "awa".leases
                    where claim_id = p_claim and token = p_token and p_items @> lane_seq order by lane_seq for update loop
        left_over := left_over - int8multirange(int8range(v_lease.lane_seq, v_lease.lane_seq + 1));
        v_move := "awa".moving_lease(v_lease);
        v_end := (select n from unnest(p_end_of, p_end_seqs) with ordinality u(k, seq, n)
                   where k = p_at and seq = v_lease.lane_seq limit 1);
        if v_end is null then
            v_move.state := 'completed';
            v_move.attempt_after := v_lease.attempt;
            v_move.payload := v_move.payload - 'progress' - 'returns';
        else
            v_move := "awa".decide(v_move, row(null, p_claim, v_lease.lane_id, v_lease.lane_seq, p_outcomes[v_end],
                p_delays[v_end], p_errors[v_end], p_outputs[v_end], p_progress[v_end], null, null, null, null)::"awa".ending, v_now);
        end if;
        v_moves := v_moves || v_move;
    end loop;
    delete from "awa".leases l using unnest(v_moves) m where l.job_id = m.job_id;
    perform "awa".place("awa".move_keys(v_moves, 'running', v_now), v_now);
    if p_done_outputs is not null then
        perform "awa".keep_outputs(array(select m.job_id from unnest(v_moves) m order by m.job_id),
            array(select (select output from unnest(p_output_seqs, p_done_outputs) u(seq, output) where seq = m.lane_seq)
                    from unnest(v_moves) m order by m.job_id));
    end if;
end $$;

-- Name: finish_rest(awa.open_claim[], bigint, boolean, bigint[], bigint[], integer[], bigint[], bigint[], integer[], bigint[], text[], double precision[], text[], text[], text[], bigint[], text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.finish_rest(p_open awa.open_claim[], p_left bigint, p_unique boolean, p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[], p_output_seqs bigint[], p_done_outputs text[]) RETURNS TABLE(claim_at integer, stale int8multirange)
    LANGUAGE plpgsql
    AS $$
begin
    if p_unique then
        perform "awa".move_completed_keys(p_open);
    end if;
    if cardinality(p_end_of) > 0 then
        p_left := p_left + cardinality(p_end_of) - "awa".finish_ends(p_open, p_end_of, p_end_seqs, p_end_outcomes,
            p_end_delays, p_end_errors, p_end_outputs, p_end_progress);
    end if;
    if p_left = 0 then
        return;
    end if;
    return query
    select s.claim_at, l.left_over
      from "awa".stale_items(p_open, p_done_of, p_done_lo, p_done_hi, p_end_of, p_end_seqs) s
      cross join lateral "awa".finish_leases(p_claims[s.claim_at], p_tokens[s.claim_at], s.stale, p_end_seqs,
          p_end_of, s.claim_at, p_end_outcomes, p_end_delays, p_end_errors, p_end_outputs, p_end_progress,
          p_output_seqs, p_done_outputs) l
     where not isempty(l.left_over);
end $$;

-- Name: finish_v1(bigint, smallint[], bigint[], bigint[], integer[], bigint[], bigint[], integer[], bigint[], text[], double precision[], text[], text[], text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.finish_v1(p_worker bigint, p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[]) RETURNS TABLE(claim_at integer, stale int8multirange)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_claims "awa".open_claim[];
    v_claim "awa".open_claim;
    v_left bigint;
    v_unique boolean := false;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform "awa".require_own_transaction('finish');
    end if;
    v_claims := "awa".open_claims(p_slots, p_worker, p_claims, p_tokens, p_done_of, p_done_lo, p_done_hi);
    with written as (
        insert into "awa".receipt_completion_batches (claim_id, claimed_at, finalized_at, lane_id, completed_count, slot,
                                                        items)
        select c.claim_id, c.claimed_at, clock_timestamp(), c.lane_id,
               (select sum(upper(r) - lower(r)) from unnest(c.done) r), c.slot, c.done
          from unnest(v_claims) c where not isempty(c.done)
        returning completed_count
    )
    select coalesce(-sum(completed_count), 0) into v_left from written;
    for v_at in 1 .. cardinality(p_done_of) loop
        v_left := v_left + p_done_hi[v_at] - p_done_lo[v_at];
    end loop;
    foreach v_claim in array v_claims loop
        v_unique := v_unique or v_claim.has_unique;
    end loop;
    if v_left > 0 or v_unique or cardinality(p_end_of) > 0 then
        return query
        select * from "awa".finish_rest(v_claims, v_left, v_unique, p_claims, p_tokens, p_done_of, p_done_lo, p_done_hi,
            p_end_of, p_end_seqs, p_end_outcomes, p_end_delays, p_end_errors, p_end_outputs, p_end_progress, null, null);
    end if;
end $$;

-- Name: finish_v2(bigint, smallint[], bigint[], bigint[], integer[], bigint[], bigint[], integer[], bigint[], text[], double precision[], text[], text[], text[], integer[], integer[], bigint[], text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.finish_v2(p_worker bigint, p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[], p_done_batch integer[], p_output_of integer[], p_output_seqs bigint[], p_done_outputs text[]) RETURNS TABLE(claim_at integer, stale int8multirange)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_claims "awa".open_claim[];
    v_claim "awa".open_claim;
    v_left bigint;
    v_unique boolean := false;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform "awa".require_own_transaction('finish');
    end if;
    v_claims := "awa".open_claims(p_slots, p_worker, p_claims, p_tokens, p_done_of, p_done_lo, p_done_hi);
    with written as (
        insert into "awa".receipt_completion_batches (claim_id, claimed_at, finalized_at, lane_id, completed_count, slot,
                                                        items, outputs)
        select c.claim_id, c.claimed_at, clock_timestamp(), c.lane_id, "awa".size_of(b.items), c.slot, b.items, o.outputs
          from (select k, batch, range_agg(int8range(lo, hi)) as asked
                  from unnest(p_done_of, p_done_batch, p_done_lo, p_done_hi) u(k, batch, lo, hi) group by k, batch) a
          join unnest(v_claims) c on c.n = a.k
         cross join lateral (select a.asked * c.done as items) b
         cross join lateral (
               select case when count(u.output) > 0 then array_agg(u.output order by q.seq) end as outputs
                 from unnest(b.items) i
                cross join lateral generate_series(lower(i), upper(i) - 1) q(seq)
                 left join (select seq, output::json
                              from unnest(p_output_of, p_output_seqs, p_done_outputs) x(k, seq, output)
                             where x.k = a.k) u on u.seq = q.seq) o
         where not isempty(b.items)
        returning completed_count
    )
    select coalesce(-sum(completed_count), 0) into v_left from written;
    for v_at in 1 .. cardinality(p_done_of) loop
        v_left := v_left + p_done_hi[v_at] - p_done_lo[v_at];
    end loop;
    foreach v_claim in array v_claims loop
        v_unique := v_unique or v_claim.has_unique;
    end loop;
    if v_left > 0 or v_unique or cardinality(p_end_of) > 0 then
        return query
        select * from "awa".finish_rest(v_claims, v_left, v_unique, p_claims, p_tokens, p_done_of, p_done_lo, p_done_hi,
            p_end_of, p_end_seqs, p_end_outcomes, p_end_delays, p_end_errors, p_end_outputs, p_end_progress, p_output_seqs, p_done_outputs);
    end if;
end $$;

-- Name: fit_of(bigint, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.fit_of(p_system_identifier bigint, p_mark bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    return greatest(1, hashtextextended(format('%s:%s', p_system_identifier, p_mark), 0) & 9223372036854775807);
end $$;

-- Name: get_job_v1(bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.get_job_v1(p_id bigint) RETURNS SETOF awa.job_row
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_job "awa".job_row := "awa".find_job(p_id);
begin
    if v_job.id is not null then
        return next v_job;
    end if;
end $$;

-- Name: get_job_v2(bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.get_job_v2(p_id bigint, OUT job awa.job_row, OUT output json) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
begin
    job := "awa".find_job(p_id);
    output := "awa".output_of(job);
end $$;

-- Name: give_back_v1(bigint, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.give_back_v1(p_worker bigint, p_token bigint) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_slots smallint[];
    v_claims bigint[];
begin
    select array_agg(slot), array_agg(claim_id order by claim_id) into v_slots, v_claims
      from (select slot, claim_id, token from "awa".claim_batches where worker_id = p_worker
             order by claim_id desc limit 64) c
     where token = p_token;
    if v_claims is null then
        return 0;
    end if;
    return "awa".end_open("awa".open_claims(v_slots, p_worker, v_claims, array_fill(p_token, array[cardinality(v_claims)])),
                             '{}', '{}', null);
end $$;

-- Name: grant_v1(text, text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.grant_v1(p_role text, p_level text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    v_reads constant text := 'get_job|list_jobs|queue_counts|queue_ids|signals|unknown_kinds';
    v_names text;
    v_function regprocedure;
    v_count integer := 0;
begin
    v_names := case p_level when 'monitor' then 'queue_ids|signals|workers|pod_loads|rescue_lost'
                            when 'reader' then v_reads
                            when 'producer' then v_reads || '|enqueue|reserve|register_lane|cancel|retry'
                            when 'worker' then '.+' end;
    if v_names is null then
        raise exception 'there is no level %; there are monitor, reader, producer and worker', p_level using errcode = '22023';
    elsif not exists (select from pg_roles where rolname = p_role) then
        raise exception 'there is no role %; create it first', p_role using errcode = '22023';
    end if;
    execute format('grant usage on schema "awa" to %I', p_role);
    execute format('grant select on "awa".schema_version to %I', p_role);
    if p_level <> 'monitor' then
        execute format('grant select on "awa".terminal_jobs to %I', p_role);
    end if;
    for v_function in
        select p.oid::regprocedure from pg_proc p
         where p.pronamespace = to_regnamespace('awa')
           and (p.proname ~ ('^(' || v_names || ')_v[0-9]+$') and p.proname !~ '^grant_v'
                or p.proname in ('size_of', 'rank_in') and p_level <> 'monitor')
         order by p.oid loop
        execute format('grant execute on function %s to %I', v_function, p_role);
        v_count := v_count + 1;
    end loop;
    return v_count;
end $_$;

-- Name: grow_lane_pool(integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.grow_lane_pool(p_size integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    v_lane integer;
begin
    if p_size not between 1 and 1023 then
        raise exception 'the lane pool holds 1 to 1023 lanes, not %', p_size using errcode = '22023';
    end if;
    for v_lane in select n from generate_series(1, p_size) n
                   where not exists (select from "awa".lanes l where l.lane_id = n) order by n loop
        execute format('create sequence "awa".lane_seq_%s as bigint cache 1', v_lane);
        insert into "awa".lanes (lane_id, sequence)
        values (v_lane, format('"awa".lane_seq_%s', v_lane)::regclass);
    end loop;
    return (select count(*) from "awa".lanes);
end $$;

-- Name: hand_back_unknown(bigint, awa.claimed, text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.hand_back_unknown(p_claim bigint, p_body awa.claimed, p_kinds text[]) RETURNS awa.claimed
    LANGUAGE plpgsql
    AS $$
declare
    -- Somebody else may know them, as in the middle of a deploy: then they are not made to wait for longer each time.
    v_served constant text[] := "awa".served_kinds();
begin
    perform "awa".end_attempts(array(
        select row(p_body.slot, p_claim, p_body.lane_id, u.seq, 'unknown_kind', case when kind = any (v_served) then 0.2 end,
                   null, null, null, null, null, null, null)::"awa".ending
          from unnest(p_body.seqs, p_body.kinds) u(seq, kind) where kind <> all (p_kinds)));
    return "awa".without_places(p_body, array(
        select seq from unnest(p_body.seqs, p_body.kinds) u(seq, kind) where kind <> all (p_kinds)));
end $$;

-- Name: runtime_instances; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.runtime_instances (
    worker_id bigint NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    queues text[] NOT NULL,
    kinds text[] NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen timestamp with time zone DEFAULT now() NOT NULL,
    stale_after interval NOT NULL,
    dead_at timestamp with time zone,
    dead_reason text,
    settled_below bigint DEFAULT 0 NOT NULL,
    pod_owner text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    pod_name text DEFAULT ''::text NOT NULL,
    pod_uid text DEFAULT ''::text NOT NULL,
    started_claims bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    started_seqs bigint[] DEFAULT '{}'::bigint[] NOT NULL
)
WITH (fillfactor='50');

-- Name: hand_on(awa.runtime_instances); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.hand_on(p_worker awa.runtime_instances) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    v_claims "awa".open_claim[] := "awa".unsettled(p_worker.worker_id, p_worker.settled_below, 'infinity', 10000);
    v_error text := case when p_worker.dead_reason = 'heartbeat stale' then 'heartbeat stale: worker presumed dead'
                         else 'worker died: ' || coalesce(p_worker.dead_reason, '') end;
begin
    -- Past this age no claim of a dead worker can still be on its way: claims have a statement limit.
    update "awa".runtime_instances i set settled_below = 9223372036854775807
     where i.worker_id = p_worker.worker_id and cardinality(v_claims) = 0
       and i.dead_at < clock_timestamp() - interval '10 minutes';
    return "awa".end_open(v_claims, p_worker.started_claims, p_worker.started_seqs, v_error)
         + "awa".end_leases(p_worker.worker_id, v_error);
end $$;

-- Name: heartbeat_v1(bigint, bigint[], smallint[], bigint[], bigint[], interval); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.heartbeat_v1(p_worker bigint, p_held bigint[], p_started_slots smallint[], p_started_claims bigint[], p_started_seqs bigint[], p_grace interval, OUT alive boolean, OUT given_back integer, OUT ended_claims bigint[], OUT ended_seqs bigint[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_below bigint;
    v_until timestamptz := clock_timestamp() - p_grace;
    v_lost "awa".open_claim[];
    v_newest bigint;
    -- A claim that is still committing may have a smaller number than one that is visible. Claims run under a statement limit
    -- of 30 seconds, so the watermark follows at twice that distance.
    v_quiet timestamptz := clock_timestamp() - greatest(p_grace, interval '60 seconds');
begin
    given_back := 0;
    update "awa".runtime_instances
       set last_seen = clock_timestamp(), started_claims = p_started_claims, started_seqs = p_started_seqs
     where worker_id = p_worker and dead_at is null returning settled_below into v_below;
    alive := found;
    if not alive then
        return;
    end if;
    v_lost := array(select c from unnest("awa".unsettled(p_worker, v_below, v_until, 10000)) c
                     where c.claim_id <> all (p_held) and not isempty(c.open));
    given_back := "awa".end_open(v_lost, '{}', '{}', null);
    select max(claim_id) into v_newest from "awa".claim_batches
     where worker_id = p_worker and claim_id > v_below and claimed_at <= v_quiet;
    -- Not least(): that leaves a NULL out, and a watermark above a young lost claim would hide it for ever.
    if v_newest >= (select min(h) from unnest(p_held) h) then
        v_newest := (select min(h) - 1 from unnest(p_held) h);
    end if;
    if v_newest > v_below and cardinality(v_lost) < 10000 then
        update "awa".runtime_instances set settled_below = v_newest where worker_id = p_worker;
    end if;
    select array_agg(s.claim), array_agg(s.seq) into ended_claims, ended_seqs
      from unnest(p_started_slots, p_started_claims, p_started_seqs) s(slot, claim, seq)
     where not exists (select from "awa".leases l where l.claim_id = s.claim and l.lane_seq = s.seq)
       and (not exists (select from "awa".claim_batches c where c.slot = s.slot and c.claim_id = s.claim
                                                               and c.worker_id = p_worker)
            or exists (select from "awa".receipt_completion_batches e
                        where e.slot = s.slot and e.claim_id = s.claim and e.items @> s.seq)
            or exists (select from "awa".claim_closures e
                        where e.slot = s.slot and e.claim_id = s.claim and e.items @> s.seq));
end $$;

-- Name: history_since(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.history_since() RETURNS timestamp with time zone
    LANGUAGE plpgsql
    AS $$
begin
    return (select max(n.rotated_at) from "awa".ring_rotations r
              join "awa".ring_rotations n on n.generation = r.generation + 1
             where not exists (select from "awa".live_slots() s where s.generation = r.generation));
end $$;

-- Name: holder_of(smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.holder_of(p_slot smallint) RETURNS text
    LANGUAGE plpgsql
    AS $$
begin
    return (select format('process %s of the server (%s), in a transaction for %s s', l.pid,
                       coalesce(nullif(a.application_name, ''), 'unnamed'),
                       coalesce(round(extract(epoch from clock_timestamp() - a.xact_start))::text, '?'))
              from pg_locks l left join pg_stat_activity a on a.pid = l.pid
             where l.granted and l.pid <> pg_backend_pid() and l.locktype = 'relation'
               and l.relation in (select format('"awa".%I', t)::regclass from unnest("awa".slot_tables(p_slot)) t)
             order by a.xact_start nulls last limit 1);
end $$;

-- Name: in_hand(bigint[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.in_hand(p_workers bigint[] DEFAULT NULL::bigint[]) RETURNS TABLE(lane_id integer, worker_id bigint, claimed_at timestamp with time zone, jobs bigint)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_nestloop TO 'off'
    AS $$
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
      from "awa".runtime_instances i
     cross join lateral (
           select b.claim_id, b.slot, b.lane_id, b.claimed_at,
                  case when b.items = int8multirange(range_merge(b.items)) then upper(b.items) - lower(b.items)
                       else (select sum(upper(r) - lower(r)) from unnest(b.items) r)::bigint end as n
             from "awa".claim_batches b
            where b.worker_id = i.worker_id and b.claim_id > i.settled_below) c
     where i.settled_below < 9223372036854775807 and (p_workers is null or i.worker_id = any (p_workers));
    return query
    select c.lane_id, c.worker_id, c.claimed_at, c.n - coalesce(e.n, 0)
      from unnest(v_claims, v_lanes, v_workers, v_times, v_sizes) c(claim_id, lane_id, worker_id, claimed_at, n)
      left join (
           select x.claim_id, sum(x.n)::bigint as n
             from (select r.claim_id, r.completed_count as n from "awa".receipt_completion_batches r
                    where r.slot = any (v_slots) and r.claim_id = any (v_claims)
                   union all
                   select k.claim_id, k.closed_count from "awa".claim_closures k
                    where k.slot = any (v_slots) and k.claim_id = any (v_claims)) x
            group by x.claim_id) e on e.claim_id = c.claim_id
     where c.n > coalesce(e.n, 0);
    return query
    select e.lane_id, e.worker_id, e.claimed_at, 1::bigint from "awa".leases e
     where e.state = 'running' and (p_workers is null or e.worker_id = any (p_workers));
end $$;

-- Name: job_to_move(awa.job_row, awa.job_state); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.job_to_move(p_job awa.job_row, p_state awa.job_state) RETURNS awa.moving
    LANGUAGE plpgsql IMMUTABLE
    AS $$
declare
    v_move "awa".moving;
begin
    v_move.claim_id := p_job.run_lease;
    v_move.lane_id := p_job.lane_id;
    v_move.job_id := p_job.id;
    v_move.kind := p_job.kind;
    v_move.args := p_job.args;
    v_move.run_at := p_job.run_at;
    v_move.created_at := p_job.created_at;
    v_move.claimed_at := p_job.attempted_at;
    v_move.max_attempts := p_job.max_attempts;
    v_move.unique_key := p_job.unique_key;
    v_move.unique_mask := p_job.unique_mask;
    v_move.payload := p_job.payload;
    v_move.attempt_after := p_job.attempt;
    v_move.state := p_state;
    return v_move;
end $$;

-- Name: jobs_in(awa.job_state, text, text, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.jobs_in(p_state awa.job_state, p_kind text, p_queue text, p_limit integer) RETURNS TABLE(id bigint)
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
declare
    v_lanes integer[] := array(select lane_id from "awa".lanes
                                where queue is not null and (p_queue is null or queue = p_queue) order by lane_id);
begin
    case p_state
    when 'scheduled', 'retryable' then
        return query select job_id from "awa".deferred_jobs
            where state = p_state and lane_id = any (v_lanes) and (p_kind is null or kind = p_kind)
            order by run_at, job_id limit p_limit;
    when 'available' then
        return query select b.job_id from unnest(v_lanes) lane
            cross join lateral "awa".available_bodies(lane, p_kind, p_limit) b limit p_limit;
    when 'running', 'waiting_external' then
        return query select job_id from "awa".leases
            where state = p_state and lane_id = any (v_lanes) and (p_kind is null or kind = p_kind) limit p_limit;
        if p_state = 'running' then
            return query select r.job_id from "awa".open_items() o, unnest(o.open) i, generate_series(lower(i), upper(i) - 1) q(seq),
                   "awa".ready_entries r
             where o.lane_id = any (v_lanes) and r.slot = o.slot and r.lane_id = o.lane_id and r.lane_seq = q.seq
               and (p_kind is null or r.kind = p_kind) limit p_limit;
        end if;
    when 'completed' then
        return query select n.id from (
            select d.job_id as id, d.finalized_at from "awa".done_entries d
             where d.state = 'completed' and d.lane_id = any (v_lanes) and (p_kind is null or d.kind = p_kind)
            union all
            select r.job_id, e.finalized_at
              from (select * from "awa".receipt_completion_batches where lane_id = any (v_lanes)
                     order by finalized_at desc limit case when p_kind is null then p_limit else 10000 end) e,
                   unnest(e.items) i, generate_series(lower(i), upper(i) - 1) q(seq), "awa".ready_entries r
             where r.slot = e.slot and r.lane_id = e.lane_id and r.lane_seq = q.seq and (p_kind is null or r.kind = p_kind)
        ) n order by n.finalized_at desc, n.id desc limit p_limit;
    else
        return query select job_id from "awa".done_entries
            where state = p_state and lane_id = any (v_lanes) and (p_kind is null or kind = p_kind)
            order by finalized_at desc limit p_limit;
    end case;
end $$;

-- Name: keep_outputs(bigint[], text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.keep_outputs(p_jobs bigint[], p_outputs text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    update "awa".done_entries d set output = u.output::json
      from unnest(p_jobs, p_outputs) u(id, output)
     where d.job_id = u.id and d.state = 'completed' and u.output is not null;
end $$;

-- Name: lane_head(integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.lane_head(p_lane integer) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    AS $$
declare
    v_recent smallint[] := array(select slot from "awa".ring_rotations order by generation desc limit 2);
    v_next bigint;
    v_at timestamptz;
begin
    select next_seq into v_next from "awa".claim_batches where slot in (v_recent[1], v_recent[2]) and lane_id = p_lane
     order by next_seq desc, claim_id desc limit 1;
    select coalesce(run_at, created_at) into v_at from "awa".ready_entries
     where slot in (v_recent[1], v_recent[2]) and lane_id = p_lane and lane_seq >= coalesce(v_next, 1) order by lane_seq limit 1;
    return v_at;
end $$;

-- Name: lane_of(text, smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.lane_of(p_queue text, p_priority smallint, OUT lane_id integer, OUT sequence regclass, OUT queue_id integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
begin
    select l.lane_id, l.sequence, m.queue_id into lane_id, sequence, queue_id
      from "awa".lanes l join "awa".queue_meta m using (queue)
     where l.queue = p_queue and l.priority = p_priority;
    if found then
        return;
    end if;
    perform "awa".check_lane(p_queue, p_priority);
    if (current_setting('awa_cluster.awa', true) <> '') is not true then
        perform "awa".check_sequences();
    end if;
    insert into "awa".queue_meta (queue) values (p_queue) on conflict do nothing;
    perform pg_advisory_xact_lock(hashtext('awa'), 0);
    if not exists (select from "awa".lanes l where l.queue = p_queue and l.priority = p_priority) then
        update "awa".lanes l set queue = p_queue, priority = p_priority
         where l.lane_id = (select f.lane_id from "awa".lanes f where f.queue is null order by f.lane_id limit 1);
        if not found then
            raise exception 'all lanes are in use: every (queue, priority) takes one of %',
                (select count(*) from "awa".lanes)
                using errcode = '53400', hint = 'awa migrate --lane-pool N adds lanes, up to 1023';
        end if;
    end if;
    select l.lane_id, l.sequence, m.queue_id into strict lane_id, sequence, queue_id
      from "awa".lanes l join "awa".queue_meta m using (queue)
     where l.queue = p_queue and l.priority = p_priority;
end $$;

-- Name: lead_v1(text, bigint, interval); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.lead_v1(p_duty text, p_worker bigint, p_lease interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
begin
    insert into "awa".leader as l (duty, worker_id, expires_at)
    values (p_duty, p_worker, clock_timestamp() + p_lease)
    on conflict (duty) do update set worker_id = p_worker, expires_at = clock_timestamp() + p_lease
     where l.worker_id = p_worker or l.expires_at < clock_timestamp()
        or not exists (select from "awa".runtime_instances i where i.worker_id = l.worker_id and i.dead_at is null);
    return found;
end $$;

-- Name: leave_holes(integer, int8multirange, xid8); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.leave_holes(p_lane integer, p_holes int8multirange, p_bound xid8) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    insert into "awa".lane_holes (lane_id, holes, bound) values (p_lane, p_holes, p_bound);
    perform "awa".wake(0);
end $$;

-- Name: list_jobs_v1(awa.job_state, text, text, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.list_jobs_v1(p_state awa.job_state, p_kind text, p_queue text, p_limit integer) RETURNS SETOF awa.job_row
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_state "awa".job_state;
    v_left integer := least(p_limit, 10000);
    v_count integer;
begin
    foreach v_state in array case when p_state is not null then array[p_state] else array['running', 'waiting_external',
        'available', 'retryable', 'scheduled', 'failed', 'cancelled', 'completed']::"awa".job_state[] end loop
        return query select j.* from "awa".jobs_in(v_state, p_kind, p_queue, v_left) n
            cross join lateral "awa".find_job(n.id) j where j.state = v_state limit v_left;
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
        exit when v_left <= 0;
    end loop;
end $$;

-- Name: live_slots(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.live_slots() RETURNS TABLE(slot smallint, left_at timestamp with time zone, generation bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
begin
    return query
    with latest as (
        select r.slot, max(r.generation) as generation from "awa".ring_rotations r group by r.slot
    )
    select s::smallint, (select n.rotated_at from "awa".ring_rotations n where n.generation = l.generation + 1),
           l.generation
      from generate_series(0, 15) s left join latest l on l.slot = s
     where pg_relation_size(format('"awa".ready_entries_%s', lpad(s::text, 2, '0'))) > 0
        or pg_relation_size(format('"awa".claim_batches_%s', lpad(s::text, 2, '0'))) > 0
     order by l.generation nulls first;
end $$;

-- Name: look(integer, integer, text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.look(p_lane integer, p_limit integer, p_kinds text[] DEFAULT NULL::text[]) RETURNS awa.lane_look
    LANGUAGE plpgsql
    AS $$
declare
    v_look "awa".lane_look;
    v_recent smallint[];
    v_every constant smallint[] := '{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}';
    v_slots smallint[];
    v_sequence regclass;
    v_tombstoned_to bigint;
    v_tombs int8multirange := '{}';
    v_xmin xid8;
    v_drawn bigint;
    v_holes int8multirange;
    v_found "awa".claimed[];
    v_passed boolean;
    v_left integer;
    v_next bigint;
    v_taken int8multirange := '{}';
    v_body "awa".claimed;
    v_ahead record;
begin
    v_recent := array(select slot from "awa".ring_rotations order by generation desc limit 2);
    v_look := "awa".cursor_of(p_lane, v_recent[1]);
    v_look.current_slot := v_recent[1];
    select pg_snapshot_xmin(pg_current_snapshot()), sequence, tombstoned_to into v_xmin, v_sequence, v_tombstoned_to
      from "awa".lanes where lane_id = p_lane;
    v_holes := v_look.holes_old + v_look.holes_new;
    v_drawn := coalesce(pg_sequence_last_value(v_sequence), 0);
    if isempty(v_holes) and v_drawn = v_look.next_seq - 1 then
        -- No number was drawn since the cursor and none is missing before it, so no slot can hold a body for this lane.
        select '{}', 0, '{}', false into v_look.bodies, v_look.taken, v_look.gaps, v_look.in_flight;
        return v_look;
    end if;
    if v_tombstoned_to >= least(v_look.next_seq, lower(v_holes)) then
        select coalesce(range_agg(i), '{}') into v_tombs
          from "awa".ready_tombstones t, unnest(t.items) i
         where lane_id = p_lane and last_seq >= least(v_look.next_seq, lower(v_holes));
    end if;

    v_passed := not isempty(v_look.holes_old) and v_xmin >= v_look.bound_old;
    v_slots := case when v_passed and coalesce(v_look.looked_at < clock_timestamp() - interval '20 milliseconds', true)
                    then v_every else v_recent end;
    loop
        v_look.bodies := '{}';
        v_left := p_limit;
        if not isempty(v_holes) then
            v_look.bodies := "awa".bodies_in(p_lane, v_slots, v_holes, null, v_tombs, p_limit);
            v_left := p_limit - coalesce((select sum(cardinality(seqs)) from unnest(v_look.bodies)), 0);
        end if;
        v_found := '{}';
        if v_left > 0 then
            v_found := "awa".bodies_in(p_lane, v_slots, null, v_look.next_seq, v_tombs, v_left);
        end if;
        exit when cardinality(v_look.bodies) + cardinality(v_found) > 0 or v_slots = v_every;
        v_slots := v_every;
    end loop;

    if p_kinds is not null and v_left = p_limit and cardinality(v_found) > 0 and "awa".none_of(v_found, p_kinds) then
        -- A long run of kinds that nobody knows is passed over as a whole, as a range for the leader to settle: handing back
        -- job by job would keep those behind it waiting.
        select * into v_ahead from "awa".unknown_ahead(p_lane, v_slots, v_look.next_seq, p_kinds);
        if v_ahead.places >= 16 then
            v_look.passed := int8range(v_look.next_seq, v_ahead.passed_to);
            v_look.next_seq := v_ahead.passed_to;
            v_look.changed := true;
            v_found := case when v_ahead.is_end
                then "awa".bodies_in(p_lane, v_slots, null, v_look.next_seq, v_tombs, v_left) else '{}' end;
        end if;
    end if;

    v_look.taken := 0;
    foreach v_body in array v_look.bodies loop
        if not isempty(v_holes) then
            v_taken := v_taken + "awa".as_ranges(v_body);
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
                v_look.gaps := v_look.gaps - "awa".as_ranges(v_body);
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

-- Name: mark_dead_v1(bigint, text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.mark_dead_v1(p_worker bigint, p_reason text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
begin
    update "awa".runtime_instances set dead_at = clock_timestamp(), dead_reason = p_reason
     where worker_id = p_worker and dead_at is null;
    if not found then
        return false;
    end if;
    if exists (select from "awa".leader where worker_id = p_worker) then
        perform "awa".call_election();
    end if;
    return true;
end $$;

-- Name: mask_has(smallint, awa.job_state); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.mask_has(p_mask smallint, p_state awa.job_state) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    return p_mask >> case p_state
        when 'scheduled' then 0 when 'available' then 1 when 'running' then 2 when 'completed' then 3
        when 'retryable' then 4 when 'failed' then 5 when 'cancelled' then 6 else 7 end & 1 = 1;
end $$;

-- Name: move_completed_keys(awa.open_claim[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.move_completed_keys(p_claims awa.open_claim[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    delete from "awa".job_unique_claims k
     using unnest(p_claims) c
      join "awa".ready_entries r
        on r.slot = any (array(select distinct slot from unnest(p_claims)))
       and r.slot = c.slot and r.lane_id = c.lane_id and r.unique_key is not null
       and r.lane_seq >= lower(c.done) and r.lane_seq < upper(c.done) and c.done @> r.lane_seq
     where c.has_unique and not isempty(c.done)
       and not "awa".mask_has(r.unique_mask, 'completed')
       and k.unique_key = r.unique_key and k.job_id = r.job_id;
    insert into "awa".job_unique_claims (unique_key, job_id)
    select r.unique_key, r.job_id
      from unnest(p_claims) c
      join "awa".ready_entries r
        on r.slot = any (array(select distinct slot from unnest(p_claims)))
       and r.slot = c.slot and r.lane_id = c.lane_id and r.unique_key is not null
       and r.lane_seq >= lower(c.done) and r.lane_seq < upper(c.done) and c.done @> r.lane_seq
     where c.has_unique and not isempty(c.done)
       and "awa".mask_has(r.unique_mask, 'completed') and not "awa".mask_has(r.unique_mask, 'running')
     order by r.unique_key
    on conflict do nothing;
end $$;

-- Name: move_keys(awa.moving[], awa.job_state, timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.move_keys(p_moves awa.moving[], p_from awa.job_state, p_now timestamp with time zone) RETURNS awa.moving[]
    LANGUAGE plpgsql
    AS $$
declare
    v_move "awa".moving;
    v_moves "awa".moving[] := '{}';
begin
    foreach v_move in array p_moves loop
        if v_move.unique_key is not null then
            if "awa".mask_has(v_move.unique_mask, v_move.state) then
                if not "awa".mask_has(v_move.unique_mask, p_from) then
                    insert into "awa".job_unique_claims (unique_key, job_id)
                    values (v_move.unique_key, v_move.job_id) on conflict do nothing;
                    -- Who has completed has completed, whoever has the key.
                    if v_move.state <> 'completed' and not exists (
                            select from "awa".job_unique_claims
                             where unique_key = v_move.unique_key and job_id = v_move.job_id) then
                        v_move.payload := "awa".with_error(v_move.payload,
                            case when v_move.outcome = 'rescued' then 'rescued' else 'rescheduled' end
                            || ' as duplicate: unique claim held by a newer job', v_move.attempt_after, true, null, p_now);
                        v_move.state := 'cancelled';
                        v_move.outcome := 'cancelled';
                    end if;
                end if;
            else
                delete from "awa".job_unique_claims
                 where unique_key = v_move.unique_key and job_id = v_move.job_id;
            end if;
        end if;
        v_moves := v_moves || v_move;
    end loop;
    return v_moves;
end $$;

-- Name: move_keys_of_claim(bigint, awa.claimed); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.move_keys_of_claim(p_claim bigint, p_body awa.claimed) RETURNS awa.claimed
    LANGUAGE plpgsql
    AS $$
declare
    v_lost bigint[];
begin
    delete from "awa".job_unique_claims k
     using "awa".ready_entries r
     where r.slot = p_body.slot and r.lane_id = p_body.lane_id and r.lane_seq = any (p_body.seqs)
       and r.unique_key is not null and "awa".mask_has(r.unique_mask, 'available')
       and not "awa".mask_has(r.unique_mask, 'running')
       and k.unique_key = r.unique_key and k.job_id = r.job_id;
    with takers as (
        select r.lane_seq, r.job_id, r.unique_key from "awa".ready_entries r
         where r.slot = p_body.slot and r.lane_id = p_body.lane_id and r.lane_seq = any (p_body.seqs)
           and r.unique_key is not null and "awa".mask_has(r.unique_mask, 'running')
           and not "awa".mask_has(r.unique_mask, 'available')
    ), taken as (
        insert into "awa".job_unique_claims (unique_key, job_id)
        select unique_key, job_id from takers order by unique_key, lane_seq
        on conflict do nothing
        returning job_id
    )
    select array_agg(lane_seq) into v_lost from takers where job_id not in (select job_id from taken);
    if v_lost is null then
        return p_body;
    end if;
    perform "awa".end_attempts(array(
        select row(p_body.slot, p_claim, p_body.lane_id, seq, 'cancel', null,
                   'claimed as duplicate: unique claim held by another job', null, null, null, null, null,
                   null)::"awa".ending
          from unnest(v_lost) seq));
    return "awa".without_places(p_body, v_lost);
end $$;

-- Name: move_ready(integer, smallint, bigint[], text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.move_ready(p_lane integer, p_slot smallint, p_seqs bigint[], p_reason text) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    v_lane record;
begin
    select l.sequence, q.queue_id into v_lane from "awa".lanes l join "awa".queue_meta q on q.queue = l.queue
     where l.lane_id = p_lane;
    perform "awa".entomb(p_lane, p_slot, p_seqs, p_reason);
    insert into "awa".ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args, run_at,
                                        unique_key, unique_mask, payload)
    select n.seq, r.job_id, r.created_at, r.lane_id, "awa".current_slot(), r.attempt, r.max_attempts, r.kind, r.args,
           r.run_at, r.unique_key, r.unique_mask, r.payload
      from (select *, row_number() over (order by lane_seq) as n from "awa".ready_entries
             where slot = p_slot and lane_id = p_lane and lane_seq = any (p_seqs)) r
      join unnest("awa".draw(v_lane.sequence, cardinality(p_seqs))) with ordinality n(seq, n) on n.n = r.n;
    perform "awa".wake(v_lane.queue_id);
    return cardinality(p_seqs);
end $$;

-- Name: leases; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.leases (
    job_id bigint NOT NULL,
    claim_id bigint NOT NULL,
    token bigint NOT NULL,
    worker_id bigint NOT NULL,
    lane_seq bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    claimed_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone,
    lane_id integer NOT NULL,
    attempt smallint NOT NULL,
    max_attempts smallint NOT NULL,
    state awa.job_state DEFAULT 'running'::awa.job_state NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    args jsonb NOT NULL,
    unique_key bytea,
    unique_mask smallint,
    payload jsonb,
    CONSTRAINT leases_state_check CHECK ((state = ANY (ARRAY['running'::awa.job_state, 'waiting_external'::awa.job_state])))
);

-- Name: moving_lease(awa.leases); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.moving_lease(p_lease awa.leases) RETURNS awa.moving
    LANGUAGE plpgsql IMMUTABLE
    AS $$
declare
    v_move "awa".moving;
begin
    v_move.claim_id := p_lease.claim_id;
    v_move.lane_id := p_lease.lane_id;
    v_move.lane_seq := p_lease.lane_seq;
    v_move.job_id := p_lease.job_id;
    v_move.kind := p_lease.kind;
    v_move.args := p_lease.args;
    v_move.run_at := p_lease.run_at;
    v_move.created_at := p_lease.created_at;
    v_move.claimed_at := p_lease.claimed_at;
    v_move.attempt := p_lease.attempt - 1;
    v_move.max_attempts := p_lease.max_attempts;
    v_move.unique_key := p_lease.unique_key;
    v_move.unique_mask := p_lease.unique_mask;
    v_move.payload := p_lease.payload;
    return v_move;
end $$;

-- Name: none_of(awa.claimed[], text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.none_of(p_bodies awa.claimed[], p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    AS $$
declare
    v_body "awa".claimed;
begin
    foreach v_body in array p_bodies loop
        if v_body.kinds && p_kinds then
            return false;
        end if;
    end loop;
    return true;
end $$;

-- Name: numbers_in_use(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.numbers_in_use() RETURNS TABLE(sequence regclass, highest bigint)
    LANGUAGE plpgsql
    AS $$
begin
    return query
    with identity as (
        select (i.job_id % 1024)::integer as lane_id, max(i.job_id / 1024) as seq
          from (select r.job_id from "awa".ready_entries r where r.job_id <> r.lane_seq * 1024 + r.lane_id
                union all select d.job_id from "awa".deferred_jobs d
                union all select l.job_id from "awa".leases l
                union all select d.job_id from "awa".done_entries d
                union all select k.job_id from "awa".job_unique_claims k) i group by 1
    )
    select l.sequence, greatest(i.seq, l.tombstoned_to,
               (select max(r.lane_seq) from "awa".ready_entries r where r.lane_id = l.lane_id),
               (select max(c.next_seq) - 1 from "awa".claim_batches c where c.lane_id = l.lane_id))
      from "awa".lanes l left join identity i on i.lane_id = l.lane_id
    union all
    select '"awa".deferred_id'::regclass, (select i.seq from identity i where i.lane_id = 0)
    union all
    select '"awa".claim_id'::regclass, greatest(
               (select max(c.claim_id) from "awa".claim_batches c),
               (select max(l.claim_id) from "awa".leases l),
               (select max(d.run_lease) from "awa".deferred_jobs d),
               (select max(d.run_lease) from "awa".done_entries d))
    union all
    select '"awa".runtime_instances_worker_id_seq'::regclass,
           (select max(i.worker_id / 1073741824) from "awa".runtime_instances i)
    union all
    select '"awa".queue_meta_queue_id_seq'::regclass, (select max(q.queue_id) from "awa".queue_meta q);
end $$;

-- Name: oldest_transactions_v1(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.oldest_transactions_v1() RETURNS TABLE(holder text, seconds double precision)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $_$
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
end $_$;

-- Name: open_claims(smallint[], bigint, bigint[], bigint[], integer[], bigint[], bigint[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.open_claims(p_slots smallint[], p_worker bigint, p_claims bigint[], p_tokens bigint[], p_of integer[] DEFAULT '{}'::integer[], p_lo bigint[] DEFAULT '{}'::bigint[], p_hi bigint[] DEFAULT '{}'::bigint[]) RETURNS awa.open_claim[]
    LANGUAGE plpgsql
    AS $$
declare
    v_claims "awa".open_claim[];
    v_slots smallint[] := p_slots;
begin
    if cardinality(p_slots) > 1 then
        v_slots := array(select distinct s from unnest(p_slots) s);
    end if;
    v_claims := array(
        select row(array_position(p_claims, c.claim_id), c.slot, c.claim_id, c.lane_id, c.worker_id, c.token, c.has_unique,
                   null, c.items, null, c.deadline_at, c.claimed_at)::"awa".open_claim
          from (select slot, claim_id, lane_id, worker_id, has_unique, items, deadline_at, claimed_at, token
                  from "awa".claim_batches
                 where slot in (v_slots[1], v_slots[2], v_slots[3], v_slots[4], v_slots[5], v_slots[6], v_slots[7], v_slots[8],
                                    v_slots[9], v_slots[10], v_slots[11], v_slots[12], v_slots[13], v_slots[14], v_slots[15], v_slots[16])
                   and worker_id = p_worker and claim_id = any (p_claims)
                 order by claim_id for no key update) c
         where p_tokens is null or c.token = p_tokens[array_position(p_claims, c.claim_id)]);
    return array(
        select row(o.n, o.slot, o.claim_id, o.lane_id, o.worker_id, o.token, o.has_unique, o.was_open, o.was_open - o.asked,
                   o.was_open * o.asked, o.deadline_at, o.claimed_at)::"awa".open_claim
          from (select c.n, c.slot, c.claim_id, c.lane_id, c.worker_id, c.token, c.has_unique, c.deadline_at, c.claimed_at,
                       c.open - coalesce(x.closed, '{}') as was_open,
                       coalesce((select range_agg(int8range(lo, hi)) from unnest(p_of, p_lo, p_hi) u(k, lo, hi)
                                  where k = c.n), '{}') as asked
                  from unnest(v_claims) c
                  left join (
                       select claim_id, range_agg(r) as closed
                         from (select claim_id, items from "awa".receipt_completion_batches
                                where slot in (v_slots[1], v_slots[2], v_slots[3], v_slots[4], v_slots[5], v_slots[6], v_slots[7], v_slots[8],
                                    v_slots[9], v_slots[10], v_slots[11], v_slots[12], v_slots[13], v_slots[14], v_slots[15], v_slots[16])
                                  and claim_id = any (p_claims)
                               union all
                               select claim_id, items from "awa".claim_closures
                                where slot in (v_slots[1], v_slots[2], v_slots[3], v_slots[4], v_slots[5], v_slots[6], v_slots[7], v_slots[8],
                                    v_slots[9], v_slots[10], v_slots[11], v_slots[12], v_slots[13], v_slots[14], v_slots[15], v_slots[16])
                                  and claim_id = any (p_claims)) e, unnest(e.items) r
                        group by claim_id) x on x.claim_id = c.claim_id) o);
end $$;

-- Name: open_items(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.open_items() RETURNS TABLE(slot smallint, claim_id bigint, lane_id integer, worker_id bigint, claimed_at timestamp with time zone, open int8multirange)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_column
begin
    return query
    select o.slot, o.claim_id, o.lane_id, o.worker_id, o.claimed_at, o.open
      from "awa".runtime_instances i
     cross join lateral (
           select c.slot, c.claim_id, c.lane_id, c.worker_id, c.claimed_at, c.items - coalesce((
                      select range_agg(r) from (
                          select items from "awa".receipt_completion_batches e
                           where e.slot = c.slot and e.claim_id = c.claim_id
                          union all
                          select items from "awa".claim_closures e
                           where e.slot = c.slot and e.claim_id = c.claim_id) e, unnest(e.items) r), '{}') as open
             from "awa".claim_batches c
            where c.worker_id = i.worker_id and c.claim_id > i.settled_below and not isempty(c.items)) o
     where i.settled_below < 9223372036854775807 and not isempty(o.open);
end $$;

-- Name: output_of(awa.job_row); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.output_of(p_job awa.job_row) RETURNS json
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $$
begin
    if p_job.state <> 'completed' then
        return null;
    elsif p_job.slot is null then
        return (select output from "awa".done_entries where job_id = p_job.id);
    end if;
    return (select e.outputs["awa".rank_in(e.items, p_job.lane_seq)] from "awa".receipt_completion_batches e
             where e.slot = p_job.slot and e.claim_id = p_job.run_lease and e.items @> p_job.lane_seq);
end $$;

-- Name: overdue(bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.overdue(p_worker bigint, p_above bigint, p_now timestamp with time zone) RETURNS awa.open_claim[]
    LANGUAGE plpgsql
    AS $$
declare
    v_slots smallint[];
    v_claims bigint[];
begin
    select array_agg(distinct slot), array_agg(claim_id order by claim_id) into v_slots, v_claims
      from "awa".claim_batches
     where worker_id = p_worker and claim_id > p_above and deadline_at <= p_now;
    if v_claims is null then
        return '{}';
    end if;
    return "awa".open_claims(v_slots, p_worker, v_claims, null);
end $$;

-- Name: overdue_leases(timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.overdue_leases(p_now timestamp with time zone) RETURNS TABLE(job_id bigint, claim_id bigint, worker_id bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
declare
    v_lease "awa".leases;
    v_moves "awa".moving[] := '{}';
begin
    for v_lease in select l.* from "awa".leases l where l.deadline_at <= p_now order by l.claim_id, l.lane_seq
                      for update skip locked loop
        v_moves := v_moves || "awa".decide("awa".moving_lease(v_lease),
            row(null, v_lease.claim_id, v_lease.lane_id, v_lease.lane_seq, 'rescue', null, 'hard deadline exceeded', null,
                null, null, null, null, null)::"awa".ending, p_now);
        job_id := v_lease.job_id;
        claim_id := v_lease.claim_id;
        worker_id := v_lease.worker_id;
        return next;
    end loop;
    delete from "awa".leases l using unnest(v_moves) m where l.job_id = m.job_id;
    perform "awa".place("awa".move_keys(v_moves, 'running', p_now), p_now);
end $$;

-- Name: pause_queue_v1(text, text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.pause_queue_v1(p_queue text, p_by text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
begin
    if (current_setting('awa_cluster.awa', true) <> '') is not true then
        perform "awa".check_sequences();
    end if;
    insert into "awa".queue_meta as q (queue, paused, paused_at, paused_by) values (p_queue, true, clock_timestamp(), p_by)
    on conflict (queue) do update set paused = true, paused_at = coalesce(q.paused_at, clock_timestamp()),
                                      paused_by = coalesce(q.paused_by, p_by);
end $$;

-- Name: place(awa.moving[], timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.place(p_moves awa.moving[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    v_lane record;
begin
    perform pg_current_xact_id();
    insert into "awa".deferred_jobs (job_id, run_at, created_at, finalized_at, run_lease, lane_id, attempt, max_attempts,
                                        state, reason, kind, args, unique_key, unique_mask, payload)
    select job_id, due_at, created_at, case when state = 'retryable' then p_now end, claim_id, lane_id, attempt_after,
           max_attempts, state, reason, kind, args, unique_key, unique_mask, payload
      from unnest(p_moves) where state in ('scheduled', 'retryable');
    perform "awa".wake_leader((select min(due_at) from unnest(p_moves) where state in ('scheduled', 'retryable')));
    insert into "awa".done_entries (job_id, run_lease, run_at, created_at, attempted_at, finalized_at, lane_id, attempt,
                                       max_attempts, state, kind, args, unique_key, unique_mask, payload)
    select job_id, claim_id, coalesce(run_at, created_at), created_at, claimed_at, p_now, lane_id, attempt_after,
           max_attempts, state, kind, args, unique_key, unique_mask, payload
      from unnest(p_moves) where state in ('completed', 'failed', 'cancelled');
    insert into "awa".leases (job_id, claim_id, token, worker_id, lane_seq, created_at, run_at, claimed_at, deadline_at,
                                 lane_id, attempt, max_attempts, kind, args, unique_key, unique_mask, payload)
    select job_id, claim_id, token, worker_id, lane_seq, created_at, run_at, claimed_at, deadline_at, lane_id,
           attempt_after, max_attempts, kind, args, unique_key, unique_mask, payload
      from unnest(p_moves) where state = 'running';
    for v_lane in select m.lane_id, l.sequence, q.queue_id, count(*)::integer as needed
                    from unnest(p_moves) m join "awa".lanes l on l.lane_id = m.lane_id
                    join "awa".queue_meta q on q.queue = l.queue
                   where m.state = 'available' group by m.lane_id, l.sequence, q.queue_id loop
        insert into "awa".ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args,
                                            run_at, unique_key, unique_mask, payload)
        select n.seq, m.job_id, m.created_at, m.lane_id, "awa".current_slot(), m.attempt_after, m.max_attempts,
               m.kind, m.args, p_now, m.unique_key, m.unique_mask, m.payload
          from (select *, row_number() over (order by job_id) as n from unnest(p_moves)
                 where state = 'available' and lane_id = v_lane.lane_id) m
          join unnest("awa".draw(v_lane.sequence, v_lane.needed)) with ordinality n(seq, n) on n.n = m.n;
        perform "awa".wake(v_lane.queue_id);
    end loop;
end $$;

-- Name: pod_loads_v1(text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.pod_loads_v1(p_owner text) RETURNS TABLE(pod_name text, pod_uid text, running bigint, oldest_running_seconds double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
begin
    return query
    select i.pod_name, i.pod_uid, sum(h.jobs)::bigint,
           extract(epoch from clock_timestamp() - min(h.claimed_at))::double precision
      from "awa".runtime_instances i
      join "awa".in_hand(array(select w.worker_id from "awa".runtime_instances w
                                   where w.pod_owner = p_owner and w.pod_owner <> '' and w.dead_at is null)) h
        on h.worker_id = i.worker_id
     where i.pod_owner = p_owner and i.pod_owner <> '' and i.dead_at is null
     group by i.pod_name, i.pod_uid;
end $$;

-- Name: deferred_jobs; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.deferred_jobs (
    job_id bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    finalized_at timestamp with time zone,
    run_lease bigint DEFAULT 0 NOT NULL,
    lane_id integer NOT NULL,
    attempt smallint NOT NULL,
    max_attempts smallint NOT NULL,
    state awa.job_state NOT NULL,
    reason text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    args jsonb NOT NULL,
    unique_key bytea,
    unique_mask smallint,
    payload jsonb,
    CONSTRAINT deferred_jobs_state_check CHECK ((state = ANY (ARRAY['scheduled'::awa.job_state, 'retryable'::awa.job_state])))
);

-- Name: promote_keys(awa.deferred_jobs[], timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.promote_keys(p_jobs awa.deferred_jobs[], p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
declare
    v_job "awa".deferred_jobs;
    v_lost bigint[] := '{}';
begin
    foreach v_job in array p_jobs loop
        continue when v_job.unique_key is null;
        if not "awa".mask_has(v_job.unique_mask, 'available') then
            delete from "awa".job_unique_claims where unique_key = v_job.unique_key and job_id = v_job.job_id;
        elsif not "awa".mask_has(v_job.unique_mask, v_job.state) then
            insert into "awa".job_unique_claims (unique_key, job_id) values (v_job.unique_key, v_job.job_id)
            on conflict do nothing;
            if not found then
                v_lost := v_lost || v_job.job_id;
                insert into "awa".done_entries (job_id, run_lease, run_at, created_at, finalized_at, lane_id, attempt,
                    max_attempts, state, kind, args, unique_key, unique_mask, payload)
                values (v_job.job_id, v_job.run_lease, v_job.run_at, v_job.created_at, p_now, v_job.lane_id, v_job.attempt,
                    v_job.max_attempts, 'cancelled', v_job.kind, v_job.args, v_job.unique_key, v_job.unique_mask,
                    "awa".with_error(v_job.payload, 'promoted as duplicate: unique claim held by a newer job',
                                        v_job.attempt, true, null, p_now));
            end if;
        end if;
    end loop;
    return v_lost;
end $$;

-- Name: promote_lane(integer, regclass, integer, timestamp with time zone, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.promote_lane(p_lane integer, p_sequence regclass, p_queue_id integer, p_now timestamp with time zone, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    v_jobs "awa".deferred_jobs[];
    v_lost bigint[];
begin
    v_jobs := array(
        select d from "awa".deferred_jobs d
         where d.lane_id = p_lane and d.run_at <= p_now order by d.run_at, d.job_id limit p_limit for update skip locked);
    if cardinality(v_jobs) = 0 then
        return 0;
    end if;
    delete from "awa".deferred_jobs d using unnest(v_jobs) j where d.job_id = j.job_id;
    v_lost := "awa".promote_keys(v_jobs, p_now);
    insert into "awa".ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args, run_at,
                                        unique_key, unique_mask, payload)
    select n.seq, j.job_id, j.created_at, j.lane_id, "awa".current_slot(), j.attempt, j.max_attempts, j.kind, j.args,
           p_now, j.unique_key, j.unique_mask, j.payload
      from (select u.*, row_number() over (order by u.run_at, u.job_id) as n from unnest(v_jobs) u
             where u.job_id <> all (v_lost)) j
      join unnest("awa".draw(p_sequence, cardinality(v_jobs) - cardinality(v_lost))) with ordinality n(seq, n)
        on n.n = j.n;
    perform "awa".wake(p_queue_id);
    return cardinality(v_jobs);
end $$;

-- Name: promote_v1(integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.promote_v1(p_limit integer, OUT promoted integer, OUT next_due timestamp with time zone, OUT due_in_seconds double precision, OUT has_holes boolean, OUT ended_below bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_lane record;
    v_now timestamptz := clock_timestamp();
    v_count integer;
begin
    promoted := 0;
    ended_below := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    for v_lane in select l.lane_id, l.sequence, q.queue_id from "awa".lanes l join "awa".queue_meta q on q.queue = l.queue
                   where not q.paused order by l.lane_id loop
        v_count := 0;
        if exists (select from "awa".deferred_jobs where lane_id = v_lane.lane_id and run_at <= v_now) then
            v_count := "awa".promote_lane(v_lane.lane_id, v_lane.sequence, v_lane.queue_id, v_now, p_limit);
        end if;
        promoted := promoted + v_count;
        next_due := least(next_due, (select run_at from "awa".deferred_jobs where lane_id = v_lane.lane_id
                                      order by run_at limit 1));
    end loop;
    due_in_seconds := extract(epoch from next_due - clock_timestamp());
    has_holes := exists (select from "awa".lane_holes);
end $$;

-- Name: prune_v1(interval, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.prune_v1(p_retention interval, p_max_bytes bigint, OUT outcome text, OUT pruned_slot smallint, OUT pruned_jobs bigint, OUT before_its_time boolean, OUT horizon timestamp with time zone, OUT horizon_seconds double precision, OUT blocker text) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_slot record;
    v_bytes bigint;
    v_table text;
begin
    outcome := 'none';
    pruned_jobs := 0;
    perform "awa".require_settled();
    p_retention := greatest(p_retention, (select max(completed_retention) from "awa".queue_meta));
    perform pg_advisory_xact_lock(hashtext('awa'), -1);
    v_bytes := (select coalesce(sum("awa".slot_bytes(slot)), 0) from "awa".live_slots());
    for v_slot in select slot, left_at from "awa".live_slots()
                   where slot <> "awa".current_slot()
                     and (left_at is null or left_at < clock_timestamp() - p_retention or v_bytes > p_max_bytes) loop
        pruned_slot := v_slot.slot;
        begin
            -- Six waits of this length stay below deadlock_timeout: a reader that holds one table and wants another is
            -- let through, never chosen as the victim of a deadlock.
            perform set_config('lock_timeout', '50ms', true);
            foreach v_table in array "awa".slot_tables(v_slot.slot) loop
                execute format('lock table only "awa".%I in share mode', v_table);
            end loop;
            if "awa".slot_open(v_slot.slot) <> 0 then
                outcome := 'open';
            elsif not "awa".carry_cursors(v_slot.slot) then
                outcome := 'cursor';
            else
                pruned_jobs := "awa".account_pruned(v_slot.slot);
                execute 'truncate ' || (select string_agg(format('only "awa".%I', t), ', ')
                                          from unnest("awa".slot_tables(v_slot.slot)) t);
                outcome := 'pruned';
                before_its_time := v_slot.left_at >= clock_timestamp() - p_retention;
                exit;
            end if;
        exception when lock_not_available or deadlock_detected then
            outcome := 'locked';
            pruned_jobs := 0;  -- what was counted is undone, what was assigned is not
            blocker := coalesce("awa".holder_of(v_slot.slot), blocker);
        end;
        -- For size alone the oldest goes first, so one that is only held for a moment is waited for.
        exit when outcome in ('pruned', 'locked', 'cursor') and v_slot.left_at >= clock_timestamp() - p_retention;
    end loop;
    horizon := "awa".history_since();
    horizon_seconds := extract(epoch from clock_timestamp() - horizon);
end $$;

-- Name: queue_counts_v1(text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.queue_counts_v1(p_queue text DEFAULT NULL::text) RETURNS SETOF awa.queue_count
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_totals numeric;
    v_counts "awa".queue_count[];
begin
    for v_try in 1 .. 10 loop
        select coalesce(sum(removed), 0) into v_totals from "awa".lane_totals;
        v_counts := array(select c from "awa".count_queues(p_queue) c);
        exit when v_totals = (select coalesce(sum(removed), 0) from "awa".lane_totals);
    end loop;
    return query select * from unnest(v_counts);
end $$;

-- Name: queue_ids_v1(text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.queue_ids_v1(p_queues text[]) RETURNS TABLE(queue text, queue_id integer)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
begin
    return query select m.queue, m.queue_id from "awa".queue_meta m where m.queue = any (p_queues);
end $$;

-- Name: raise_sequences(bigint, boolean); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.raise_sequences(p_fit bigint, p_anyway boolean) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    v_behind integer := 0;
    v_one record;
    v_last bigint;
begin
    -- Of the session, to be let go before the caller's transaction ends, which may be long.
    perform pg_advisory_lock(hashtext('awa'), -2);
    begin
        if p_anyway or pg_sequence_last_value('"awa".sequences_fit') is distinct from p_fit then
            for v_one in select * from "awa".numbers_in_use() where highest > 0 loop
                v_last := coalesce(pg_sequence_last_value(v_one.sequence), 0);
                if v_last < v_one.highest then
                    perform setval(v_one.sequence, v_one.highest);
                    v_behind := v_behind + 1;
                    raise warning 'sequence % was at % and the rows at %: set above them, as after a restore of data alone',
                        v_one.sequence, v_last, v_one.highest;
                end if;
            end loop;
            perform setval('"awa".sequences_fit', p_fit);
        end if;
    exception when others or query_canceled then
        perform pg_advisory_unlock(hashtext('awa'), -2);
        raise;
    end;
    perform pg_advisory_unlock(hashtext('awa'), -2);
    return v_behind;
end $$;

-- Name: rank_in(int8multirange, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.rank_in(p_items int8multirange, p_seq bigint) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    return "awa".size_of(p_items * int8multirange(int8range(null, p_seq))) + 1;
end $$;

-- Name: register_lane_v1(text, smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.register_lane_v1(p_queue text, p_priority smallint) RETURNS integer
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$ select lane_id from "awa".lane_of(p_queue, p_priority) $$;

-- Name: register_worker_v1(text, text, text, integer, text[], text[], interval, text, text, text, interval[], interval[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.register_worker_v1(p_name text, p_version text, p_host text, p_pid integer, p_queues text[], p_kinds text[], p_stale_after interval, p_pod_owner text DEFAULT ''::text, p_pod_name text DEFAULT ''::text, p_pod_uid text DEFAULT ''::text, p_completed_for interval[] DEFAULT NULL::interval[], p_failed_for interval[] DEFAULT NULL::interval[]) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_worker bigint;
    v_queue text;
begin
    foreach v_queue in array p_queues loop
        perform "awa".lane_of(v_queue, 2::smallint);
    end loop;
    -- How long a queue keeps its jobs is as the worker that started last has it.
    update "awa".queue_meta m set completed_retention = q.completed, failed_retention = q.failed
      from unnest(p_queues, p_completed_for, p_failed_for) q(queue, completed, failed)
     where m.queue = q.queue and p_completed_for is not null
       and (m.completed_retention, m.failed_retention) is distinct from (q.completed, q.failed);
    v_worker := nextval('"awa".runtime_instances_worker_id_seq') * 1073741824
              + floor(random() * 1073741824)::bigint;
    insert into "awa".runtime_instances (worker_id, name, version, host, pid, queues, kinds, stale_after, pod_owner, pod_name,
                                            pod_uid, settled_below)
    overriding system value
    values (v_worker, p_name, p_version, p_host, p_pid, p_queues, p_kinds, p_stale_after, p_pod_owner, p_pod_name, p_pod_uid,
            coalesce(pg_sequence_last_value('"awa".claim_id'), 0));
    -- Jobs handed back because nobody knew their kind become due now that somebody does.
    update "awa".deferred_jobs set run_at = clock_timestamp() where reason = 'unknown_kind' and kind = any (p_kinds);
    perform "awa".wake(0);
    return v_worker;
end $$;

-- Name: require_own_transaction(text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.require_own_transaction(p_what text) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception '% needs READ COMMITTED, not %', p_what, current_setting('transaction_isolation')
            using errcode = '25001', hint = 'call it outside of other transactions';
    end if;
    if p_what = 'claim' and pg_current_xact_id_if_assigned() is not null then
        raise exception 'claim must be a transaction of its own' using errcode = '25001';
    end if;
end $$;

-- Name: require_settled(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.require_settled() RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    v_known "awa".incarnations;
    v_now record;
begin
    if current_setting('awa_cluster.awa', true) = 'settled' then
        return;
    end if;
    v_now := "awa".cluster_now();
    select * into v_known from "awa".incarnations order by incarnation desc limit 1;
    if v_known.system_identifier is distinct from v_now.system_identifier or v_known.timeline is distinct from v_now.timeline
            or pg_sequence_last_value('"awa".sequences_fit')
               is distinct from "awa".fit_of(v_now.system_identifier, v_known.mark) then
        raise exception 'the tables came from another cluster or timeline and nobody has settled them here'
            using errcode = 'AWA02', hint = 'a worker does so when it starts or connects again; by hand: arrive_v1()';
    end if;
    perform set_config('awa_cluster.awa', 'settled', false);
end $$;

-- Name: require_short_transaction(text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.require_short_transaction(p_what text) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    -- There is no way to ask whether a transaction block is open; one that has written or has lasted is.
    if pg_current_xact_id_if_assigned() is not null
            or statement_timestamp() - transaction_timestamp() > interval '1 second' then
        raise exception '% holds up the lane and must be a transaction of its own', p_what using errcode = '25001';
    end if;
end $$;

-- Name: rescue_lost_v1(bigint, text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.rescue_lost_v1(p_worker bigint, p_reason text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_worker "awa".runtime_instances;
begin
    if not "awa".mark_dead_v1(p_worker, p_reason) then
        return null;
    end if;
    select * into strict v_worker from "awa".runtime_instances where worker_id = p_worker;
    return "awa".hand_on(v_worker);
end $$;

-- Name: rescue_overdue_v1(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.rescue_overdue_v1() RETURNS TABLE(job_id bigint, claim_id bigint, worker_id bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
declare
    v_worker record;
    v_claims "awa".open_claim[];
    v_now timestamptz := clock_timestamp();
    v_moves "awa".moving[];
begin
    for v_worker in select i.worker_id, i.settled_below from "awa".runtime_instances i where i.dead_at is null
                     order by i.worker_id loop
        v_claims := array(select c from unnest("awa".overdue(v_worker.worker_id, v_worker.settled_below, v_now)) c);
        v_moves := "awa".end_attempts(array(
            select "awa".ending_of(c, seq, 'rescue', null, 'hard deadline exceeded')
              from unnest(v_claims) c, unnest(c.open) i, generate_series(lower(i), upper(i) - 1) seq));
        return query select m.job_id, m.claim_id, v_worker.worker_id from unnest(v_moves) m;
    end loop;
    return query select * from "awa".overdue_leases(v_now);
end $$;

-- Name: rescue_v1(boolean); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.rescue_v1(p_declare_silent_dead boolean DEFAULT true) RETURNS TABLE(worker_id bigint, rescued integer)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
declare
    v_row "awa".runtime_instances;
begin
    insert into "awa".runtime_instances (worker_id, name, version, host, pid, queues, kinds, stale_after, dead_at,
                                            dead_reason)
    overriding system value
    select w.worker_id, '', '', '', 0, '{}', '{}', interval '0', clock_timestamp(), 'unknown owner'
      from "awa".claiming_workers() w
     where not exists (select from "awa".runtime_instances i where i.worker_id = w.worker_id)
    on conflict do nothing;
    update "awa".runtime_instances set dead_at = clock_timestamp(), dead_reason = 'heartbeat stale'
     where p_declare_silent_dead and dead_at is null and last_seen < clock_timestamp() - stale_after;
    for v_row in select * from "awa".runtime_instances i
                  where dead_at is not null and settled_below < coalesce(pg_sequence_last_value('"awa".claim_id'), 0)
                  order by i.worker_id for update skip locked loop
        rescued := "awa".hand_on(v_row);
        worker_id := v_row.worker_id;
        if rescued > 0 then
            return next;
        end if;
    end loop;
end $$;

-- Name: reserve_v1(text, smallint, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.reserve_v1(p_queue text, p_priority smallint, p_count integer, OUT lane_id integer, OUT slot smallint, OUT created_at timestamp with time zone, OUT seqs bigint[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_lane record;
begin
    select * into v_lane from "awa".lane_of(p_queue, p_priority);
    lane_id := v_lane.lane_id;
    seqs := "awa".draw(v_lane.sequence, p_count);
    slot := "awa".current_slot();
    created_at := clock_timestamp();
    perform "awa".wake(v_lane.queue_id);
end $$;

-- Name: resign_v1(text, bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.resign_v1(p_duty text, p_worker bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
begin
    delete from "awa".leader where duty = p_duty and worker_id = p_worker;
    if found then
        perform "awa".call_election();
    end if;
end $$;

-- Name: resume_queue_v1(text); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.resume_queue_v1(p_queue text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_id integer;
begin
    update "awa".queue_meta set paused = false, paused_at = null, paused_by = null where queue = p_queue and paused
    returning queue_id into v_id;
    if v_id is not null then
        perform "awa".wake(v_id);
        perform "awa".wake(0);
    end if;
    return v_id is not null;
end $$;

-- Name: retire_v1(interval, interval, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.retire_v1(p_completed interval, p_failed interval, p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_gone "awa".done_entries[];
begin
    -- By state, so that the index leads to what is old enough; a queue's own retention is looked at only among those.
    v_gone := array(
        select o.d from unnest(enum_range(null::"awa".job_state)) s(state)
         cross join lateral (
               select d from "awa".done_entries d
                 join "awa".lanes l on l.lane_id = d.lane_id join "awa".queue_meta q on q.queue = l.queue
                where d.state = s.state
                  and d.finalized_at < clock_timestamp() - case s.state
                      when 'failed' then least(p_failed, (select min(failed_retention) from "awa".queue_meta))
                      else least(p_completed, (select min(completed_retention) from "awa".queue_meta)) end
                  and d.finalized_at < clock_timestamp() - case s.state
                      when 'failed' then coalesce(q.failed_retention, p_failed)
                      else coalesce(q.completed_retention, p_completed) end
                order by d.finalized_at limit p_limit for update of d skip locked) o
         limit p_limit);
    delete from "awa".done_entries d using unnest(v_gone) g where d.job_id = g.job_id;
    delete from "awa".job_unique_claims k using unnest(v_gone) g
     where k.unique_key = g.unique_key and k.job_id = g.job_id;
    insert into "awa".lane_totals as t (lane_id, state, removed)
    select lane_id, state, count(*) from unnest(v_gone) group by lane_id, state
    on conflict (lane_id, state) do update set removed = t.removed + excluded.removed;
    delete from "awa".runtime_instances i
     where i.dead_at < clock_timestamp() - interval '7 days'
       and not exists (select from "awa".claim_batches c where c.worker_id = i.worker_id);
    return cardinality(v_gone);
end $$;

-- Name: retry_v1(bigint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.retry_v1(p_id bigint) RETURNS awa.job_state
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_job "awa".job_row := "awa".find_job(p_id);
    v_moves "awa".moving[];
    v_now timestamptz := clock_timestamp();
begin
    perform "awa".require_short_transaction('retry');
    if v_job.state in ('scheduled', 'retryable') then
        update "awa".deferred_jobs set run_at = v_now where job_id = p_id and run_at > v_now;
        perform "awa".wake(0);
    elsif v_job.state in ('failed', 'cancelled') then
        delete from "awa".done_entries where job_id = p_id and state = v_job.state;
        if found then
            v_moves := array["awa".job_to_move(v_job, 'available')];
            v_moves[1].attempt_after := 0;
            v_moves := "awa".move_keys(v_moves, v_job.state, v_now);
            if v_moves[1].state <> 'available' then
                raise exception 'a newer job holds the unique key of job %', p_id
                    using errcode = '23505', constraint = 'idx_awa_jobs_unique';
            end if;
            perform "awa".place(v_moves, v_now);
        end if;
    end if;
    return v_job.state;
end $$;

-- Name: rfc3339(timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.rfc3339(p_at timestamp with time zone) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
begin
    return to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
end $$;

-- Name: ring_job(awa.ready_entries); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.ring_job(p_body awa.ready_entries) RETURNS awa.job_row
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $$
declare
    v_job "awa".job_row;
    v_claim "awa".claim_batches;
begin
    select l.queue, l.priority into v_job.queue, v_job.priority from "awa".lanes l where l.lane_id = p_body.lane_id;
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
    v_claim := "awa".claim_at(p_body.slot, p_body.lane_id, p_body.lane_seq);
    if v_claim.claim_id is null then
        if exists (select from "awa".ready_tombstones t where t.slot = p_body.slot and t.lane_id = p_body.lane_id
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
    select e.finalized_at into v_job.finalized_at from "awa".receipt_completion_batches e
     where e.slot = p_body.slot and e.claim_id = v_claim.claim_id and e.items @> p_body.lane_seq;
    if found then
        if exists (select from "awa".completion_tombstones t where t.slot = p_body.slot
                      and t.claim_id = v_claim.claim_id and t.items @> p_body.lane_seq) then
            return null;
        end if;
        v_job.state := 'completed';
        v_job.payload := nullif(v_job.payload - 'progress', '{}');
        return v_job;
    end if;
    if exists (select from "awa".claim_closures c where c.slot = p_body.slot and c.claim_id = v_claim.claim_id
                  and c.items @> p_body.lane_seq) then
        return null;
    end if;
    v_job.state := 'running';
    return v_job;
end $$;

-- Name: rotate_v1(interval, bigint, boolean); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.rotate_v1(p_every interval, p_max_bytes bigint, p_force boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
declare
    v_now record;
    v_next smallint;
    v_table text;
    v_used boolean;
begin
    perform pg_advisory_xact_lock(hashtext('awa'), -1);
    select generation, slot, rotated_at into v_now from "awa".ring_rotations order by generation desc limit 1;
    if not p_force and clock_timestamp() < v_now.rotated_at + p_every and "awa".slot_bytes(v_now.slot) < p_max_bytes then
        return 'early';
    end if;
    if pg_relation_size(format('"awa".ready_entries_%s', lpad(v_now.slot::text, 2, '0'))) = 0 then
        return 'idle';
    end if;
    perform set_config('lock_timeout', '50ms', true);
    for v_step in 1 .. 15 loop
        v_next := (v_now.slot + v_step) % 16;
        -- What was written and not removed has a size, so most slots in use are told without a lock.
        v_used := "awa".slot_has_pages(v_next);
        if not v_used then
            foreach v_table in array "awa".slot_tables(v_next) loop
                execute format('lock table only "awa".%I in access exclusive mode', v_table);
                execute format('select exists (select from only "awa".%I)', v_table) into v_used;
                exit when v_used;
            end loop;
        end if;
        exit when not v_used;
    end loop;
    if v_used then
        return 'busy';
    end if;
    insert into "awa".ring_rotations (generation, slot) values (v_now.generation + 1, v_next);
    delete from "awa".ring_rotations where generation < v_now.generation - 1000;
    return 'rotated';
exception when lock_not_available or deadlock_detected then
    return 'locked';
end $$;

-- Name: served_kinds(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.served_kinds() RETURNS text[]
    LANGUAGE plpgsql
    AS $$
begin
    return array(select distinct k from "awa".runtime_instances i, unnest(i.kinds) k
                  where i.dead_at is null and i.last_seen > clock_timestamp() - i.stale_after);
end $$;

-- Name: settle_holes_v1(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.settle_holes_v1() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_row record;
    v_xmin xid8;
    v_bodies "awa".claimed[];
    v_body "awa".claimed;
    v_found int8multirange;
    v_tombs int8multirange;
    v_served text[];
    v_unknown bigint[];
    v_moved integer := 0;
    v_limit constant integer := 1000;
begin
    for v_row in select ctid, lane_id, holes, bound from "awa".lane_holes order by lane_id, lower(holes)
                    for update skip locked loop
        exit when v_moved >= v_limit;
        -- A body that is being cancelled must not get another place.
        continue when not pg_try_advisory_xact_lock(hashtext('awa'), -2 - v_row.lane_id);
        select coalesce(range_agg(i), '{}') into v_tombs from "awa".ready_tombstones t, unnest(t.items) i
         where t.lane_id = v_row.lane_id and t.last_seq >= lower(v_row.holes);
        v_xmin := pg_snapshot_xmin(pg_current_snapshot());
        v_bodies := "awa".bodies_in(v_row.lane_id, '{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}', v_row.holes, null, v_tombs,
                                       v_limit);
        v_found := '{}';
        foreach v_body in array v_bodies loop
            v_found := v_found + "awa".as_ranges(v_body);
            v_moved := v_moved + cardinality(v_body.seqs);
            v_served := coalesce(v_served, "awa".served_kinds());
            v_unknown := array(select seq from unnest(v_body.seqs, v_body.kinds) u(seq, kind) where kind <> all (v_served));
            perform "awa".defer_unknown(v_body.lane_id, v_body.slot, v_unknown);
            v_body := "awa".without_places(v_body, v_unknown);
            if v_body.seqs is not null then
                perform "awa".move_ready(v_body.lane_id, v_body.slot, v_body.seqs, 'hole');
            end if;
        end loop;
        if v_xmin >= v_row.bound and "awa".size_of(v_found) < v_limit then
            delete from "awa".lane_holes where ctid = v_row.ctid;
        elsif not isempty(v_found) then
            update "awa".lane_holes set holes = holes - v_found where ctid = v_row.ctid;
        end if;
    end loop;
    return v_moved;
end $$;

-- Name: settle_v1(bigint, text, bigint[], bigint[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.settle_v1(p_worker bigint, p_reason text, p_started_claims bigint[], p_started_seqs bigint[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
declare
    v_below bigint;
begin
    perform "awa".mark_dead_v1(p_worker, p_reason);
    select settled_below into v_below from "awa".runtime_instances where worker_id = p_worker;
    return "awa".end_open("awa".unsettled(p_worker, coalesce(v_below, 0), 'infinity', 1000000), p_started_claims,
                             p_started_seqs, 'worker process died: ' || p_reason)
         + "awa".end_leases(p_worker, 'worker process died: ' || p_reason);
end $$;

-- Name: signals_v1(text[], interval); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.signals_v1(p_queues text[], p_lead interval) RETURNS TABLE(queue text, ready bigint, running bigint, oldest_ready_seconds double precision, due_soon bigint, orphaned bigint, set_aside bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
declare
    v_exact bigint := greatest(50, 1000 / greatest(1, cardinality(p_queues)));
    -- Not in the query: what changes from row to row is no bound for an index.
    v_due timestamptz := clock_timestamp() + p_lead;
begin
    return query
    with lane as (
        select l.lane_id, l.sequence, l.queue from "awa".lanes l where l.queue = any (p_queues)
    ), part as (
        select l.queue, a.waiting as ready, 0::bigint as running, 0::bigint as orphaned, a.oldest, d.n as due,
               u.n as set_aside
          from lane l join "awa".queue_meta m on m.queue = l.queue
         cross join lateral "awa".available_about(l.lane_id, l.sequence, v_exact) a
         cross join lateral (
               select count(*) as n from (
                   select from "awa".deferred_jobs d
                    where d.lane_id = l.lane_id and d.run_at <= v_due and d.reason <> 'unknown_kind'
                    limit 10000) d) d
         cross join lateral (
               select count(*) as n from (
                   select from "awa".deferred_jobs d where d.lane_id = l.lane_id and d.reason = 'unknown_kind'
                    limit 100) d) u
         where not m.paused
        union all
        select l.queue, 0, h.jobs, case when i.dead_at is null and i.last_seen >= clock_timestamp() - i.stale_after then 0
                                        else h.jobs end, null, 0, 0
          from "awa".in_hand() h
          join lane l on l.lane_id = h.lane_id
          left join "awa".runtime_instances i on i.worker_id = h.worker_id
    )
    select m.queue, coalesce(sum(p.ready), 0)::bigint, coalesce(sum(p.running), 0)::bigint,
           coalesce(extract(epoch from clock_timestamp() - min(p.oldest)), 0)::double precision,
           coalesce(sum(p.due), 0)::bigint, coalesce(sum(p.orphaned), 0)::bigint, coalesce(sum(p.set_aside), 0)::bigint
      from "awa".queue_meta m left join part p on p.queue = m.queue
     where m.queue = any (p_queues)
     group by m.queue;
end $$;

-- Name: size_of(int8multirange); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.size_of(p_items int8multirange) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    return coalesce((select sum(upper(r) - lower(r)) from unnest(p_items) r), 0);
end $$;

-- Name: slot_bytes(smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.slot_bytes(p_slot smallint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
begin
    return (select sum(pg_total_relation_size(format('"awa".%I', t)::regclass)) from unnest("awa".slot_tables(p_slot)) t);
end $$;

-- Name: slot_has_pages(smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.slot_has_pages(p_slot smallint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
    return exists (select from unnest("awa".slot_tables(p_slot)) t where pg_relation_size(format('"awa".%I', t)) > 0);
end $$;

-- Name: slot_open(smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.slot_open(p_slot smallint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
begin
    return (select count(*) from "awa".ready_entries where slot = p_slot)
         - (select coalesce(sum(completed_count), 0) from "awa".receipt_completion_batches where slot = p_slot)
         - (select coalesce(sum(closed_count), 0) from "awa".claim_closures where slot = p_slot)
         - (select coalesce(sum(tomb_count), 0) from "awa".ready_tombstones where slot = p_slot);
end $$;

-- Name: slot_tables(smallint); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.slot_tables(p_slot smallint) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    return array(select t || '_' || lpad(p_slot::text, 2, '0')
                   from unnest(array['ready_entries', 'claim_batches', 'receipt_completion_batches', 'claim_closures',
                                     'ready_tombstones', 'completion_tombstones']) with ordinality u(t, n) order by n);
end $$;

-- Name: stale_items(awa.open_claim[], integer[], bigint[], bigint[], integer[], bigint[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.stale_items(p_claims awa.open_claim[], p_of integer[], p_lo bigint[], p_hi bigint[], p_end_of integer[], p_end_seqs bigint[]) RETURNS TABLE(claim_at integer, stale int8multirange)
    LANGUAGE plpgsql
    AS $$
begin
    return query
    select a.k, a.asked - coalesce(c.was_open, '{}')
      from (select k, range_agg(int8range(lo, hi)) as asked
              from (select * from unnest(p_of, p_lo, p_hi) u(k, lo, hi)
                    union all
                    select k, seq, seq + 1 from unnest(p_end_of, p_end_seqs) u(k, seq)) u group by k) a
      left join unnest(p_claims) c on c.n = a.k
     where not isempty(a.asked - coalesce(c.was_open, '{}'));
end $$;

-- Name: take_keys(bigint[], bytea[], smallint[], awa.job_state[], boolean); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.take_keys(p_ids bigint[], p_keys bytea[], p_masks smallint[], p_states awa.job_state[], p_skip boolean) RETURNS integer[]
    LANGUAGE plpgsql
    AS $$
declare
    v_lost integer[];
    v_holder bigint;
begin
    with wanted as (
        select n, id, key from unnest(p_ids, p_keys, p_masks, p_states) with ordinality u(id, key, mask, state, n)
         where key is not null and "awa".mask_has(mask, state)
    ), taken as (
        insert into "awa".job_unique_claims (unique_key, job_id)
        select key, id from wanted order by key, n
        on conflict do nothing
        returning job_id
    )
    select array_agg(n) into v_lost from wanted where id not in (select job_id from taken);
    if v_lost is not null and not p_skip then
        select job_id into v_holder from "awa".job_unique_claims where unique_key = p_keys[v_lost[1]];
        raise exception 'a job with the same unique key exists'
            using errcode = '23505', constraint = 'idx_awa_jobs_unique',
                  detail = format('holder=%s position=%s', v_holder, v_lost[1] - 1);
    end if;
    return coalesce(v_lost, '{}');
end $$;

-- Name: unknown_ahead(integer, smallint[], bigint, text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.unknown_ahead(p_lane integer, p_slots smallint[], p_from bigint, p_kinds text[], OUT passed_to bigint, OUT places bigint, OUT is_end boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
declare
    v_known constant text[] := p_kinds || "awa".served_kinds();
    v_first bigint;
begin
    select min(b.lane_seq) filter (where b.kind = any (v_known)), max(b.lane_seq) + 1 into v_first, passed_to
      from (select r.lane_seq, r.kind from "awa".ready_entries r
             where r.slot in (p_slots[1], p_slots[2], p_slots[3], p_slots[4], p_slots[5], p_slots[6], p_slots[7], p_slots[8],
                             p_slots[9], p_slots[10], p_slots[11], p_slots[12], p_slots[13], p_slots[14], p_slots[15], p_slots[16])
               and r.lane_id = p_lane and r.lane_seq >= p_from
             order by r.lane_seq limit 4096) b;
    is_end := v_first is not null;
    passed_to := coalesce(v_first, passed_to);
    places := passed_to - p_from;
end $$;

-- Name: unknown_kinds_v1(); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.unknown_kinds_v1() RETURNS TABLE(queue text, kind text, jobs bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
begin
    return query
    select case when n <= 100 then r.queue else 'other' end, case when n <= 100 then r.kind else 'other' end,
           sum(r.jobs)::bigint
      from (select l.queue, d.kind, count(*) as jobs, row_number() over (order by count(*) desc, l.queue, d.kind) as n
              from "awa".deferred_jobs d join "awa".lanes l on l.lane_id = d.lane_id
             where d.reason = 'unknown_kind' group by l.queue, d.kind) r
     group by 1, 2 order by 3 desc;
end $$;

-- Name: unsettled(bigint, bigint, timestamp with time zone, integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.unsettled(p_worker bigint, p_above bigint, p_until timestamp with time zone, p_limit integer) RETURNS awa.open_claim[]
    LANGUAGE plpgsql
    AS $$
declare
    v_slots smallint[];
    v_claims bigint[];
begin
    select array_agg(distinct c.slot), array_agg(c.claim_id order by c.claim_id) into v_slots, v_claims
      from (select c.slot, c.claim_id from "awa".claim_batches c
             where c.worker_id = p_worker and c.claim_id > p_above and c.claimed_at <= p_until and not isempty(c.items)
               and c.items <> coalesce((
                   select range_agg(r) from (
                       select items from "awa".receipt_completion_batches e where e.slot = c.slot and e.claim_id = c.claim_id
                       union all
                       select items from "awa".claim_closures e where e.slot = c.slot and e.claim_id = c.claim_id) e,
                       unnest(e.items) r), '{}')
             order by c.claim_id limit p_limit) c;
    if v_claims is null then
        return '{}';
    end if;
    return "awa".open_claims(v_slots, p_worker, v_claims, null);
end $$;

-- Name: wake(integer); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.wake(p_queue_id integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    -- Tried and given back in one expression: other producers who look meanwhile would take this lock for a sleeper's.
    if (case when pg_try_advisory_lock(hashtext('awa'), 1000000 + p_queue_id)
             then not pg_advisory_unlock(hashtext('awa'), 1000000 + p_queue_id) else true end) then
        perform pg_notify('awa:' || p_queue_id, '');
    end if;
end $$;

-- Name: wake_leader(timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.wake_leader(p_due timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    if p_due < clock_timestamp() + interval '6 seconds' then
        perform "awa".wake(0);
    end if;
end $$;

-- Name: with_error(jsonb, text, integer, boolean, text, timestamp with time zone); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.with_error(p_payload jsonb, p_error text, p_attempt integer, p_terminal boolean, p_output text, p_at timestamp with time zone) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    AS $$
declare
    v_errors jsonb := coalesce(p_payload -> 'errors', '[]');
    v_entry jsonb := jsonb_build_object('error', p_error, 'attempt', p_attempt, 'at', "awa".rfc3339(p_at));
begin
    if p_terminal then
        v_entry := v_entry || '{"terminal": true}';
    end if;
    if p_output is not null then
        v_entry := v_entry || jsonb_build_object('output', p_output::jsonb);
        v_errors := coalesce((select jsonb_agg(e - 'output' order by n)
                                from jsonb_array_elements(v_errors) with ordinality e(e, n)), '[]');
    end if;
    return coalesce(p_payload, '{}') || jsonb_build_object('errors', v_errors || jsonb_build_array(v_entry));
end $$;

-- Name: without_places(awa.claimed, bigint[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.without_places(p_body awa.claimed, p_seqs bigint[]) RETURNS awa.claimed
    LANGUAGE plpgsql IMMUTABLE
    AS $$
declare
    v_left "awa".claimed;
begin
    v_left.lane_id := p_body.lane_id;
    v_left.slot := p_body.slot;
    v_left.has_unique := p_body.has_unique;
    select array_agg(seq), array_agg(id), array_agg(kind), array_agg(args), array_agg(created), array_agg(run),
           array_agg(attempt), array_agg(tries), array_agg(payload), min(seq), max(seq)
      into v_left.seqs, v_left.job_ids, v_left.kinds, v_left.args, v_left.created_ats, v_left.run_ats, v_left.attempts,
           v_left.max_attempts, v_left.payloads, v_left.first_seq, v_left.last_seq
      from unnest(p_body.seqs, p_body.job_ids, p_body.kinds, p_body.args, p_body.created_ats, p_body.run_ats,
                  p_body.attempts, p_body.max_attempts, p_body.payloads)
           u(seq, id, kind, args, created, run, attempt, tries, payload)
     where seq <> all (p_seqs);
    return v_left;
end $$;

-- Name: workers_v1(text[]); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.workers_v1(p_owners text[]) RETURNS TABLE(worker_id bigint, pod_owner text, pod_name text, pod_uid text, started_at timestamp with time zone, last_seen timestamp with time zone)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
begin
    return query
    select i.worker_id, i.pod_owner, i.pod_name, i.pod_uid, i.started_at, i.last_seen
      from "awa".runtime_instances i
     where i.pod_owner = any (p_owners) and i.pod_owner <> '' and i.dead_at is null
     order by i.worker_id;
end $$;

-- Name: write_claims(bigint, bigint, text[], awa.lane_look[], xid8); Type: FUNCTION; Schema: awa; Owner: -

CREATE FUNCTION awa.write_claims(p_worker bigint, p_token bigint, p_kinds text[], p_looks awa.lane_look[], p_bound xid8) RETURNS SETOF awa.claimed
    LANGUAGE plpgsql
    AS $$
declare
    v_look "awa".lane_look;
    v_body "awa".claimed;
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
            v_look := "awa".add_holes(v_look, p_bound);
        end if;
        if v_look.passed is not null then
            perform "awa".leave_holes(v_look.lane_id, int8multirange(v_look.passed), p_bound);
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
            v_claim := nextval('"awa".claim_id');
            v_items := '{}';
            v_unique := false;
            foreach v_body in array v_look.bodies loop
                if v_body.slot = v_slot then
                    v_items := v_items + "awa".as_ranges(v_body);
                    v_unique := v_unique or v_body.has_unique;
                end if;
            end loop;
            insert into "awa".claim_batches (claim_id, token, worker_id, claimed_at, deadline_at, next_seq, lane_id,
                                                slot, has_unique, items, holes_old, bound_old, holes_new, bound_new,
                                                looked_at)
            values (v_claim, p_token, p_worker, v_now, v_deadline, v_look.next_seq, v_look.lane_id, v_slot,
                    v_unique, v_items,
                    nullif(v_look.holes_old, '{}'), v_look.bound_old, nullif(v_look.holes_new, '{}'), v_look.bound_new,
                    v_look.looked_at);
            foreach v_body in array v_look.bodies loop
                continue when v_body.slot <> v_slot;
                if v_body.has_unique then
                    v_body := "awa".move_keys_of_claim(v_claim, v_body);
                    continue when v_body.seqs is null;
                end if;
                if p_kinds is not null and not v_body.kinds <@ p_kinds then
                    v_body := "awa".hand_back_unknown(v_claim, v_body, p_kinds);
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

-- One of 16 that differ in their numbers only.
-- Name: claim_batches_00; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.claim_batches_00 (
    claim_id bigint NOT NULL,
    token bigint NOT NULL,
    worker_id bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone,
    next_seq bigint NOT NULL,
    lane_id integer NOT NULL,
    slot smallint NOT NULL,
    has_unique boolean DEFAULT false NOT NULL,
    items int8multirange NOT NULL,
    holes_old int8multirange,
    bound_old xid8,
    holes_new int8multirange,
    bound_new xid8,
    looked_at timestamp with time zone
)
WITH (autovacuum_vacuum_insert_threshold='-1');

-- Name: claim_closures; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.claim_closures (
    claim_id bigint NOT NULL,
    closed_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    closed_count integer NOT NULL,
    slot smallint NOT NULL,
    outcome text NOT NULL,
    items int8multirange NOT NULL,
    CONSTRAINT claim_closures_outcome_check CHECK ((outcome = ANY (ARRAY['retried'::text, 'snoozed'::text, 'failed'::text, 'cancelled'::text, 'parked'::text, 'rescued'::text, 'evacuated'::text, 'returned'::text])))
)
PARTITION BY LIST (slot);

-- One of 16 that differ in their numbers only.
-- Name: claim_closures_00; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.claim_closures_00 (
    claim_id bigint NOT NULL,
    closed_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    closed_count integer NOT NULL,
    slot smallint NOT NULL,
    outcome text NOT NULL,
    items int8multirange NOT NULL,
    CONSTRAINT claim_closures_outcome_check CHECK ((outcome = ANY (ARRAY['retried'::text, 'snoozed'::text, 'failed'::text, 'cancelled'::text, 'parked'::text, 'rescued'::text, 'evacuated'::text, 'returned'::text])))
)
WITH (autovacuum_vacuum_insert_threshold='-1');

-- Name: claim_id; Type: SEQUENCE; Schema: awa; Owner: -

CREATE SEQUENCE awa.claim_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

-- Name: completion_tombstones; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.completion_tombstones (
    claim_id bigint NOT NULL,
    closed_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    tomb_count integer NOT NULL,
    slot smallint NOT NULL,
    items int8multirange NOT NULL
)
PARTITION BY LIST (slot);

-- One of 16 that differ in their numbers only.
-- Name: completion_tombstones_00; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.completion_tombstones_00 (
    claim_id bigint NOT NULL,
    closed_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    tomb_count integer NOT NULL,
    slot smallint NOT NULL,
    items int8multirange NOT NULL
)
WITH (autovacuum_vacuum_insert_threshold='-1');

-- Name: deferred_id; Type: SEQUENCE; Schema: awa; Owner: -

CREATE SEQUENCE awa.deferred_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

-- Name: done_entries; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.done_entries (
    job_id bigint NOT NULL,
    run_lease bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    attempted_at timestamp with time zone,
    finalized_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    attempt smallint NOT NULL,
    max_attempts smallint NOT NULL,
    state awa.job_state NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    args jsonb NOT NULL,
    unique_key bytea,
    unique_mask smallint,
    payload jsonb,
    output json,
    CONSTRAINT done_entries_state_check CHECK ((state = ANY (ARRAY['completed'::awa.job_state, 'failed'::awa.job_state, 'cancelled'::awa.job_state])))
);

-- Name: incarnations; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.incarnations (
    incarnation integer NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL,
    mark bigint NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
);

-- Name: job_unique_claims; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.job_unique_claims (
    unique_key bytea NOT NULL,
    job_id bigint NOT NULL
);

-- Name: lane_holes; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.lane_holes (
    lane_id integer NOT NULL,
    holes int8multirange NOT NULL,
    bound xid8 NOT NULL
);

-- One of 256 that differ in their numbers only.
-- Name: lane_seq_1; Type: SEQUENCE; Schema: awa; Owner: -

CREATE SEQUENCE awa.lane_seq_1
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

-- Name: lane_totals; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.lane_totals (
    lane_id integer NOT NULL,
    state awa.job_state NOT NULL,
    removed bigint NOT NULL
);

-- Name: lanes; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.lanes (
    lane_id integer NOT NULL,
    sequence regclass NOT NULL,
    queue text COLLATE pg_catalog."C",
    priority smallint,
    tombstoned_to bigint DEFAULT 0 NOT NULL,
    CONSTRAINT lanes_lane_id_check CHECK (((lane_id >= 1) AND (lane_id <= 1023))),
    CONSTRAINT lanes_priority_check CHECK (((priority >= 1) AND (priority <= 4)))
);

-- Name: leader; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.leader (
    duty text NOT NULL,
    worker_id bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

-- Name: queue_meta; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.queue_meta (
    queue text NOT NULL COLLATE pg_catalog."C",
    queue_id integer NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    completed_retention interval,
    failed_retention interval,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT queue_meta_queue_check CHECK (((char_length(queue) >= 1) AND (char_length(queue) <= 200)))
);

-- Name: queue_meta_queue_id_seq; Type: SEQUENCE; Schema: awa; Owner: -

ALTER TABLE awa.queue_meta ALTER COLUMN queue_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME awa.queue_meta_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- One of 16 that differ in their numbers only.
-- Name: ready_entries_00; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.ready_entries_00 (
    lane_seq bigint NOT NULL,
    job_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    slot smallint NOT NULL,
    attempt smallint NOT NULL,
    max_attempts smallint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    args jsonb NOT NULL,
    run_at timestamp with time zone,
    unique_key bytea,
    unique_mask smallint,
    payload jsonb
)
WITH (autovacuum_vacuum_insert_threshold='-1');

-- Name: ready_tombstones; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.ready_tombstones (
    last_seq bigint NOT NULL,
    closed_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    tomb_count integer NOT NULL,
    slot smallint NOT NULL,
    reason text NOT NULL,
    items int8multirange NOT NULL
)
PARTITION BY LIST (slot);

-- One of 16 that differ in their numbers only.
-- Name: ready_tombstones_00; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.ready_tombstones_00 (
    last_seq bigint NOT NULL,
    closed_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    tomb_count integer NOT NULL,
    slot smallint NOT NULL,
    reason text NOT NULL,
    items int8multirange NOT NULL
)
WITH (autovacuum_vacuum_insert_threshold='-1');

-- Name: receipt_completion_batches; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.receipt_completion_batches (
    claim_id bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    finalized_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    completed_count integer NOT NULL,
    slot smallint NOT NULL,
    items int8multirange NOT NULL,
    outputs json[]
)
PARTITION BY LIST (slot);

-- One of 16 that differ in their numbers only.
-- Name: receipt_completion_batches_00; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.receipt_completion_batches_00 (
    claim_id bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    finalized_at timestamp with time zone NOT NULL,
    lane_id integer NOT NULL,
    completed_count integer NOT NULL,
    slot smallint NOT NULL,
    items int8multirange NOT NULL,
    outputs json[]
)
WITH (autovacuum_vacuum_insert_threshold='-1');

-- Name: ring_rotations; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.ring_rotations (
    generation bigint NOT NULL,
    slot smallint NOT NULL,
    rotated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT ring_rotations_slot_check CHECK (((slot >= 0) AND (slot <= 15)))
);

-- Name: runtime_instances_worker_id_seq; Type: SEQUENCE; Schema: awa; Owner: -

ALTER TABLE awa.runtime_instances ALTER COLUMN worker_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME awa.runtime_instances_worker_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: schema_version; Type: TABLE; Schema: awa; Owner: -

CREATE TABLE awa.schema_version (
    version integer NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    duration interval NOT NULL,
    CONSTRAINT schema_version_kind_check CHECK ((kind = ANY (ARRAY['expand'::text, 'contract'::text])))
);

-- Name: TABLE schema_version; Type: COMMENT; Schema: awa; Owner: -

COMMENT ON TABLE awa.schema_version IS 'Applied migrations of the awa job queue, one row each';

-- Name: sequences_fit; Type: SEQUENCE; Schema: awa; Owner: -

CREATE SEQUENCE awa.sequences_fit
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

-- Name: terminal_jobs; Type: VIEW; Schema: awa; Owner: -

CREATE VIEW awa.terminal_jobs AS
 SELECT d.job_id AS id,
    d.kind,
    l.queue,
    d.args,
    d.state,
    l.priority,
    d.attempt,
    d.run_lease,
    d.max_attempts,
    d.run_at,
    NULL::timestamp with time zone AS deadline_at,
    d.attempted_at,
    d.finalized_at,
    d.created_at,
    d.unique_key,
    d.unique_mask,
    d.payload,
    d.output
   FROM (awa.done_entries d
     JOIN awa.lanes l ON ((l.lane_id = d.lane_id)))
UNION ALL
 SELECT r.job_id AS id,
    r.kind,
    l.queue,
    r.args,
    'completed'::awa.job_state AS state,
    l.priority,
    ((r.attempt + 1))::smallint AS attempt,
    e.claim_id AS run_lease,
    r.max_attempts,
    COALESCE(r.run_at, r.created_at) AS run_at,
    NULL::timestamp with time zone AS deadline_at,
    e.claimed_at AS attempted_at,
    e.finalized_at,
    r.created_at,
    r.unique_key,
    r.unique_mask,
    ((r.payload - 'progress'::text) - 'returns'::text) AS payload,
        CASE
            WHEN (e.outputs IS NOT NULL) THEN e.outputs[awa.rank_in(e.items, s.seq)]
            ELSE NULL::json
        END AS output
   FROM ((((awa.receipt_completion_batches e
     JOIN awa.lanes l ON ((l.lane_id = e.lane_id)))
     CROSS JOIN LATERAL unnest(e.items) i(i))
     CROSS JOIN LATERAL generate_series(lower(i.i), (upper(i.i) - 1)) s(seq))
     CROSS JOIN LATERAL ( SELECT b.lane_seq,
            b.job_id,
            b.created_at,
            b.lane_id,
            b.slot,
            b.attempt,
            b.max_attempts,
            b.kind,
            b.args,
            b.run_at,
            b.unique_key,
            b.unique_mask,
            b.payload
           FROM awa.ready_entries b
          WHERE ((b.slot = e.slot) AND (b.lane_id = e.lane_id) AND (b.lane_seq = s.seq))
         OFFSET 0) r)
  WHERE (NOT (EXISTS ( SELECT
           FROM awa.completion_tombstones t
          WHERE ((t.slot = e.slot) AND (t.claim_id = e.claim_id) AND (t.items @> s.seq)))));

-- One of 16 that differ in their numbers only.
-- Name: claim_batches_00; Type: TABLE ATTACH; Schema: awa; Owner: -

ALTER TABLE ONLY awa.claim_batches ATTACH PARTITION awa.claim_batches_00 FOR VALUES IN ('0');

-- One of 16 that differ in their numbers only.
-- Name: claim_closures_00; Type: TABLE ATTACH; Schema: awa; Owner: -

ALTER TABLE ONLY awa.claim_closures ATTACH PARTITION awa.claim_closures_00 FOR VALUES IN ('0');

-- One of 16 that differ in their numbers only.
-- Name: completion_tombstones_00; Type: TABLE ATTACH; Schema: awa; Owner: -

ALTER TABLE ONLY awa.completion_tombstones ATTACH PARTITION awa.completion_tombstones_00 FOR VALUES IN ('0');

-- One of 16 that differ in their numbers only.
-- Name: ready_entries_00; Type: TABLE ATTACH; Schema: awa; Owner: -

ALTER TABLE ONLY awa.ready_entries ATTACH PARTITION awa.ready_entries_00 FOR VALUES IN ('0');

-- One of 16 that differ in their numbers only.
-- Name: ready_tombstones_00; Type: TABLE ATTACH; Schema: awa; Owner: -

ALTER TABLE ONLY awa.ready_tombstones ATTACH PARTITION awa.ready_tombstones_00 FOR VALUES IN ('0');

-- One of 16 that differ in their numbers only.
-- Name: receipt_completion_batches_00; Type: TABLE ATTACH; Schema: awa; Owner: -

ALTER TABLE ONLY awa.receipt_completion_batches ATTACH PARTITION awa.receipt_completion_batches_00 FOR VALUES IN ('0');

-- Name: deferred_jobs deferred_jobs_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.deferred_jobs
    ADD CONSTRAINT deferred_jobs_pkey PRIMARY KEY (job_id);

-- Name: done_entries done_entries_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.done_entries
    ADD CONSTRAINT done_entries_pkey PRIMARY KEY (job_id);

-- Name: job_unique_claims idx_awa_jobs_unique; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.job_unique_claims
    ADD CONSTRAINT idx_awa_jobs_unique PRIMARY KEY (unique_key);

-- Name: incarnations incarnations_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.incarnations
    ADD CONSTRAINT incarnations_pkey PRIMARY KEY (incarnation);

-- Name: lane_totals lane_totals_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.lane_totals
    ADD CONSTRAINT lane_totals_pkey PRIMARY KEY (lane_id, state);

-- Name: lanes lanes_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (lane_id);

-- Name: lanes lanes_queue_priority_key; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.lanes
    ADD CONSTRAINT lanes_queue_priority_key UNIQUE (queue, priority);

-- Name: leader leader_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.leader
    ADD CONSTRAINT leader_pkey PRIMARY KEY (duty);

-- Name: leases leases_claim_id_lane_seq_key; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.leases
    ADD CONSTRAINT leases_claim_id_lane_seq_key UNIQUE (claim_id, lane_seq);

-- Name: leases leases_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (job_id);

-- Name: queue_meta queue_meta_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.queue_meta
    ADD CONSTRAINT queue_meta_pkey PRIMARY KEY (queue);

-- Name: queue_meta queue_meta_queue_id_key; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.queue_meta
    ADD CONSTRAINT queue_meta_queue_id_key UNIQUE (queue_id);

-- Name: receipt_completion_batches receipt_outputs_aligned; Type: CHECK CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE awa.receipt_completion_batches
    ADD CONSTRAINT receipt_outputs_aligned CHECK (((outputs IS NULL) OR (cardinality(outputs) = completed_count))) NOT VALID;

-- Name: ring_rotations ring_rotations_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.ring_rotations
    ADD CONSTRAINT ring_rotations_pkey PRIMARY KEY (generation);

-- Name: runtime_instances runtime_instances_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.runtime_instances
    ADD CONSTRAINT runtime_instances_pkey PRIMARY KEY (worker_id);

-- Name: schema_version schema_version_pkey; Type: CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);

-- Name: claim_batches_cursor; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX claim_batches_cursor ON ONLY awa.claim_batches USING btree (lane_id, next_seq, claim_id);

-- One of 16 that differ in their numbers only.
-- Name: claim_batches_00_lane_id_next_seq_claim_id_idx; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX claim_batches_00_lane_id_next_seq_claim_id_idx ON awa.claim_batches_00 USING btree (lane_id, next_seq, claim_id);

-- Name: claim_batches_worker; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX claim_batches_worker ON ONLY awa.claim_batches USING btree (worker_id, claim_id);

-- One of 16 that differ in their numbers only.
-- Name: claim_batches_00_worker_id_claim_id_idx; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX claim_batches_00_worker_id_claim_id_idx ON awa.claim_batches_00 USING btree (worker_id, claim_id);

-- Name: claim_closures_claim; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX claim_closures_claim ON ONLY awa.claim_closures USING btree (claim_id);

-- One of 16 that differ in their numbers only.
-- Name: claim_closures_00_claim_id_idx; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX claim_closures_00_claim_id_idx ON awa.claim_closures_00 USING btree (claim_id);

-- Name: completion_tombstones_claim; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX completion_tombstones_claim ON ONLY awa.completion_tombstones USING btree (claim_id);

-- One of 16 that differ in their numbers only.
-- Name: completion_tombstones_00_claim_id_idx; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX completion_tombstones_00_claim_id_idx ON awa.completion_tombstones_00 USING btree (claim_id);

-- Name: deferred_jobs_due; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX deferred_jobs_due ON awa.deferred_jobs USING btree (lane_id, run_at, job_id);

-- Name: deferred_jobs_set_aside; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX deferred_jobs_set_aside ON awa.deferred_jobs USING btree (lane_id) WHERE (reason = 'unknown_kind'::text);

-- Name: deferred_jobs_unknown; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX deferred_jobs_unknown ON awa.deferred_jobs USING btree (kind) WHERE (reason = 'unknown_kind'::text);

-- Name: done_entries_final; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX done_entries_final ON awa.done_entries USING btree (state, finalized_at);

-- Name: job_unique_claims_job; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX job_unique_claims_job ON awa.job_unique_claims USING btree (job_id);

-- Name: ready_entries_returned; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX ready_entries_returned ON ONLY awa.ready_entries USING btree (job_id) WHERE (job_id <> ((lane_seq * 1024) + lane_id));

-- One of 16 that differ in their numbers only.
-- Name: ready_entries_00_job_id_idx; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX ready_entries_00_job_id_idx ON awa.ready_entries_00 USING btree (job_id) WHERE (job_id <> ((lane_seq * 1024) + lane_id));

-- Name: ready_entries_unique; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX ready_entries_unique ON ONLY awa.ready_entries USING btree (lane_id, lane_seq) WHERE (unique_key IS NOT NULL);

-- One of 16 that differ in their numbers only.
-- Name: ready_entries_00_lane_id_lane_seq_idx; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX ready_entries_00_lane_id_lane_seq_idx ON awa.ready_entries_00 USING btree (lane_id, lane_seq) WHERE (unique_key IS NOT NULL);

-- One of 16 that differ in their numbers only.
-- Name: ready_entries_00_place; Type: INDEX; Schema: awa; Owner: -

CREATE UNIQUE INDEX ready_entries_00_place ON awa.ready_entries_00 USING btree (lane_id, lane_seq);

-- Name: ready_tombstones_lane; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX ready_tombstones_lane ON ONLY awa.ready_tombstones USING btree (lane_id, last_seq);

-- One of 16 that differ in their numbers only.
-- Name: ready_tombstones_00_lane_id_last_seq_idx; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX ready_tombstones_00_lane_id_last_seq_idx ON awa.ready_tombstones_00 USING btree (lane_id, last_seq);

-- Name: receipt_completion_batches_claim; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX receipt_completion_batches_claim ON ONLY awa.receipt_completion_batches USING btree (claim_id);

-- One of 16 that differ in their numbers only.
-- Name: receipt_completion_batches_00_claim_id_idx; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX receipt_completion_batches_00_claim_id_idx ON awa.receipt_completion_batches_00 USING btree (claim_id);

-- Name: runtime_instances_pods; Type: INDEX; Schema: awa; Owner: -

CREATE INDEX runtime_instances_pods ON awa.runtime_instances USING btree (pod_owner) WHERE ((dead_at IS NULL) AND (pod_owner <> ''::text));

-- One of 16 that differ in their numbers only.
-- Name: claim_batches_00_lane_id_next_seq_claim_id_idx; Type: INDEX ATTACH; Schema: awa; Owner: -

ALTER INDEX awa.claim_batches_cursor ATTACH PARTITION awa.claim_batches_00_lane_id_next_seq_claim_id_idx;

-- One of 16 that differ in their numbers only.
-- Name: claim_batches_00_worker_id_claim_id_idx; Type: INDEX ATTACH; Schema: awa; Owner: -

ALTER INDEX awa.claim_batches_worker ATTACH PARTITION awa.claim_batches_00_worker_id_claim_id_idx;

-- One of 16 that differ in their numbers only.
-- Name: claim_closures_00_claim_id_idx; Type: INDEX ATTACH; Schema: awa; Owner: -

ALTER INDEX awa.claim_closures_claim ATTACH PARTITION awa.claim_closures_00_claim_id_idx;

-- One of 16 that differ in their numbers only.
-- Name: completion_tombstones_00_claim_id_idx; Type: INDEX ATTACH; Schema: awa; Owner: -

ALTER INDEX awa.completion_tombstones_claim ATTACH PARTITION awa.completion_tombstones_00_claim_id_idx;

-- One of 16 that differ in their numbers only.
-- Name: ready_entries_00_job_id_idx; Type: INDEX ATTACH; Schema: awa; Owner: -

ALTER INDEX awa.ready_entries_returned ATTACH PARTITION awa.ready_entries_00_job_id_idx;

-- One of 16 that differ in their numbers only.
-- Name: ready_entries_00_lane_id_lane_seq_idx; Type: INDEX ATTACH; Schema: awa; Owner: -

ALTER INDEX awa.ready_entries_unique ATTACH PARTITION awa.ready_entries_00_lane_id_lane_seq_idx;

-- One of 16 that differ in their numbers only.
-- Name: ready_tombstones_00_lane_id_last_seq_idx; Type: INDEX ATTACH; Schema: awa; Owner: -

ALTER INDEX awa.ready_tombstones_lane ATTACH PARTITION awa.ready_tombstones_00_lane_id_last_seq_idx;

-- One of 16 that differ in their numbers only.
-- Name: receipt_completion_batches_00_claim_id_idx; Type: INDEX ATTACH; Schema: awa; Owner: -

ALTER INDEX awa.receipt_completion_batches_claim ATTACH PARTITION awa.receipt_completion_batches_00_claim_id_idx;

-- Name: lanes lanes_queue_fkey; Type: FK CONSTRAINT; Schema: awa; Owner: -

ALTER TABLE ONLY awa.lanes
    ADD CONSTRAINT lanes_queue_fkey FOREIGN KEY (queue) REFERENCES awa.queue_meta(queue);

-- Name: FUNCTION account_pruned(p_slot smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.account_pruned(p_slot smallint) FROM PUBLIC;

-- Name: FUNCTION add_holes(p_look awa.lane_look, p_bound xid8); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.add_holes(p_look awa.lane_look, p_bound xid8) FROM PUBLIC;

-- Name: FUNCTION aged_priority(p_priority smallint, p_head timestamp with time zone, p_interval double precision); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.aged_priority(p_priority smallint, p_head timestamp with time zone, p_interval double precision) FROM PUBLIC;

-- Name: FUNCTION arrive_v1(p_anyway boolean, OUT incarnation integer, OUT moved boolean, OUT raised integer, OUT holes bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.arrive_v1(p_anyway boolean, OUT incarnation integer, OUT moved boolean, OUT raised integer, OUT holes bigint) FROM PUBLIC;

-- Name: FUNCTION as_ranges(p_bodies awa.claimed); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.as_ranges(p_bodies awa.claimed) FROM PUBLIC;

-- Name: FUNCTION available_about(p_lane integer, p_sequence regclass, p_exact bigint, OUT waiting bigint, OUT oldest timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.available_about(p_lane integer, p_sequence regclass, p_exact bigint, OUT waiting bigint, OUT oldest timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION available_bodies(p_lane integer, p_kind text, p_limit bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.available_bodies(p_lane integer, p_kind text, p_limit bigint) FROM PUBLIC;

-- Name: FUNCTION available_in(p_lane integer, p_limit bigint, OUT waiting bigint, OUT oldest timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.available_in(p_lane integer, p_limit bigint, OUT waiting bigint, OUT oldest timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION backoff(p_attempt integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.backoff(p_attempt integer) FROM PUBLIC;

-- Name: FUNCTION bind_holes(p_bound xid8); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.bind_holes(p_bound xid8) FROM PUBLIC;

-- Name: FUNCTION bodies_in(p_lane integer, p_slots smallint[], p_holes int8multirange, p_from bigint, p_tombs int8multirange, p_limit integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.bodies_in(p_lane integer, p_slots smallint[], p_holes int8multirange, p_from bigint, p_tombs int8multirange, p_limit integer) FROM PUBLIC;

-- Name: FUNCTION call_election(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.call_election() FROM PUBLIC;

-- Name: FUNCTION cancel_v1(p_id bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.cancel_v1(p_id bigint) FROM PUBLIC;

-- Name: FUNCTION carry_cursors(p_slot smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.carry_cursors(p_slot smallint) FROM PUBLIC;

-- Name: FUNCTION check_batch(p_kinds text[], p_count integer, p_max_attempts smallint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.check_batch(p_kinds text[], p_count integer, p_max_attempts smallint[]) FROM PUBLIC;

-- Name: FUNCTION check_lane(p_queue text, p_priority smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.check_lane(p_queue text, p_priority smallint) FROM PUBLIC;

-- Name: FUNCTION check_sequences(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.check_sequences() FROM PUBLIC;

-- Name: FUNCTION claim_at(p_slot smallint, p_lane integer, p_seq bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.claim_at(p_slot smallint, p_lane integer, p_seq bigint) FROM PUBLIC;

-- Name: FUNCTION claim_v1(p_worker bigint, p_token bigint, p_queues text[], p_limits integer[], p_deadlines double precision[], p_agings double precision[], p_kinds text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.claim_v1(p_worker bigint, p_token bigint, p_queues text[], p_limits integer[], p_deadlines double precision[], p_agings double precision[], p_kinds text[]) FROM PUBLIC;

-- Name: FUNCTION claiming_workers(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.claiming_workers() FROM PUBLIC;

-- Name: FUNCTION closed_as_v1(p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_worker bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.closed_as_v1(p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_worker bigint) FROM PUBLIC;

-- Name: FUNCTION cluster_now(OUT system_identifier bigint, OUT timeline integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.cluster_now(OUT system_identifier bigint, OUT timeline integer) FROM PUBLIC;

-- Name: FUNCTION copy_grants(p_from text, p_to text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.copy_grants(p_from text, p_to text) FROM PUBLIC;

-- Name: FUNCTION count_queues(p_queue text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.count_queues(p_queue text) FROM PUBLIC;

-- Name: FUNCTION current_slot(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.current_slot() FROM PUBLIC;

-- Name: FUNCTION cursor_of(p_lane integer, p_current smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.cursor_of(p_lane integer, p_current smallint) FROM PUBLIC;

-- Name: FUNCTION decide(p_move awa.moving, p_end awa.ending, p_now timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.decide(p_move awa.moving, p_end awa.ending, p_now timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION defer_unknown(p_lane integer, p_slot smallint, p_seqs bigint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.defer_unknown(p_lane integer, p_slot smallint, p_seqs bigint[]) FROM PUBLIC;

-- Name: FUNCTION draw(p_sequence regclass, p_count integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.draw(p_sequence regclass, p_count integer) FROM PUBLIC;

-- Name: FUNCTION end_attempts(p_ends awa.ending[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.end_attempts(p_ends awa.ending[]) FROM PUBLIC;

-- Name: FUNCTION end_leases(p_worker bigint, p_error text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.end_leases(p_worker bigint, p_error text) FROM PUBLIC;

-- Name: FUNCTION end_open(p_claims awa.open_claim[], p_started_claims bigint[], p_started_seqs bigint[], p_error text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.end_open(p_claims awa.open_claim[], p_started_claims bigint[], p_started_seqs bigint[], p_error text) FROM PUBLIC;

-- Name: FUNCTION ending_of(p_claim awa.open_claim, p_seq bigint, p_outcome text, p_delay double precision, p_error text, p_output text, p_progress text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.ending_of(p_claim awa.open_claim, p_seq bigint, p_outcome text, p_delay double precision, p_error text, p_output text, p_progress text) FROM PUBLIC;

-- Name: FUNCTION enqueue_mixed(p_lane integer, p_sequence regclass, p_queue_id integer, p_kinds text[], p_args jsonb[], p_run_at timestamp with time zone[], p_max_attempts smallint[], p_payloads jsonb[], p_unique_keys bytea[], p_unique_masks smallint[], p_skip boolean); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.enqueue_mixed(p_lane integer, p_sequence regclass, p_queue_id integer, p_kinds text[], p_args jsonb[], p_run_at timestamp with time zone[], p_max_attempts smallint[], p_payloads jsonb[], p_unique_keys bytea[], p_unique_masks smallint[], p_skip boolean) FROM PUBLIC;

-- Name: FUNCTION enqueue_v1(p_queue text, p_priority smallint, p_kinds text[], p_args jsonb[], p_run_at timestamp with time zone[], p_max_attempts smallint[], p_payloads jsonb[], p_unique_keys bytea[], p_unique_masks smallint[], p_skip_duplicates boolean); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.enqueue_v1(p_queue text, p_priority smallint, p_kinds text[], p_args jsonb[], p_run_at timestamp with time zone[], p_max_attempts smallint[], p_payloads jsonb[], p_unique_keys bytea[], p_unique_masks smallint[], p_skip_duplicates boolean) FROM PUBLIC;

-- Name: FUNCTION entomb(p_lane integer, p_slot smallint, p_seqs bigint[], p_reason text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.entomb(p_lane integer, p_slot smallint, p_seqs bigint[], p_reason text) FROM PUBLIC;

-- Name: FUNCTION evacuate_v1(p_older_than interval, p_limit integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.evacuate_v1(p_older_than interval, p_limit integer) FROM PUBLIC;

-- Name: FUNCTION find_job(p_id bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.find_job(p_id bigint) FROM PUBLIC;

-- Name: FUNCTION finish_ends(p_claims awa.open_claim[], p_of integer[], p_seqs bigint[], p_outcomes text[], p_delays double precision[], p_errors text[], p_outputs text[], p_progress text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.finish_ends(p_claims awa.open_claim[], p_of integer[], p_seqs bigint[], p_outcomes text[], p_delays double precision[], p_errors text[], p_outputs text[], p_progress text[]) FROM PUBLIC;

-- Name: FUNCTION finish_leases(p_claim bigint, p_token bigint, p_items int8multirange, p_end_seqs bigint[], p_end_of integer[], p_at integer, p_outcomes text[], p_delays double precision[], p_errors text[], p_outputs text[], p_progress text[], p_output_seqs bigint[], p_done_outputs text[], OUT left_over int8multirange); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.finish_leases(p_claim bigint, p_token bigint, p_items int8multirange, p_end_seqs bigint[], p_end_of integer[], p_at integer, p_outcomes text[], p_delays double precision[], p_errors text[], p_outputs text[], p_progress text[], p_output_seqs bigint[], p_done_outputs text[], OUT left_over int8multirange) FROM PUBLIC;

-- Name: FUNCTION finish_rest(p_open awa.open_claim[], p_left bigint, p_unique boolean, p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[], p_output_seqs bigint[], p_done_outputs text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.finish_rest(p_open awa.open_claim[], p_left bigint, p_unique boolean, p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[], p_output_seqs bigint[], p_done_outputs text[]) FROM PUBLIC;

-- Name: FUNCTION finish_v1(p_worker bigint, p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.finish_v1(p_worker bigint, p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[]) FROM PUBLIC;

-- Name: FUNCTION finish_v2(p_worker bigint, p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[], p_done_batch integer[], p_output_of integer[], p_output_seqs bigint[], p_done_outputs text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.finish_v2(p_worker bigint, p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[], p_end_progress text[], p_done_batch integer[], p_output_of integer[], p_output_seqs bigint[], p_done_outputs text[]) FROM PUBLIC;

-- Name: FUNCTION fit_of(p_system_identifier bigint, p_mark bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.fit_of(p_system_identifier bigint, p_mark bigint) FROM PUBLIC;

-- Name: FUNCTION get_job_v1(p_id bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.get_job_v1(p_id bigint) FROM PUBLIC;

-- Name: FUNCTION get_job_v2(p_id bigint, OUT job awa.job_row, OUT output json); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.get_job_v2(p_id bigint, OUT job awa.job_row, OUT output json) FROM PUBLIC;

-- Name: FUNCTION give_back_v1(p_worker bigint, p_token bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.give_back_v1(p_worker bigint, p_token bigint) FROM PUBLIC;

-- Name: FUNCTION grant_v1(p_role text, p_level text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.grant_v1(p_role text, p_level text) FROM PUBLIC;

-- Name: FUNCTION grow_lane_pool(p_size integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.grow_lane_pool(p_size integer) FROM PUBLIC;

-- Name: FUNCTION hand_back_unknown(p_claim bigint, p_body awa.claimed, p_kinds text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.hand_back_unknown(p_claim bigint, p_body awa.claimed, p_kinds text[]) FROM PUBLIC;

-- Name: FUNCTION hand_on(p_worker awa.runtime_instances); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.hand_on(p_worker awa.runtime_instances) FROM PUBLIC;

-- Name: FUNCTION heartbeat_v1(p_worker bigint, p_held bigint[], p_started_slots smallint[], p_started_claims bigint[], p_started_seqs bigint[], p_grace interval, OUT alive boolean, OUT given_back integer, OUT ended_claims bigint[], OUT ended_seqs bigint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.heartbeat_v1(p_worker bigint, p_held bigint[], p_started_slots smallint[], p_started_claims bigint[], p_started_seqs bigint[], p_grace interval, OUT alive boolean, OUT given_back integer, OUT ended_claims bigint[], OUT ended_seqs bigint[]) FROM PUBLIC;

-- Name: FUNCTION history_since(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.history_since() FROM PUBLIC;

-- Name: FUNCTION holder_of(p_slot smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.holder_of(p_slot smallint) FROM PUBLIC;

-- Name: FUNCTION in_hand(p_workers bigint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.in_hand(p_workers bigint[]) FROM PUBLIC;

-- Name: FUNCTION job_to_move(p_job awa.job_row, p_state awa.job_state); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.job_to_move(p_job awa.job_row, p_state awa.job_state) FROM PUBLIC;

-- Name: FUNCTION jobs_in(p_state awa.job_state, p_kind text, p_queue text, p_limit integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.jobs_in(p_state awa.job_state, p_kind text, p_queue text, p_limit integer) FROM PUBLIC;

-- Name: FUNCTION keep_outputs(p_jobs bigint[], p_outputs text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.keep_outputs(p_jobs bigint[], p_outputs text[]) FROM PUBLIC;

-- Name: FUNCTION lane_head(p_lane integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.lane_head(p_lane integer) FROM PUBLIC;

-- Name: FUNCTION lane_of(p_queue text, p_priority smallint, OUT lane_id integer, OUT sequence regclass, OUT queue_id integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.lane_of(p_queue text, p_priority smallint, OUT lane_id integer, OUT sequence regclass, OUT queue_id integer) FROM PUBLIC;

-- Name: FUNCTION lead_v1(p_duty text, p_worker bigint, p_lease interval); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.lead_v1(p_duty text, p_worker bigint, p_lease interval) FROM PUBLIC;

-- Name: FUNCTION leave_holes(p_lane integer, p_holes int8multirange, p_bound xid8); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.leave_holes(p_lane integer, p_holes int8multirange, p_bound xid8) FROM PUBLIC;

-- Name: FUNCTION list_jobs_v1(p_state awa.job_state, p_kind text, p_queue text, p_limit integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.list_jobs_v1(p_state awa.job_state, p_kind text, p_queue text, p_limit integer) FROM PUBLIC;

-- Name: FUNCTION live_slots(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.live_slots() FROM PUBLIC;

-- Name: FUNCTION look(p_lane integer, p_limit integer, p_kinds text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.look(p_lane integer, p_limit integer, p_kinds text[]) FROM PUBLIC;

-- Name: FUNCTION mark_dead_v1(p_worker bigint, p_reason text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.mark_dead_v1(p_worker bigint, p_reason text) FROM PUBLIC;

-- Name: FUNCTION mask_has(p_mask smallint, p_state awa.job_state); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.mask_has(p_mask smallint, p_state awa.job_state) FROM PUBLIC;

-- Name: FUNCTION move_completed_keys(p_claims awa.open_claim[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.move_completed_keys(p_claims awa.open_claim[]) FROM PUBLIC;

-- Name: FUNCTION move_keys(p_moves awa.moving[], p_from awa.job_state, p_now timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.move_keys(p_moves awa.moving[], p_from awa.job_state, p_now timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION move_keys_of_claim(p_claim bigint, p_body awa.claimed); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.move_keys_of_claim(p_claim bigint, p_body awa.claimed) FROM PUBLIC;

-- Name: FUNCTION move_ready(p_lane integer, p_slot smallint, p_seqs bigint[], p_reason text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.move_ready(p_lane integer, p_slot smallint, p_seqs bigint[], p_reason text) FROM PUBLIC;

-- Name: FUNCTION moving_lease(p_lease awa.leases); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.moving_lease(p_lease awa.leases) FROM PUBLIC;

-- Name: FUNCTION none_of(p_bodies awa.claimed[], p_kinds text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.none_of(p_bodies awa.claimed[], p_kinds text[]) FROM PUBLIC;

-- Name: FUNCTION numbers_in_use(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.numbers_in_use() FROM PUBLIC;

-- Name: FUNCTION oldest_transactions_v1(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.oldest_transactions_v1() FROM PUBLIC;

-- Name: FUNCTION open_claims(p_slots smallint[], p_worker bigint, p_claims bigint[], p_tokens bigint[], p_of integer[], p_lo bigint[], p_hi bigint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.open_claims(p_slots smallint[], p_worker bigint, p_claims bigint[], p_tokens bigint[], p_of integer[], p_lo bigint[], p_hi bigint[]) FROM PUBLIC;

-- Name: FUNCTION open_items(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.open_items() FROM PUBLIC;

-- Name: FUNCTION output_of(p_job awa.job_row); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.output_of(p_job awa.job_row) FROM PUBLIC;

-- Name: FUNCTION overdue(p_worker bigint, p_above bigint, p_now timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.overdue(p_worker bigint, p_above bigint, p_now timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION overdue_leases(p_now timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.overdue_leases(p_now timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION pause_queue_v1(p_queue text, p_by text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.pause_queue_v1(p_queue text, p_by text) FROM PUBLIC;

-- Name: FUNCTION place(p_moves awa.moving[], p_now timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.place(p_moves awa.moving[], p_now timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION pod_loads_v1(p_owner text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.pod_loads_v1(p_owner text) FROM PUBLIC;

-- Name: FUNCTION promote_keys(p_jobs awa.deferred_jobs[], p_now timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.promote_keys(p_jobs awa.deferred_jobs[], p_now timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION promote_lane(p_lane integer, p_sequence regclass, p_queue_id integer, p_now timestamp with time zone, p_limit integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.promote_lane(p_lane integer, p_sequence regclass, p_queue_id integer, p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

-- Name: FUNCTION promote_v1(p_limit integer, OUT promoted integer, OUT next_due timestamp with time zone, OUT due_in_seconds double precision, OUT has_holes boolean, OUT ended_below bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.promote_v1(p_limit integer, OUT promoted integer, OUT next_due timestamp with time zone, OUT due_in_seconds double precision, OUT has_holes boolean, OUT ended_below bigint) FROM PUBLIC;

-- Name: FUNCTION prune_v1(p_retention interval, p_max_bytes bigint, OUT outcome text, OUT pruned_slot smallint, OUT pruned_jobs bigint, OUT before_its_time boolean, OUT horizon timestamp with time zone, OUT horizon_seconds double precision, OUT blocker text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.prune_v1(p_retention interval, p_max_bytes bigint, OUT outcome text, OUT pruned_slot smallint, OUT pruned_jobs bigint, OUT before_its_time boolean, OUT horizon timestamp with time zone, OUT horizon_seconds double precision, OUT blocker text) FROM PUBLIC;

-- Name: FUNCTION queue_counts_v1(p_queue text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.queue_counts_v1(p_queue text) FROM PUBLIC;

-- Name: FUNCTION queue_ids_v1(p_queues text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.queue_ids_v1(p_queues text[]) FROM PUBLIC;

-- Name: FUNCTION raise_sequences(p_fit bigint, p_anyway boolean); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.raise_sequences(p_fit bigint, p_anyway boolean) FROM PUBLIC;

-- Name: FUNCTION rank_in(p_items int8multirange, p_seq bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.rank_in(p_items int8multirange, p_seq bigint) FROM PUBLIC;

-- Name: FUNCTION register_lane_v1(p_queue text, p_priority smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.register_lane_v1(p_queue text, p_priority smallint) FROM PUBLIC;

-- Name: FUNCTION register_worker_v1(p_name text, p_version text, p_host text, p_pid integer, p_queues text[], p_kinds text[], p_stale_after interval, p_pod_owner text, p_pod_name text, p_pod_uid text, p_completed_for interval[], p_failed_for interval[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.register_worker_v1(p_name text, p_version text, p_host text, p_pid integer, p_queues text[], p_kinds text[], p_stale_after interval, p_pod_owner text, p_pod_name text, p_pod_uid text, p_completed_for interval[], p_failed_for interval[]) FROM PUBLIC;

-- Name: FUNCTION require_own_transaction(p_what text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.require_own_transaction(p_what text) FROM PUBLIC;

-- Name: FUNCTION require_settled(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.require_settled() FROM PUBLIC;

-- Name: FUNCTION require_short_transaction(p_what text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.require_short_transaction(p_what text) FROM PUBLIC;

-- Name: FUNCTION rescue_lost_v1(p_worker bigint, p_reason text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.rescue_lost_v1(p_worker bigint, p_reason text) FROM PUBLIC;

-- Name: FUNCTION rescue_overdue_v1(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.rescue_overdue_v1() FROM PUBLIC;

-- Name: FUNCTION rescue_v1(p_declare_silent_dead boolean); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.rescue_v1(p_declare_silent_dead boolean) FROM PUBLIC;

-- Name: FUNCTION reserve_v1(p_queue text, p_priority smallint, p_count integer, OUT lane_id integer, OUT slot smallint, OUT created_at timestamp with time zone, OUT seqs bigint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.reserve_v1(p_queue text, p_priority smallint, p_count integer, OUT lane_id integer, OUT slot smallint, OUT created_at timestamp with time zone, OUT seqs bigint[]) FROM PUBLIC;

-- Name: FUNCTION resign_v1(p_duty text, p_worker bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.resign_v1(p_duty text, p_worker bigint) FROM PUBLIC;

-- Name: FUNCTION resume_queue_v1(p_queue text); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.resume_queue_v1(p_queue text) FROM PUBLIC;

-- Name: FUNCTION retire_v1(p_completed interval, p_failed interval, p_limit integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.retire_v1(p_completed interval, p_failed interval, p_limit integer) FROM PUBLIC;

-- Name: FUNCTION retry_v1(p_id bigint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.retry_v1(p_id bigint) FROM PUBLIC;

-- Name: FUNCTION rfc3339(p_at timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.rfc3339(p_at timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION ring_job(p_body awa.ready_entries); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.ring_job(p_body awa.ready_entries) FROM PUBLIC;

-- Name: FUNCTION rotate_v1(p_every interval, p_max_bytes bigint, p_force boolean); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.rotate_v1(p_every interval, p_max_bytes bigint, p_force boolean) FROM PUBLIC;

-- Name: FUNCTION served_kinds(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.served_kinds() FROM PUBLIC;

-- Name: FUNCTION settle_holes_v1(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.settle_holes_v1() FROM PUBLIC;

-- Name: FUNCTION settle_v1(p_worker bigint, p_reason text, p_started_claims bigint[], p_started_seqs bigint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.settle_v1(p_worker bigint, p_reason text, p_started_claims bigint[], p_started_seqs bigint[]) FROM PUBLIC;

-- Name: FUNCTION signals_v1(p_queues text[], p_lead interval); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.signals_v1(p_queues text[], p_lead interval) FROM PUBLIC;

-- Name: FUNCTION size_of(p_items int8multirange); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.size_of(p_items int8multirange) FROM PUBLIC;

-- Name: FUNCTION slot_bytes(p_slot smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.slot_bytes(p_slot smallint) FROM PUBLIC;

-- Name: FUNCTION slot_has_pages(p_slot smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.slot_has_pages(p_slot smallint) FROM PUBLIC;

-- Name: FUNCTION slot_open(p_slot smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.slot_open(p_slot smallint) FROM PUBLIC;

-- Name: FUNCTION slot_tables(p_slot smallint); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.slot_tables(p_slot smallint) FROM PUBLIC;

-- Name: FUNCTION stale_items(p_claims awa.open_claim[], p_of integer[], p_lo bigint[], p_hi bigint[], p_end_of integer[], p_end_seqs bigint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.stale_items(p_claims awa.open_claim[], p_of integer[], p_lo bigint[], p_hi bigint[], p_end_of integer[], p_end_seqs bigint[]) FROM PUBLIC;

-- Name: FUNCTION take_keys(p_ids bigint[], p_keys bytea[], p_masks smallint[], p_states awa.job_state[], p_skip boolean); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.take_keys(p_ids bigint[], p_keys bytea[], p_masks smallint[], p_states awa.job_state[], p_skip boolean) FROM PUBLIC;

-- Name: FUNCTION unknown_ahead(p_lane integer, p_slots smallint[], p_from bigint, p_kinds text[], OUT passed_to bigint, OUT places bigint, OUT is_end boolean); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.unknown_ahead(p_lane integer, p_slots smallint[], p_from bigint, p_kinds text[], OUT passed_to bigint, OUT places bigint, OUT is_end boolean) FROM PUBLIC;

-- Name: FUNCTION unknown_kinds_v1(); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.unknown_kinds_v1() FROM PUBLIC;

-- Name: FUNCTION unsettled(p_worker bigint, p_above bigint, p_until timestamp with time zone, p_limit integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.unsettled(p_worker bigint, p_above bigint, p_until timestamp with time zone, p_limit integer) FROM PUBLIC;

-- Name: FUNCTION wake(p_queue_id integer); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.wake(p_queue_id integer) FROM PUBLIC;

-- Name: FUNCTION wake_leader(p_due timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.wake_leader(p_due timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION with_error(p_payload jsonb, p_error text, p_attempt integer, p_terminal boolean, p_output text, p_at timestamp with time zone); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.with_error(p_payload jsonb, p_error text, p_attempt integer, p_terminal boolean, p_output text, p_at timestamp with time zone) FROM PUBLIC;

-- Name: FUNCTION without_places(p_body awa.claimed, p_seqs bigint[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.without_places(p_body awa.claimed, p_seqs bigint[]) FROM PUBLIC;

-- Name: FUNCTION workers_v1(p_owners text[]); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.workers_v1(p_owners text[]) FROM PUBLIC;

-- Name: FUNCTION write_claims(p_worker bigint, p_token bigint, p_kinds text[], p_looks awa.lane_look[], p_bound xid8); Type: ACL; Schema: awa; Owner: -

REVOKE ALL ON FUNCTION awa.write_claims(p_worker bigint, p_token bigint, p_kinds text[], p_looks awa.lane_look[], p_bound xid8) FROM PUBLIC;
