/**
 * The engine with a smarthost that takes all mail and a listener that hears what receivers say of it
 * afterwards.
 */
import type { Role } from "../../src/rules/roles.ts";
import { type Engine, type EngineOptions, startEngine } from "./engine.ts";
import type { Mail } from "./ledger.ts";
import { type OwnDatabase, type OwnRedis, ownDatabase, ownRedis } from "./services.ts";
import { openSink, type Sink } from "./sink.ts";
import { mail, type TestWorkspace } from "./workspace.ts";

export const BOUNCE_DOMAIN = "bounces.postrider.test";
export const FEEDBACK = `fbl@${BOUNCE_DOMAIN}`;

const PATIENCE_MS = 30_000;

export type ShownEmail = {
  status: string;
  last_event: string;
  message_id: string;
  bounced_at: string | null;
  complained_at: string | null;
  delayed_at: string | null;
  events: { type: string; at: string; recipient?: string; detail?: string }[];
};

/** `roles`: beside those of the loop. */
type LoopOptions = Pick<EngineOptions, "settings" | "clock" | "smtpUrl"> & { roles?: readonly Role[] };

export class ReportLoop {
  readonly engine: Engine;
  readonly sink: Sink;
  readonly ws: TestWorkspace;
  readonly database: OwnDatabase;
  readonly redis: OwnRedis;

  private constructor(
    engine: Engine,
    ws: TestWorkspace,
    stores: { sink: Sink; database: OwnDatabase; redis: OwnRedis },
  ) {
    this.engine = engine;
    this.ws = ws;
    this.sink = stores.sink;
    this.database = stores.database;
    this.redis = stores.redis;
  }

  static async open({ roles = [], ...options }: LoopOptions = {}): Promise<ReportLoop> {
    const [database, redis, sink] = await Promise.all([
      ownDatabase(),
      ownRedis(),
      openSink({ keepRaw: true }),
    ]);
    const engine = await startEngine(["api", "deliver", "keeper", "inbound", ...roles], {
      databaseUrl: database.url,
      redisUrl: redis.url,
      smtpUrl: sink.url,
      ...options,
      settings: {
        BOUNCE_DOMAIN,
        INBOUND_PORT: "0",
        FEEDBACK_ADDRESSES: FEEDBACK,
        RETRY_SCHEDULE: "1,86400",
        ...options.settings,
      },
    });
    const ws = await engine.workspace("pro", { cap_hour: 100_000, cap_day: 100_000 });
    return new ReportLoop(engine, ws, { sink, database, redis });
  }

  get port(): number {
    return this.engine.inboundPort;
  }

  /** Sends a mail and waits until the smarthost has all of its copies, in the order of the recipients. */
  async send(
    to: string | string[],
    more: Record<string, unknown> = {},
    ws = this.ws,
  ): Promise<{ id: string; copies: Mail[] }> {
    const recipients = typeof to === "string" ? [to] : to;
    const { status, body } = await ws.client.post<{ id: string }>("/emails", mail({ to, ...more }));
    if (status !== 200) throw new Error(JSON.stringify(body));
    const copies = await this.sink.ledger.received(recipients.length, ({ messageId }) =>
      messageId.startsWith(body.id),
    );
    return {
      id: body.id,
      copies: recipients.map((one) => copies.find(({ to }) => to.includes(one)) as Mail),
    };
  }

  async show(id: string): Promise<ShownEmail> {
    return (await this.ws.client.get<ShownEmail>(`/emails/${id}`)).body;
  }

  /** The e-mail as soon as it is what is looked for. */
  async once(id: string, holds: (email: ShownEmail) => boolean, msMax = PATIENCE_MS): Promise<ShownEmail> {
    const deadline = performance.now() + msMax;
    for (;;) {
      const email = await this.show(id);
      if (holds(email)) return email;
      if (performance.now() > deadline) throw new Error(`still ${JSON.stringify(email)}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** What became of the reports so far, when all of them are worked off. */
  async results(): Promise<string[]> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const rows = await this.engine.sql<{ result: string | null }[]>`
        select result from report order by received_at, id`;
      if (rows.every(({ result }) => result !== null)) return rows.map(({ result }) => result as string);
      if (performance.now() > deadline) throw new Error(`still ${JSON.stringify(rows)}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Of the workspace, over all days and workers. */
  async counts(ws = this.ws): Promise<Record<string, number>> {
    const [row] = await this.engine.sql<Record<string, number>[]>`
      select sum(attempted)::int as attempted, sum(delivered)::int as delivered, sum(hard_bounced)::int as hard,
             sum(soft_bounced)::int as soft, sum(blocked)::int as blocked, sum(complained)::int as complained
      from tally where workspace_id = ${ws.id}`;
    return row ?? {};
  }

  async close(): Promise<void> {
    await this.engine.stop();
    await Promise.all([this.sink.close(), this.redis.stop(), this.database.drop()]);
  }
}
