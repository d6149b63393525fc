/**
 * Endpoints of webhooks that do what costs most: they let all answers come at once, answer at length, and are
 * told very long events. Whoever tells them has other endpoints too: its event loop is asked for the work
 * that it did in one turn.
 */
import type { ServerResponse } from "node:http";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import { workedBy } from "../rig/held.ts";
import { openReceiver, type Receiver, TO_LOOPBACK } from "../rig/hookreceiver.ts";
import { type EngineProcess, startProcess } from "../rig/process.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const WORKED_MS_MAX = 50;
const ENDPOINTS = 14;
/** Of each endpoint; as many as may be open at once are open after some rounds. */
const EVENTS = 320;

let stage: Stage;
let engine: Engine;
let receiver: Receiver;
let worker: EngineProcess;
let ws: TestWorkspace;
beforeAll(async () => {
  stage = await openStage();
  receiver = await openReceiver();
  engine = await startEngine(["api", "deliver"], { ...stage, settings: TO_LOOPBACK });
  worker = await startProcess(["webhooks"], { ...stage, settings: TO_LOOPBACK, watchesLoop: true });
  ws = await engine.workspace();
  for (let n = 0; n < ENDPOINTS; n++) {
    const { status } = await ws.client.post("/webhooks", { endpoint: receiver.url(`/${n}`) });
    expect(status).toBe(201);
  }
});
afterAll(async () => {
  await worker?.stop();
  await engine?.stop();
  await receiver?.close();
  await stage?.close();
});
afterEach(() => {
  receiver.heard.length = 0;
});

/** So many events, each of another of these e-mails; null: of ones that are not kept any more. */
async function happened(count: number, emailIds: readonly string[] | null = null): Promise<void> {
  await engine.sql`
    with added as (
      insert into event_sequence (workspace_id, last) values (${ws.id}, ${count})
      on conflict (workspace_id) do update set last = event_sequence.last + ${count} returning last
    )
    insert into outbox (workspace_id, sequence, at, type, subject_id)
    select ${ws.id}, last - ${count} + n, now(), 'email.accepted',
      coalesce((${emailIds as string[]}::uuid[])[1 + n % ${emailIds?.length ?? 1}], gen_random_uuid())
    from added, generate_series(1, ${count}) n`;
}

async function toldAll(): Promise<void> {
  const behind = async () =>
    (
      await engine.sql<{ n: number }[]>`
        select count(*)::int as n from webhook w join event_sequence s using (workspace_id)
        where w.cursor < s.last`
    )[0]?.n;
  await expect.poll(behind, { timeout: 60_000, interval: 50 }).toBe(0);
}

const PAUSE_MS = 100;

/** Answers when nothing more comes, and then all of them. */
function answerAllAtOnce(answer = (response: ServerResponse) => void response.end("ok")): void {
  const held: ServerResponse[] = [];
  let timer: NodeJS.Timeout | undefined;
  receiver.answerWith = (_, response) => {
    held.push(response);
    clearTimeout(timer);
    timer = setTimeout(() => {
      for (const one of held.splice(0)) answer(one);
    }, PAUSE_MS);
  };
}

test("they hold back all answers and give them at once", async () => {
  answerAllAtOnce();
  const again = async () => {
    await happened(EVENTS);
    await toldAll();
  };
  await again();
  expect(await workedBy(worker, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

const OK = "HTTP/1.1 200 OK\r\n";
const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / unit.length));
const chunked = (chunks: string) => `${OK}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`;

const DEAR_EVENTS = 60;

/** Answers as bytes, after which the connection is closed. */
const ANSWERS: Record<string, string> = {
  "chunks of one byte": chunked(fill("1\r\na\r\n", 24 * 1024)),
  "chunks with extensions": chunked(fill("1;x=y\r\na\r\n", 12 * 1024)),
  "as many headers as fit": `${OK}${fill("a: b\r\n", 15_800)}Content-Length: 2\r\n\r\nok`,
  "provisional answers before the answer": `${fill("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", 20 * 1024)}${OK}Content-Length: 2\r\n\r\nok`,
};

test.each(Object.entries(ANSWERS))("they answer at once, each in %s", async (_, bytes) => {
  answerAllAtOnce((response) => void response.socket?.end(bytes));
  const again = async () => {
    await happened(DEAR_EVENTS);
    await toldAll();
  };
  expect(await workedBy(worker, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("they answer as long as may be", async () => {
  const [value, body] = ["x".repeat(15_000), "\ufdfa".repeat(20_000)];
  receiver.answerWith = (_, response) => response.writeHead(200, { "x-long": value }).end(body);
  const again = async () => {
    await happened(EVENTS);
    await toldAll();
  };
  expect(await workedBy(worker, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});

test("they are told of e-mails to very many, of very long names", async () => {
  answerAllAtOnce();
  const to = Array.from({ length: 50 }, (_, n) => `"${'\\"'.repeat(80)}" <a${n}@example.net>`);
  const subject = "\ufdfa".repeat(300);
  const emailIds = await ws.client.send(Array.from({ length: 40 }, () => mail({ to, subject })));
  await toldAll();
  const again = async () => {
    await happened(emailIds.length, emailIds);
    await toldAll();
  };
  expect(await workedBy(worker, again, WORKED_MS_MAX)).toBeLessThan(WORKED_MS_MAX);
});
