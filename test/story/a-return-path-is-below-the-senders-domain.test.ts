/**
 * A workspace whose domain shows the record has its return paths below that domain, so that SPF counts for
 * DMARC; while it does not, they are below the operator's, and mail goes all the same.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkReturnPath } from "../../src/domain/verify.ts";
import { findDomain } from "../../src/record/workspaces/domains.ts";
import { commandLine } from "../rig/command.ts";
import { BOUNCE_DOMAIN, ReportLoop } from "../rig/loop.ts";
import { dsn, handIn } from "../rig/reports.ts";
import { openTxtServer, type TxtServer } from "../rig/txt.ts";

const DOMAIN = "aligned.example";
const FROM = `Acme <orders@${DOMAIN}>`;

let loop: ReportLoop;
let dns: TxtServer;
beforeAll(async () => {
  [loop, dns] = await Promise.all([ReportLoop.open(), openTxtServer()]);
});
afterAll(() => Promise.all([loop.close(), dns.close()]));

type Shown = {
  record: { name: string; value: string };
  return_path: { name: string; type: string; value: string };
};

async function pathOf(to: string): Promise<string> {
  const { copies } = await loop.send(to, { from: FROM });
  return copies[0]?.from as string;
}

test("the record is printed, looked for, used, and used no longer when it is gone", async () => {
  const { json, postrider } = commandLine({
    databaseUrl: loop.database.url,
    redisUrl: loop.redis.url,
    settings: { BOUNCE_DOMAIN },
  });
  const at = ["--workspace", loop.ws.id];
  const added = await json<Shown>("domain", "add", DOMAIN, ...at);
  expect(added.return_path).toEqual({ name: `bounces.${DOMAIN}`, type: "CNAME", value: BOUNCE_DOMAIN });
  dns.records.set(added.record.name, [added.record.value]);
  dns.mx.set(BOUNCE_DOMAIN, "mx.postrider.test");

  const verify = () => postrider("domain", "verify", DOMAIN, ...at, "--resolver", dns.address);
  const without = await verify();
  expect(without, without.err).toMatchObject({ status: 0 });
  expect(without.out).toContain(`publish bounces.${DOMAIN}. 3600 IN CNAME ${BOUNCE_DOMAIN}.`);
  expect(await pathOf("before@example.net")).toMatch(/@bounces\.postrider\.test$/);

  dns.mx.set(`bounces.${DOMAIN}`, "mx.postrider.test");
  expect((await verify()).out).toContain(`ok    return path: bounces.${DOMAIN} leads to ${BOUNCE_DOMAIN}.`);
  // of what it sent from before the worker asks again within ten seconds; of this subdomain it asks at once
  const { copies, id } = await loop.send("after@example.net", { from: `Acme <orders@shop.${DOMAIN}>` });
  const path = copies[0]?.from as string;
  expect(path).toMatch(new RegExp(`^[0-9a-z]{56}@bounces\\.${DOMAIN.replace(".", "\\.")}$`));
  await handIn(loop.port, path, dsn({ recipient: "after@example.net" }));
  await loop.once(id, ({ status }) => status === "bounced");

  dns.mx.delete(`bounces.${DOMAIN}`);
  const claim = await findDomain(loop.engine.sql, loop.ws.id, DOMAIN);
  if (!claim) throw new Error("there is no claim");
  const askMx = async (name: string) => (dns.mx.has(name) ? [{ exchange: dns.mx.get(name) as string }] : []);
  await checkReturnPath(loop.engine.sql, { bounceDomain: BOUNCE_DOMAIN, askMx }, claim, Date.now());
  expect((await findDomain(loop.engine.sql, loop.ws.id, DOMAIN))?.returnPathAt).toBeNull();
});
