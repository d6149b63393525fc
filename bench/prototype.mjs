/**
 * The path of an e-mail with nothing around it: a server that takes batches and commits their rows, and a worker that
 * claims bags, composes, sends and settles. The same rows, commits and SMTP as the engine, in two processes like its own;
 * no keys, rates, quotas or caps, no retries, no checks of what arrives. It is what the engine is measured against: plain
 * JavaScript, as fast as we could make it.
 */

import uWS from "uWebSockets.js";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { Redis } from "ioredis";
import postgres from "postgres";

const { DATABASE_URL, REDIS_URL, SMTP_URL, PART, WORKSPACE, PORT } = process.env;
const BAG = 100;
const ROWS_MAX = 2_000;
const LANES = 2;
const BAGS_IN_HAND = 24;
const CONNECTIONS = 20;
const LINE = "prototype";

const url = new URL(DATABASE_URL);
const folder = url.searchParams.get("socket");
url.searchParams.delete("socket");
const sql = postgres(url.href, {
  max: 6,
  fetch_types: false,
  ...(folder && { path: `${folder}/.s.PGSQL.${url.port}` }),
});
const redis = new Redis(REDIS_URL.replace("unix://", ""), { protocol: 2 });
await once(redis, "ready");

/** Any texts as one parameter. */
const BETWEEN = `,${randomUUID()},`;
const texts = (all) => sql`string_to_array(${all.join(BETWEEN)}, ${BETWEEN})`;
const array = (all) => `{${all.join()}}`;

function newId(now) {
  const hex = now.toString(16).padStart(12, "0") + randomBytes(10).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

// ---- taking batches

const waiting = [];
let lanes = 0;

function serve() {
  const app = uWS.App();
  app.post("/batch", (res) => {
    let isGone = false;
    const pieces = [];
    res.onAborted(() => {
      isGone = true;
    });
    res.onData((piece, isLast) => {
      pieces.push(Buffer.from(new Uint8Array(piece)));
      if (!isLast) return;
      const mails = JSON.parse(pieces.length === 1 ? pieces[0] : Buffer.concat(pieces));
      const now = Date.now();
      const entry = { mails, ids: mails.map(() => newId(now)), answer };
      waiting.push(entry);
      void commit();
    });
    function answer(ids) {
      if (isGone) return;
      const body = JSON.stringify({ data: ids.map((id) => ({ id })) });
      res.cork(() => res.writeHeader("Content-Type", "application/json").end(body));
    }
  });
  app.listen("127.0.0.1", Number(PORT), () => process.send({ kind: "ready" }));
}

async function commit() {
  if (lanes >= LANES) return;
  lanes++;
  while (waiting.length > 0) {
    let rows = 0;
    const group = [];
    while (waiting.length > 0 && rows < ROWS_MAX) {
      const entry = waiting.shift();
      rows += entry.mails.length;
      group.push(entry);
    }
    const bags = await write(group);
    for (const { answer, ids } of group) answer(ids);
    await redis.rpush(LINE, ...bags);
  }
  lanes--;
}

async function write(group) {
  const now = new Date();
  const mails = group.flatMap((entry) => entry.mails);
  const ids = group.flatMap((entry) => entry.ids);
  const bags = [];
  for (let n = 0; n < ids.length; n += BAG)
    bags.push({ id: newId(now.getTime()), ids: ids.slice(n, n + BAG) });
  const bagOf = ids.map((_, n) => bags[Math.floor(n / BAG)].id);
  const heads = mails.map(({ from, to, subject }) =>
    JSON.stringify({ from, to: [to].flat(), cc: [], bcc: [], reply_to: [], subject }),
  );
  await sql.begin((tx) => [
    tx`
      insert into email (workspace_id, id, bulk, stream, status, head, weight, bytes, created_at, updated_at, bag_id)
      select ${WORKSPACE}::uuid, id, false, '', 'accepted', head::json, 1, bytes, ${now}, ${now}, bag_id
      from (select unnest(${array(ids)}::uuid[]) as id, unnest(${texts(heads)}) as head,
        unnest(${array(mails.map(({ html }) => html.length))}::int[]) as bytes,
        unnest(${array(bagOf)}::uuid[]) as bag_id) e`,
    tx`
      insert into body (workspace_id, id, html)
      select ${WORKSPACE}::uuid, id, html
      from (select unnest(${array(ids)}::uuid[]) as id, unnest(${texts(mails.map(({ html }) => html))}) as html) b`,
    tx`
      insert into bag (workspace_id, id, shard, email_ids, bytes, created_at, granted_at)
      select ${WORKSPACE}::uuid, id, 0, email_ids::uuid[], 0, ${now}, ${now}
      from (select unnest(${array(bags.map(({ id }) => id))}::uuid[]) as id,
        unnest(${array(bags.map((bag) => `"{${bag.ids}}"`))}::text[]) as email_ids) b`,
  ]);
  return bags.map(({ id }) => id);
}

// ---- taking them to the receiver

const mailsOut = [];
const idle = [];
let inHand = 0;
let onRoom = () => {};
let done = [];
let finished = [];
let isSettling = false;

async function work() {
  const blocking = redis.duplicate();
  const { hostname, port } = new URL(SMTP_URL);
  for (let n = 0; n < CONNECTIONS; n++) converse(hostname, Number(port));
  process.send({ kind: "ready" });
  for (;;) {
    const room = BAGS_IN_HAND - inHand;
    if (room <= 0) {
      await new Promise((resolve) => {
        onRoom = resolve;
      });
      continue;
    }
    const taken = await blocking.call("BLMPOP", "1", "1", LINE, "LEFT", "COUNT", String(room));
    for (const id of taken?.[1] ?? []) {
      inHand++;
      void carry(String(id));
    }
  }
}

async function carry(id) {
  const token = randomUUID();
  const [bag] = await sql`
    update bag set token = ${token}, lease_until = now() + interval '20 s', claims = claims + 1
    where workspace_id = ${WORKSPACE} and id = ${id} and token is null returning email_ids::text as ids`;
  const rows = await sql`
    select e.id, e.head, b.html from email e
    join body b on b.workspace_id = e.workspace_id and b.id = e.id and b.id = any(${bag.ids}::uuid[])
    where e.workspace_id = ${WORKSPACE} and e.id = any(${bag.ids}::uuid[]) and e.status = 'accepted'`;
  let open = rows.length;
  for (const { id: emailId, head, html } of rows) {
    const to = head.to[0];
    const message = compose(emailId, head, html);
    mailsOut.push({ from: head.from, to, message, beganAt: Date.now(), settle });
    function settle(reply, beganAt) {
      done.push({ id: emailId, to, reply, beganAt, at: Date.now() });
      if (--open === 0) finished.push(id);
      void settleAll();
    }
  }
  while (idle.length > 0 && mailsOut.length > 0) idle.pop()();
}

function compose(id, { from, to, subject }, html) {
  const between = `=_${id}`;
  const text = html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
  return Buffer.from(
    `Message-ID: <${id}@prototype>\r\nDate: ${new Date().toUTCString()}\r\nFrom: ${from}\r\nTo: ${to}\r\n` +
      `Subject: ${subject}\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary="${between}"\r\n\r\n` +
      `--${between}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${text}\r\n` +
      `--${between}\r\nContent-Type: text/html; charset=utf-8\r\n\r\n${html.replace(/\r?\n/g, "\r\n")}\r\n--${between}--\r\n`,
    "latin1",
  );
}

/** One connection. The end of a mail and the beginning of the next leave together. */
function converse(host, port) {
  const socket = connect({ host, port, noDelay: true });
  let input = "";
  let step = "greeting";
  let now = null;
  let next = null;
  const opening = ({ from, to }) =>
    `MAIL FROM:<${/<(.*)>/.exec(from)?.[1] ?? from}>\r\nRCPT TO:<${to}>\r\nDATA\r\n`;
  const begin = () => {
    now = mailsOut.shift() ?? null;
    if (!now) return idle.push(begin);
    step = "mail";
    now.beganAt = Date.now();
    socket.write(opening(now), "latin1");
  };
  const answered = (line) => {
    if (step === "greeting") {
      step = "hello";
      socket.write("EHLO prototype.test\r\n");
    } else if (step === "hello") begin();
    else if (step === "mail") step = "rcpt";
    else if (step === "rcpt") step = "data";
    else if (step === "data") {
      step = "dot";
      next = mailsOut.shift() ?? null;
      const end = next ? `.\r\n${opening(next)}` : ".\r\n";
      socket.write(Buffer.concat([now.message, Buffer.from(end, "latin1")]));
    } else {
      now.settle(line, now.beganAt);
      if (!next) return begin();
      now = next;
      now.beganAt = Date.now();
      next = null;
      step = "mail";
    }
  };
  socket.setEncoding("latin1");
  socket.on("data", (text) => {
    input += text;
    let start = 0;
    for (let end = input.indexOf("\r\n"); end >= 0; end = input.indexOf("\r\n", start)) {
      if (input[start + 3] !== "-") answered(input.slice(start, end));
      start = end + 2;
    }
    input = input.slice(start);
  });
}

async function settleAll() {
  if (isSettling) return;
  isSettling = true;
  while (done.length > 0) {
    const [notes, bags] = [done, finished];
    [done, finished] = [[], []];
    const of = (pick) => array(notes.map(pick));
    const histories = notes.map(({ to, reply, beganAt, at }) =>
      JSON.stringify([
        {
          type: "delivered",
          at: new Date(at).toISOString(),
          recipient: to,
          detail: reply,
          attempt: `dot ${at - beganAt}`,
        },
      ]),
    );
    const day = Math.floor(Date.now() / 86_400_000);
    await sql.begin((tx) => [
      tx`
        update email e set status = 'delivered', marks = 'd', updated_at = s.at, bag_id = null, attempts = e.attempts + 1,
          sent_at = s.began, delivered_at = s.at, history = s.history::jsonb
        from (select id, to_timestamp(at_ms / 1000) as at, to_timestamp(began_ms / 1000) as began, history
          from (select unnest(${of(({ id }) => id)}::uuid[]) as id, unnest(${of(({ at }) => at)}::float8[]) as at_ms,
            unnest(${of(({ beganAt }) => beganAt)}::float8[]) as began_ms, unnest(${texts(histories)}) as history) r) s
        where e.workspace_id = ${WORKSPACE} and e.id = s.id and e.id = any(${of(({ id }) => id)}::uuid[])`,
      tx`delete from bag where workspace_id = ${WORKSPACE} and id = any(${array(bags)}::uuid[])`,
      tx`
        insert into tally as t (workspace_id, day, worker, attempted, delivered)
        values (${WORKSPACE}, ${day}, 'prototype', ${notes.length}, ${notes.length})
        on conflict (workspace_id, day, worker) do update set
          attempted = t.attempted + excluded.attempted, delivered = t.delivered + excluded.delivered`,
    ]);
    inHand -= bags.length;
    onRoom();
  }
  isSettling = false;
}

process.on("SIGTERM", () => process.exit(0));
if (PART === "api") serve();
else void work();
