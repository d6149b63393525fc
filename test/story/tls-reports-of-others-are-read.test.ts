/**
 * TLS reports of others (RFC 8460) about domains of ours are taken by `inbound`, kept once, and shown; others
 * are not.
 */
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { readTlsMail } from "../../src/inbound/tlsmail.ts";
import { nameDomain } from "../../src/record/workspaces/domains.ts";
import { commandLine } from "../rig/command.ts";
import { heldBy } from "../rig/held.ts";
import { BOUNCE_DOMAIN, ReportLoop } from "../rig/loop.ts";
import { handIn } from "../rig/reports.ts";

const TO = `tls@${BOUNCE_DOMAIN}`;

let loop: ReportLoop;
beforeAll(async () => {
  loop = await ReportLoop.open({ settings: { TLS_REPORTS_TO: TO } });
  await nameDomain(loop.engine.sql, loop.ws.id, "ours.test", new Date());
  await loop.engine.sql`update domain set verified_at = now() where domain = 'ours.test'`;
});
afterAll(() => loop.close());
beforeEach(async () => {
  await loop.engine.sql`truncate report, tls_report_in`;
});

function report(domain: string, more: object = {}): object {
  return {
    "organization-name": "Company-X",
    "date-range": { "start-datetime": "2026-11-20T00:00:00Z", "end-datetime": "2026-11-20T23:59:59Z" },
    "contact-info": "sts-reporting@company-x.example",
    "report-id": "5065427c-23d3@company-x.example",
    policies: [
      {
        policy: { "policy-type": "sts", "policy-string": ["version: STSv1"], "policy-domain": domain },
        summary: { "total-successful-session-count": 5326, "total-failure-session-count": 303 },
        "failure-details": [
          {
            "result-type": "certificate-expired",
            "sending-mta-ip": "2001:db8:abcd:0012::1",
            "receiving-mx-hostname": "mx1.ours.test",
            "failed-session-count": 100,
          },
          { "result-type": "starttls-not-supported", "failed-session-count": "203" },
        ],
      },
    ],
    ...more,
  };
}

function mailOf(content: Buffer, type = "application/tlsrpt+gzip", name = "r.json.gz"): string {
  return [
    "From: tls@company-x.example",
    "Subject: Report Domain: ours.test",
    'Content-Type: multipart/report; report-type="tlsrpt"; boundary="b"',
    "",
    "--b",
    "Content-Type: text/plain",
    "",
    "This is a report.",
    "--b",
    `Content-Type: ${type}`,
    "Content-Transfer-Encoding: base64",
    `Content-Disposition: attachment; filename="${name}"`,
    "",
    ...(content.toString("base64").match(/.{1,76}/g) ?? []),
    "--b--",
  ].join("\r\n");
}

const zipped = (value: object) => gzipSync(JSON.stringify(value));

async function resultOf(message: string): Promise<string> {
  expect((await handIn(loop.port, TO, message)).at(-1)).toMatch(/^250/);
  return (await loop.results()).at(-1) as string;
}

test("it is kept once however often it comes, and shown", async () => {
  expect(await resultOf(mailOf(zipped(report("ours.test"))))).toBe("kept");
  expect(await resultOf(mailOf(zipped(report("ours.test"))))).toBe("kept");
  const command = commandLine({ databaseUrl: loop.database.url, redisUrl: loop.redis.url });
  expect(await command.json("domain", "reports", "ours.test")).toEqual([
    {
      domain: "ours.test",
      organization: "Company-X",
      report_id: "5065427c-23d3@company-x.example",
      begins_at: "2026-11-20T00:00:00.000Z",
      ends_at: "2026-11-20T23:59:59.000Z",
      policy: "sts",
      succeeded: 5326,
      failed: 303,
      failures: [
        { result: "certificate-expired", host: "mx1.ours.test", sessions: 100, why: null },
        { result: "starttls-not-supported", host: null, sessions: 203, why: null },
      ],
    },
  ]);
  const { out } = await command.postrider("domain", "reports", "ours.test");
  expect(out).toContain("100 certificate-expired at mx1.ours.test, 203 starttls-not-supported");
});

test.each([
  ["of the return paths", BOUNCE_DOMAIN],
  ["below one of ours", "mail.ours.test"],
  ["twenty labels below one of ours", `${"a.".repeat(20)}ours.test`],
])("a domain %s is ours", async (_, domain) => {
  expect(await resultOf(mailOf(zipped(report(domain))))).toBe("kept");
});

test.each([
  ["as plain JSON", "application/tlsrpt+json", "r.json"],
  ["as any file with its name", "application/octet-stream", "a!ours.test!1!2.json"],
])("it may come %s", async (_, type, name) => {
  const plain = Buffer.from(JSON.stringify(report("ours.test")));
  expect(await resultOf(mailOf(plain, type, name))).toBe("kept");
});

const BOMB = gzipSync(Buffer.alloc(80 * 1024 * 1024, " "));
const DEEP = gzipSync(`${"[".repeat(125_000)}${"]".repeat(125_000)}`);
const REFUSED: readonly (readonly [string, Buffer, string])[] = [
  ["about another's domain", zipped(report("theirs.test")), "it is about no domain of ours"],
  ["about a domain above ours", zipped(report("test")), "it names no policy of a domain"],
  ["that is a bomb", BOMB, "its report cannot be decompressed, or has more than 262144 bytes"],
  ["that is cut off", zipped(report("ours.test")).subarray(0, 60), "its report cannot be decompressed"],
  ["that is no JSON", gzipSync("[{"), "it is no JSON"],
  ["of too many values", gzipSync(`[${"0,".repeat(10_000)}0]`), "it has more than 10000 values"],
  ["that is very deep", DEEP, "it has more than 10000 values"],
  ["that is null", gzipSync("null"), "it names no organization"],
  ["without dates", zipped(report("ours.test", { "date-range": 1 })), "it names no organization"],
  [
    "of the year 40000",
    zipped(report("ours.test", { "date-range": { "start-datetime": "+040000-01-01" } })),
    "it names",
  ],
];

test.each(REFUSED)("one %s is ignored", async (_, content, why) => {
  expect(await resultOf(mailOf(content))).toContain(`ignored: ${why}`);
  expect(await loop.engine.sql`select from tls_report_in`).toHaveLength(0);
});

test("counts that are no numbers and texts that a terminal obeys do no harm", async () => {
  const odd = report("ours.test", {
    "organization-name": `Evil\u001b[2J\u202e${"x".repeat(5_000)}`,
    policies: [
      null,
      { policy: { "policy-domain": "OURS.TEST." }, summary: { "total-successful-session-count": -1e300 } },
    ],
  });
  expect(await resultOf(mailOf(zipped(odd)))).toBe("kept");
  const [row] = await loop.engine.sql<{ organization: string; succeeded: string }[]>`
    select organization, succeeded from tls_report_in`;
  expect(row?.organization).toMatch(/^Evil [ -~]{1,200}$/);
  expect(row?.succeeded).toBe("0");
});

test("a domain keeps at most 200 reports of a day", async () => {
  const many = (n: number) =>
    report("ours.test", {
      "report-id": String(n),
      policies: Array.from({ length: 20 }, (_, p) => ({
        policy: { "policy-type": `t${p}`, "policy-domain": "ours.test" },
      })),
    });
  for (let n = 0; n < 12; n++) expect(await resultOf(mailOf(zipped(many(n))))).toBe("kept");
  expect(await loop.engine.sql`select from tls_report_in`).toHaveLength(200);
});

test("strangers who send many crowd out nobody", async () => {
  const of = (organization: string, id: string, domain = "ours.test") =>
    mailOf(zipped(report(domain, { "organization-name": organization, "report-id": id })));
  const organizations = async () =>
    (await loop.engine.sql<{ organization: string }[]>`select organization from tls_report_in`).map(
      (row) => row.organization,
    );
  const strangers = (organization: string, network: string) => loop.engine.sql`
    insert into tls_report_in (id, domain, organization, report_id, begins_at, ends_at, policy, succeeded, failed, failures,
      network, received_at)
    select gen_random_uuid(), domain, ${organization} || n / 2, n::text, begins_at, ends_at, policy, succeeded, failed,
      failures, ${network}, now()
    from (select * from tls_report_in limit 1) t, generate_series(1, 200) n`;
  await resultOf(of("Known", "yesterday"));
  await loop.engine.sql`update tls_report_in set received_at = now() - interval '2 days'`;
  await strangers("Stranger ", "192.0.2.0/24");
  await resultOf(of("Known", "today"));
  await resultOf(of("Known", "today, too"));
  await resultOf(of("Another", "first"));
  const kept = await organizations();
  expect(kept.filter((name) => name === "Known")).toHaveLength(3);
  expect(kept).toContain("Another");
  expect(kept).toHaveLength(201);
});

test("who forges the name of a known organization crowds out only their own", async () => {
  const of = (id: string) =>
    mailOf(zipped(report("ours.test", { "organization-name": "Known", "report-id": id })));
  await resultOf(of("yesterday"));
  const forge = (ids: number, days: number) => loop.engine.sql`
    insert into tls_report_in (id, domain, organization, report_id, begins_at, ends_at, policy, succeeded, failed, failures,
      network, received_at)
    select gen_random_uuid(), domain, 'Known', ${`${days} `} || n, begins_at, ends_at, policy, succeeded, failed, failures,
      '192.0.2.0/24', now() - make_interval(days => ${days})
    from (select * from tls_report_in limit 1) t, generate_series(1, ${ids}) n`;
  await loop.engine.sql`update tls_report_in set received_at = now() - interval '2 days'`;
  // patient enough to be known themselves
  await forge(1, 2);
  await forge(200, 0);
  for (const id of ["a", "b", "c"]) await resultOf(of(id));
  const rows = await loop.engine.sql<{ network: string }[]>`
    select network from tls_report_in where received_at > now() - interval '1 day'`;
  expect(rows).toHaveLength(200);
  expect(rows.filter(({ network }) => network === "127.0.0.0/24")).toHaveLength(3);
});

test.each([
  ["a bomb", BOMB],
  ["a very deep one", DEEP],
  ["a wide one", gzipSync(`[${"{},".repeat(87_000)}1]`)],
])("reading %s holds the loop for less than 50 ms", async (_, content) => {
  const message = Buffer.from(mailOf(content).slice(0, 128 * 1024));
  expect(await heldBy(() => readTlsMail(message), 50)).toBeLessThan(50);
});
