-- name: enqueue
-- A batch for one lane: identities in order, NULL for a duplicate that was left out.
select {schema}.enqueue_v1($1::text, $2::smallint, $3::text[], $4::jsonb[], $5::timestamptz[], $6::smallint[], $7::jsonb[],
                           $8::bytea[], $9::smallint[], $10::boolean);

-- name: reserve
-- Places of a lane for the COPY form, in the caller's transaction.
select lane_id, slot, created_at, seqs from {schema}.reserve_v1($1::text, $2::smallint, $3::integer);

-- name: lane_exists
-- Whether a queue's lane is registered.
select exists (select from {schema}.lanes where queue = $1::text and priority = $2::smallint);

-- name: reads_lanes
-- Whether this role may read the lanes; it need not to enqueue.
select has_table_privilege('{schema_name}.lanes', 'select');

-- name: register_lane
-- Registers a queue's lane in a short transaction of its own.
select {schema}.register_lane_v1($1::text, $2::smallint);

-- name: claim
-- Bodies for free places, one row per claim, then one row that says what else is there.
select queue, effective_priority, slot, claim_id, lane_id, claimed_at, deadline_at, seqs, job_ids, kinds, args, created_ats,
       run_ats, attempts, max_attempts, payloads, in_flight, passed
  from {schema}.claim_v1($1::bigint, $2::bigint, $3::text[], $4::integer[], $5::double precision[],
                         $6::double precision[], $7::text[]);

-- name: finish
-- One flush without outputs; answers what was stale.
select claim_at, stale
  from {schema}.finish_v1($1::bigint, $2::smallint[], $3::bigint[], $4::bigint[], $5::integer[], $6::bigint[], $7::bigint[],
                          $8::integer[], $9::bigint[], $10::text[], $11::double precision[], $12::text[], $13::text[],
                          $14::text[]);

-- name: finish_with_outputs
-- One flush in which some successes have an output; answers what was stale.
select claim_at, stale
  from {schema}.finish_v2($1::bigint, $2::smallint[], $3::bigint[], $4::bigint[], $5::integer[], $6::bigint[], $7::bigint[],
                          $8::integer[], $9::bigint[], $10::text[], $11::double precision[], $12::text[], $13::text[],
                          $14::text[], $15::integer[], $16::integer[], $17::bigint[], $18::text[]);

-- name: stores_outputs
-- Whether this schema has both places for outputs, and the functions that use them.
select count(*) = 2 and to_regproc('{schema_name}.finish_v2') is not null
  from pg_catalog.pg_attribute
 where attrelid in (to_regclass('{schema_name}.receipt_completion_batches'), to_regclass('{schema_name}.done_entries'))
   and attname in ('outputs', 'output') and not attisdropped;

-- name: closed_as
-- Places of some claims that their own worker has finished in the ring.
select claim_id, items from {schema}.closed_as_v1($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint);
