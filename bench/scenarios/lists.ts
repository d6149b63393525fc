/**
 * lists: pages of GET /emails in a workspace of `--backlog` e-mails (1,000,000) of the last 30 days, without
 * a filter and with each: how long one page takes, one request after the other, and the plans of what
 * Postgres does for it. What is looked for is rare and lies anywhere, so that every page is one that the
 * newest e-mails do not fill. Beside it what the search blocks cost, and their size.
 */
import { newId } from "../../src/ids.ts";
import { connectRecord, type Sql, type Tx } from "../../src/record/db/connect.ts";
import { type Unsent, writing } from "../../src/record/db/statement.ts";
import { type EmailFilter, searchEmails } from "../../src/record/mail/search.ts";
import { type Exhibit, figure } from "../figure.ts";
import { quantile } from "../load.ts";
import type { Bench, Workspace } from "../machine.ts";
import { cpuSeconds } from "../meter.ts";
import { DAY_MS, DAYS, fillDays, indexAll, PEOPLE } from "../pastmail.ts";
import type { Scenario } from "../scenario.ts";

const PAGES = 200;
const PLAN_MS_MAX = 60_000;

const lists: Scenario = {
  name: "lists",
  does: "pages of GET /emails, without and with each filter, in a workspace of `--backlog` e-mails",
  async run(bench, { sizes, tell }) {
    const workspace = await bench.workspace();
    const count = sizes.backlog;
    const rareKey = newId(Date.now());
    const filled = await timed(() => fillDays(bench, workspace, count, rareKey, tell));
    const indexed = await timed(() => indexAll(bench, workspace, tell));
    const api = await bench.role("api");
    const figures = [
      figure("e-mails", count, ""),
      figure("inserted", count / filled, "/s"),
      figure("put into search blocks", count / indexed, "/s"),
      figure("search blocks", await megabytes(bench, "search_block"), "MB"),
      figure("endings", await megabytes(bench, "email_ending"), "MB"),
    ];
    for (const [name, queryOf] of Object.entries(queries(count, rareKey))) {
      tell(name);
      const before = cpuSeconds(api.pid) + cpuSeconds(bench.postgres.pid);
      const { p50, p99, items } = await pages(`${api.url}/api/v1/emails`, workspace.key, queryOf);
      const cpu = cpuSeconds(api.pid) + cpuSeconds(bench.postgres.pid) - before;
      figures.push(
        figure(`${name}: p50`, p50, "ms"),
        figure(`${name}: p99`, p99, "ms", "below 50"),
        figure(`${name}: CPU`, (cpu * 1_000) / PAGES, "ms a page"),
        figure(`${name}: on a page`, items, "e-mails"),
      );
    }
    return { figures, exhibits: await plans(bench, workspace, rareKey) };
  },
};

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1_000;
}

/** The n-th request of each kind. */
function queries(count: number, rareKey: string): Record<string, (n: number) => string> {
  const anywhere = (n: number) => (n * 7_919) % count;
  const day = (n: number) => new Date(Date.now() - (1 + (n % (DAYS - 2))) * DAY_MS).toISOString();
  return {
    "no filter": () => "",
    "a recipient": (n) => `to=person${anywhere(n) % PEOPLE}@example.net`,
    "nobody's address": (n) => `to=nobody${n}@example.net`,
    "a word of few": () => "subject=refund",
    "words of one": (n) => `subject=order ${anywhere(n)}`,
    "a tag of few": () => "tag=kind:refund",
    "a key of few": () => `api_key_id=${rareKey}`,
    "status bounced": () => "status=bounced",
    "status suppressed": () => "status=suppressed",
    "status delivered": () => "status=delivered",
    "status scheduled": () => "status=scheduled",
    "status accepted": () => "status=accepted",
    "a day": (n) => `since=${day(n)}&until=${day(n - 1)}`,
    "bounced, a recipient": (n) => `status=bounced&to=person${anywhere(n) % PEOPLE}@example.net`,
    "bounced, a tag of few": () => "status=bounced&tag=kind:refund",
    "a recipient, a word, a day": (n) =>
      `to=person${anywhere(n) % PEOPLE}@example.net&subject=order&since=${day(n)}&until=${day(n - 1)}`,
  };
}

/** Request after request; every second one goes on where the one before ended. */
async function pages(url: string, key: string, queryOf: (n: number) => string) {
  const waits: number[] = [];
  let [items, cursor] = [0, ""];
  for (let n = 0; n < PAGES; n++) {
    const began = performance.now();
    const response = await fetch(`${url}?${queryOf(n >> 1)}${cursor}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    const { data, next_cursor } = (await response.json()) as { data: unknown[]; next_cursor: string | null };
    waits.push(performance.now() - began);
    if (!response.ok) throw new Error(`${queryOf(n)} was answered ${response.status}`);
    items += data.length;
    cursor = n % 2 === 0 && next_cursor ? `&cursor=${next_cursor}` : "";
  }
  waits.sort((a, b) => a - b);
  return { p50: quantile(waits, 0.5), p99: quantile(waits, 0.99), items: items / PAGES };
}

async function megabytes({ sql }: Bench, table: string): Promise<number> {
  const [row] = await sql<{ bytes: number }[]>`
    select sum(pg_total_relation_size(oid))::float8 as bytes from pg_class where relkind = 'r' and relname ~ ${`^${table}(_\\d+)?$`}`;
  return (row?.bytes ?? 0) / 1_000_000;
}

async function plans(bench: Bench, { id }: Workspace, rareKey: string): Promise<Exhibit[]> {
  const nothing: EmailFilter = {
    ...{ keyId: null, status: null, recipient: null, subject: null, tag: null, stream: null },
    ...{ since: null, until: null },
  };
  const filters: Record<string, EmailFilter> = {
    "a recipient": { ...nothing, recipient: ["person77@example.net"] },
    "a word of few": { ...nothing, subject: "refund" },
    "a tag of few": { ...nothing, tag: { name: "kind", value: "refund" } },
    "a key of few": { ...nothing, keyId: rareKey },
    "status bounced": { ...nothing, status: "bounced" },
    "status scheduled": { ...nothing, status: "scheduled" },
  };
  const reads = connectRecord(bench.postgres.url, "reads", PLAN_MS_MAX);
  const end = bench.endings.add(() => reads.end());
  const exhibits: Exhibit[] = [];
  for (const [name, filter] of Object.entries(filters)) {
    const lines: string[] = [];
    const page = { after: null, before: null, limit: 20 };
    await searchEmails(explaining(reads, lines), id, filter, page);
    exhibits.push({ name: `plans: ${name}`, text: lines.join("\n") });
  }
  await end();
  return exhibits;
}

/** Partitions that were not looked at say nothing. */
function explaining(sql: Sql, lines: string[]): Sql {
  const explain = async (statement: Unsent) => {
    const plan = await sql<
      { "QUERY PLAN": string }[]
    >`explain (analyze, buffers, costs off, timing off) ${statement}`;
    lines.push(
      ...plan.map((row) => row["QUERY PLAN"]).filter((line) => !line.includes("never executed")),
      "",
    );
    return sql`${statement}`;
  };
  return writing(explain as Parameters<typeof writing>[0]) as Tx as Sql;
}

export const scenarios = [lists];
