/**
 * Mail servers that nobody here wrote carry our mail, fail to deliver it, and report that in their own way:
 * the report finds its way back and makes the mail bounced. Those that are not on this machine are left out,
 * and say so.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../src/embedded/port.ts";
import { BOUNCE_DOMAIN, ReportLoop } from "../rig/loop.ts";
import { MTAS, type Mta, mtaMissing, startMta } from "../rig/mta.ts";
import { openSink, type Sink } from "../rig/sink.ts";

const REPORT_MS_MAX = 60_000;

describe.each(MTAS.map((kind) => [kind.name, kind] as const))("%s", (_, kind) => {
  const missing = mtaMissing(kind);
  let mta: Mta | null = null;
  let receiver: Sink;
  let loop: ReportLoop;

  beforeAll(async () => {
    if (missing) return;
    receiver = await openSink();
    const inbound = await freePort("127.0.0.1");
    mta = await startMta(kind, { sink: receiver.port, inbound }, BOUNCE_DOMAIN);
    loop = await ReportLoop.open({
      smtpUrl: mta.url,
      settings: { INBOUND_PORT: String(inbound), SMTP_TLS_VERIFY: "false" },
    });
  }, 60_000);
  afterAll(async () => {
    if (missing) return;
    await mta?.stop();
    await Promise.all([loop?.close(), receiver.close()]);
  });

  async function sent(to: string | string[]): Promise<string> {
    const { body } = await loop.ws.client.post<{ id: string }>("/emails", {
      from: "Acme <orders@example.com>",
      to,
      subject: "Order 1",
      text: "Thanks",
    });
    return body.id;
  }

  test("what it cannot deliver is bounced, with the words of the receiver, and the rest stays delivered", async (context) => {
    if (missing) return context.skip(missing);
    const [gone, full, fine] = await Promise.all([
      sent("refuse-550@example.net"),
      sent("refuse-data-552@example.net"),
      sent(["fine@example.org", "refuse-550-5.1.10@example.org"]),
    ]);
    const bounced = await loop.once(gone as string, ({ status }) => status === "bounced", REPORT_MS_MAX);
    expect(bounced.events.map(({ type }) => type)).toEqual(["queued", "sent", "delivered", "bounced"]);
    expect(bounced.events.at(-1)).toMatchObject({ recipient: "refuse-550@example.net" });
    expect(bounced.events.at(-1)?.detail).toMatch(/550 5\.1\.1 no such user/);
    const second = await loop.once(full as string, ({ status }) => status === "bounced", REPORT_MS_MAX);
    expect(second.events.at(-1)?.detail).toMatch(/552 5\.2\.2 mailbox full/);
    const third = await loop.once(fine as string, ({ status }) => status === "bounced", REPORT_MS_MAX);
    expect(third.events.filter(({ type }) => type === "bounced").map(({ recipient }) => recipient)).toEqual([
      "refuse-550-5.1.10@example.org",
    ]);
    expect(await loop.counts()).toMatchObject({ attempted: 4, delivered: 4, hard: 2, soft: 1 });
    // some say it twice
    const results = new Set(await loop.results());
    results.delete("ignored: bounced stands");
    expect([...results]).toEqual(["bounced"]);
  }, 120_000);

  test("a delay that it warns of is told, and the mail stays delivered", async (context) => {
    if (missing) return context.skip(missing);
    if (!kind.warns) return context.skip(`${kind.name} warns after hours`);
    const id = await sent("defer-451@example.net");
    const delayed = await loop.once(
      id,
      ({ events }) => events.some(({ type }) => type === "delivery_delayed"),
      REPORT_MS_MAX,
    );
    expect(delayed.status).toBe("delivered");
    expect(delayed.events.at(-1)).toMatchObject({
      type: "delivery_delayed",
      recipient: "defer-451@example.net",
    });
  }, 120_000);
});
