/** A run keeps the version that it began with, and its screen draws it on that one. */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);

inChromium("a run of version 1 shows the steps of version 1 once there is a version 2", async () => {
  const { engine, workspace, chromium } = scene;
  const { client } = workspace;
  const make = async (path: string, body: object) => (await client.post<{ id: string }>(path, body)).body.id;
  const audience_id = await make("/audiences", { name: "Customers" });
  const document = { name: "Welcome", audience_id, event: "signed.up", entry: "once" };
  const branches = [
    // biome-ignore lint/suspicious/noThenProperty: the word of the document
    { if: [{ field: "contact.tags", contains: "vip" }], then: [{ tag: { add: ["greeted"] } }] },
    { else: [{ tag: { add: ["patient"] } }] },
  ];
  const id = await make("/automations", { ...document, steps: [{ split: branches }, { wait: "2h" }] });
  const email = "ann@example.net";
  await make(`/audiences/${audience_id}/contacts`, { email });
  await make("/events", { audience_id, email, name: "signed.up" });
  const [run] = await engine.sql<{ id: string }[]>`
    insert into run_step (workspace_id, run_id, seq, position, kind, result, began_at, ended_at)
    select workspace_id, id, s.n, s.place, s.kind, s.result, now(), now() from run,
      (values (1, '0', 'split', '0'), (2, '0.0.0', 'tag', 'done')) as s(n, place, kind, result)
    where workspace_id = ${workspace.id}
    returning run_id as id`;
  const later = [{ wait: "9h" }, { split: branches }];
  await client.call("PATCH", `/automations/${id}`, { steps: later });

  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/automations/${id}/runs/${run?.id}`);
  await page.getByText("1 of the automation, which is at 2").waitFor();
  const tag = page.locator(".step", { hasText: "+ greeted" });
  await expect.poll(() => tag.getAttribute("class")).toContain("done");
  await page.locator(".timeline").getByText('if tags contains "vip"').waitFor();
  await page.locator(".step", { hasText: "2h" }).waitFor();
  expect(await page.locator(".step", { hasText: "9h" }).count()).toBe(0);
  expect(chromium.complaints).toEqual([]);
});
