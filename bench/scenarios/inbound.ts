/**
 * inbound: delivery reports over 50 connections to the listener, each about another delivered e-mail, until
 * all of them have moved their e-mail and its counts. returned: as deliver, each mail with a return path of
 * its own.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { freePort } from "../../src/embedded/port.ts";
import { newId } from "../../src/ids.ts";
import type { Sql } from "../../src/record/db/connect.ts";
import { ReturnPathKey } from "../../src/returnpath.ts";
import { outsideTransactions } from "../../test/rig/outside.ts";
import { dsn } from "../../test/rig/reports.ts";
import { figure } from "../figure.ts";
import { SECRET, type Workspace } from "../machine.ts";
import { costFigures } from "../meter.ts";
import type { Scenario } from "../scenario.ts";
import { until } from "../until.ts";
import { deliverRun, resultOf } from "./deliver.ts";

const BOUNCE_DOMAIN = "bounces.bench.example";
const REPORTS_PER_SECOND_MAX = 8_000;
/** As many as the listener lets one address have. */
const CONNECTIONS = 50;
/** The listener asks to come anew after a thousand. */
const MESSAGES_EACH = 1_000;
const DELIVERED_TOGETHER = 10_000;

const inbound: Scenario = {
  name: "inbound",
  does: "delivery reports by SMTP, until each has moved its e-mail and its counts",
  async run(bench, { seconds, tell }) {
    const workspace = await bench.workspace();
    const port = await freePort();
    await bench.role("inbound", { BOUNCE_DOMAIN, INBOUND_PORT: String(port) });
    const emailIds = await deliveredMail(bench.sql, workspace, seconds * REPORTS_PER_SECOND_MAX);
    const key = new ReturnPathKey(SECRET);
    const paths = emailIds.map((emailId) => {
      const copy = { handle: workspace.handle, emailId, place: 0 };
      return `${key.write(copy, Date.now())}@${BOUNCE_DOMAIN}`;
    });
    const meter = bench.meter();
    const began = performance.now();
    const endsAt = began + seconds * 1_000;
    let reported = 0;
    const next = () =>
      performance.now() < endsAt && reported < paths.length ? paths[reported++] : undefined;
    await Promise.all(Array.from({ length: CONNECTIONS }, () => report(port, next)));
    const acceptedSeconds = (performance.now() - began) / 1_000;
    tell(`${reported} reports accepted`);
    await until("every report was worked off", async () => (await bounced(bench.sql)) >= reported);
    const allSeconds = (performance.now() - began) / 1_000;
    return {
      figures: [
        figure("reports, worked off", reported / allSeconds, "/s", "at least 2,000"),
        figure("accepted meanwhile", reported / acceptedSeconds, "/s"),
        ...costFigures(meter.stop(), reported),
      ],
    };
  },
};

const returned: Scenario = {
  name: "returned",
  does: "as deliver, each mail with a return path of its own",
  run: async (bench, run) => resultOf(await deliverRun(bench, run, { workerEnv: { BOUNCE_DOMAIN } })),
};

export const scenarios = [inbound, returned];

async function deliveredMail(sql: Sql, { id }: Workspace, count: number): Promise<string[]> {
  const now = Date.now();
  const ids = Array.from({ length: count }, () => newId(now));
  const head = {
    from: "a@example.com",
    to: ["b@example.net"],
    cc: [],
    bcc: [],
    reply_to: [],
    subject: "Order",
  };
  for (let n = 0; n < ids.length; n += DELIVERED_TOGETHER)
    await sql`
      insert into email (workspace_id, id, bulk, status, head, weight, bytes, created_at, updated_at, sent_at, delivered_at,
                         attempts, marks, history)
      select ${id}, one, false, 'delivered', ${JSON.stringify(head)}::text::json, 1, 100, now(), now(), now(), now(), 1, 'd',
             '[{"type":"delivered","at":"2026-11-22T00:00:00.000Z","recipient":"b@example.net"}]'
      from unnest(${ids.slice(n, n + DELIVERED_TOGETHER)}::uuid[]) as one`;
  await outsideTransactions(sql, "vacuum analyze email");
  return ids;
}

async function bounced(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select coalesce(sum(hard_bounced), 0)::int as count from tally`;
  return row?.count ?? 0;
}

/** One after the other, each in two round trips, on connections of a thousand messages. */
async function report(port: number, next: () => string | undefined): Promise<void> {
  const message = `${dsn({ recipient: "b@example.net", original: `Subject: Order\r\n\r\n${"x".repeat(70)}\r\n` })}\r\n.\r\n`;
  for (let path = next(); path !== undefined; ) {
    const talk = new Talk(connect({ port, host: "127.0.0.1", noDelay: true }));
    await talk.answers(1);
    await talk.say("EHLO bench.example\r\n", 1);
    for (let n = 0; n < MESSAGES_EACH && path !== undefined; n++) {
      await talk.say(`MAIL FROM:<>\r\nRCPT TO:<${path}>\r\nDATA\r\n`, 3);
      await talk.say(message, 1);
      path = next();
    }
    await talk.end();
  }
}

class Talk {
  readonly #socket: Socket;
  #heard = 0;
  #wanted = 0;
  #onHeard = () => {};

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => {
      const answers = text.match(/^\d{3} /gm) ?? [];
      if (/^[45]/m.test(text)) throw new Error(`a report was answered ${text}`);
      this.#heard += answers.length;
      if (this.#heard >= this.#wanted) this.#onHeard();
    });
  }

  say(text: string, count: number): Promise<void> {
    this.#socket.write(text);
    return this.answers(count);
  }

  async answers(count: number): Promise<void> {
    this.#wanted += count;
    if (this.#heard < this.#wanted)
      await new Promise<void>((resolve) => {
        this.#onHeard = resolve;
      });
  }

  /** Until the other side has ended, too: it counts connections. */
  async end(): Promise<void> {
    this.#socket.end("QUIT\r\n");
    await once(this.#socket, "close");
  }
}
