/** A domain from its first key to a rotation, against a DNS server of the test. */
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { type Engine, startEngine } from "../rig/engine.ts";
import { openTxtServer, type TxtServer } from "../rig/txt.ts";

let engine: Engine;
let dns: TxtServer;
let folder: string;
beforeAll(async () => {
  [engine, dns] = await Promise.all([startEngine(["api"]), openTxtServer()]);
  folder = mkdtempSync(join(tmpdir(), "postrider-keys-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await Promise.all([engine.stop(), dns.close()]);
});

const { postrider, json } = commandLine();

type Shown = {
  domain: string;
  selector: string;
  algorithm: string;
  bits: number | null;
  state: string;
  record: { name: string; value: string };
};

test("a key signs when DNS shows it, and its successor takes its place then", async () => {
  const { id } = await engine.workspace();
  const at = ["--workspace", id];
  const states = async () =>
    Object.fromEntries(
      (await json<Shown[]>("domain", "list", ...at)).map((key) => [key.selector, key.state]),
    );
  const verify = () =>
    postrider("domain", "verify", "signs.com-tests.example", ...at, "--resolver", dns.address);

  const first = await json<Shown>("domain", "add", "Signs.COM-tests.example", ...at);
  expect(first).toMatchObject({
    domain: "signs.com-tests.example",
    algorithm: "rsa",
    bits: 2048,
    state: "waiting",
  });
  const early = await verify();
  expect(early.status).toBe(1);
  expect(early.out).toContain(`there is no TXT record at ${first.record.name}`);
  expect(early.err).toBe(
    "The new key is not in DNS yet. Publish the record that `postrider domain show` prints, and try again later.\n",
  );
  expect((await postrider("domain", "add", "signs.com-tests.example", ...at)).err).toContain(
    "`postrider domain rotate` replaces it",
  );

  dns.records.set(first.record.name, [first.record.value]);
  const found = await verify();
  expect(found, found.err).toMatchObject({ status: 0 });
  expect(found.out).toContain("holds the key");
  expect(await states()).toEqual({ [first.selector]: "signing" });

  const second = await json<Shown>("domain", "rotate", "signs.com-tests.example", ...at);
  const third = await json<Shown>(
    "domain",
    "add",
    "signs.com-tests.example",
    ...at,
    "--algorithm",
    "ed25519",
    "--now",
  );
  expect(await states()).toEqual({
    [first.selector]: "signing",
    [second.selector]: "waiting",
    [third.selector]: "signing",
  });
  expect((await verify()).err).toBe(
    "A key in use is missing in DNS: receivers cannot verify its signatures. Publish the record that `postrider domain show` prints.\n",
  );
  for (const { record } of [second, third]) dns.records.set(record.name, [record.value]);
  expect(await verify()).toMatchObject({ status: 0 });
  expect(await states()).toEqual({
    [first.selector]: "retired",
    [second.selector]: "signing",
    [third.selector]: "signing",
  });
  const sealed = await engine.sql`
    select selector from domain_key where workspace_id = ${id} and sealed_key is not null`;
  expect(sealed.map((row) => row.selector).sort()).toEqual([second.selector, third.selector].sort());

  const zone = (await postrider("domain", "show", "signs.com-tests.example", ...at)).out;
  expect(zone).toContain(`${second.record.name}. 3600 IN TXT (`);
  expect(zone).toContain("v=DMARC1");
  const refused = await postrider(
    "domain",
    "remove",
    "signs.com-tests.example",
    ...at,
    "--selector",
    second.selector,
  );
  expect(refused).toMatchObject({ status: 1 });
  expect(refused.err).toContain("Rotate it first");
  await json("domain", "remove", "signs.com-tests.example", ...at, "--selector", first.selector);
  expect(await json("domain", "remove", "signs.com-tests.example", ...at)).toEqual({
    domain: "signs.com-tests.example",
    removed: 2,
  });
  expect(await states()).toEqual({});
});

test("a key of one's own is taken, a weak one refused, a short one warned of", async () => {
  const { id } = await engine.workspace();
  const at = ["--workspace", id];
  const file = (bits: number) => {
    const path = join(folder, `${bits}.pem`);
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: bits });
    writeFileSync(path, privateKey.export({ type: "pkcs8", format: "pem" }));
    return path;
  };
  const weak = await postrider(
    "domain",
    "add",
    "signs.com-tests.example",
    ...at,
    "--key",
    file(768),
    "--selector",
    "s1",
  );
  expect(weak).toMatchObject({ status: 1 });
  expect(weak.err).toContain("768 bits");
  const short = await postrider(
    "domain",
    "add",
    "signs.com-tests.example",
    ...at,
    "--key",
    file(1024),
    "--selector",
    "s1",
  );
  expect(short).toMatchObject({ status: 0 });
  expect(short.out).toContain("s1._domainkey.signs.com-tests.example");
  expect(short.out).toContain("This key has 1024 bits. Some receivers ignore keys this short");
  const good = await postrider(
    "domain",
    "add",
    "b.com-tests.example",
    ...at,
    "--key",
    file(2048),
    "--selector",
    "s1",
  );
  expect(good).toMatchObject({ status: 0 });
  expect(good.out).not.toContain("short");
});

test("bad input ends with 1, in one line, and a silent DNS server is told from a missing record", async () => {
  const { id } = await engine.workspace();
  const at = ["--workspace", id];
  const cases: string[][] = [
    ["add", "com", ...at],
    ["add", "signs.com-tests.example", ...at, "--selector", "a_b"],
    ["add", "signs.com-tests.example", ...at, "--key", join(folder, "missing.pem")],
    ["add", "signs.com-tests.example", "--workspace", "00000000-0000-7000-8000-000000000000"],
    ["rotate", "signs.com-tests.example", ...at],
    ["show", "signs.com-tests.example", ...at],
    ["verify", "signs.com-tests.example", ...at, "--resolver", "nonsense"],
    ["remove", "signs.com-tests.example", ...at],
  ];
  for (const args of cases) {
    const ran = await postrider("domain", ...args);
    expect(ran.status, `${args}: ${ran.err}`).toBe(1);
    expect(ran.err.trimEnd().split("\n"), `${args}`).toHaveLength(1);
  }
  await json("domain", "add", "signs.com-tests.example", ...at);
  const gone = await openTxtServer();
  await gone.close();
  const silent = await postrider(
    "domain",
    "verify",
    "signs.com-tests.example",
    ...at,
    "--resolver",
    gone.address,
  );
  expect(silent).toMatchObject({ status: 1 });
  expect(silent.out).toContain("DNS gave no answer");
  expect(silent.err).toBe("DNS did not answer. Try again, or name another server with --resolver.\n");
});
