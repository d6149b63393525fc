/**
 * STARTTLS with receivers: taken when offered, whatever the certificate; done without where it fails, unless
 * required.
 */
import { generateKeyPairSync } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { inShort, openWorld, type World } from "../rig/direct.ts";
import type { Talk } from "../rig/peer.ts";

let world: World;
beforeEach(async () => {
  world = await openWorld();
  world.name({ "a.test": { mx: [[10, "mx.test"]] }, "mx.test": { addresses: ["127.1.0.1"] } });
});
afterEach(() => world.end());

async function takeAll(talk: Talk): Promise<void> {
  for (;;) await talk.takeMail();
}

test("it is taken with a certificate that proves nothing", async () => {
  const peer = await world.peerAt("127.1.0.1", async (talk) => {
    await talk.offerTls();
    talk.say("220 go on");
    talk.secure();
    await talk.hear("EHLO client.test");
    talk.say("250-peer.test", "250 PIPELINING");
    await takeAll(talk);
  });
  expect(inShort(await world.courier().send("one@a.test"))).toEqual(["dot 250"]);
  expect(peer.surprises).toEqual([]);
});

test("it is taken with a key of P-521 in TLS 1.2", async () => {
  const keys = generateKeyPairSync("ec", { namedCurve: "secp521r1" });
  const certificate = world.authority.certify("mx.test", { keys });
  const peer = await world.peerAt("127.1.0.1", (talk) =>
    talk.takeSecured({ ...certificate, maxVersion: "TLSv1.2" }),
  );
  const { send } = world.courier({ manners: { tls: "required" } });
  expect(inShort(await send("one@a.test"))).toEqual(["dot 250"]);
  expect(peer.surprises).toEqual([]);
});

test.each(["is refused", "is answered with noise", "breaks"])(
  "where the handshake %s the same host gets the mail in the open, and is not asked for TLS for a while",
  async (how) => {
    let handshakes = 0;
    const peer = await world.peerAt("127.1.0.1", async (talk) => {
      await talk.hello("PIPELINING", "STARTTLS");
      const line = await talk.hear("");
      if (line === "STARTTLS") {
        handshakes++;
        talk.say(how === "is refused" ? "454 4.7.0 no TLS today" : "220 go on");
        if (how === "is answered with noise") talk.mutter("this is no TLS record");
        if (how === "breaks") talk.break();
        await talk.gone();
        return;
      }
      await talk.hear("RCPT TO:");
      await talk.hear("DATA");
      talk.say("250 sender", "250 recipient", "354 go on");
      await talk.hearMessage();
      talk.say("250 2.0.0 taken");
      await takeAll(talk);
    });
    const { send, pass, direct } = world.courier();
    expect(inShort(await send("one@a.test"))).toEqual(["dot 250"]);
    pass(5_001); // the conversation grows idle
    await expect.poll(() => direct.figures.conversations).toBe(0);
    expect(inShort(await send("two@a.test"))).toEqual(["dot 250"]);
    expect(handshakes).toBe(1);
    expect(peer.talks).toHaveLength(3);
    pass(600_001);
    await expect.poll(() => direct.figures.conversations).toBe(0);
    await send("three@a.test");
    expect(handshakes).toBe(2);
  },
);

test("where TLS is required a host that does not offer it gets nothing", async () => {
  await world.peerAt("127.1.0.1", async (talk) => {
    await talk.hello("PIPELINING");
    await takeAll(talk);
  });
  const { send } = world.courier({ manners: { tls: "required" } });
  expect(inShort(await send("one@a.test"))).toEqual(["tls TLS_NOT_OFFERED"]);
});

test("where TLS is required a handshake that fails is no reason to go on in the open", async () => {
  const peer = await world.peerAt("127.1.0.1", async (talk) => {
    await talk.offerTls();
    talk.say("220 go on");
    talk.break();
  });
  const { send } = world.courier({ manners: { tls: "required" } });
  expect((await send("one@a.test"))[0]).toMatchObject({ phase: "tls", code: null });
  expect(peer.talks).toHaveLength(1);
});

test("a host that knows no EHLO is greeted with HELO", async () => {
  await world.peerAt("127.1.0.1", async (talk) => {
    talk.say("220 peer.test");
    await talk.hear("EHLO client.test");
    talk.say("502 never heard of it");
    await talk.hear("HELO client.test");
    talk.say("250 peer.test");
    await talk.hear("MAIL FROM:");
    talk.say("250 ok");
    await talk.hear("RCPT TO:");
    talk.say("250 ok");
    await talk.hear("DATA");
    talk.say("354 go on");
    await talk.hearMessage();
    talk.say("250 taken");
    await talk.gone();
  });
  expect(inShort(await world.courier().send("one@a.test"))).toEqual(["dot 250"]);
});
