-- kind: expand
-- locks: none on existing objects; creates new ones only
-- previous release: none exists
--
-- Single-job administration, the pause of a queue, and rights. An action on a job looks again under the lock that decides: the
-- lane's for ready jobs, the claim row's for running ones, the row's own for all others.

create function {schema}.require_short_transaction(p_what text) returns void
language plpgsql volatile
as $$
begin
    -- There is no way to ask whether a transaction block is open; one that has written or has lasted is.
    if pg_current_xact_id_if_assigned() is not null
            or statement_timestamp() - transaction_timestamp() > interval '1 second' then
        raise exception '% holds up the lane and must be a transaction of its own', p_what using errcode = '25001';
    end if;
end $$;

create function {schema}.job_to_move(p_job {schema}.job_row, p_state {schema}.job_state) returns {schema}.moving
language plpgsql immutable
as $$
declare
    v_move {schema}.moving;
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

-- Cancels a job that has not ended. A running attempt loses its claim at once and its worker is told. Answers the state that
-- it was found in; a job that had ended is left as it is.
create function {schema}.cancel_v1(p_id bigint) returns {schema}.job_state
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_job {schema}.job_row;
    v_claims {schema}.open_claim[];
    v_gone integer;
    v_now timestamptz := clock_timestamp();
begin
    perform {schema}.require_short_transaction('cancel');
    for i in 1 .. 20 loop
        v_job := {schema}.find_job(p_id);
        if v_job.id is null or v_job.state in ('completed', 'failed', 'cancelled') then
            return v_job.state;
        elsif v_job.state in ('scheduled', 'retryable') then
            delete from {schema}.deferred_jobs where job_id = p_id;
            get diagnostics v_gone = row_count;
        elsif v_job.slot is null then
            delete from {schema}.leases where job_id = p_id and claim_id = v_job.run_lease;
            get diagnostics v_gone = row_count;
        elsif v_job.state = 'available' then
            perform pg_advisory_xact_lock(hashtext('{schema_name}'), -2 - v_job.lane_id);
            perform pg_advisory_xact_lock(hashtext('{schema_name}'), v_job.lane_id);
            v_gone := 0;
            if ({schema}.find_job(p_id)).lane_seq = v_job.lane_seq and ({schema}.find_job(p_id)).state = 'available' then
                perform {schema}.entomb(v_job.lane_id, v_job.slot, array[v_job.lane_seq], 'cancelled');
                v_gone := 1;
            end if;
        else
            v_claims := array(select c from unnest({schema}.open_claims(array[v_job.slot], v_job.worker_id,
                                  array[v_job.run_lease], null)) c where c.open @> v_job.lane_seq);
            v_gone := 0;
            if cardinality(v_claims) = 1 then
                perform {schema}.end_attempts(array[{schema}.ending_of(v_claims[1], v_job.lane_seq, 'admin_cancel')]);
                perform pg_notify('{schema_name}:cancel', json_build_object('job_id', p_id, 'run_lease', v_job.run_lease)::text);
                return v_job.state;
            end if;
        end if;
        if v_gone > 0 then
            perform {schema}.place({schema}.move_keys(array[{schema}.job_to_move(v_job, 'cancelled')], v_job.state, v_now), v_now);
            if v_job.state = 'running' then
                perform pg_notify('{schema_name}:cancel', json_build_object('job_id', p_id, 'run_lease', v_job.run_lease)::text);
            end if;
            return v_job.state;
        end if;
    end loop;
    raise exception 'job % keeps moving; try again', p_id using errcode = '55006';
end $$;

-- Runs a failed or cancelled job again from attempt 0, or a waiting one now. Errors are kept. Answers the state that it was
-- found in; other states are left as they are.
create function {schema}.retry_v1(p_id bigint) returns {schema}.job_state
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_job {schema}.job_row := {schema}.find_job(p_id);
    v_moves {schema}.moving[];
    v_now timestamptz := clock_timestamp();
begin
    perform {schema}.require_short_transaction('retry');
    if v_job.state in ('scheduled', 'retryable') then
        update {schema}.deferred_jobs set run_at = v_now where job_id = p_id and run_at > v_now;
        perform {schema}.wake(0);
    elsif v_job.state in ('failed', 'cancelled') then
        delete from {schema}.done_entries where job_id = p_id and state = v_job.state;
        if found then
            v_moves := array[{schema}.job_to_move(v_job, 'available')];
            v_moves[1].attempt_after := 0;
            v_moves := {schema}.move_keys(v_moves, v_job.state, v_now);
            if v_moves[1].state <> 'available' then
                raise exception 'a newer job holds the unique key of job %', p_id
                    using errcode = '23505', constraint = 'idx_awa_jobs_unique';
            end if;
            perform {schema}.place(v_moves, v_now);
        end if;
    end if;
    return v_job.state;
end $$;

create function {schema}.pause_queue_v1(p_queue text, p_by text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    if (current_setting('awa_cluster.{schema_name}', true) <> '') is not true then
        perform {schema}.check_sequences();
    end if;
    insert into {schema}.queue_meta as q (queue, paused, paused_at, paused_by) values (p_queue, true, clock_timestamp(), p_by)
    on conflict (queue) do update set paused = true, paused_at = coalesce(q.paused_at, clock_timestamp()),
                                      paused_by = coalesce(q.paused_by, p_by);
end $$;

create function {schema}.resume_queue_v1(p_queue text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_id integer;
begin
    update {schema}.queue_meta set paused = false, paused_at = null, paused_by = null where queue = p_queue and paused
    returning queue_id into v_id;
    if v_id is not null then
        perform {schema}.wake(v_id);
        perform {schema}.wake(0);
    end if;
    return v_id is not null;
end $$;

-- Gives a role what it needs at a level and nothing else; called by the owner of the schema.
--   monitor   looks at counts and workers, and says that a worker is gone; sees no job
--   reader    looks at jobs and counts
--   producer  also enqueues, cancels and retries
--   worker    also works: every versioned function
-- The functions that a level calls run with the owner's rights, so no table is granted but the schema's version and, to all
-- levels above monitor, the view of ended jobs with the two functions that it computes with.
create function {schema}.grant_v1(p_role text, p_level text) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
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
    execute format('grant usage on schema {schema} to %I', p_role);
    execute format('grant select on {schema}.schema_version to %I', p_role);
    if p_level <> 'monitor' then
        execute format('grant select on {schema}.terminal_jobs to %I', p_role);
    end if;
    for v_function in
        select p.oid::regprocedure from pg_proc p
         where p.pronamespace = to_regnamespace('{schema_name}')
           and (p.proname ~ ('^(' || v_names || ')_v[0-9]+$') and p.proname !~ '^grant_v'
                or p.proname in ('size_of', 'rank_in') and p_level <> 'monitor')
         order by p.oid loop
        execute format('grant execute on function %s to %I', v_function, p_role);
        v_count := v_count + 1;
    end loop;
    return v_count;
end $$;

-- For the migration that adds a new version of a function: whoever may call the old one may call the new one.
create function {schema}.copy_grants(p_from text, p_to text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_new regprocedure;
    v_role oid;
begin
    for v_new, v_role in
        select n.oid::regprocedure, a.grantee from pg_proc o, aclexplode(o.proacl) a, pg_proc n
         where o.pronamespace = to_regnamespace('{schema_name}') and o.proname = p_from
           and n.pronamespace = o.pronamespace and n.proname = p_to
           and a.privilege_type = 'EXECUTE' and a.grantee not in (0, n.proowner) loop
        execute format('grant execute on function %s to %I', v_new, pg_get_userbyid(v_role));
    end loop;
end $$;

-- A new function may be called by everybody until this is said. Every migration that adds one says it again.
revoke execute on all functions in schema {schema} from public;
