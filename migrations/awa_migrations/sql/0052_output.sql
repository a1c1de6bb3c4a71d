-- kind: expand
-- locks: ACCESS EXCLUSIVE on terminal_jobs, then done_entries, then receipt_completion_batches and its slots, the order of
--        readers; no rewrite, no scan
-- previous release: names its columns, so it writes no output and reads none; its retries show failed outputs to handlers
--
-- Job output. Completions carry outputs as one array per batch row, aligned with its items, NULL when there is none; the
-- general path has a column. json, not jsonb: what the handler recorded is read back as it was written.

-- Changes nothing and locks the view alone: LOCK TABLE would lock all that it reads, jobs that wait too.
alter view {schema}.terminal_jobs alter column id drop default;

alter table {schema}.done_entries add column if not exists output json;
alter table {schema}.receipt_completion_batches add column if not exists outputs json[];
alter table {schema}.receipt_completion_batches drop constraint if exists receipt_outputs_aligned;
alter table {schema}.receipt_completion_batches add constraint receipt_outputs_aligned
    check (outputs is null or cardinality(outputs) = completed_count) not valid;

-- The position of a place among the items of a batch, from 1.
create or replace function {schema}.rank_in(p_items int8multirange, p_seq bigint) returns integer
language plpgsql immutable
as $$
begin
    return {schema}.size_of(p_items * int8multirange(int8range(null, p_seq))) + 1;
end $$;

create or replace view {schema}.terminal_jobs as
select d.job_id as id, d.kind, l.queue, d.args, d.state, l.priority, d.attempt, d.run_lease, d.max_attempts, d.run_at,
       null::timestamptz as deadline_at, d.attempted_at, d.finalized_at, d.created_at, d.unique_key, d.unique_mask,
       d.payload, d.output
  from {schema}.done_entries d join {schema}.lanes l on l.lane_id = d.lane_id
union all
select r.job_id, r.kind, l.queue, r.args, 'completed'::{schema}.job_state, l.priority, (r.attempt + 1)::smallint, e.claim_id,
       r.max_attempts, coalesce(r.run_at, r.created_at), null, e.claimed_at, e.finalized_at, r.created_at, r.unique_key,
       r.unique_mask, r.payload - 'progress' - 'returns',
       case when e.outputs is not null then e.outputs[{schema}.rank_in(e.items, s.seq)] end
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

create or replace function {schema}.output_of(p_job {schema}.job_row) returns json
language plpgsql stable
set enable_seqscan = off
as $$
begin
    if p_job.state <> 'completed' then
        return null;
    elsif p_job.slot is null then
        return (select output from {schema}.done_entries where job_id = p_job.id);
    end if;
    return (select e.outputs[{schema}.rank_in(e.items, p_job.lane_seq)] from {schema}.receipt_completion_batches e
             where e.slot = p_job.slot and e.claim_id = p_job.run_lease and e.items @> p_job.lane_seq);
end $$;

create or replace function {schema}.get_job_v2(p_id bigint, out job {schema}.job_row, out output json)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    job := {schema}.find_job(p_id);
    output := {schema}.output_of(job);
end $$;

-- finish_v1 with outputs of successes. p_done_batch numbers the batch rows of the flush: the caller starts a new one when
-- the outputs of one exceed 64 KiB. What drops out as stale shifts nothing: outputs are gathered from what was accepted.
create or replace function {schema}.finish_v2(
    p_worker bigint, p_slots smallint[], p_claims bigint[], p_tokens bigint[], p_done_of integer[], p_done_lo bigint[],
    p_done_hi bigint[], p_end_of integer[], p_end_seqs bigint[], p_end_outcomes text[], p_end_delays double precision[],
    p_end_errors text[], p_end_outputs text[], p_end_progress text[], p_done_batch integer[], p_output_of integer[],
    p_output_seqs bigint[], p_done_outputs text[])
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
                                                        items, outputs)
        select c.claim_id, c.claimed_at, clock_timestamp(), c.lane_id, {schema}.size_of(b.items), c.slot, b.items, o.outputs
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
        select * from {schema}.finish_rest(v_claims, v_left, v_unique, p_claims, p_tokens, p_done_of, p_done_lo, p_done_hi,
            p_end_of, p_end_seqs, p_end_outcomes, p_end_delays, p_end_errors, p_end_outputs, p_end_progress, p_output_seqs, p_done_outputs);
    end if;
end $$;

create or replace function {schema}.keep_outputs(p_jobs bigint[], p_outputs text[]) returns void
language plpgsql volatile
as $$
begin
    update {schema}.done_entries d set output = u.output::json
      from unnest(p_jobs, p_outputs) u(id, output)
     where d.job_id = u.id and d.state = 'completed' and u.output is not null;
end $$;

revoke execute on all functions in schema {schema} from public;
select {schema}.copy_grants('get_job_v1', 'get_job_v2');
select {schema}.copy_grants('finish_v1', 'finish_v2');
select {schema}.copy_grants('size_of', 'rank_in');
