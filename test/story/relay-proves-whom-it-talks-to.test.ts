/**
 * TLS and credentials: who is checked, what is refused, and that a password never crosses an open network.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { readSmarthost } from "../../src/delivery/smarthost.ts";
import type { Peer } from "../../src/smtp/conversation.ts";
import type { Reply } from "../../src/smtp/reply.ts";
import {
  ALWAYS,
  CERTIFICATE,
  mailTo,
  openPeer,
  relayTo,
  type Script,
  type ScriptedPeer,
} from "../rig/peer.ts";

const MESSAGE = Buffer.from("\r\nhello\r\n");
/** This machine, under an address that is not known as such. */
const ELSEWHERE = "0.0.0.0";
const CREDENTIALS = { user: "zoë", password: "geheim\u0001" };
const PLAIN = Buffer.from("\0zoë\0geheim\u0001").toString("base64");

/** Of the relay's clock, which passes it as soon as a connection has failed. */
const WAIT_MS = 10_000;
const LOOK_EVERY_MS = 5;

const peers: ScriptedPeer[] = [];

afterEach(async () => {
  for (const peer of peers.splice(0)) {
    await peer.close();
    expect(peer.surprises).toEqual([]);
  }
});

async function sendTo(script: Script, options: Partial<Peer>): Promise<Reply> {
  const peer = await openPeer(script);
  peers.push(peer);
  const { relay, pass } = relayTo(peer.port, { peer: options, limits: { waitMsMax: WAIT_MS } });
  const timer = setInterval(() => relay.figures.trouble && pass(WAIT_MS), LOOK_EVERY_MS);
  const [reply] = await relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS);
  clearInterval(timer);
  await relay.close(0);
  return reply as Reply;
}

const offering: Script = async (talk) => {
  await talk.hello("PIPELINING", "STARTTLS");
  await talk.hear("STARTTLS");
  talk.say("220 go on");
  talk.secure();
  await talk.hear("EHLO");
  talk.say("250-peer", "250-PIPELINING", "250 AUTH PLAIN");
  if ((await talk.hear("")).startsWith("AUTH")) {
    talk.say("235 welcome");
    await talk.hear("MAIL");
  }
  await talk.hear("RCPT");
  await talk.hear("DATA");
  talk.say("250 ok", "250 ok", "354 go on");
  await talk.hearMessage();
  talk.say("250 taken under TLS");
};

const plain: Script = async (talk) => {
  await talk.hello("PIPELINING");
  await talk.takeMail();
};

describe("STARTTLS", () => {
  test("is taken when it is offered, and the authority named is trusted", async () => {
    const reply = await sendTo(offering, { host: ELSEWHERE, ca: CERTIFICATE });
    expect(reply.text).toBe("250 taken under TLS");
    expect(reply.via).toMatchObject({ host: ELSEWHERE, ip: "127.0.0.1", tls: "TLSv1.3", isVerified: true });
  });

  test("with a certificate that proves nothing is no reason to go on in the open", async () => {
    for (const tls of ["opportunistic", "required"] as const) {
      const reply = await sendTo(offering, { host: ELSEWHERE, tls });
      expect(reply).toMatchObject({ phase: "tls", error: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    }
  });

  test("with a certificate for another name is refused", async () => {
    // another spelling of 127.0.0.1
    const reply = await sendTo(offering, { host: "127.1", tls: "required", ca: CERTIFICATE });
    expect(reply).toMatchObject({ phase: "tls", error: "ERR_TLS_CERT_ALTNAME_INVALID" });
  });

  test("goes unchecked when that was asked for", async () => {
    const reply = await sendTo(offering, { host: ELSEWHERE, verifyCertificate: false });
    expect(reply.text).toBe("250 taken under TLS");
  });

  test("that is required and not offered sends nothing", async () => {
    const reply = await sendTo(plain, { tls: "required" });
    expect(reply).toMatchObject({ phase: "tls", error: "TLS_NOT_OFFERED" });
  });

  test("that is opportunistic and not offered is done without", async () => {
    expect(await sendTo(plain, { host: ELSEWHERE })).toMatchObject({ phase: "dot", code: 250 });
  });

  test("is left out when switched off, and towards this machine", async () => {
    const deaf: Script = async (talk) => {
      await talk.hello("PIPELINING", "STARTTLS");
      await talk.takeMail();
    };
    expect(await sendTo(deaf, { host: ELSEWHERE, tls: "off" })).toMatchObject({ code: 250 });
    expect(await sendTo(deaf, { host: "127.0.0.1" })).toMatchObject({ code: 250 });
    expect(await sendTo(deaf, { host: "localhost" })).toMatchObject({ code: 250 });
  });

  test.each(["250 AUTH PLA", "250 AUTH PLAIN\r\n", "250-AUTH PLAIN\r\n"])(
    "answered together with %j is an attack",
    async (more) => {
      const injecting: Script = async (talk) => {
        await talk.hello("PIPELINING", "STARTTLS");
        await talk.hear("STARTTLS");
        talk.mutter(`220 go on\r\n${more}`);
        await talk.gone();
      };
      const reply = await sendTo(injecting, { host: ELSEWHERE, ca: CERTIFICATE });
      expect(reply).toMatchObject({ phase: "tls", error: "GARBLED" });
    },
  );

  test("that never ends, breaks or is no TLS is bounded", async () => {
    const halting: Script = async (talk) => {
      await talk.hello("STARTTLS");
      await talk.hear("STARTTLS");
      talk.say("220 go on");
      if (talk.number === 1) talk.break();
      else talk.mutter("this is no handshake\r\n");
      await talk.gone();
    };
    expect((await sendTo(halting, { host: ELSEWHERE })).phase).toBe("tls");
  });
});

test("smtps is TLS from the first byte", async () => {
  const implicit: Script = async (talk) => {
    talk.secure();
    await talk.hello("PIPELINING");
    await talk.takeMail("250 taken under TLS");
  };
  const reply = await sendTo(implicit, { host: "localhost", tls: "implicit", ca: CERTIFICATE });
  expect(reply.text).toBe("250 taken under TLS");
  const stranger = await sendTo(implicit, { host: "localhost", tls: "implicit" });
  expect(stranger).toMatchObject({ phase: "tls", error: "DEPTH_ZERO_SELF_SIGNED_CERT" });
});

describe("credentials", () => {
  const asking =
    (mechanisms: string, ...exchange: [hear: string, say: string][]): Script =>
    async (talk) => {
      await talk.hello("PIPELINING", mechanisms);
      for (const [hear, say] of exchange) {
        await talk.hear(hear);
        talk.say(say);
      }
      await talk.takeMail();
    };

  test("go by PLAIN", async () => {
    const script = asking("AUTH LOGIN PLAIN", [`AUTH PLAIN ${PLAIN}`, "235 welcome"]);
    expect(await sendTo(script, { credentials: CREDENTIALS })).toMatchObject({ code: 250 });
  });

  test("go by LOGIN, also where it is offered the old way", async () => {
    const script = asking(
      "AUTH=LOGIN",
      ["AUTH LOGIN", "334 VXNlcm5hbWU6"],
      [Buffer.from("zoë").toString("base64"), "334 UGFzc3dvcmQ6"],
      [Buffer.from("geheim\u0001").toString("base64"), "235 welcome"],
    );
    expect(await sendTo(script, { credentials: CREDENTIALS })).toMatchObject({ code: 250 });
  });

  test("that are refused are said to be", async () => {
    const script = asking("AUTH PLAIN", ["AUTH PLAIN", "535 5.7.8 no"]);
    const reply = await sendTo(script, { credentials: CREDENTIALS });
    expect(reply).toMatchObject({ phase: "auth", code: 535, enhanced: "5.7.8" });
    expect(reply.text).not.toContain(PLAIN);
  });

  test("that nobody asks for are not swallowed", async () => {
    for (const script of [asking("AUTH GSSAPI CRAM-MD5"), plain])
      expect(await sendTo(script, { credentials: CREDENTIALS })).toMatchObject({
        phase: "auth",
        error: "AUTH_NOT_OFFERED",
      });
  });

  test("cross another network under TLS, or not at all", async () => {
    const hidden = await sendTo(offering, { host: ELSEWHERE, ca: CERTIFICATE, credentials: CREDENTIALS });
    expect(hidden.text).toBe("250 taken under TLS");
    const open = await sendTo(asking("AUTH PLAIN"), { host: ELSEWHERE, credentials: CREDENTIALS });
    expect(open).toMatchObject({ phase: "auth", error: "TLS_NOT_OFFERED" });
  });

  test("cross it in the open when TLS was switched off", async () => {
    const script = asking("AUTH PLAIN", ["AUTH PLAIN", "235 welcome"]);
    const reply = await sendTo(script, { host: ELSEWHERE, tls: "off", credentials: CREDENTIALS });
    expect(reply).toMatchObject({ code: 250 });
  });
});

describe("SMTP_URL", () => {
  const read = (url: string) =>
    readSmarthost(url, { smtpTls: "opportunistic", smtpTlsVerify: true, ehloName: null });

  test("names host, port, credentials and pool", () => {
    const { peer, conversationsMax } = read("smtp://u%40x:p%2Fw@mail.test:2525?pool=7");
    expect(conversationsMax).toBe(7);
    expect(peer).toMatchObject({
      host: "mail.test",
      port: 2525,
      tls: "opportunistic",
      credentials: { user: "u@x", password: "p/w" },
    });
  });

  test("leaves the usual things unsaid", () => {
    expect(read("smtp://mail.test")).toMatchObject({
      conversationsMax: 20,
      peer: { port: 25, credentials: null, ca: null },
    });
    expect(read("smtp://u:p@mail.test").peer.port).toBe(587);
    expect(read("smtps://mail.test").peer).toMatchObject({ port: 465, tls: "implicit" });
    expect(read("smtp://[::1]:25").peer.host).toBe("::1");
  });

  test("names the file of a private authority", () => {
    const folder = mkdtempSync(join(tmpdir(), "postrider-ca-"));
    writeFileSync(join(folder, "ca.pem"), CERTIFICATE);
    expect(read(`smtp://mail.test?ca=${folder}/ca.pem`).peer.ca).toBe(CERTIFICATE);
    rmSync(folder, { recursive: true });
  });

  test.each([
    ["http://mail.test", "must start with smtp:// or smtps://"],
    ["smtp://", "names no host"],
    ["smtp://mail.test?pool=0", "?pool of SMTP_URL must be a whole number from 1 to 1000"],
    ["smtp://mail.test?pool=many", "?pool of SMTP_URL must be a whole number from 1 to 1000"],
    ["smtp://mail.test?tls=off", "takes the parameters ?pool and ?ca, not ?tls"],
  ])("%s: %s", (url, words) => {
    expect(() => read(url)).toThrow(words);
  });
});
