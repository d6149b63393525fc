/**
 * A file of ten thousand rows is imported with progress; the rows that are wrong are listed with their
 * reasons.
 */
import { expect } from "vitest";
import { inChromium, openConsole, sceneOf } from "../rig/page.ts";

const scene = sceneOf(openConsole);

const ROWS = 10_000;

inChromium("ten thousand rows, two of them wrong", async () => {
  const { engine, workspace, chromium } = scene;
  const { body } = await workspace.client.post<{ id: string }>("/audiences", { name: "Customers" });
  const rows = Array.from({ length: ROWS }, (_, n) => `person${n}@example.net,Person ${n}`);
  rows[10] = "not an address,Nobody";
  rows[20] = ",Nobody";
  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/audiences/${body.id}/import`);
  const buffer = Buffer.from(["email,first_name", ...rows].join("\n"));
  await page.getByLabel("CSV file").setInputFiles({ name: "customers.csv", mimeType: "text/csv", buffer });
  await page.getByLabel("Where they agreed").fill("checkout of the shop");
  await page.getByRole("button", { name: "Import", exact: true }).click();
  await page.getByRole("progressbar").waitFor();
  await page
    .getByRole("status")
    .getByText("10,000 of 10,000 rows: 9,998 imported, 2 rejected")
    .waitFor({ timeout: 90_000 });
  const rejected = page.getByRole("region", { name: "Rejected rows" });
  expect(await rejected.getByRole("row").count()).toBe(3);
  // the progress is in the URL, so that it survives a reload
  await page.reload();
  await page.getByRole("heading", { name: "Imported" }).waitFor();
  expect(chromium.complaints).toEqual([]);
});

inChromium("what cannot be imported as it is says what to do", async () => {
  const { engine, workspace, chromium } = scene;
  const { body } = await workspace.client.post<{ id: string }>("/audiences", { name: "Customers" });
  const page = await chromium.pageOf(engine, workspace.id, "member");
  await page.goto(`${engine.consoleUrl}/console/audiences/${body.id}/import`);
  const upload = async (buffer: Buffer) => {
    await page.getByLabel("CSV file").setInputFiles({ name: "a.csv", mimeType: "text/csv", buffer });
    await page.getByRole("button", { name: "Import", exact: true }).click();
  };
  await upload(Buffer.from("email,first_name\njuergen@example.net,J\u00fcrgen", "latin1"));
  await page.getByRole("alert").getByText("Save it as “CSV UTF-8”").waitFor();
  await upload(Buffer.alloc(4 * 1024 * 1024 + 1, "x"));
  await page.getByRole("alert").getByText("an import takes up to 4.0 MB. Split it").waitFor();
  await upload(Buffer.from("email;first_name\nada@example.net;Ada"));
  await page.getByRole("alert").getByText("semicolons between its cells").waitFor();
  const { body: found } = await workspace.client.get<{ data: object[] }>(`/audiences/${body.id}/contacts`);
  expect(found.data).toEqual([]);
  // four megabytes are four megabytes, whatever they become as JSON
  const row = `,"${"x".repeat(30)}"\n`;
  await upload(Buffer.from(`email,name\n${row.repeat(Math.floor((4 * 1024 * 1024 - 11) / row.length))}`));
  await page.getByRole("heading", { name: "Imported" }).waitFor({ timeout: 60_000 });
});
