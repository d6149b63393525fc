/**
 * `postrider caps policy`: applied, shown, compared and taken back, the same for every process; a broken one
 * stops nothing.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { applyPolicy, PolicyInForce, policyAt, policyInForce } from "../../src/capacity/inforce.ts";
import { DEFAULT_POLICY } from "../../src/capacity/policy.ts";
import { listCapPolicies } from "../../src/record/workspaces/cappolicies.ts";
import { MovableClock } from "../rig/clock.ts";
import { type CommandLine, commandLine } from "../rig/command.ts";
import { openStage, type Stage } from "../rig/stage.ts";
import { type TestApi, testApi } from "../rig/workspace.ts";

const clock = new MovableClock(Date.now());
let stage: Stage;
let api: TestApi;
let folder: string;
let file: string;
let line: CommandLine;
beforeAll(async () => {
  stage = await openStage();
  api = await testApi({ ...stage, clock });
  folder = mkdtempSync(join(tmpdir(), "policy-"));
  file = join(folder, "mine.json");
  line = commandLine({ ...stage, settings: { CAPS_POLICY: file } });
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await api.stop();
  await stage.close();
});

type Applied = {
  version: number;
  changed: boolean;
  changes: { field: string; before: unknown; after: unknown }[];
};

test("before anyone applies one the built-in policy is in force; the first start applies CAPS_POLICY", async () => {
  write({ growth: 0.5 });
  const broken = await begin();
  expect(broken.said).toEqual([
    expect.stringMatching(/^CAPS_POLICY .*mine\.json: `growth` must be at least 1\.$/),
  ]);
  expect(await policyInForce(api.sql)).toMatchObject({ version: 0, policy: { growth: 1.4 } });
  write({ growth: 1.3 });
  const [first, second] = await Promise.all([begin(), begin()]);
  expect([first.said, second.said]).toEqual([[], []]);
  expect([first.policy.version, second.policy.version]).toEqual([1, 1]);
  const shown = await line.json<{ version: number; author: string }>("caps", "policy", "show");
  expect(shown).toMatchObject({ version: 1, author: "CAPS_POLICY", policy: { growth: 1.3 } });
});

test("a version that is applied is in force in every process; the file of the setting is not taken again", async () => {
  write({ growth: 1.3 });
  const process = await begin();
  write({ growth: 1.6 });
  const diff = await line.json<Applied>("caps", "policy", "diff", file);
  expect(diff).toEqual({ version: 1, changes: [{ field: "growth", before: 1.3, after: 1.6 }] });
  expect(await process.policy.latest()).toMatchObject({ growth: 1.3 });
  expect(process.said).toEqual([expect.stringContaining("differs from version 1, which is in force")]);
  const applied = await line.json<Applied>(
    "caps",
    "policy",
    "apply",
    file,
    "--by",
    "Ada",
    "--reason",
    "faster",
  );
  expect(applied).toMatchObject({ version: 2, changed: true, changes: [{ field: "growth" }] });
  expect(await process.policy.latest()).toMatchObject({ growth: 1.6 });
  expect(process.policy).toMatchObject({ version: 2, refused: null });
  expect(await line.json("caps", "policy", "apply", file)).toMatchObject({ version: 2, changed: false });
});

test("a broken file is refused with the file and the place, and nothing changes", async () => {
  for (const [text, said] of [
    ['{\n  "growth": 1.4,\n  }', /mine\.json: It is not JSON: .*line 3, column 3/],
    [
      JSON.stringify({ ...DEFAULT_POLICY, shrink: { ...DEFAULT_POLICY.shrink, factor: 2 } }),
      /`shrink\.factor` must be at most 0\.99/,
    ],
    [JSON.stringify({ ...DEFAULT_POLICY, grwth: 2 }), /has no field `grwth`/],
  ] as const) {
    writeFileSync(file, text);
    const refused = await line.postrider("caps", "policy", "apply", file);
    expect(refused).toMatchObject({ status: 1, err: expect.stringMatching(said) });
  }
  rmSync(file);
  expect(await line.postrider("caps", "policy", "apply", file)).toMatchObject({
    status: 1,
    err: expect.stringContaining("There is no such file"),
  });
  const process = await begin();
  expect(process.policy.version).toBe(2);
  expect(process.said).toEqual([expect.stringContaining("There is no such file")]);
  const doctor = await line.postrider("doctor");
  expect(doctor.out).toMatch(/warn +caps policy +CAPS_POLICY .*There is no such file/);
});

test("rollback makes an earlier version the next one; 0 is the built-in policy", async () => {
  const back = await line.json<Applied>("caps", "policy", "rollback", "1", "--by", "Ada");
  expect(back).toMatchObject({ version: 3, restored: 1, changes: [{ field: "growth", after: 1.3 }] });
  expect(await line.json("caps", "policy", "rollback", "0")).toMatchObject({ version: 4 });
  const shown = await line.json<{ versions: { version: number; author: string; reason: string }[] }>(
    "caps",
    "policy",
    "show",
    "--version",
    "2",
  );
  expect(shown).toMatchObject({
    version: 2,
    in_force: false,
    author: "Ada",
    reason: "faster",
    policy: { growth: 1.6 },
  });
  expect(shown.versions.map(({ version }) => version)).toEqual([4, 3, 2, 1]);
  const unknown = await line.postrider("caps", "policy", "rollback", "99");
  expect(unknown).toMatchObject({ status: 1, err: expect.stringContaining("no version 99") });
});

test("a version that this release cannot use leaves the one before it in force, and is said once", async () => {
  await api.sql`insert into cap_policy (version, text, digest, author, reason, applied_at)
    values (5, '{"from": "a later release"}', 'x', 'Ada', '', now())`;
  const process = await begin();
  expect(process.policy.version).toBe(4);
  expect(process.policy.refused).toContain("Version 5 of the policy of caps cannot be used by this release");
  await process.policy.latest();
  expect(process.said.filter((words) => words.includes("Version 5"))).toHaveLength(1);
  expect(await policyInForce(api.sql)).toMatchObject({ version: 4, refused: expect.any(String) });
  // from here on a version can be applied
  expect(await line.json("caps", "policy", "rollback", "1")).toMatchObject({ version: 6, changed: true });
  expect(await process.policy.latest()).toMatchObject({ growth: 1.3 });
});

test("of applies that meet each names what it replaced, and their times are in the order of the versions", async () => {
  const known = (await policyInForce(api.sql)).version;
  const growths = [1.51, 1.52, 1.53, 1.54];
  const applied = await Promise.all(
    growths.map((growth, n) => {
      const by = { name: "Ada", reason: "" };
      return applyPolicy(api.sql, { ...DEFAULT_POLICY, growth }, by, clock.now() - n * 60_000);
    }),
  );
  const inOrder = applied.toSorted((a, b) => a.version - b.version);
  expect(inOrder.map(({ version }) => version)).toEqual(growths.map((_, n) => known + 1 + n));
  for (const [n, { version, before }] of inOrder.entries())
    expect(before).toEqual(await policyAt(api.sql, n === 0 ? known : version - 1));
  const rows = await listCapPolicies(api.sql, growths.length);
  const times = rows.map(({ appliedAt }) => appliedAt.getTime());
  expect(times).toEqual(times.toSorted((a, b) => b - a));
});

test("an author and a reason are a line of text", async () => {
  write({ growth: 1.2 });
  for (const by of ["", "  ", "a\nb", "x".repeat(101)]) {
    const refused = await line.postrider("caps", "policy", "apply", file, "--by", by);
    expect(refused).toMatchObject({ status: 1, err: expect.stringContaining("1 to 100 characters") });
  }
});

test("a policy is simulated as it is in force, as a file, and as `show` prints it", async () => {
  const about = ["caps", "simulate", "--scenario", "steady-shop", "--days", "1"];
  write({ growth: 1.35 });
  const { version } = await line.json<Applied>("caps", "policy", "apply", file);
  const { out } = await line.postrider(...about, "--policy", "inforce", "--versus", file);
  const [head = ""] = out.split("\n");
  expect(head).toMatch(
    new RegExp(
      `under version ${version} of the policy, which is in force \\((\\w+)\\) and the policy mine \\(\\1\\)$`,
    ),
  );
  const shown = join(folder, "shown.json");
  writeFileSync(shown, (await line.postrider("caps", "policy", "show", "--version", "0", "--json")).out);
  const built = await line.postrider(...about, "--policy", shown);
  const [, digest] = /under the policy shown \((\w+)\)\n/.exec(built.out) ?? [];
  expect((await line.postrider(...about)).out).toContain(`under the built-in policy (${digest})\n`);
  writeFileSync(file, "{growth");
  for (const [named, said] of [
    [file, /mine\.json: It is not JSON: /],
    [folder, /: It is a folder\./],
  ] as const) {
    const refused = await line.postrider(...about, "--policy", named);
    expect(refused).toMatchObject({ status: 1, err: expect.stringMatching(said) });
  }
});

function write(changes: Record<string, unknown>): void {
  writeFileSync(file, JSON.stringify({ ...DEFAULT_POLICY, ...changes }));
}

/** A process that begins: what it says of policies that are not in force. */
async function begin() {
  const said: string[] = [];
  const policy = new PolicyInForce({
    sql: api.sql,
    clock,
    path: file,
    onRefused: (words) => said.push(words),
    onFault: (error) => {
      throw error;
    },
  });
  await policy.open();
  await policy.stop();
  return { policy, said };
}
