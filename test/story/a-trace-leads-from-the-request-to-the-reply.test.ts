/** With an SDK of OpenTelemetry a request is one trace across processes, up to the replies of receivers. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";
import { type Launched, launch } from "../rig/launched.ts";
import { openStage, type Stage } from "../rig/stage.ts";

type Line = {
  name: string;
  traceId: string;
  spanId: string;
  parent?: string;
  attributes: Record<string, unknown>;
  status: { code: number; message?: string };
};

/** Three processes have to come to it. */
const PATIENCE = { timeout: 40_000 };
const OF_PROXY = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" };
const SDK = fileURLToPath(new URL("../rig/tracesdk.mjs", import.meta.url));

let stage: Stage;
let folder: string;
let key: string;
let base: string;
let api: Launched;
beforeAll(async () => {
  stage = await openStage();
  folder = await mkdtemp(join(tmpdir(), "postrider-spans-"));
  const engine = await startEngine(["api"], stage);
  key = (await engine.workspace("pro")).client.key;
  await engine.stop();
  const settings = {
    TRACES: "true",
    NODE_OPTIONS: `--import ${SDK}`,
    SPANS_FILE: join(folder, "spans"),
  };
  launch(["deliver", "keeper"], { ...stage, settings });
  api = launch(["api"], { ...stage, settings });
  const { port } = (await api.says("serving")) as unknown as { port: number };
  base = `http://127.0.0.1:${port}/api/v1`;
});
afterAll(async () => {
  await stage.close();
  await rm(folder, { recursive: true });
});

test("a batch, its parts, and each delivery are one trace, which the caller may have begun", async () => {
  const answer = await post(
    "/emails/batch",
    ["delivered@example.org", "refuse-550-5.1.1@example.org"].map((to) => ({
      ...{ from: "shop@example.com", to, subject: "Order", text: "Thank you." },
    })),
    { traceparent: `00-${OF_PROXY.traceId}-${OF_PROXY.spanId}-01` },
  );
  expect(answer.status).toBe(200);
  const { data } = (await answer.json()) as { data: { id: string }[] };
  const request = await span("POST /emails/batch");
  expect(request).toMatchObject({ traceId: OF_PROXY.traceId, parent: OF_PROXY.spanId });
  expect(request.attributes).toMatchObject({
    "http.response.status_code": 200,
    "postrider.request_id": answer.headers.get("x-request-id"),
  });
  for (const name of ["reserve", "commit"])
    expect(await span(name)).toMatchObject({ traceId: OF_PROXY.traceId, parent: request.spanId });

  const [delivered, refused] = await Promise.all(
    data.map(({ id }) => span("SMTP delivery", (line) => line.attributes["postrider.email_id"] === id)),
  );
  expect(delivered).toMatchObject({ traceId: OF_PROXY.traceId, parent: request.spanId, status: { code: 0 } });
  expect(delivered?.attributes).toMatchObject({ "smtp.phase": "dot", "smtp.reply_code": 250 });
  expect(refused).toMatchObject({ parent: request.spanId, status: { code: 2, message: "550" } });
  expect(await readFile(join(folder, "spans"), "utf8")).not.toContain("@example");
});

test("what is no trace context begins a trace of its own, and one that is not sampled is not followed", async () => {
  const mail = { from: "shop@example.com", to: "plain@example.org", subject: "Order", text: "Thank you." };
  const forged = await post("/emails", mail, { traceparent: `00-${"0".repeat(32)}-${"0".repeat(16)}-01` });
  const own = await span("POST /emails", isOf(forged));
  expect(own.traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(own.traceId).not.toBe("0".repeat(32));
  expect(own.parent).toBeUndefined();

  const unsampled = { traceId: "5bf92f3577b34da6a3ce929d0e0e4736", spanId: "10f067aa0ba902b7" };
  await post("/emails", mail, { traceparent: `00-${unsampled.traceId}-${unsampled.spanId}-00` });
  const after = await post("/emails", mail);
  const { id } = (await after.json()) as { id: string };
  await span("SMTP delivery", (line) => line.attributes["postrider.email_id"] === id);
  expect((await lines()).filter(({ traceId }) => traceId === unsampled.traceId)).toEqual([]);
});

test("without an SDK it says so, and mail goes on", async () => {
  const alone = launch(["api"], { ...stage, settings: { TRACES: "true" } });
  await alone.says("serving");
  expect(await alone.says(/^TRACES is set, but nothing is traced/)).toMatchObject({ level: 40 });
});

function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${base}${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

function isOf(answer: Response): (line: Line) => boolean {
  const id = answer.headers.get("x-request-id");
  return ({ attributes }) => attributes["postrider.request_id"] === id;
}

async function lines(): Promise<Line[]> {
  const text = await readFile(join(folder, "spans"), "utf8").catch(() => "");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

async function span(name: string, isWanted: (line: Line) => boolean = () => true): Promise<Line> {
  let found: Line | undefined;
  await expect
    .poll(async () => {
      found = (await lines()).find((line) => line.name === name && isWanted(line));
      return found !== undefined;
    }, PATIENCE)
    .toBe(true);
  return found as Line;
}
