/**
 * The usual stack, accepting: node:http, one row inserted per e-mail and one BullMQ job per e-mail, answered when both
 * are there. Written as a team that knows its tools would in a week: rows of a batch go in at once in one
 * transaction, jobs with `addBulk`, keys are looked up once and kept, the rate is counted in Redis.
 */
import { createHash, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import postgres from "postgres";

const POOL = 20;
const RATE_PER_SECOND_MAX = 1_000_000;
const BODY_BYTES_MAX = 40 * 1024 * 1024;
const BATCH_MAX = 100;

const sql = connect();
const redis = new Redis(process.env.REDIS_URL.replace("unix://", ""), { maxRetriesPerRequest: null });
const queue = new Queue("usual", { connection: redis });
const keys = new Map();

function connect() {
  const url = new URL(process.env.DATABASE_URL);
  const folder = url.searchParams.get("socket");
  url.searchParams.delete("socket");
  return postgres(url.href, {
    max: POOL,
    ...(folder && { path: `${folder}/.s.PGSQL.${url.port}` }),
    onnotice: () => {},
  });
}

async function callerOf(request) {
  const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
  if (!token) return null;
  const hash = createHash("sha256").update(token).digest("hex");
  if (!keys.has(hash))
    keys.set(hash, (await sql`select id from usual_key where hash = ${hash}`)[0]?.id ?? null);
  return keys.get(hash);
}

async function isWithinRate(caller) {
  const window = `rate:${caller}:${Math.floor(Date.now() / 1000)}`;
  const [[, count]] = await redis.multi().incr(window).expire(window, 2).exec();
  return count <= RATE_PER_SECOND_MAX;
}

async function readBody(request) {
  const parts = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += part.length;
    if (bytes > BODY_BYTES_MAX) return null;
    parts.push(part);
  }
  return JSON.parse(Buffer.concat(parts).toString());
}

function isValid(mail) {
  return (
    typeof mail?.from === "string" &&
    typeof mail.to === "string" &&
    mail.to.includes("@") &&
    typeof mail.subject === "string" &&
    typeof (mail.html ?? mail.text) === "string"
  );
}

async function accept(caller, mails) {
  const rows = mails.map((mail) => ({ id: randomUUID(), mail }));
  await sql.begin((tx) =>
    rows.map(
      ({ id, mail }) => tx`
        insert into usual_email (id, key_id, sender, recipient, subject, html, body, status)
        values (${id}, ${caller}, ${mail.from}, ${mail.to}, ${mail.subject}, ${mail.html ?? null}, ${mail.text ?? null}, 'accepted')`,
    ),
  );
  await queue.addBulk(
    rows.map(({ id }) => ({
      name: "send",
      data: { id },
      opts: { attempts: 5, backoff: { type: "exponential", delay: 60_000 }, removeOnComplete: true },
    })),
  );
  return rows.map(({ id }) => ({ id }));
}

async function answer(request) {
  const caller = await callerOf(request);
  if (!caller) return [401, { message: "The API key is invalid." }];
  if (!(await isWithinRate(caller))) return [429, { message: "Too many requests." }];
  const body = await readBody(request);
  const mails = Array.isArray(body) ? body : [body];
  if (mails.length > BATCH_MAX || !mails.every(isValid)) return [422, { message: "The e-mail is invalid." }];
  const ids = await accept(caller, mails);
  return [200, Array.isArray(body) ? { data: ids } : ids[0]];
}

const server = createServer((request, response) => {
  answer(request).then(
    ([status, body]) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body)),
    (error) => response.writeHead(500).end(JSON.stringify({ message: String(error) })),
  );
});

await sql`
  create table if not exists usual_email (
    id uuid primary key, key_id uuid not null, sender text not null, recipient text not null, subject text not null,
    html text, body text, status text not null, attempts int not null default 0,
    created_at timestamptz not null default now(), delivered_at timestamptz)`;
await sql`create table if not exists usual_key (id uuid primary key, hash text not null unique)`;
const hash = createHash("sha256").update(process.env.API_KEY).digest("hex");
await sql`insert into usual_key values (${randomUUID()}, ${hash}) on conflict do nothing`;
server.listen(Number(process.env.PORT), "127.0.0.1", () => process.send({ kind: "ready" }));
process.on("SIGTERM", () => process.exit(0));
process.once("disconnect", () => process.exit(0));
