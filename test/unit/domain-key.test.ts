import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import {
  makeKey,
  newSelector,
  publicPartOf,
  readDomain,
  readKey,
  readSelector,
  Sealer,
  UnusableKey,
} from "../../src/domain/key.ts";
import {
  judge,
  lookUp,
  type Published,
  recordName,
  recordText,
  zoneLine,
} from "../../src/domain/published.ts";

const SECRET = "a secret of the tests, long enough";
const name = { workspaceId: "0190-a", domain: "example.com", selector: "one" };
const rsa = await makeKey("rsa");
const ed25519 = await makeKey("ed25519");
const rsaPublished: Published = { ...name, algorithm: "rsa", publicKey: publicPartOf(rsa) };
const edPublished: Published = {
  ...name,
  selector: "two",
  algorithm: "ed25519",
  publicKey: publicPartOf(ed25519),
};

test("a sealed key opens under the same secret and name, and under no other", () => {
  const sealer = new Sealer(SECRET);
  for (const made of [rsa, ed25519]) {
    const sealed = sealer.seal(name, made);
    expect(sealer.open(name, sealed).equals(made.key)).toBe(true);
    expect(sealed.includes(made.key.export({ type: "pkcs8", format: "der" }).subarray(20))).toBe(false);
    expect(() => new Sealer(`${SECRET}!`).open(name, sealed)).toThrow(UnusableKey);
    for (const part of ["workspaceId", "domain", "selector"] as const)
      expect(() => sealer.open({ ...name, [part]: "another" }, sealed)).toThrow(UnusableKey);
    for (const at of [0, 20, sealed.length - 1]) {
      const spoilt = Buffer.from(sealed);
      spoilt[at] = (spoilt[at] as number) ^ 1;
      expect(() => sealer.open(name, spoilt)).toThrow(UnusableKey);
    }
    expect(() => sealer.open(name, sealed.subarray(0, 10))).toThrow(UnusableKey);
  }
});

test("a key that is brought must be one that receivers count", () => {
  const pem = (bits: number) =>
    generateKeyPairSync("rsa", { modulusLength: bits })
      .privateKey.export({ type: "pkcs1", format: "pem" })
      .toString();
  expect(readKey(pem(1_024)).algorithm).toBe("rsa");
  expect(() => readKey(pem(1_016))).toThrow("1016 bits");
  expect(readKey(ed25519.key.export({ type: "pkcs8", format: "pem" }).toString()).algorithm).toBe("ed25519");
  const others = [
    generateKeyPairSync("ec", { namedCurve: "P-256" })
      .privateKey.export({ type: "pkcs8", format: "pem" })
      .toString(),
    createPublicKey(rsa.key).export({ type: "spki", format: "pem" }).toString(),
    rsa.key.export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "x" }).toString(),
    "",
    "nonsense",
  ];
  for (const text of others) expect(() => readKey(text)).toThrow(UnusableKey);
});

test("names as DNS has them", () => {
  expect(readDomain("München.DE.")).toBe("xn--mnchen-3ya.de");
  for (const text of ["com", "", "a@b.com", "a b.com", "1.2.3.4", "x.com\r\n"])
    expect(readDomain(text)).toBeNull();
  expect(readSelector("S1.Mail")).toBe("s1.mail");
  for (const text of ["", "-a", "a_b", "a;b", "a..b", "x".repeat(64)]) expect(readSelector(text)).toBeNull();
  expect(readSelector(newSelector())).not.toBeNull();
});

test("the record fits into strings of 255", () => {
  const line = zoneLine(rsaPublished);
  const strings = [...line.matchAll(/"([^"]*)"/g)].map(([, text]) => text as string);
  expect(strings.length).toBe(2);
  expect(Math.max(...strings.map((text) => text.length))).toBeLessThanOrEqual(255);
  expect(strings.join("")).toBe(recordText(rsaPublished));
  expect(line).toMatch(/^one\._domainkey\.example\.com\. 3600 IN TXT \( "v=DKIM1; k=rsa; p=MII/);
  // RFC 8463: the 32 bytes alone
  expect(recordText(edPublished)).toMatch(/^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/);
});

test("what is found in DNS, in words", () => {
  const good = recordText(rsaPublished);
  const p = /p=(.*)$/.exec(good)?.[1] as string;
  const pkcs1 = createPublicKey(rsa.key).export({ type: "pkcs1", format: "der" }).toString("base64");
  const cases: [records: string[], isFound: boolean, says: string][] = [
    [[good], true, "holds the key"],
    [[`p=${p}`], true, "holds the key"],
    [[`v=DKIM1 ; k = rsa; p=${p.replace(/(.{60})/g, "$1 ")} ;`], true, "holds the key"],
    [[`v=DKIM1; p=${pkcs1}`], true, "holds the key"],
    [[`v=DKIM1; h=sha1:sha256; s=email; t=s; p=${p}`], true, "holds the key"],
    [[`v=DKIM1; t=y; p=${p}`], true, "testing mode"],
    [[], false, "no TXT record"],
    [[good, "v=spf1 -all"], false, "exactly one"],
    [["v=DKIM1; p="], false, "revokes"],
    [["v=DKIM1; k=rsa"], false, "holds no key"],
    [[recordText(edPublished)], false, "is for ed25519"],
    [[`v=DKIM2; p=${p}`], false, "does not begin with v=DKIM1"],
    [[`p=${p}; v=DKIM1`], false, "does not begin with v=DKIM1"],
    [[`v=DKIM1; s=other; p=${p}`], false, "not for e-mail"],
    [[`v=DKIM1; h=sha1; p=${p}`], false, "does not allow sha256"],
    [[`v=DKIM1; p=A${p.slice(1)}`], false, "another key"],
    [[`v=DKIM1; p=${p}; p=${p}`], false, "no list of tags"],
    [["nonsense"], false, "no list of tags"],
  ];
  for (const [records, isFound, says] of cases) {
    const finding = judge(rsaPublished, records);
    expect(finding, JSON.stringify(records)).toMatchObject({ isFound, isUnknown: false });
    expect(finding.says).toContain(says);
  }
  expect(judge(edPublished, [recordText(edPublished)]).isFound).toBe(true);
});

test("a name that does not exist is told from a server that does not answer", async () => {
  const failing = (code: string) => async () => {
    throw Object.assign(new Error(code), { code });
  };
  expect(await lookUp(rsaPublished, failing("ENOTFOUND"))).toMatchObject({
    isFound: false,
    isUnknown: false,
  });
  expect(await lookUp(rsaPublished, failing("ETIMEOUT"))).toMatchObject({ isFound: false, isUnknown: true });
  expect(
    await lookUp(rsaPublished, async (asked) =>
      asked === recordName(rsaPublished) ? [recordText(rsaPublished).match(/.{1,255}/g) as string[]] : [],
    ),
  ).toMatchObject({ isFound: true });
});
