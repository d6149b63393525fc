import { expect, test } from "vitest";
import { scrape } from "../rig/scrape.ts";
import { freshHome, start } from "../rig/start.ts";

const PROCESSES = ["api", "deliver", "others"];

test("METRICS_PORT=0 picks a port, ready.json names it, and what each process counted is there", async () => {
  const ready = await start(freshHome(), { METRICS_PORT: "0" }).ready();
  const { base_url, api_key, metrics_url } = ready;
  expect(metrics_url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
  const sent = await fetch(`${base_url}/api/v1/emails`, {
    method: "POST",
    headers: { authorization: `Bearer ${api_key}`, "content-type": "application/json" },
    body: JSON.stringify({
      from: "demo@example.com",
      to: "you@example.com",
      subject: "One",
      text: "It works.",
    }),
  });
  expect(sent.status).toBe(200);
  const delivered = { process: "deliver", outcome: "delivered" };
  const told = () => scrape(metrics_url as string);
  await expect.poll(async () => (await told()).value("postrider_outcomes_total", delivered)).toBe(1);
  const all = await told();
  expect(all.value("postrider_emails_accepted_total", { process: "api" })).toBe(1);
  expect(all.value("postrider_requests_total", { process: "api", route: "POST /emails" })).toBe(1);
  for (const process of PROCESSES)
    expect(all.value("postrider_process_cpu_seconds_total", { process }), process).toBeGreaterThan(0);
  expect(all.text.match(/^# HELP postrider_requests_total/gm)).toHaveLength(1);
});
