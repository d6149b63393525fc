/**
 * A receiver's domain that asks for TLS reports (RFC 8460) gets one for each day: how many connections were
 * secured, and what was wrong with the others. One a day, whatever happens in between; other domains are not
 * even counted.
 */
import { gunzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { connectRecord, type Sql } from "../../src/record/db/connect.ts";
import { ReportSender } from "../../src/transport/reportsender.ts";
import { type DirectUnderTest, openWorld, type World } from "../rig/direct.ts";
import { openPolicyHost, type PolicyHost } from "../rig/policyhost.ts";
import { type OwnDatabase, ownDatabase } from "../rig/services.ts";

const TAKER = "127.1.0.8";
const POLICY_HOST = "127.1.0.9";
const DAY_MS = 86_400_000;

let database: OwnDatabase;
let sql: Sql;
let world: World;
let taker: PolicyHost;
let posted: { path: string; type: string | undefined; report: Record<string, unknown> }[];
let status: number;
beforeAll(async () => {
  database = await ownDatabase();
  sql = connectRecord(database.url, "delivery", 20_000);
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  await database.drop();
});
beforeEach(async () => {
  await sql`truncate sts_policy, tls_sessions, tls_report_out`;
  world = await openWorld();
  // at noon, so that an hour here and there stays within a day
  world.clock.set((Math.floor(world.clock.now() / DAY_MS) + 0.5) * DAY_MS);
  world.name({
    "a.test": { mx: [[10, "mx.a.test"]] },
    "mx.a.test": { addresses: ["127.1.0.1"] },
    "_smtp._tls.a.test": { txt: ["v=TLSRPTv1; rua=https://reports.test/tls?of=a"] },
    "reports.test": { addresses: [TAKER] },
  });
  posted = [];
  status = 201;
  taker = await openPolicyHost(TAKER, world.httpsPort, world.authority.certify("reports.test"));
  taker.answer = (request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => {
      const report = JSON.parse(gunzipSync(Buffer.concat(pieces)).toString());
      posted.push({ path: request.url ?? "", type: request.headers["content-type"], report });
      response.writeHead(status).end();
    });
  };
});
afterEach(async () => {
  await taker.close();
  await world.end();
});

const counting = () => world.courier({ sql, isCounted: true });

async function sendAndCount(under: DirectUnderTest, ...to: string[]): Promise<void> {
  for (const address of to) await under.send(address);
  await under.counter?.flush();
}

/** Of a process that has just started. */
function sender({ web, askTxt }: DirectUnderTest): ReportSender {
  return new ReportSender({
    sql,
    clock: world.clock,
    from: "TLS reports <tls@sender.test>",
    web,
    askTxt,
    submit: () => Promise.reject(new Error("nothing is mailed")),
    onFault: (error) => {
      throw error;
    },
  });
}

function toTomorrow(): void {
  world.clock.set((Math.floor(world.clock.now() / DAY_MS) + 1) * DAY_MS + 4 * 3_600_000);
}

/** Plans at the hour at which they are all due. */
async function work(one: ReportSender): Promise<void> {
  await one.work();
  world.clock.advance(3 * 3_600_000);
  await one.work();
}

async function takeInTheOpen(host: string): Promise<void> {
  await world.peerAt(host, async (talk) => {
    await talk.hello("PIPELINING");
    for (;;) await talk.takeMail();
  });
}

test("the day's connections are in it, each once however many mails it carried", async () => {
  await world.policyOf("a.test", POLICY_HOST, ["mode: enforce", "mx: mx.a.test"]);
  await world.peerAt("127.1.0.1", (talk) => talk.takeSecured(world.authority.certify("mx.a.test")));
  const under = counting();
  await sendAndCount(under, "one@a.test", "two@a.test", "three@a.test");
  const day = new Date(world.clock.now()).toISOString().slice(0, 10);
  toTomorrow();
  await work(sender(under));
  expect(posted).toEqual([
    {
      path: "/tls?of=a",
      type: "application/tlsrpt+gzip",
      report: {
        "organization-name": "sender.test",
        "date-range": { "start-datetime": `${day}T00:00:00Z`, "end-datetime": `${day}T23:59:59Z` },
        "contact-info": "tls@sender.test",
        "report-id": `${day}.a.test@sender.test`,
        policies: [
          {
            policy: {
              "policy-type": "sts",
              "policy-domain": "a.test",
              "policy-string": ["version: STSv1", "mode: enforce", "mx: mx.a.test", "max_age: 86400"],
              "mx-host": ["mx.a.test"],
            },
            summary: { "total-successful-session-count": 1, "total-failure-session-count": 0 },
            "failure-details": [],
          },
        ],
      },
    },
  ]);
});

const FAILURES = [
  ["enforce", "mx.a.test", "starttls-not-supported", "open"],
  ["testing", "mx.a.test", "starttls-not-supported", "open"],
  ["testing", "mx.other.test", "validation-failure", "valid"],
  ["enforce", "mx.other.test", "validation-failure", "valid"],
  ["enforce", "mx.a.test", "certificate-expired", "expired"],
  ["testing", "mx.a.test", "certificate-expired", "expired"],
  ["enforce", "mx.a.test", "certificate-host-mismatch", "other"],
  ["testing", "mx.a.test", "certificate-host-mismatch", "other"],
] as const;

test.each(FAILURES)("a policy that says %s for %s reports %s (%s)", async (mode, mx, result, how) => {
  await world.policyOf("a.test", POLICY_HOST, [`mode: ${mode}`, `mx: ${mx}`]);
  if (how === "open") await takeInTheOpen("127.1.0.1");
  else {
    const name = how === "other" ? "mx.elsewhere.test" : "mx.a.test";
    const certificate = world.authority.certify(name, { isExpired: how === "expired" });
    await world.peerAt("127.1.0.1", (talk) => talk.takeSecured(certificate));
  }
  const under = counting();
  await sendAndCount(under, "one@a.test");
  toTomorrow();
  await work(sender(under));
  expect(posted[0]?.report).toMatchObject({
    policies: [
      {
        policy: { "policy-type": "sts" },
        summary: { "total-successful-session-count": 0, "total-failure-session-count": 1 },
        "failure-details": [{ "result-type": result, "failed-session-count": 1 }],
      },
    ],
  });
});

test("a domain without a policy is told of its connections too, and a policy that cannot be had is named", async () => {
  await takeInTheOpen("127.1.0.1");
  const under = counting();
  await sendAndCount(under, "one@a.test");
  world.name({ "_mta-sts.a.test": { txt: ["v=STSv1; id=1"] } }); // and no host
  await sendAndCount(counting(), "one@a.test");
  toTomorrow();
  await work(sender(under));
  expect(posted[0]?.report).toMatchObject({
    policies: [
      {
        policy: { "policy-type": "no-policy-found" },
        "failure-details": [
          { "result-type": "starttls-not-supported", "receiving-mx-hostname": "mx.a.test" },
        ],
      },
      {
        policy: { "policy-type": "sts" },
        "failure-details": [{ "result-type": "sts-policy-fetch-error", "receiving-ip": "127.1.0.1" }],
      },
    ],
  });
});

test("nothing is counted for a domain that asks for no reports", async () => {
  world.dns.zones.delete("_smtp._tls.a.test");
  await takeInTheOpen("127.1.0.1");
  await sendAndCount(counting(), "one@a.test");
  expect(await sql`select from tls_sessions`).toHaveLength(0);
});

test("one report a day, however many processes send and start anew; a failed one is tried again", async () => {
  await takeInTheOpen("127.1.0.1");
  const under = counting();
  await sendAndCount(under, "one@a.test");
  await work(sender(under));
  expect(posted).toHaveLength(0); // the day is not over
  status = 503;
  toTomorrow();
  const senders = [sender(under), sender(under), sender(under)];
  for (const one of senders) await one.work();
  world.clock.advance(3 * 3_600_000);
  await Promise.all(senders.map((one) => one.work()));
  expect(posted).toHaveLength(1);
  status = 200;
  world.clock.advance(3_600_000);
  await Promise.all(senders.map((one) => one.work()));
  expect(posted).toHaveLength(2);
  expect(posted[1]).toEqual(posted[0]);
  for (let day = 0; day < 3; day++) {
    await work(sender(under));
    world.clock.advance(DAY_MS);
  }
  expect(posted).toHaveLength(2);
});

test("a report that nobody takes is given up after three days, and counts go after two weeks", async () => {
  await takeInTheOpen("127.1.0.1");
  const under = counting();
  await sendAndCount(under, "one@a.test");
  status = 500;
  for (let day = 0; day < 6; day++) {
    toTomorrow();
    await work(sender(under));
  }
  expect(await sql`select result from tls_report_out where due_at is null`).toEqual([
    { result: "given up: reports.test answers 500" },
  ]);
  world.clock.advance(14 * DAY_MS);
  await work(sender(under));
  expect(await sql`select from tls_report_out union all select from tls_sessions`).toHaveLength(0);
});

test.each([
  ["https://inside.test/", "leads to addresses that are not public"],
  ["https://reports.test:8443/", null],
  ["https://user:word@reports.test/", null],
  ["https://127.0.0.1/", null],
  ["http://reports.test/", null],
])("%s is not posted to", async (rua, why) => {
  world.name({
    "_smtp._tls.a.test": { txt: [`v=TLSRPTv1; rua=${rua}`] },
    "inside.test": { addresses: [TAKER] },
  });
  await takeInTheOpen("127.1.0.1");
  await sendAndCount(counting(), "one@a.test");
  toTomorrow();
  await work(sender(world.courier({ sql, mayReachLoopback: false })));
  expect(posted).toHaveLength(0);
  const [row] = await sql<{ result: string }[]>`select result from tls_report_out`;
  expect(row?.result).toContain(why ?? "the domain asks for no reports");
});
