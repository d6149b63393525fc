/** A button of the console retries what it stands beside: an e-mail, a domain, or the smarthost's mail. */
import { expect } from "vitest";
import { keyspace } from "../../src/redis/keyspace.ts";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { person, signedIn } from "../rig/people.ts";
import { openStage } from "../rig/stage.ts";
import { mail, type TestWorkspace } from "../rig/workspace.ts";

const scene = sceneOf(async () => {
  const stage = await openStage();
  const opened = await openConsole(["api"], stage);
  return {
    ...opened,
    async close() {
      await opened.close();
      await stage.close();
    },
  };
});

/** An e-mail that is tried again in an hour. */
async function deferred({ client }: TestWorkspace, to: string, domain: string | null): Promise<string> {
  const { id } = (await client.post<{ id: string }>("/emails", mail({ to, scheduled_at: "in 1 hour" }))).body;
  const { sql } = scene.engine;
  await sql`update due set why = 'deferred', domain = ${domain}, reply = '451 later' where email_id = ${id}`;
  await sql`update email set status = 'deferred' where id = ${id}`;
  return id;
}

/** Which of these are due now. */
async function dueNow(...ids: string[]): Promise<boolean[]> {
  const rows = await scene.engine.sql<{ id: string; isDue: boolean }[]>`
    select email_id as id, at <= now() as "isDue" from due where email_id = any(${ids}::uuid[])`;
  return ids.map((id) => rows.some((row) => row.id === id && row.isDue));
}

inChromium(
  "Retry of an e-mail retries that e-mail alone, also where its domain has other letters",
  async () => {
    const { engine, chromium } = scene;
    const own = await engine.workspace();
    const [one, other] = [
      await deferred(own, "ann@bücher.example", "xn--bcher-kva.example"),
      await deferred(own, "bob@bücher.example", "xn--bcher-kva.example"),
    ];
    const page = await chromium.pageOf(engine, own.id, "member");
    await page.goto(`${engine.consoleUrl}/console/emails/${one}`);
    const answered = page.waitForResponse((answer) => answer.request().method() === "POST");
    await page.getByRole("button", { name: "Retry now" }).click();
    expect((await answered).status()).toBe(200);
    expect(await dueNow(one, other)).toEqual([true, false]);
    const browser = await signedIn(engine.consoleUrl, engine.sql, own.id, "member");
    const byName = await browser.post("queue/retry", { destination: "BÜCHER.example" });
    expect(byName.body).toMatchObject({ retried: 2 });
    expect(await dueNow(one, other)).toEqual([true, true]);
    expect((await browser.post("queue/retry", { destination: "not a.domain" })).status).toBe(422);
    expect((await browser.post("queue/cancel", { destination: "bücher.example" })).body).toMatchObject({
      canceled: 2,
    });
    expect(await browser.post(`emails/${one}/retry`)).toMatchObject({
      status: 422,
      body: { message: "The e-mail is canceled: nothing is to be retried." },
    });
  },
);

inChromium(
  "Retry beside the smarthost leaves mail to domains alone, and the operator sees what is sent",
  async () => {
    const { engine, chromium } = scene;
    const [own, neighbour] = [await engine.workspace(), await engine.workspace()];
    const [toSmarthost, toDomain] = [
      await deferred(own, "ann@example.net", null),
      await deferred(neighbour, "bob@slow.example", "slow.example"),
    ];
    const sending = { domain: "busy.example", inFlight: 7, perMinute: 42, refusals: [] };
    await engine.redis.hset(
      keyspace.figures(),
      "w",
      JSON.stringify({ at: Date.now() + 60_000, domains: [sending] }),
    );
    const { email, id } = await person(engine.sql, own.id);
    await engine.sql`update account set is_operator = true where id = ${id}`;
    const page = await chromium.page();
    await page.goto(`${engine.consoleUrl}/console`);
    await signIn(page, email);
    await page.getByRole("heading", { level: 1, name: "Emails" }).waitFor();
    await page.goto(`${engine.consoleUrl}/console/operator?tab=queue`);
    const busy = page.getByRole("row").filter({ hasText: "busy.example" });
    await busy.waitFor();
    expect(await busy.getByRole("cell").allTextContents()).toEqual(["busy.example", "7", "42"]);
    const answered = page.waitForResponse((answer) => answer.request().method() === "POST");
    await page
      .getByRole("row")
      .filter({ hasText: "the smarthost" })
      .getByRole("button", { name: "Retry" })
      .click();
    expect(await (await answered).json()).toMatchObject({ retried: 1 });
    await page.getByRole("status").getByText("1 e-mail to the smarthost is tried now.").waitFor();
    expect(await dueNow(toSmarthost, toDomain)).toEqual([true, false]);
    expect(chromium.complaints).toEqual([]);
  },
);
