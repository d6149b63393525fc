/** Two changes come from people who are not signed in yet. They are in the audit log as all others are. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newToken, tokenHash } from "../../src/console/sessions.ts";
import { keepReset } from "../../src/record/accounts/accounts.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { Browser, mailedInvitation, PASSWORD, type SessionBody, signedIn } from "../rig/people.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

type Change = { account: { id: string; email: string }; action: string; status: number | null };

let engine: Engine;
let workspace: TestWorkspace;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
  workspace = await engine.workspace();
});
afterAll(() => engine.stop());

test("an accepted invitation and a new password are in the log", async () => {
  const owner = await signedIn(engine.consoleUrl, engine.sql, workspace.id);
  const email = `new.${workspace.handle}@example.com`;
  await owner.post("members", { email, role: "member" });
  const guest = new Browser(engine.consoleUrl);
  const [, invitation] = (await mailedInvitation(engine.sql, workspace.id, email)).split("#");
  const { body } = await guest.post<SessionBody>("invitation/accept", {
    token: invitation,
    password: PASSWORD,
  });
  const { id } = body.account;
  expect(await changes(owner, "POST invitation/accept")).toMatchObject([
    {
      account: { id, email },
      status: 200,
      detail: { role: "member" },
    },
  ]);

  const token = newToken();
  await keepReset(engine.sql, id, tokenHash(token), new Date());
  const confirmed = await guest.post("reset/confirm", { token, password: `${PASSWORD} 2` });
  expect(confirmed.status).toBe(200);
  expect(await changes(owner, "POST reset/confirm")).toMatchObject([{ account: { id, email }, status: 200 }]);
});

async function changes(browser: Browser, action: string): Promise<Change[]> {
  const { body } = await browser.get<{ data: Change[] }>("audit");
  return body.data.filter((change) => change.action === action);
}
