/**
 * A setting that cannot hold ends a process with status 78, in words that name it, before any store is waited
 * for.
 */
import { expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { services } from "../rig/services.ts";

/** Nobody listens there: who waits for it never ends. */
const NOWHERE = { databaseUrl: "postgres://127.0.0.1:1/none", redisUrl: "redis://127.0.0.1:1" };

test.each<[role: string, settings: Record<string, string>, said: RegExp]>([
  ["api", { DATABASE_URL: "" }, /^DATABASE_URL must be set\./],
  ["api", { POSTRIDER_SECRET: "" }, /^POSTRIDER_SECRET must be set\./],
  ["api", { DATABASE_URL: "postgres:wrong@host" }, /^DATABASE_URL must be a URL .* names a host/],
  ["api", { READ_DATABASE_URL: "postgres:wrong@host" }, /^READ_DATABASE_URL must be a URL .* names a host/],
  [
    "api",
    { READ_DATABASE_URL: "postgres://h/d?sslmode=prefer" },
    /^READ_DATABASE_URL must be a URL whose sslmode is disable, .* or verify-full, but it is prefer\./,
  ],
  [
    "api",
    { DATABASE_URL: "postgres://h/d?sslrootcert=/nowhere/ca.pem" },
    /^DATABASE_URL must be a URL whose sslrootcert can be read, but \/nowhere\/ca\.pem cannot\./,
  ],
  [
    "api",
    { DATABASE_URL: "postgres://h/d?sslrootcert=/etc/hostname" },
    /^DATABASE_URL must be a URL whose sslrootcert names a file of certificates, but \/etc\/hostname has none\./,
  ],
  ["api", { DATABASE_URL: "postgres://h1,h2/d" }, /^DATABASE_URL must be a URL of one host: /],
  ["api", { DATABASE_URL: "postgres://me:a,b@h1:1,h2:2/d" }, /^DATABASE_URL must be a URL of one host: /],
  ["api", { READ_DATABASE_URL: "postgres://h1%2Ch2/d" }, /^READ_DATABASE_URL must be a URL of one host: /],
  ["api", { REDIS_URL: "redis:wrong@host" }, /^REDIS_URL must be a URL/],
  ["deliver", { SMTP_URL: "" }, /^SMTP_URL is not set\./],
  ["deliver", { SMTP_URL: "smtp:wrong@host" }, /^SMTP_URL must be a URL .* names a host/],
  [
    "deliver",
    { SMTP_URL: "smtp://h?pool=many" },
    /^\?pool of SMTP_URL must be a whole number from 1 to 1000\./,
  ],
  [
    "deliver",
    { SMTP_URL: "smtp://h?ca=/nowhere" },
    /^\?ca of SMTP_URL names \/nowhere, which cannot be read\./,
  ],
  ["deliver", { SMTP_URL: "smtp://h", COURIER: "direct" }, /^COURIER=direct needs no smarthost/],
  ["api", { HOST: "0.0.0.0" }, /^PUBLIC_URL and MAIL_FROM must be set, since HOST is 0\.0\.0\.0/],
  ["keeper", { HOST: "0.0.0.0", METRICS_PORT: "0" }, /^METRICS_TOKEN is not set/],
  [
    "api",
    { POSTRIDER_DATABASE_URL: "x" },
    /^POSTRIDER_DATABASE_URL is not a setting\. Did you mean DATABASE_URL\?/,
  ],
  [
    "api",
    { DATABASE_READ_URL: "x" },
    /^DATABASE_READ_URL is not a setting\. Did you mean READ_DATABASE_URL\?/,
  ],
  ["api", { RETENTION_DAY: "3" }, /^RETENTION_DAY is not a setting\. Did you mean RETENTION_DAYS\?/],
])("%s with %o", async (role, settings, said) => {
  const { postrider } = commandLine({ ...NOWHERE, settings });
  const { status, err } = await postrider("serve", "--role", role);
  expect(err).toMatch(said);
  expect(err.trimEnd().split("\n")).toHaveLength(1);
  expect(status).toBe(78);
});

test.each([
  [
    "inbound",
    { BOUNCE_DOMAIN: "b.example", INBOUND_PORT: "0", INBOUND_TLS_CERT: "/nowhere" },
    "INBOUND_TLS_CERT",
  ],
  ["submission", { SUBMISSION_PORT: "0", SUBMISSION_TLS_CERT: "/nowhere" }, "SUBMISSION_TLS_CERT"],
])("a certificate of %s that cannot be read", async (role, settings, named) => {
  const { postrider } = commandLine({ ...services(), settings });
  const { status, err } = await postrider("serve", "--role", role);
  expect(err).toContain(named);
  expect(status).toBe(78);
});

test("a command says the same, and a wrong word in its place is another matter", async () => {
  const wrong = commandLine({ ...NOWHERE, settings: { DATABASE_URL: "postgres:wrong@host" } });
  for (const args of [["doctor"], ["queue"], ["migrate"]])
    expect((await wrong.postrider(...args)).status).toBe(78);
  const { postrider } = commandLine(NOWHERE);
  expect((await postrider("serve", "--rol", "api")).status).toBe(2);
  expect((await postrider("sevre")).status).toBe(2);
});

test.each([
  [["workspace", "set", "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90"], "Nothing to change"],
  [["workspace", "move", "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90"], "Give --to CELL"],
  [["webhook", "replay", "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90", "--workspace"], "Give one of"],
  [
    [
      "webhook",
      "replay",
      "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90",
      "--failed",
      "--until",
      "2026-11-20",
      "--workspace",
    ],
    "--until needs --since",
  ],
  [["key", "create", "--workspace"], "A key needs permissions"],
  [["caps", "set", "--reason", "x", "--by", "ada", "--workspace"], "Nothing to change"],
  [["caps", "set", "--reason", "x", "--by", "ada", "--clear", "--minimum", "500", "--workspace"], "--clear"],
])("options that are missing or do not go together are wrong usage: %s", async (words, said) => {
  const { json, postrider } = commandLine();
  const { id } = await json<{ id: string }>("workspace", "create", "--name", "Shop", "--plan", "pro");
  const { status, err } = await postrider(...words, ...(words.at(-1) === "--workspace" ? [id] : []));
  expect([status, err]).toEqual([2, expect.stringContaining(said)]);
});

test.each([
  ["migrate", { DATABASE_URL: "" }, /^There is no database to migrate\. Set DATABASE_URL/],
  ["workspace list", { REDIS_URL: "" }, /no settings that name its stores/],
  ["backup FILE", { DATABASE_URL: "" }, /^There is no database\. Set DATABASE_URL/],
])("a setting that %s lacks is a wrong setting", async (words, settings, said) => {
  const unset = { ...settings, POSTRIDER_HOME: "/nowhere" };
  const { status, err } = await commandLine({ settings: unset }).postrider(...words.split(" "));
  expect([status, err]).toEqual([78, expect.stringMatching(said)]);
});
