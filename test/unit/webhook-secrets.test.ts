/**
 * Signatures of webhooks, held against the published example, node's own verification, and who may open what.
 */
import { createPublicKey, verify } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import {
  newKeyPair,
  newSecret,
  rotated,
  SecretSealer,
  Signatures,
  type WebhookSecret,
} from "../../src/webhooks/secret.ts";

const NOW = Date.UTC(2026, 10, 18, 12);
const DAY_MS = 86_400_000;
const name = {
  workspaceId: "019a9f3e-5b1c-7d2a-9e41-0c6f2b7d8e90",
  id: "019a9f3e-6c2d-7e3b-8f52-1d7a3c8e9fa1",
};
const always = (secret: string): WebhookSecret => ({ secret, until: null });

function next(secrets: readonly WebhookSecret[], fresh: readonly string[], now: number): WebhookSecret[] {
  const found = rotated(secrets, fresh, now);
  if ("fullUntil" in found) throw new Error(`full until ${found.fullUntil}`);
  return found.secrets;
}

test("a signature is that of the published example", () => {
  const signatures = new Signatures([always("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]);
  expect(signatures.of("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}', NOW)).toBe(
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  );
});

test("an ed25519 signature is verified by the public key that is shown", () => {
  const { secret, publicKey } = newKeyPair();
  expect(secret).toMatch(/^whsk_/);
  const [version, signature] = new Signatures([always(secret)]).of("id", 1, "{}", NOW).split(",");
  expect(version).toBe("v1a");
  const head = Buffer.from("302a300506032b6570032100", "hex");
  const key = Buffer.concat([head, Buffer.from(publicKey.slice("whpk_".length), "base64")]);
  const signed = Buffer.from("id.1.{}");
  const check = (text: Buffer) =>
    verify(
      null,
      text,
      createPublicKey({ key, type: "spki", format: "der" }),
      Buffer.from(String(signature), "base64"),
    );
  expect(check(signed)).toBe(true);
  expect(check(Buffer.from("id.2.{}"))).toBe(false);
});

test("while a secret rotates both verify, and a day later only the new one", () => {
  const [old, fresh] = [newSecret(), newSecret()];
  const both = next([always(old)], [fresh], NOW);
  const at = Math.floor(Date.now() / 1000);
  const verified = (secret: string, now: number) => {
    const signature = new Signatures(both).of("id", at, "{}", now);
    const headers = { "webhook-id": "id", "webhook-timestamp": String(at), "webhook-signature": signature };
    return new Webhook(secret).verify("{}", headers);
  };
  expect(verified(fresh, NOW)).toEqual({});
  expect(verified(old, NOW + DAY_MS - 1)).toEqual({});
  expect(() => verified(old, NOW + DAY_MS)).toThrow("No matching signature");
});

test("secrets that are rotated again and again do not pile up, and none signs for less than its day", () => {
  let secrets = [always(newSecret())];
  for (let n = 0; n < 3; n++) secrets = next(secrets, [newSecret()], NOW + n);
  expect(secrets.length).toBe(4);
  expect(secrets.filter(({ until }) => until === null).length).toBe(1);
  expect(rotated(secrets, [newSecret()], NOW + 3)).toEqual({ fullUntil: NOW + DAY_MS });
  expect(next(secrets, [newSecret()], NOW + DAY_MS).length).toBe(4);
});

test("sealed secrets open only as those of their endpoint, and only under the server's secret", () => {
  const sealer = new SecretSealer("a secret of the tests, long enough");
  const secrets = [always(newSecret())];
  const sealed = sealer.seal(name, secrets);
  expect(sealed.includes(Buffer.from(secrets[0]?.secret ?? "?"))).toBe(false);
  expect(sealer.open(name, sealed)).toEqual(secrets);
  expect(() => sealer.open({ ...name, id: name.workspaceId }, sealed)).toThrow("cannot be decrypted");
  expect(() => new SecretSealer("another secret, long enough too...").open(name, sealed)).toThrow(
    "decrypted",
  );
  sealed[20] = (sealed[20] as number) ^ 1;
  expect(() => sealer.open(name, sealed)).toThrow("cannot be decrypted");
});
