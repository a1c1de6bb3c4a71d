// The driver of graphile-worker: `node graphile.mjs describe|setup|enqueue|produce|hold|work`.
// docs/operations/benchmarks.md describes the commands; contract.py is the same for Python.
import { appendFileSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Logger, makeWorkerUtils, run, runMigrations, WorkerPreset } from "graphile-worker";
import pg from "pg";

const connectionString = process.env.BENCH_DSN;
const folder = process.env.BENCH_RUN_DIR;
const settings = JSON.parse(process.env.BENCH_OPTS || "{}");
const logger = new Logger(() => () => {});
const TASK = "noop";
const JOBS = "graphile_worker._private_jobs";

const seconds = () => (performance.timeOrigin + performance.now()) / 1000;

function cpuSeconds() {
  const spent = process.cpuUsage();
  return (spent.user + spent.system) / 1e6;
}

const print = (object) => console.log(JSON.stringify(object));

function payload(seq, bytes) {
  // 24 bytes are what JSON needs around the number and the padding.
  return { seq, pad: "x".repeat(Math.max(0, bytes - 24)) };
}

function describe() {
  const entry = createRequire(import.meta.url).resolve("graphile-worker");
  const manifest = JSON.parse(readFileSync(join(entry, "..", "..", "package.json")));
  print({
    peer: "graphile-worker",
    version: manifest.version,
    store: "postgres",
    remaining_sql: `select count(*) from ${JOBS} where run_at <= now()`,
    stored_sql: `select count(*) from ${JOBS}`,
  });
}

async function withProducer(body) {
  const producer = await makeWorkerUtils({ connectionString, logger, maxPoolSize: 10 });
  try {
    await body(producer);
  } finally {
    await producer.release();
  }
}

async function enqueue({ start, count, batch, payload: bytes, delayMin, delayMax }) {
  await withProducer(async (producer) => {
    const cpu = cpuSeconds();
    const began = seconds();
    for (let first = start; first < start + count; first += batch) {
      const jobs = [];
      for (let seq = first; seq < Math.min(first + batch, start + count); seq += 1) {
        const job = { identifier: TASK, payload: payload(seq, bytes) };
        if (delayMax > 0) {
          const delay = delayMin + Math.random() * (delayMax - delayMin);
          job.runAt = new Date(Date.now() + 1000 * delay);
        }
        jobs.push(job);
      }
      await producer.addJobs(jobs);
    }
    print({ jobs: count, seconds: seconds() - began, cpu: cpuSeconds() - cpu });
  });
}

async function produce({ rate, seconds: duration, payload: bytes }) {
  const total = Math.floor(rate * duration);
  const lines = [];
  await withProducer(async (producer) => {
    const insert = async (seq) => {
      const called = seconds();
      await producer.addJob(TASK, payload(seq, bytes));
      lines.push(`${seq} ${called.toFixed(6)} ${seconds().toFixed(6)}\n`);
    };
    const began = seconds();
    const open = [];
    for (let seq = 0; seq < total; seq += 1) {
      const wait = began + seq / rate - seconds();
      if (wait > 0) await pause(1000 * wait);
      open.push(insert(seq));
    }
    await Promise.all(open);
  });
  writeFileSync(join(folder, `sent.${process.pid}`), lines.join(""));
  print({ jobs: total });
}

// Each producer keeps one-job transactions open for a while, as an application with other work does.
async function hold({ producers, holdMs, seconds: duration, payload: bytes }) {
  const pool = new pg.Pool({ connectionString, max: producers });
  const clients = await Promise.all(Array.from({ length: producers }, () => pool.connect()));
  const began = seconds();
  let committed = 0;
  const produceUntilEnd = async (client, number) => {
    for (let round = 0; seconds() - began < duration; round += 1) {
      const job = payload(round * producers + number, bytes);
      await client.query("begin");
      await client.query("select graphile_worker.add_job($1, $2::json)", [TASK, job]);
      await pause(holdMs);
      await client.query("commit");
      committed += 1;
    }
  };
  await Promise.all(clients.map(produceUntilEnd));
  print({ jobs: committed, seconds: seconds() - began });
  for (const client of clients) client.release();
  await pool.end();
}

// Progress goes into 24 bytes: jobs handled (u64), first and last handler start (f64 each).
function reporter() {
  const file = openSync(join(folder, `progress.${process.pid}`), "w");
  const starts = process.env.BENCH_LATENCY === "1" ? join(folder, `starts.${process.pid}`) : null;
  const bytes = Buffer.alloc(24);
  let [handled, written, first, last] = [0, 0, 0, 0];
  const write = () => {
    if (handled === written) return;
    written = handled;
    bytes.writeBigUInt64LE(BigInt(handled), 0);
    bytes.writeDoubleLE(first, 8);
    bytes.writeDoubleLE(last, 16);
    writeSync(file, bytes, 0, bytes.length, 0);
  };
  setInterval(write, 5).unref();
  process.on("exit", write);
  return (seq) => {
    last = seconds();
    if (handled === 0) first = last;
    handled += 1;
    if (starts) appendFileSync(starts, `${seq} ${last.toFixed(6)}\n`);
  };
}

async function work() {
  const stopped = new Promise((resolve) => {
    process.once("SIGTERM", resolve);
    process.once("SIGINT", resolve);
  });
  const report = reporter();
  const lines = createInterface({ input: process.stdin });
  console.log("PREPARED");
  await new Promise((resolve) => lines.once("line", resolve));
  const runner = await run({
    preset: {
      extends: [WorkerPreset],
      worker: {
        connectionString,
        logger,
        concurrentJobs: settings.concurrentJobs,
        maxPoolSize: settings.maxPoolSize,
        completeJobBatchDelay: settings.completeJobBatchDelay,
        failJobBatchDelay: settings.completeJobBatchDelay,
        localQueue: settings.localQueue,
      },
    },
    noHandleSignals: true,
    taskList: { [TASK]: (job) => report(job.seq) },
  });
  await stopped;
  await runner.stop();
}

const NUMBERS = {
  start: "0", count: "1000", batch: "1000", payload: "100", "delay-min": "0", "delay-max": "0",
  rate: "200", seconds: "10", producers: "1", "hold-ms": "10",
};

function numbers() {
  const options = Object.fromEntries(
    Object.entries(NUMBERS).map(([name, value]) => [name, { type: "string", default: value }]),
  );
  const { values } = parseArgs({ args: process.argv.slice(3), options });
  const camel = (name) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [camel(name), Number(value)]));
}

const commands = {
  describe,
  setup: () => runMigrations({ connectionString, logger }),
  enqueue,
  produce,
  hold,
  work,
};
const command = commands[process.argv[2]];
if (!command) throw new Error(`unknown command ${process.argv[2]}`);
await command(numbers());
process.exit(0);
