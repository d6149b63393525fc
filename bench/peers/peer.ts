/**
 * A peer: another way to take the same mail and bring it to the same sink. `start` throws `NotHere` with a
 * word when this machine lacks something. What it is given says how it was measured: a peer that speaks SMTP
 * gets finished messages over kept connections (`smtp-source`), one that speaks HTTP the engine's own batches
 * of 100.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { type Exhibit, figure } from "../figure.ts";
import { isInstalled } from "../installed.ts";
import { load } from "../load.ts";
import type { Bench } from "../machine.ts";
import { BATCH, BATCH_EMAILS } from "../mails.ts";
import { finishedMessage } from "../message.ts";
import { costFigures, Meter, secondHalfRate, type Watched } from "../meter.ts";
import type { Result, Run } from "../scenario.ts";
import { endChild } from "../sink.ts";
import { telling } from "../telling.ts";
import { until } from "../until.ts";

export class NotHere extends Error {}

export type Peer = {
  name: string;
  start(bench: Bench): Promise<Started>;
};

export type Started = {
  /** Where it takes mail. */
  intake: { kind: "smtp"; port: number } | { kind: "http"; url: string; key: string };
  processes: Watched[];
  exhibits: Exhibit[];
  stop(): Promise<void>;
};

const SINK = "sink";
const SESSIONS = 20;
/** Not counted: processes start, pools fill. It also says how many messages fill the wanted time. */
const WARMUP_MESSAGES = 1_500;
const HTTP_CONNECTIONS = 8;
const DRAIN_SAMPLE_MS = 20;

export async function measure(peer: Peer, bench: Bench, run: Run): Promise<Result> {
  const started = await peer.start(bench);
  const give =
    started.intake.kind === "smtp" ? overSmtp(started.intake.port, bench) : overHttp(started.intake, bench);
  await arrival(bench, await give({ warmup: true, seconds: 1, perSecond: 0 }).then(({ mails }) => mails), 0);
  const before = bench.sink.count();
  const trial = performance.now();
  const { mails: tried } = await give({ warmup: true, seconds: 1, perSecond: 0 });
  const perSecond = tried / ((performance.now() - trial) / 1000);
  await arrival(bench, tried, before);

  const already = bench.sink.count();
  const meter = new Meter(
    [...started.processes, { name: SINK, pid: bench.sink.pid }],
    [{ name: "e-mails in the sink", read: () => bench.sink.count() }],
  );
  bench.endings.add(() => meter.end());
  const tell = () => run.tell(`${peer.name}: ${bench.sink.count() - already} e-mails`);
  const endTelling = telling(bench.endings, tell);
  const began = performance.now();
  const { mails, seconds } = await give({ warmup: false, seconds: run.seconds, perSecond });
  await arrival(bench, mails, already);
  const passed = (performance.now() - began) / 1000;
  await endTelling();
  const metered = meter.stop();
  await started.stop();
  return {
    figures: [
      figure(`${peer.name}: accepted`, mails / seconds, "/s"),
      figure(`${peer.name}: end to end`, mails / passed, "/s"),
      figure(`${peer.name}: end to end, the second half`, secondHalfRate(metered), "/s"),
      ...costFigures(metered, mails, `${peer.name}: `),
    ],
    courses: metered.courses
      .filter(({ name }) => name !== SINK)
      .map((course) => ({
        ...course,
        name: course.about === "rate" ? peer.name : `${peer.name}: ${course.name}`,
      })),
    exhibits: started.exhibits,
  };
}

/** What every peer that speaks SMTP is given its mail by. */
export function expectSmtpSource(): void {
  if (!isInstalled("smtp-source"))
    throw new NotHere("smtp-source, of the Debian package postfix, is not installed");
}

type Wanted = { warmup: boolean; seconds: number; perSecond: number };
type Given = { mails: number; seconds: number };

function overSmtp(port: number, bench: Bench): (wanted: Wanted) => Promise<Given> {
  const file = join(bench.folder, "message");
  return async ({ warmup, seconds, perSecond }) => {
    writeFileSync(file, await finishedMessage());
    const mails = warmup ? WARMUP_MESSAGES : Math.max(WARMUP_MESSAGES, Math.round(perSecond * seconds));
    const began = performance.now();
    const sender = ["-f", "orders@example.com", "-t", "user1@example.net", "-F", file];
    const flow = ["-d", "-s", String(SESSIONS), "-m", String(mails)];
    const child = spawn("smtp-source", [...flow, ...sender, `127.0.0.1:${port}`], {
      stdio: ["ignore", "ignore", "pipe"],
      detached: true, // Ctrl-C is ours to pass on
    });
    const end = bench.endings.add(() => endChild(child));
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    const [status] = (await once(child, "close")) as [number | null];
    await end();
    if (status !== 0) throw new Error(`smtp-source ended with ${status}: ${said}`);
    return { mails, seconds: (performance.now() - began) / 1000 };
  };
}

function overHttp(
  { url, key }: { url: string; key: string },
  bench: Bench,
): (wanted: Wanted) => Promise<Given> {
  return async ({ seconds }) => {
    const began = performance.now();
    const { requests, failures, unanswered } = await load(bench, {
      url,
      key,
      body: BATCH,
      connections: HTTP_CONNECTIONS,
      seconds,
    });
    if (failures + unanswered > 0)
      throw new Error(
        `Of ${requests} batches ${failures} were refused, and ${unanswered} more not answered.`,
      );
    return { mails: requests * BATCH_EMAILS, seconds: (performance.now() - began) / 1000 };
  };
}

/** The load generator may leave before it has heard the last answers, so more may come than it knows of. */
async function arrival(bench: Bench, mails: number, already: number): Promise<void> {
  await until("the mail reached the sink", () => bench.sink.count() - already >= mails, DRAIN_SAMPLE_MS);
}

/** Until a server says 220. */
export async function untilGreeted(name: string, port: number, child: ChildProcess): Promise<void> {
  const greets = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect({ port, host: "127.0.0.1" });
      socket.once("data", (greeting) => {
        socket.end("QUIT\r\n");
        resolve(String(greeting).startsWith("220"));
      });
      for (const event of ["error", "close"]) socket.once(event, () => resolve(false));
    });
  await until(`${name} greeted`, async () => child.exitCode !== null || (await greets()));
  if (child.exitCode !== null) throw new Error(`${name} did not start: status ${child.exitCode}`);
}
