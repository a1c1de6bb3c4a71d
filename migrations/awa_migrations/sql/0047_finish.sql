-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- Finish: every end of an attempt. The guard is (claim, token, item still open), read in a statement after the claim rows
-- are locked in claim order. Closure evidence and its consequence are written in one transaction. Successes stay
-- in the ring as one row per claim; everything else is a move of the body to another place: end_attempts.

-- An attempt's end as asked for. outcome: retry, retry_after, snooze, cancel, fail, rescue, give_back, unknown_kind,
-- admin_cancel, evacuate.
create type {schema}.ending as (
    slot smallint, claim_id bigint, lane_id integer, lane_seq bigint, outcome text, delay_seconds double precision,
    error text, error_output text, progress text, claimed_at timestamptz, deadline_at timestamptz, token bigint,
    worker_id bigint);

-- A body on its way from a claim to another place. attempt does not count the attempt that ends here.
create type {schema}.moving as (
    slot smallint, claim_id bigint, lane_id integer, lane_seq bigint, job_id bigint, kind text, args jsonb,
    run_at timestamptz, created_at timestamptz, claimed_at timestamptz, deadline_at timestamptz, token bigint,
    worker_id bigint, attempt smallint, max_attempts smallint, unique_key bytea, unique_mask smallint, payload jsonb,
    outcome text, state {schema}.job_state, reason text, due_at timestamptz, attempt_after smallint);

create function {schema}.backoff(p_attempt integer) returns interval
language plpgsql volatile
as $$
begin
    return make_interval(secs => least(86400, power(2, least(p_attempt, 20)) * (1 + random() * 0.25)));
end $$;

create function {schema}.rfc3339(p_at timestamptz) returns text
language plpgsql stable
as $$
begin
    return to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
end $$;

-- Appends an error entry. Of all entries only the newest that recorded an output keeps one.
create function {schema}.with_error(p_payload jsonb, p_error text, p_attempt integer, p_terminal boolean,
                                    p_output text, p_at timestamptz) returns jsonb
language plpgsql stable
as $$
declare
    v_errors jsonb := coalesce(p_payload -> 'errors', '[]');
    v_entry jsonb := jsonb_build_object('error', p_error, 'attempt', p_attempt, 'at', {schema}.rfc3339(p_at));
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

-- Decides where an attempt that did not succeed goes, and what its history says.
create function {schema}.decide(p_move {schema}.moving, p_end {schema}.ending, p_now timestamptz) returns {schema}.moving
language plpgsql volatile
as $$
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
            p_move.due_at := p_now + coalesce(make_interval(secs => p_end.delay_seconds), {schema}.backoff(v_try));
            v_error := case p_end.outcome when 'retry_after' then
                case when p_end.error_output is not null then 'retry requested after ' || p_end.error end else v_error end;
        end if;
    end case;
    if v_error is not null then
        p_move.payload := {schema}.with_error(p_move.payload, v_error, v_try, v_terminal, p_end.error_output, p_now);
    end if;
    if p_move.payload = '{}' then
        p_move.payload := null;
    end if;
    return p_move;
end $$;

-- Moves unique keys with their jobs from one state to the next. A job that has to take its key back and finds it taken
-- ends as cancelled; it never stops its neighbours.
create function {schema}.move_keys(p_moves {schema}.moving[], p_from {schema}.job_state, p_now timestamptz)
returns {schema}.moving[]
language plpgsql volatile
as $$
declare
    v_move {schema}.moving;
    v_moves {schema}.moving[] := '{}';
begin
    foreach v_move in array p_moves loop
        if v_move.unique_key is not null then
            if {schema}.mask_has(v_move.unique_mask, v_move.state) then
                if not {schema}.mask_has(v_move.unique_mask, p_from) then
                    insert into {schema}.job_unique_claims (unique_key, job_id)
                    values (v_move.unique_key, v_move.job_id) on conflict do nothing;
                    -- Who has completed has completed, whoever has the key.
                    if v_move.state <> 'completed' and not exists (
                            select from {schema}.job_unique_claims
                             where unique_key = v_move.unique_key and job_id = v_move.job_id) then
                        v_move.payload := {schema}.with_error(v_move.payload,
                            case when v_move.outcome = 'rescued' then 'rescued' else 'rescheduled' end
                            || ' as duplicate: unique claim held by a newer job', v_move.attempt_after, true, null, p_now);
                        v_move.state := 'cancelled';
                        v_move.outcome := 'cancelled';
                    end if;
                end if;
            else
                delete from {schema}.job_unique_claims
                 where unique_key = v_move.unique_key and job_id = v_move.job_id;
            end if;
        end if;
        v_moves := v_moves || v_move;
    end loop;
    return v_moves;
end $$;

-- Puts moved bodies where they belong next. Takes the transaction id before it draws numbers, like every producer.
create function {schema}.place(p_moves {schema}.moving[], p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
    v_lane record;
begin
    perform pg_current_xact_id();
    insert into {schema}.deferred_jobs (job_id, run_at, created_at, finalized_at, run_lease, lane_id, attempt, max_attempts,
                                        state, reason, kind, args, unique_key, unique_mask, payload)
    select job_id, due_at, created_at, case when state = 'retryable' then p_now end, claim_id, lane_id, attempt_after,
           max_attempts, state, reason, kind, args, unique_key, unique_mask, payload
      from unnest(p_moves) where state in ('scheduled', 'retryable');
    perform {schema}.wake_leader((select min(due_at) from unnest(p_moves) where state in ('scheduled', 'retryable')));
    insert into {schema}.done_entries (job_id, run_lease, run_at, created_at, attempted_at, finalized_at, lane_id, attempt,
                                       max_attempts, state, kind, args, unique_key, unique_mask, payload)
    select job_id, claim_id, coalesce(run_at, created_at), created_at, claimed_at, p_now, lane_id, attempt_after,
           max_attempts, state, kind, args, unique_key, unique_mask, payload
      from unnest(p_moves) where state in ('completed', 'failed', 'cancelled');
    insert into {schema}.leases (job_id, claim_id, token, worker_id, lane_seq, created_at, run_at, claimed_at, deadline_at,
                                 lane_id, attempt, max_attempts, kind, args, unique_key, unique_mask, payload)
    select job_id, claim_id, token, worker_id, lane_seq, created_at, run_at, claimed_at, deadline_at, lane_id,
           attempt_after, max_attempts, kind, args, unique_key, unique_mask, payload
      from unnest(p_moves) where state = 'running';
    for v_lane in select m.lane_id, l.sequence, q.queue_id, count(*)::integer as needed
                    from unnest(p_moves) m join {schema}.lanes l on l.lane_id = m.lane_id
                    join {schema}.queue_meta q on q.queue = l.queue
                   where m.state = 'available' group by m.lane_id, l.sequence, q.queue_id loop
        insert into {schema}.ready_entries (lane_seq, job_id, created_at, lane_id, slot, attempt, max_attempts, kind, args,
                                            run_at, unique_key, unique_mask, payload)
        select n.seq, m.job_id, m.created_at, m.lane_id, {schema}.current_slot(), m.attempt_after, m.max_attempts,
               m.kind, m.args, p_now, m.unique_key, m.unique_mask, m.payload
          from (select *, row_number() over (order by job_id) as n from unnest(p_moves)
                 where state = 'available' and lane_id = v_lane.lane_id) m
          join unnest({schema}.draw(v_lane.sequence, v_lane.needed)) with ordinality n(seq, n) on n.n = m.n;
        perform {schema}.wake(v_lane.queue_id);
    end loop;
end $$;

-- Ends open attempts of ring claims other than by success. The caller holds their claim rows and has found them open.
create function {schema}.end_attempts(p_ends {schema}.ending[]) returns {schema}.moving[]
language plpgsql volatile
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_slots smallint[] := array(select distinct slot from unnest(p_ends));
    v_moves {schema}.moving[];
begin
    if cardinality(p_ends) = 0 then
        return '{}';
    end if;
    v_moves := array(
        select {schema}.decide(row(e.slot, e.claim_id, e.lane_id, e.lane_seq, r.job_id, r.kind, r.args, r.run_at,
                   r.created_at, e.claimed_at, e.deadline_at, e.token, e.worker_id, r.attempt, r.max_attempts,
                   r.unique_key, r.unique_mask, r.payload, null, null, null, null, null)::{schema}.moving, e, v_now)
          from unnest(p_ends) e
          join {schema}.ready_entries r
            on r.slot in (v_slots[1], v_slots[2], v_slots[3], v_slots[4], v_slots[5], v_slots[6], v_slots[7], v_slots[8],
                                    v_slots[9], v_slots[10], v_slots[11], v_slots[12], v_slots[13], v_slots[14], v_slots[15], v_slots[16])
           and r.slot = e.slot and r.lane_id = e.lane_id and r.lane_seq = e.lane_seq);
    if cardinality(v_moves) <> cardinality(p_ends) then
        raise exception 'bodies of open attempts are missing: % of %', cardinality(p_ends) - cardinality(v_moves),
            cardinality(p_ends) using errcode = 'XX001';
    end if;
    v_moves := {schema}.move_keys(v_moves, 'running', v_now);
    insert into {schema}.claim_closures (claim_id, closed_at, lane_id, closed_count, slot, outcome, items)
    select claim_id, v_now, lane_id, count(*), slot, outcome, range_agg(int8range(lane_seq, lane_seq + 1))
      from unnest(v_moves) group by claim_id, lane_id, slot, outcome;
    perform {schema}.place(v_moves, v_now);
    return v_moves;
end $$;

create function {schema}.size_of(p_items int8multirange) returns integer
language plpgsql immutable
as $$
begin
    return coalesce((select sum(upper(r) - lower(r)) from unnest(p_items) r), 0);
end $$;

-- A claim with what of it is still open. Locks the claim rows, in order, before it looks.
create type {schema}.open_claim as (
    n integer, slot smallint, claim_id bigint, lane_id integer, worker_id bigint, token bigint, has_unique boolean,
    was_open int8multirange, open int8multirange, done int8multirange, deadline_at timestamptz, claimed_at timestamptz);

-- p_of, p_lo and p_hi ask for successes, as half-open ranges of places of the n-th claim; open is what is left beside them.
create function {schema}.open_claims(p_slots smallint[], p_worker bigint, p_claims bigint[], p_tokens bigint[],
                                     p_of integer[] default '{}', p_lo bigint[] default '{}',
                                     p_hi bigint[] default '{}')
returns {schema}.open_claim[]
language plpgsql volatile
as $$
declare
    v_claims {schema}.open_claim[];
    v_slots smallint[] := p_slots;
begin
    if cardinality(p_slots) > 1 then
        v_slots := array(select distinct s from unnest(p_slots) s);
    end if;
    v_claims := array(
        select row(array_position(p_claims, c.claim_id), c.slot, c.claim_id, c.lane_id, c.worker_id, c.token, c.has_unique,
                   null, c.items, null, c.deadline_at, c.claimed_at)::{schema}.open_claim
          from (select slot, claim_id, lane_id, worker_id, has_unique, items, deadline_at, claimed_at, token
                  from {schema}.claim_batches
                 where slot in (v_slots[1], v_slots[2], v_slots[3], v_slots[4], v_slots[5], v_slots[6], v_slots[7], v_slots[8],
                                    v_slots[9], v_slots[10], v_slots[11], v_slots[12], v_slots[13], v_slots[14], v_slots[15], v_slots[16])
                   and worker_id = p_worker and claim_id = any (p_claims)
                 order by claim_id for no key update) c
         where p_tokens is null or c.token = p_tokens[array_position(p_claims, c.claim_id)]);
    return array(
        select row(o.n, o.slot, o.claim_id, o.lane_id, o.worker_id, o.token, o.has_unique, o.was_open, o.was_open - o.asked,
                   o.was_open * o.asked, o.deadline_at, o.claimed_at)::{schema}.open_claim
          from (select c.n, c.slot, c.claim_id, c.lane_id, c.worker_id, c.token, c.has_unique, c.deadline_at, c.claimed_at,
                       c.open - coalesce(x.closed, '{}') as was_open,
                       coalesce((select range_agg(int8range(lo, hi)) from unnest(p_of, p_lo, p_hi) u(k, lo, hi)
                                  where k = c.n), '{}') as asked
                  from unnest(v_claims) c
                  left join (
                       select claim_id, range_agg(r) as closed
                         from (select claim_id, items from {schema}.receipt_completion_batches
                                where slot in (v_slots[1], v_slots[2], v_slots[3], v_slots[4], v_slots[5], v_slots[6], v_slots[7], v_slots[8],
                                    v_slots[9], v_slots[10], v_slots[11], v_slots[12], v_slots[13], v_slots[14], v_slots[15], v_slots[16])
                                  and claim_id = any (p_claims)
                               union all
                               select claim_id, items from {schema}.claim_closures
                                where slot in (v_slots[1], v_slots[2], v_slots[3], v_slots[4], v_slots[5], v_slots[6], v_slots[7], v_slots[8],
                                    v_slots[9], v_slots[10], v_slots[11], v_slots[12], v_slots[13], v_slots[14], v_slots[15], v_slots[16])
                                  and claim_id = any (p_claims)) e, unnest(e.items) r
                        group by claim_id) x on x.claim_id = c.claim_id) o);
end $$;

-- Keys of completed jobs: let go where the mask says so, taken where completing is what takes one. Who finds it taken has
-- completed all the same.
create function {schema}.move_completed_keys(p_claims {schema}.open_claim[]) returns void
language plpgsql volatile
as $$
begin
    delete from {schema}.job_unique_claims k
     using unnest(p_claims) c
      join {schema}.ready_entries r
        on r.slot = any (array(select distinct slot from unnest(p_claims)))
       and r.slot = c.slot and r.lane_id = c.lane_id and r.unique_key is not null
       and r.lane_seq >= lower(c.done) and r.lane_seq < upper(c.done) and c.done @> r.lane_seq
     where c.has_unique and not isempty(c.done)
       and not {schema}.mask_has(r.unique_mask, 'completed')
       and k.unique_key = r.unique_key and k.job_id = r.job_id;
    insert into {schema}.job_unique_claims (unique_key, job_id)
    select r.unique_key, r.job_id
      from unnest(p_claims) c
      join {schema}.ready_entries r
        on r.slot = any (array(select distinct slot from unnest(p_claims)))
       and r.slot = c.slot and r.lane_id = c.lane_id and r.unique_key is not null
       and r.lane_seq >= lower(c.done) and r.lane_seq < upper(c.done) and c.done @> r.lane_seq
     where c.has_unique and not isempty(c.done)
       and {schema}.mask_has(r.unique_mask, 'completed') and not {schema}.mask_has(r.unique_mask, 'running')
     order by r.unique_key
    on conflict do nothing;
end $$;

create function {schema}.ending_of(p_claim {schema}.open_claim, p_seq bigint, p_outcome text,
                                   p_delay double precision default null, p_error text default null,
                                   p_output text default null, p_progress text default null) returns {schema}.ending
language plpgsql immutable
as $$
begin
    return row(p_claim.slot, p_claim.claim_id, p_claim.lane_id, p_seq, p_outcome, p_delay, p_error, p_output, p_progress,
               p_claim.claimed_at, p_claim.deadline_at, p_claim.token, p_claim.worker_id)::{schema}.ending;
end $$;

create function {schema}.finish_ends(p_claims {schema}.open_claim[], p_of integer[], p_seqs bigint[], p_outcomes text[],
                                     p_delays double precision[], p_errors text[], p_outputs text[], p_progress text[])
returns integer
language plpgsql volatile
as $$
begin
    return cardinality({schema}.end_attempts(array(
        select {schema}.ending_of(c, u.seq, u.outcome, u.delay, u.error, u.output, u.progress)
          from unnest(p_of, p_seqs, p_outcomes, p_delays, p_errors, p_outputs, p_progress)
               u(k, seq, outcome, delay, error, output, progress)
          join unnest(p_claims) c on c.n = u.k and c.open @> u.seq)));
end $$;

-- Items that were not open: asked for less accepted. The finisher drops and counts them.
create function {schema}.stale_items(p_claims {schema}.open_claim[], p_of integer[], p_lo bigint[], p_hi bigint[],
                                     p_end_of integer[], p_end_seqs bigint[])
returns table (claim_at integer, stale int8multirange)
language plpgsql volatile
as $$
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

-- What of a flush is more than plain successes that were all accepted. p_left: successes that were not.
create function {schema}.finish_rest(
    p_open {schema}.open_claim[], p_left bigint, p_unique boolean, p_claims bigint[], p_tokens bigint[],
    p_done_of integer[], p_done_lo bigint[], p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[],
    p_end_outcomes text[], p_end_delays double precision[], p_end_errors text[], p_end_outputs text[],
    p_end_progress text[], p_output_seqs bigint[], p_done_outputs text[])
returns table (claim_at integer, stale int8multirange)
language plpgsql volatile
as $$
begin
    if p_unique then
        perform {schema}.move_completed_keys(p_open);
    end if;
    if cardinality(p_end_of) > 0 then
        p_left := p_left + cardinality(p_end_of) - {schema}.finish_ends(p_open, p_end_of, p_end_seqs, p_end_outcomes,
            p_end_delays, p_end_errors, p_end_outputs, p_end_progress);
    end if;
    if p_left = 0 then
        return;
    end if;
    return query
    select s.claim_at, l.left_over
      from {schema}.stale_items(p_open, p_done_of, p_done_lo, p_done_hi, p_end_of, p_end_seqs) s
      cross join lateral {schema}.finish_leases(p_claims[s.claim_at], p_tokens[s.claim_at], s.stale, p_end_seqs,
          p_end_of, s.claim_at, p_end_outcomes, p_end_delays, p_end_errors, p_end_outputs, p_end_progress,
          p_output_seqs, p_done_outputs) l
     where not isempty(l.left_over);
end $$;

-- One flush of one worker. Claims are given once each, in claim order; *_of are positions (from 1) in them. Successes come
-- as half-open ranges of lane numbers. Answers what was stale; a flush that was sent again answers everything as
-- stale and changes nothing.
create function {schema}.finish_v1(
    p_worker bigint, p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[],
    p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[],
    p_end_errors text[], p_end_outputs text[], p_end_progress text[])
returns table (claim_at integer, stale int8multirange)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_claims {schema}.open_claim[];
    v_claim {schema}.open_claim;
    v_left bigint;
    v_unique boolean := false;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform {schema}.require_own_transaction('finish');
    end if;
    v_claims := {schema}.open_claims(p_slots, p_worker, p_claims, p_tokens, p_done_of, p_done_lo, p_done_hi);
    with written as (
        insert into {schema}.receipt_completion_batches (claim_id, claimed_at, finalized_at, lane_id, completed_count, slot,
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
        select * from {schema}.finish_rest(v_claims, v_left, v_unique, p_claims, p_tokens, p_done_of, p_done_lo, p_done_hi,
            p_end_of, p_end_seqs, p_end_outcomes, p_end_delays, p_end_errors, p_end_outputs, p_end_progress, null, null);
    end if;
end $$;

-- The general path: ends of attempts that have left the ring. Answers the items that are not there either.
create function {schema}.finish_leases(
    p_claim bigint, p_token bigint, p_items int8multirange, p_end_seqs bigint[], p_end_of integer[], p_at integer,
    p_outcomes text[], p_delays double precision[], p_errors text[], p_outputs text[], p_progress text[],
    p_output_seqs bigint[], p_done_outputs text[], out left_over int8multirange)
language plpgsql volatile
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_lease {schema}.leases;
    v_move {schema}.moving;
    v_moves {schema}.moving[] := '{}';
    v_end integer;
begin
    left_over := p_items;
    for v_lease in select * from {schema}.leases
                    where claim_id = p_claim and token = p_token and p_items @> lane_seq order by lane_seq for update loop
        left_over := left_over - int8multirange(int8range(v_lease.lane_seq, v_lease.lane_seq + 1));
        v_move := {schema}.moving_lease(v_lease);
        v_end := (select n from unnest(p_end_of, p_end_seqs) with ordinality u(k, seq, n)
                   where k = p_at and seq = v_lease.lane_seq limit 1);
        if v_end is null then
            v_move.state := 'completed';
            v_move.attempt_after := v_lease.attempt;
            v_move.payload := v_move.payload - 'progress' - 'returns';
        else
            v_move := {schema}.decide(v_move, row(null, p_claim, v_lease.lane_id, v_lease.lane_seq, p_outcomes[v_end],
                p_delays[v_end], p_errors[v_end], p_outputs[v_end], p_progress[v_end], null, null, null, null)::{schema}.ending, v_now);
        end if;
        v_moves := v_moves || v_move;
    end loop;
    delete from {schema}.leases l using unnest(v_moves) m where l.job_id = m.job_id;
    perform {schema}.place({schema}.move_keys(v_moves, 'running', v_now), v_now);
    if p_done_outputs is not null then
        perform {schema}.keep_outputs(array(select m.job_id from unnest(v_moves) m order by m.job_id),
            array(select (select output from unnest(p_output_seqs, p_done_outputs) u(seq, output) where seq = m.lane_seq)
                    from unnest(v_moves) m order by m.job_id));
    end if;
end $$;

create function {schema}.moving_lease(p_lease {schema}.leases) returns {schema}.moving
language plpgsql immutable
as $$
declare
    v_move {schema}.moving;
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

-- What a claim call took of a slot, less some places.
create function {schema}.without_places(p_body {schema}.claimed, p_seqs bigint[]) returns {schema}.claimed
language plpgsql immutable
as $$
declare
    v_left {schema}.claimed;
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

-- Keys at claim: a job whose mask holds its key while available but not while running lets it go here, and the other way
-- round takes it; one that finds it taken ends as cancelled, and is not handed out.
create function {schema}.move_keys_of_claim(p_claim bigint, p_body {schema}.claimed) returns {schema}.claimed
language plpgsql volatile
as $$
declare
    v_lost bigint[];
begin
    delete from {schema}.job_unique_claims k
     using {schema}.ready_entries r
     where r.slot = p_body.slot and r.lane_id = p_body.lane_id and r.lane_seq = any (p_body.seqs)
       and r.unique_key is not null and {schema}.mask_has(r.unique_mask, 'available')
       and not {schema}.mask_has(r.unique_mask, 'running')
       and k.unique_key = r.unique_key and k.job_id = r.job_id;
    with takers as (
        select r.lane_seq, r.job_id, r.unique_key from {schema}.ready_entries r
         where r.slot = p_body.slot and r.lane_id = p_body.lane_id and r.lane_seq = any (p_body.seqs)
           and r.unique_key is not null and {schema}.mask_has(r.unique_mask, 'running')
           and not {schema}.mask_has(r.unique_mask, 'available')
    ), taken as (
        insert into {schema}.job_unique_claims (unique_key, job_id)
        select unique_key, job_id from takers order by unique_key, lane_seq
        on conflict do nothing
        returning job_id
    )
    select array_agg(lane_seq) into v_lost from takers where job_id not in (select job_id from taken);
    if v_lost is null then
        return p_body;
    end if;
    perform {schema}.end_attempts(array(
        select row(p_body.slot, p_claim, p_body.lane_id, seq, 'cancel', null,
                   'claimed as duplicate: unique claim held by another job', null, null, null, null, null,
                   null)::{schema}.ending
          from unnest(v_lost) seq));
    return {schema}.without_places(p_body, v_lost);
end $$;

-- Bodies of kinds that the worker does not know go back in the same call.
create function {schema}.hand_back_unknown(p_claim bigint, p_body {schema}.claimed, p_kinds text[])
returns {schema}.claimed
language plpgsql volatile
as $$
declare
    -- Somebody else may know them, as in the middle of a deploy: then they are not made to wait for longer each time.
    v_served constant text[] := {schema}.served_kinds();
begin
    perform {schema}.end_attempts(array(
        select row(p_body.slot, p_claim, p_body.lane_id, u.seq, 'unknown_kind', case when kind = any (v_served) then 0.2 end,
                   null, null, null, null, null, null, null)::{schema}.ending
          from unnest(p_body.seqs, p_body.kinds) u(seq, kind) where kind <> all (p_kinds)));
    return {schema}.without_places(p_body, array(
        select seq from unnest(p_body.seqs, p_body.kinds) u(seq, kind) where kind <> all (p_kinds)));
end $$;
