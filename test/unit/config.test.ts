/**
 * Settings: defaults, what each allows, and that everything wrong is said at once without telling a secret.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ConfigError, type Env, loadConfig, SETTINGS, settingsTable } from "../../src/config.ts";

function problemsOf(env: Env): string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message.split("\n");
  }
}

test("an empty environment is the development on one machine", () => {
  expect(loadConfig({})).toMatchObject({
    databaseUrl: null,
    redisUrl: null,
    smtpUrl: null,
    secret: null,
    home: ".postrider",
    host: "127.0.0.1",
    port: 3000,
    smtpTls: "opportunistic",
    smtpTlsVerify: true,
    storeTimeoutMs: 2_000,
    retrySchedule: [60, 300, 900, 3_600, 7_200, 14_400, 28_800, 57_600, 86_400],
  });
});

test("an empty variable is one that is not set", () => {
  expect(loadConfig({ PORT: "", REDIS_URL: "" })).toEqual(loadConfig({}));
});

test("all problems are named together, a line each, with the variable and what it allows", () => {
  expect(
    problemsOf({ PORT: "70000", RETENTION_DAYS: "ten", SMTP_TLS: "maybe", RETRY_SCHEDULE: "60,0" }),
  ).toEqual([
    "PORT must be a whole number from 0 to 65535, but is `70000`.",
    "RETRY_SCHEDULE must be whole numbers from 1 to 86400, comma-separated, but is `60,0`.",
    "SMTP_TLS must be opportunistic, required or off, but is `maybe`.",
    "RETENTION_DAYS must be a whole number from 1 to 3650, but is `ten`.",
  ]);
});

test("no message repeats a secret or a password", () => {
  const env = {
    POSTRIDER_SECRET: "hunter2",
    DATABASE_URL: "mysql://me:hunter2@db",
    REDIS_URL: "http://:hunter2@r",
    SMTP_URL: "hunter2",
  };
  const problems = problemsOf(env);
  expect(problems).toHaveLength(4);
  expect(problems.join()).not.toContain("hunter2");
});

test.each(["https://mail.example.com/?a=b", "https://me:hunter2@mail.example.com"])(
  "links cannot begin with %s",
  (value) => {
    const [problem = "", ...more] = problemsOf({ PUBLIC_URL: value });
    expect(more).toEqual([]);
    expect(problem).toMatch(/^PUBLIC_URL must be a URL without .* paths are written behind it/);
    expect(problem).not.toContain("hunter2");
  },
);

test.each([
  ["DATABASE_URL", "postgres://user:123#4@db/postrider", "write %23"],
  ["DATABASE_URL", "postgres://user:12?34@db/postrider", "write %2F and %3F"],
  ["READ_DATABASE_URL", "postgres://user:12/34@db/postrider", "write %2F and %3F"],
  ["DATABASE_URL", "postgres://user:12%34%@db/postrider", "write %25"],
  ["SMTP_URL", "smtp://user:12%zz34@relay", "write %25"],
  ["REDIS_URL", "redis://:12#34@r", "write %23"],
  ["REDIS_URL", "redis+sentinel://:12%34%@a,b/name", "write %25"],
])("a password that is not encoded is no host: %s=%s", (env, value, remedy) => {
  const [problem = "", ...more] = problemsOf({ [env]: value });
  expect(more).toEqual([]);
  expect(problem).toMatch(new RegExp(`^${env} must be a URL .*${remedy}`));
  expect(problem).not.toMatch(/12|34/);
});

test.each([
  ["postgres://u:p@db:5432/postrider?socket=/run/postgresql", "DATABASE_URL", true],
  ["postgresql://db/postrider", "DATABASE_URL", true],
  ["postgres://u:p%23%2F%3F%25@db/postrider", "DATABASE_URL", true],
  ["postgres://db/postrider?socket=/run/a@b", "DATABASE_URL", true],
  ["https://mail.example.com/@us", "PUBLIC_URL", true],
  ["db:5432", "DATABASE_URL", false],
  ["redis://r", "REDIS_URL", true],
  ["rediss://:password@r:6380/2", "REDIS_URL", true],
  ["unix:///run/redis.sock", "REDIS_URL", true],
  ["redis+unix:///run/redis.sock", "REDIS_URL", true],
  ["redis-cluster://a:7401,b:7402,c:7403", "REDIS_URL", true],
  ["redis://a:7401,redis://b:7402", "REDIS_URL", true],
  ["rediss-cluster://u:p@a:7401,b:7402", "REDIS_URL", true],
  ["redis://a:7401,rediss://b:7402", "REDIS_URL", false],
  ["redis+sentinel://u:p@a,b:26380/shop/0", "REDIS_URL", true],
  ["rediss+sentinel://a/shop", "REDIS_URL", true],
  ["redis+sentinel://a,b", "REDIS_URL", false],
  ["redis+sentinel://a/shop/first", "REDIS_URL", false],
  ["redis://a:7401,:::", "REDIS_URL", false],
  ["redis://a:7401,", "REDIS_URL", false],
  ["unix://", "REDIS_URL", false],
  ["localhost:6379", "REDIS_URL", false],
  ["smtp://user:password@relay:587?pool=20", "SMTP_URL", true],
  ["smtps://relay", "SMTP_URL", true],
  ["relay:25", "SMTP_URL", false],
  ["x".repeat(31), "POSTRIDER_SECRET", false],
  ["x".repeat(32), "POSTRIDER_SECRET", true],
  ["direct", "COURIER", true],
  ["internet", "COURIER", false],
  ["mail.example.com", "EHLO_NAME", true],
  ["mail", "EHLO_NAME", false],
  ["mail.example.com QUIT", "EHLO_NAME", false],
  ["9.9.9.9, 127.0.0.1:5300, [2620:fe::fe]:53, 2620:fe::fe", "DNS_SERVERS", true],
  ["dns.example.com", "DNS_SERVERS", false],
  ["2001:db8::1", "DIRECT_SOURCE_ADDRESS", true],
  ["mail.example.com", "DIRECT_SOURCE_ADDRESS", false],
  ["10.0.0.0/8,fd00::/8", "DIRECT_NETWORKS_ALLOWED", true],
  ["10.0.0.0", "DIRECT_NETWORKS_ALLOWED", false],
  ["10.0.0.0/33", "DIRECT_NETWORKS_ALLOWED", false],
  ["0", "PORT", true],
  ["-1", "PORT", false],
  ["1e3", "PORT", false],
  ["yes", "SMTP_TLS_VERIFY", true],
  ["on", "SMTP_TLS_VERIFY", false],
  ["60", "RETRY_SCHEDULE", true],
  ["60, 300", "RETRY_SCHEDULE", true],
  ["60,86401", "RETRY_SCHEDULE", false],
])("%s as %s: %s", (value, env, isAllowed) => {
  expect(problemsOf({ [env]: value })).toHaveLength(isAllowed ? 0 : 1);
});

test("every setting takes its own default, and whatever else it is given it takes or refuses", () => {
  for (const { env, fallback } of Object.values(SETTINGS))
    if (fallback !== null) expect(problemsOf({ [env]: fallback })).toEqual([]);
  fc.assert(
    fc.property(
      fc.constantFrom(...Object.values(SETTINGS)),
      fc.string({ maxLength: 40 }),
      ({ env }, value) => {
        const problems = problemsOf({ [env]: value });
        expect(problems.length).toBeLessThanOrEqual(1);
        for (const problem of problems) expect(problem.startsWith(`${env} must be `)).toBe(true);
      },
    ),
  );
});

test("the table has a row for each variable, and none twice", () => {
  const names = [...settingsTable().matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toEqual(Object.values(SETTINGS).map(({ env }) => env));
});

test.each([
  ["DATABASE_URI", "DATABASE_URI is not a setting. Did you mean DATABASE_URL?"],
  ["MAIL_FORM", "MAIL_FORM is not a setting. Did you mean MAIL_FROM?"],
  ["RETRY_SHEDULE", "RETRY_SHEDULE is not a setting. Did you mean RETRY_SCHEDULE?"],
  ["POSTRIDER_KEY", "POSTRIDER_KEY is not a setting. docs/settings.md has all of them."],
])("%s looks like a setting, and is refused", (name, said) => {
  expect(problemsOf({ [name]: "x" })).toEqual([said]);
});

test.each([
  "PATH",
  "POST",
  "PORTS",
  "SMTP_PORT",
  "SMTP_USER",
  "REDIS_PORT",
  "POSTGRES_DB",
  "POSTRIDER_PORT",
  "POSTRIDER_PORT_3000_TCP_ADDR",
  "POSTRIDER_SERVICE_HOST",
])("%s means something else, and is let be", (name) => {
  expect(problemsOf({ [name]: "x" })).toEqual([]);
});

test.each(["postgres:wrong@host", "postgres://", "postgres:///postrider"])("%s names no host", (url) => {
  expect(problemsOf({ DATABASE_URL: url })).toEqual([
    "DATABASE_URL must be a URL that starts with postgres:// or postgresql:// and names a host, but is something else.",
  ]);
});

test("a unix socket needs no host", () => {
  expect(problemsOf({ DATABASE_URL: "postgres:///postrider?socket=/run/postgresql" })).toEqual([]);
});
