/**
 * An automation's mail to a suppressed address is written, ends as suppressed and goes nowhere; the run goes
 * on.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Flows, startFlows } from "../rig/flows.ts";

let flows: Flows;
beforeAll(async () => {
  flows = await startFlows();
});
afterAll(() => flows.stop());

test("one of two people is suppressed: only the other's mail may go", async () => {
  const shop = await flows.shop();
  const automation = await shop.automate({
    name: "Welcome",
    event: "signup",
    entry: "once",
    steps: [{ send: { from: "shop@example.com", subject: "Hi", text: "Hi" } }],
  });
  expect((await shop.client.post("/suppressions", { email: "GONE@example.net" })).status).toBe(201);
  for (const email of ["gone@example.net", "here@example.net"]) {
    await shop.contact(email);
    await shop.track(email, { event: "signup" });
  }
  await flows.go();
  const mails = (await shop.mails()).map(({ to, status }) => [to, status]).sort();
  expect(mails).toEqual([
    ["gone@example.net", "suppressed"],
    ["here@example.net", "accepted"],
  ]);
  expect((await shop.runs(automation)).map(({ state }) => state)).toEqual(["finished", "finished"]);
});
