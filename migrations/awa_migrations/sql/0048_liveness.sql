-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- Who is alive, and what happens to the attempts of who is not. Each process start is an identity of its own. A worker is
-- dead when its heartbeat is stale or somebody who knows says so; false alarms are harmless, because every end of
-- an attempt has the same guard. settled_below: every claim of this worker below that number is known to be closed,
-- so sweeps look only at what came after.
--
-- A number of a worker ends in random bits: after a restore, or on a standby that took over, numbers are drawn again that
-- processes of the lost time go on using.

create function {schema}.register_worker_v1(p_name text, p_version text, p_host text, p_pid integer, p_queues text[],
                                            p_kinds text[], p_stale_after interval, p_pod_owner text default '',
                                            p_pod_name text default '', p_pod_uid text default '',
                                            p_completed_for interval[] default null, p_failed_for interval[] default null)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_worker bigint;
    v_queue text;
begin
    foreach v_queue in array p_queues loop
        perform {schema}.lane_of(v_queue, 2::smallint);
    end loop;
    -- How long a queue keeps its jobs is as the worker that started last has it.
    update {schema}.queue_meta m set completed_retention = q.completed, failed_retention = q.failed
      from unnest(p_queues, p_completed_for, p_failed_for) q(queue, completed, failed)
     where m.queue = q.queue and p_completed_for is not null
       and (m.completed_retention, m.failed_retention) is distinct from (q.completed, q.failed);
    v_worker := nextval('{schema}.runtime_instances_worker_id_seq') * 1073741824
              + floor(random() * 1073741824)::bigint;
    insert into {schema}.runtime_instances (worker_id, name, version, host, pid, queues, kinds, stale_after, pod_owner, pod_name,
                                            pod_uid, settled_below)
    overriding system value
    values (v_worker, p_name, p_version, p_host, p_pid, p_queues, p_kinds, p_stale_after, p_pod_owner, p_pod_name, p_pod_uid,
            coalesce(pg_sequence_last_value('{schema}.claim_id'), 0));
    -- Jobs handed back because nobody knew their kind become due now that somebody does.
    update {schema}.deferred_jobs set run_at = clock_timestamp() where reason = 'unknown_kind' and kind = any (p_kinds);
    perform {schema}.wake(0);
    return v_worker;
end $$;

-- Open claims of a worker above its watermark, oldest first, at most p_limit rows.
create function {schema}.unsettled(p_worker bigint, p_above bigint, p_until timestamptz, p_limit integer)
returns {schema}.open_claim[]
language plpgsql volatile
as $$
declare
    v_slots smallint[];
    v_claims bigint[];
begin
    select array_agg(distinct c.slot), array_agg(c.claim_id order by c.claim_id) into v_slots, v_claims
      from (select c.slot, c.claim_id from {schema}.claim_batches c
             where c.worker_id = p_worker and c.claim_id > p_above and c.claimed_at <= p_until and not isempty(c.items)
               and c.items <> coalesce((
                   select range_agg(r) from (
                       select items from {schema}.receipt_completion_batches e where e.slot = c.slot and e.claim_id = c.claim_id
                       union all
                       select items from {schema}.claim_closures e where e.slot = c.slot and e.claim_id = c.claim_id) e,
                       unnest(e.items) r), '{}')
             order by c.claim_id limit p_limit) c;
    if v_claims is null then
        return '{}';
    end if;
    return {schema}.open_claims(v_slots, p_worker, v_claims, null);
end $$;

-- Ends what is open of a worker's claims. Items named in p_started count as crashed attempts; all others go back at once
-- and uncounted, but at most max_attempts times in a row. p_keep: claims that are held and must be left alone.
create function {schema}.end_open(p_claims {schema}.open_claim[], p_started_claims bigint[], p_started_seqs bigint[],
                                  p_error text)
returns integer
language plpgsql volatile
as $$
declare
    v_ends {schema}.ending[];
begin
    v_ends := array(
        select {schema}.ending_of(c, s.seq,
                   case when st.claim is not null then 'rescue' else 'give_back' end, null, p_error)
          from unnest(p_claims) c
          cross join lateral (select seq from unnest(c.open) i, generate_series(lower(i), upper(i) - 1) seq) s
          left join unnest(p_started_claims, p_started_seqs) st(claim, seq) on st.claim = c.claim_id and st.seq = s.seq);
    perform {schema}.end_attempts(v_ends);
    return cardinality(v_ends);
end $$;

create function {schema}.end_leases(p_worker bigint, p_error text) returns integer
language plpgsql volatile
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_lease {schema}.leases;
    v_moves {schema}.moving[] := '{}';
begin
    for v_lease in select * from {schema}.leases where worker_id = p_worker and state = 'running'
                    order by claim_id, lane_seq for update skip locked loop
        v_moves := v_moves || {schema}.decide({schema}.moving_lease(v_lease),
            row(null, v_lease.claim_id, v_lease.lane_id, v_lease.lane_seq, 'rescue', null, p_error, null, null, null, null,
                null, null)::{schema}.ending, v_now);
    end loop;
    delete from {schema}.leases l using unnest(v_moves) m where l.job_id = m.job_id;
    perform {schema}.place({schema}.move_keys(v_moves, 'running', v_now), v_now);
    return cardinality(v_moves);
end $$;

-- Once an interval for each process: it is alive, holds these claims, and runs these items. A claim of its own that it does
-- not name and that is older than p_grace (an answer lost on the way) goes back. False: the caller has been declared
-- dead and must start again under a new identity. Of what runs, the items that somebody else has ended come back, so that
-- who was not notified of a cancel stops at last.
create function {schema}.heartbeat_v1(p_worker bigint, p_held bigint[], p_started_slots smallint[], p_started_claims bigint[],
                                      p_started_seqs bigint[], p_grace interval, out alive boolean, out given_back integer,
                                      out ended_claims bigint[], out ended_seqs bigint[])
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_below bigint;
    v_until timestamptz := clock_timestamp() - p_grace;
    v_lost {schema}.open_claim[];
    v_newest bigint;
    -- A claim that is still committing may have a smaller number than one that is visible. Claims run under a statement limit
    -- of 30 seconds, so the watermark follows at twice that distance.
    v_quiet timestamptz := clock_timestamp() - greatest(p_grace, interval '60 seconds');
begin
    given_back := 0;
    update {schema}.runtime_instances
       set last_seen = clock_timestamp(), started_claims = p_started_claims, started_seqs = p_started_seqs
     where worker_id = p_worker and dead_at is null returning settled_below into v_below;
    alive := found;
    if not alive then
        return;
    end if;
    v_lost := array(select c from unnest({schema}.unsettled(p_worker, v_below, v_until, 10000)) c
                     where c.claim_id <> all (p_held) and not isempty(c.open));
    given_back := {schema}.end_open(v_lost, '{}', '{}', null);
    select max(claim_id) into v_newest from {schema}.claim_batches
     where worker_id = p_worker and claim_id > v_below and claimed_at <= v_quiet;
    -- Not least(): that leaves a NULL out, and a watermark above a young lost claim would hide it for ever.
    if v_newest >= (select min(h) from unnest(p_held) h) then
        v_newest := (select min(h) - 1 from unnest(p_held) h);
    end if;
    if v_newest > v_below and cardinality(v_lost) < 10000 then
        update {schema}.runtime_instances set settled_below = v_newest where worker_id = p_worker;
    end if;
    select array_agg(s.claim), array_agg(s.seq) into ended_claims, ended_seqs
      from unnest(p_started_slots, p_started_claims, p_started_seqs) s(slot, claim, seq)
     where not exists (select from {schema}.leases l where l.claim_id = s.claim and l.lane_seq = s.seq)
       and (not exists (select from {schema}.claim_batches c where c.slot = s.slot and c.claim_id = s.claim
                                                               and c.worker_id = p_worker)
            or exists (select from {schema}.receipt_completion_batches e
                        where e.slot = s.slot and e.claim_id = s.claim and e.items @> s.seq)
            or exists (select from {schema}.claim_closures e
                        where e.slot = s.slot and e.claim_id = s.claim and e.items @> s.seq));
end $$;

-- Gives back the claim whose answer was lost on the way: the caller drew the token and knows nothing else of it.
create function {schema}.give_back_v1(p_worker bigint, p_token bigint) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_slots smallint[];
    v_claims bigint[];
begin
    select array_agg(slot), array_agg(claim_id order by claim_id) into v_slots, v_claims
      from (select slot, claim_id, token from {schema}.claim_batches where worker_id = p_worker
             order by claim_id desc limit 64) c
     where token = p_token;
    if v_claims is null then
        return 0;
    end if;
    return {schema}.end_open({schema}.open_claims(v_slots, p_worker, v_claims, array_fill(p_token, array[cardinality(v_claims)])),
                             '{}', '{}', null);
end $$;

-- Somebody who knows says that a worker is gone.
create function {schema}.mark_dead_v1(p_worker bigint, p_reason text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    update {schema}.runtime_instances set dead_at = clock_timestamp(), dead_reason = p_reason
     where worker_id = p_worker and dead_at is null;
    if not found then
        return false;
    end if;
    if exists (select from {schema}.leader where worker_id = p_worker) then
        perform {schema}.call_election();
    end if;
    return true;
end $$;

-- Tells those who could lead that nobody does.
create function {schema}.call_election() returns void
language plpgsql volatile
as $$
begin
    perform pg_notify('{schema_name}:0', 'lead');
end $$;

-- The exact end of a dead process, from its recorder: started attempts crashed, all others go back at once.
create function {schema}.settle_v1(p_worker bigint, p_reason text, p_started_claims bigint[], p_started_seqs bigint[])
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_below bigint;
begin
    perform {schema}.mark_dead_v1(p_worker, p_reason);
    select settled_below into v_below from {schema}.runtime_instances where worker_id = p_worker;
    return {schema}.end_open({schema}.unsettled(p_worker, coalesce(v_below, 0), 'infinity', 1000000), p_started_claims,
                             p_started_seqs, 'worker process died: ' || p_reason)
         + {schema}.end_leases(p_worker, 'worker process died: ' || p_reason);
end $$;

-- Takes the work of workers that are stale, marked dead, or unknown.
create function {schema}.rescue_v1(p_declare_silent_dead boolean default true)
returns table (worker_id bigint, rescued integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_row {schema}.runtime_instances;
begin
    insert into {schema}.runtime_instances (worker_id, name, version, host, pid, queues, kinds, stale_after, dead_at,
                                            dead_reason)
    overriding system value
    select w.worker_id, '', '', '', 0, '{}', '{}', interval '0', clock_timestamp(), 'unknown owner'
      from {schema}.claiming_workers() w
     where not exists (select from {schema}.runtime_instances i where i.worker_id = w.worker_id)
    on conflict do nothing;
    update {schema}.runtime_instances set dead_at = clock_timestamp(), dead_reason = 'heartbeat stale'
     where p_declare_silent_dead and dead_at is null and last_seen < clock_timestamp() - stale_after;
    for v_row in select * from {schema}.runtime_instances i
                  where dead_at is not null and settled_below < coalesce(pg_sequence_last_value('{schema}.claim_id'), 0)
                  order by i.worker_id for update skip locked loop
        rescued := {schema}.hand_on(v_row);
        worker_id := v_row.worker_id;
        if rescued > 0 then
            return next;
        end if;
    end loop;
end $$;

-- Ends what a dead worker holds: what its last heartbeat named as started crashed, the rest goes back uncounted. The caller has
-- locked its row.
create function {schema}.hand_on(p_worker {schema}.runtime_instances) returns integer
language plpgsql volatile
as $$
declare
    v_claims {schema}.open_claim[] := {schema}.unsettled(p_worker.worker_id, p_worker.settled_below, 'infinity', 10000);
    v_error text := case when p_worker.dead_reason = 'heartbeat stale' then 'heartbeat stale: worker presumed dead'
                         else 'worker died: ' || coalesce(p_worker.dead_reason, '') end;
begin
    -- Past this age no claim of a dead worker can still be on its way: claims have a statement limit.
    update {schema}.runtime_instances i set settled_below = 9223372036854775807
     where i.worker_id = p_worker.worker_id and cardinality(v_claims) = 0
       and i.dead_at < clock_timestamp() - interval '10 minutes';
    return {schema}.end_open(v_claims, p_worker.started_claims, p_worker.started_seqs, v_error)
         + {schema}.end_leases(p_worker.worker_id, v_error);
end $$;

-- Somebody who knows says that a worker is gone for good with its recordings, as its pod is: marks it dead and hands on at once
-- what it held. Answers for how many jobs, NULL when it was known to be dead. If it lives all the same, its ends are refused,
-- and it registers again.
create function {schema}.rescue_lost_v1(p_worker bigint, p_reason text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_worker {schema}.runtime_instances;
begin
    if not {schema}.mark_dead_v1(p_worker, p_reason) then
        return null;
    end if;
    select * into strict v_worker from {schema}.runtime_instances where worker_id = p_worker;
    return {schema}.hand_on(v_worker);
end $$;

-- Distinct owners of claims in the ring, by skipping through the index.
create function {schema}.claiming_workers() returns table (worker_id bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    worker_id := 0;
    loop
        worker_id := (select c.worker_id from {schema}.claim_batches c where c.worker_id > claiming_workers.worker_id
                       order by c.worker_id limit 1);
        exit when worker_id is null;
        return next;
    end loop;
end $$;

-- Attempts whose hard deadline has passed, worker by worker.
create function {schema}.rescue_overdue_v1() returns table (job_id bigint, claim_id bigint, worker_id bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_worker record;
    v_claims {schema}.open_claim[];
    v_now timestamptz := clock_timestamp();
    v_moves {schema}.moving[];
begin
    for v_worker in select i.worker_id, i.settled_below from {schema}.runtime_instances i where i.dead_at is null
                     order by i.worker_id loop
        v_claims := array(select c from unnest({schema}.overdue(v_worker.worker_id, v_worker.settled_below, v_now)) c);
        v_moves := {schema}.end_attempts(array(
            select {schema}.ending_of(c, seq, 'rescue', null, 'hard deadline exceeded')
              from unnest(v_claims) c, unnest(c.open) i, generate_series(lower(i), upper(i) - 1) seq));
        return query select m.job_id, m.claim_id, v_worker.worker_id from unnest(v_moves) m;
    end loop;
    return query select * from {schema}.overdue_leases(v_now);
end $$;

create function {schema}.overdue(p_worker bigint, p_above bigint, p_now timestamptz) returns {schema}.open_claim[]
language plpgsql volatile
as $$
declare
    v_slots smallint[];
    v_claims bigint[];
begin
    select array_agg(distinct slot), array_agg(claim_id order by claim_id) into v_slots, v_claims
      from {schema}.claim_batches
     where worker_id = p_worker and claim_id > p_above and deadline_at <= p_now;
    if v_claims is null then
        return '{}';
    end if;
    return {schema}.open_claims(v_slots, p_worker, v_claims, null);
end $$;

create function {schema}.overdue_leases(p_now timestamptz)
returns table (job_id bigint, claim_id bigint, worker_id bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_lease {schema}.leases;
    v_moves {schema}.moving[] := '{}';
begin
    for v_lease in select l.* from {schema}.leases l where l.deadline_at <= p_now order by l.claim_id, l.lane_seq
                      for update skip locked loop
        v_moves := v_moves || {schema}.decide({schema}.moving_lease(v_lease),
            row(null, v_lease.claim_id, v_lease.lane_id, v_lease.lane_seq, 'rescue', null, 'hard deadline exceeded', null,
                null, null, null, null, null)::{schema}.ending, p_now);
        job_id := v_lease.job_id;
        claim_id := v_lease.claim_id;
        worker_id := v_lease.worker_id;
        return next;
    end loop;
    delete from {schema}.leases l using unnest(v_moves) m where l.job_id = m.job_id;
    perform {schema}.place({schema}.move_keys(v_moves, 'running', p_now), p_now);
end $$;

-- Another cluster. Three things are not part of the rows and may differ from what the rows assume: sequences, transaction ids, and
-- the numbers that a lost time had drawn after the copy was taken. Producers look after the first (check_sequences), workers
-- after all (arrive_v1); until one has, claims are refused.

-- The highest number that any table holds, for each sequence of the engine. Identities carry the lane and number of a job's
-- first place.
create function {schema}.numbers_in_use() returns table (sequence regclass, highest bigint)
language plpgsql volatile
as $$
begin
    return query
    with identity as (
        select (i.job_id % 1024)::integer as lane_id, max(i.job_id / 1024) as seq
          from (select r.job_id from {schema}.ready_entries r where r.job_id <> r.lane_seq * 1024 + r.lane_id
                union all select d.job_id from {schema}.deferred_jobs d
                union all select l.job_id from {schema}.leases l
                union all select d.job_id from {schema}.done_entries d
                union all select k.job_id from {schema}.job_unique_claims k) i group by 1
    )
    select l.sequence, greatest(i.seq, l.tombstoned_to,
               (select max(r.lane_seq) from {schema}.ready_entries r where r.lane_id = l.lane_id),
               (select max(c.next_seq) - 1 from {schema}.claim_batches c where c.lane_id = l.lane_id))
      from {schema}.lanes l left join identity i on i.lane_id = l.lane_id
    union all
    select '{schema}.deferred_id'::regclass, (select i.seq from identity i where i.lane_id = 0)
    union all
    select '{schema}.claim_id'::regclass, greatest(
               (select max(c.claim_id) from {schema}.claim_batches c),
               (select max(l.claim_id) from {schema}.leases l),
               (select max(d.run_lease) from {schema}.deferred_jobs d),
               (select max(d.run_lease) from {schema}.done_entries d))
    union all
    select '{schema}.runtime_instances_worker_id_seq'::regclass,
           (select max(i.worker_id / 1073741824) from {schema}.runtime_instances i)
    union all
    select '{schema}.queue_meta_queue_id_seq'::regclass, (select max(q.queue_id) from {schema}.queue_meta q);
end $$;

-- Sets sequences above what the rows hold, and says so; answers how many were behind. Nobody draws before this was done once:
-- under the lock either nobody has drawn yet, or what was drawn is not behind. So setting one never takes a number back.
create function {schema}.raise_sequences(p_fit bigint, p_anyway boolean) returns integer
language plpgsql volatile
as $$
declare
    v_behind integer := 0;
    v_one record;
    v_last bigint;
begin
    -- Of the session, to be let go before the caller's transaction ends, which may be long.
    perform pg_advisory_lock(hashtext('{schema_name}'), -2);
    begin
        if p_anyway or pg_sequence_last_value('{schema}.sequences_fit') is distinct from p_fit then
            for v_one in select * from {schema}.numbers_in_use() where highest > 0 loop
                v_last := coalesce(pg_sequence_last_value(v_one.sequence), 0);
                if v_last < v_one.highest then
                    perform setval(v_one.sequence, v_one.highest);
                    v_behind := v_behind + 1;
                    raise warning 'sequence % was at % and the rows at %: set above them, as after a restore of data alone',
                        v_one.sequence, v_last, v_one.highest;
                end if;
            end loop;
            perform setval('{schema}.sequences_fit', p_fit);
        end if;
    exception when others or query_canceled then
        perform pg_advisory_unlock(hashtext('{schema_name}'), -2);
        raise;
    end;
    perform pg_advisory_unlock(hashtext('{schema_name}'), -2);
    return v_behind;
end $$;

-- Once a session, before it draws its first number. Looks at the mark of the rows and at the cluster, not at the timeline: a
-- standby has its sequences from the same log as its rows.
create function {schema}.check_sequences() returns void
language plpgsql volatile
as $$
declare
    v_fit bigint;
begin
    select {schema}.fit_of(c.system_identifier, i.mark) into v_fit
      from {schema}.cluster_now() c, {schema}.incarnations i order by i.incarnation desc limit 1;
    if pg_sequence_last_value('{schema}.sequences_fit') is distinct from v_fit then
        perform {schema}.raise_sequences(v_fit, false);
    end if;
    perform set_config('awa_cluster.{schema_name}', 'fits', false);
end $$;

-- Once a session, before it claims or moves cursors: these rest on transaction ids and on claim numbers.
create function {schema}.require_settled() returns void
language plpgsql volatile
as $$
declare
    v_known {schema}.incarnations;
    v_now record;
begin
    if current_setting('awa_cluster.{schema_name}', true) = 'settled' then
        return;
    end if;
    v_now := {schema}.cluster_now();
    select * into v_known from {schema}.incarnations order by incarnation desc limit 1;
    if v_known.system_identifier is distinct from v_now.system_identifier or v_known.timeline is distinct from v_now.timeline
            or pg_sequence_last_value('{schema}.sequences_fit')
               is distinct from {schema}.fit_of(v_now.system_identifier, v_known.mark) then
        raise exception 'the tables came from another cluster or timeline and nobody has settled them here'
            using errcode = 'AWA02', hint = 'a worker does so when it starts or connects again; by hand: arrive_v1()';
    end if;
    perform set_config('awa_cluster.{schema_name}', 'settled', false);
end $$;

-- Every worker calls this when it starts and for each session that is to claim. If the tables came from elsewhere, one call
-- settles them: sequences above the rows; claim numbers above all that a lost time can have drawn; and holes bound by an own
-- transaction id. That is a bound as good as the one of the claim which found the hole, in whichever cluster it lies: the
-- number of a hole was drawn before the copy was taken, as nobody draws here before the sequences are above it. So who
-- could still fill it (a prepared transaction, if the ids go on) took its id earlier, and a smaller one.
create function {schema}.arrive_v1(p_anyway boolean default false, out incarnation integer, out moved boolean,
                                   out raised integer, out holes bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_known {schema}.incarnations;
    v_now record := {schema}.cluster_now();
    v_fit bigint;
begin
    perform {schema}.require_own_transaction('arrive');
    for v_look in 1 .. 2 loop
        select * into v_known from {schema}.incarnations i order by i.incarnation desc limit 1;
        v_fit := {schema}.fit_of(v_now.system_identifier, v_known.mark);
        incarnation := v_known.incarnation;
        moved := p_anyway or v_known.system_identifier is distinct from v_now.system_identifier
            or v_known.timeline is distinct from v_now.timeline
            or pg_sequence_last_value('{schema}.sequences_fit') is distinct from v_fit;
        raised := 0;
        holes := 0;
        if not moved then
            perform set_config('awa_cluster.{schema_name}', 'settled', false);
            return;
        end if;
        -- Held from the first look on, so that the second is the one that counts.
        perform pg_advisory_xact_lock(hashtext('{schema_name}'), -3);
    end loop;
    -- Claim sessions do not wait for the disk; this has to reach it.
    perform set_config('synchronous_commit', 'on', true);
    raised := {schema}.raise_sequences(v_fit, p_anyway);
    perform setval('{schema}.claim_id', coalesce(pg_sequence_last_value('{schema}.claim_id'), 0) + 4294967296);
    holes := {schema}.bind_holes(pg_current_xact_id());
    incarnation := incarnation + 1;
    insert into {schema}.incarnations (incarnation, system_identifier, timeline, mark)
    values (incarnation, v_now.system_identifier, v_now.timeline, v_known.mark);
    perform set_config('awa_cluster.{schema_name}', 'settled', false);
end $$;

-- Gives every hole a new bound; answers how many numbers are missing. A lane gets a row without items, which is its cursor then.
create function {schema}.bind_holes(p_bound xid8) returns bigint
language plpgsql volatile
as $$
declare
    v_lane integer;
    v_look {schema}.lane_look;
    v_holes int8multirange;
    v_count bigint;
begin
    select coalesce(sum({schema}.size_of(h.holes)), 0) into v_count from {schema}.lane_holes h;
    update {schema}.lane_holes set bound = p_bound;
    for v_lane in select lane_id from {schema}.lanes where queue is not null order by lane_id loop
        perform pg_advisory_xact_lock(hashtext('{schema_name}'), v_lane);
        v_look := {schema}.cursor_of(v_lane, {schema}.current_slot());
        v_holes := v_look.holes_old + v_look.holes_new;
        continue when isempty(v_holes);
        v_count := v_count + {schema}.size_of(v_holes);
        insert into {schema}.claim_batches (claim_id, token, worker_id, claimed_at, next_seq, lane_id, slot, items, holes_old,
                                            bound_old)
        values (nextval('{schema}.claim_id'), 0, 0, clock_timestamp(), v_look.next_seq, v_lane, {schema}.current_slot(), '{}',
                v_holes, p_bound);
    end loop;
    return v_count;
end $$;
