/**
 * Commands beside a running `npm start` have its settings: what it allows they allow, and what it runs they
 * see.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { POSTRIDER } from "../rig/process.ts";
import { freshHome, start } from "../rig/start.ts";

const home = freshHome();
const env = { PATH: process.env.PATH, POSTRIDER_HOME: home };
const postrider = async (...args: string[]) =>
  (await promisify(execFile)(process.execPath, [POSTRIDER, ...args], { env })).stdout;

test("a webhook on this machine, any sender, and the ports of submission", async () => {
  const { workspace_id, base_url } = await start(home).ready();
  const added = await postrider("webhook", "add", "http://127.0.0.1:9000/", "--workspace", workspace_id);
  expect(added).toMatch(/^Webhook \S+\.\nSecret whsec_/);
  const findings = JSON.parse(await postrider("doctor", "--json")) as { what: string; detail: string }[];
  const detailOf = (what: string) => findings.find((finding) => finding.what === what)?.detail;
  expect(detailOf("senders")).toContain("REQUIRE_VERIFIED_DOMAINS=false");
  expect(detailOf("public URL")).toBe(
    `PUBLIC_URL is not set: links in e-mails start with ${base_url}, which recipients cannot open`,
  );
  expect(detailOf("submission")).not.toContain("none");
});
