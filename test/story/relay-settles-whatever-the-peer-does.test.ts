/** Every send is answered once, at the right place of the conversation, however the peer behaves. */
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import type { PoolLimits } from "../../src/smtp/pool.ts";
import type { Reply } from "../../src/smtp/reply.ts";
import {
  ALWAYS,
  mailTo,
  openPeer,
  type RelayUnderTest,
  relayTo,
  type Script,
  type ScriptedPeer,
  type Talk,
} from "../rig/peer.ts";

const MESSAGE = Buffer.from("\r\nhello\r\n");

const peers: ScriptedPeer[] = [];
/** Of the relay's clock. */
const WAIT_MS = 10_000;
const LOOK_EVERY_MS = 5;

const relays: RelayUnderTest[] = [];
const looks: NodeJS.Timeout[] = [];

afterEach(async () => {
  for (const look of looks.splice(0)) clearInterval(look);
  for (const { relay } of relays.splice(0)) await relay.close(0);
  for (const peer of peers.splice(0)) await peer.close();
});

async function meet(script: Script, limits: Partial<PoolLimits> = {}): Promise<RelayUnderTest> {
  const peer = await openPeer(script);
  peers.push(peer);
  const under = relayTo(peer.port, { limits: { waitMsMax: WAIT_MS, ...limits } });
  relays.push(under);
  // a connection that fails is asked for once, and its failure is the answer
  const passIfFailed = () => under.relay.figures.trouble && under.pass(WAIT_MS);
  looks.push(setInterval(passIfFailed, LOOK_EVERY_MS));
  return under;
}

async function sendTo(script: Script): Promise<Reply> {
  const { relay } = await meet(script);
  const replies = await relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS);
  expect(replies).toHaveLength(1);
  return replies[0] as Reply;
}

type Step = [phase: string, until: (talk: Talk) => Promise<void>];

/** What a peer has heard and said when it comes to the answer that matters. */
const STEPS: Step[] = [
  ["greeting", async () => {}],
  [
    "helo",
    async (talk) => {
      talk.say("220 hi");
      await talk.hear("EHLO");
    },
  ],
  [
    "mail",
    async (talk) => {
      await talk.hello("PIPELINING");
      await talk.hear("MAIL");
    },
  ],
  [
    "rcpt",
    async (talk) => {
      await talk.hello("PIPELINING");
      await talk.hear("MAIL");
      talk.say("250 ok");
    },
  ],
  [
    "data",
    async (talk) => {
      await talk.hello("PIPELINING");
      await talk.hearEnvelope();
    },
  ],
  [
    "dot",
    async (talk) => {
      await talk.hello("PIPELINING");
      await talk.hearEnvelope();
      talk.say("354 go on");
      await talk.hearMessage();
    },
  ],
];

for (const [phase, until] of STEPS) {
  test(`${phase}: the connection breaks`, async () => {
    const reply = await sendTo(async (talk) => {
      await until(talk);
      talk.break();
    });
    expect(reply).toMatchObject({ phase, code: null, error: "ECONNRESET" });
  });

  test(`${phase}: the peer closes its half and waits`, async () => {
    const reply = await sendTo(async (talk) => {
      await until(talk);
      talk.hangUp();
    });
    expect(reply).toMatchObject({ phase, code: null, error: "ECONNRESET" });
  });

  test(`${phase}: nothing is ever said`, async () => {
    let isThere = () => {};
    const there = new Promise<void>((resolve) => {
      isThere = resolve;
    });
    const script: Script = (talk) => until(talk).then(isThere);
    const { relay, until: flyUntil } = await meet(script, { waitMsMax: 400_000 });
    const sent = relay.send(mailTo("a@b.test"), MESSAGE, ALWAYS);
    await there;
    expect((await flyUntil(sent))[0]).toMatchObject({ phase, code: null, error: "TIMEOUT" });
  });

  test(`${phase}: 421 at any time is the answer`, async () => {
    const reply = await sendTo(async (talk) => {
      await until(talk);
      talk.say("421 4.3.2 closing");
      await talk.gone();
    });
    expect(reply).toMatchObject({ phase, code: 421, enhanced: "4.3.2" });
  });

  for (const garbage of [
    "HTTP/1.1 400 Bad Request\r\n",
    "\r\n",
    "25\r\n",
    "250x\r\n",
    "600 no\r\n",
    "199 no\r\n",
    "\x00\xff\n",
  ])
    test(`${phase}: ${JSON.stringify(garbage)} is no answer`, async () => {
      const reply = await sendTo(async (talk) => {
        await until(talk);
        talk.mutter(garbage);
        await talk.gone();
      });
      expect(reply).toMatchObject({ phase, code: null, error: "GARBLED" });
    });

  test(`${phase}: an answer without end is cut off`, async () => {
    for (const bytes of ["250-more\r\n", "2"]) {
      const reply = await sendTo(async (talk) => {
        await until(talk);
        talk.mutter(bytes.repeat(100_000));
        await talk.gone();
      });
      expect(reply).toMatchObject({ phase, code: null, error: "GARBLED" });
      expect(reply.text.length).toBeLessThan(500);
    }
  });
}

test("an answer in many lines and in single bytes is one answer", async () => {
  const reply = await sendTo(async (talk) => {
    for (const byte of "220-first\r\n220 second\r\n") talk.mutter(byte);
    await talk.hear("EHLO");
    for (const byte of "250-peer\r\n250 PIPELINING\n") {
      talk.mutter(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await talk.hearEnvelope();
    talk.say("354");
    await talk.hearMessage();
    for (const byte of "550-5.1.1 not\r\n550 5.1.1 here\r\n") {
      talk.mutter(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  expect(reply).toMatchObject({ phase: "dot", code: 550, text: "550-5.1.1 not 5.1.1 here" });
});

test("a peer that knows no EHLO is greeted with HELO", async () => {
  const reply = await sendTo(async (talk) => {
    talk.say("220 old");
    await talk.hear("EHLO");
    talk.say("502 what?");
    await talk.hear("HELO");
    talk.say("250 hello");
    await talk.hear("MAIL FROM:<sender@a.test>");
    expect(talk.unheard).toBe("");
    talk.say("250 ok");
    await talk.hear("RCPT");
    talk.say("250 ok");
    await talk.hear("DATA");
    talk.say("354 go on");
    await talk.hearMessage();
    talk.say("250 taken");
  });
  expect(reply).toMatchObject({ phase: "dot", code: 250 });
});

test("who would take a message for nobody is not given one", async () => {
  const reply = await sendTo(async (talk) => {
    await talk.hello("PIPELINING");
    await talk.hear("MAIL");
    await talk.hear("RCPT");
    await talk.hear("DATA");
    talk.say("250 ok", "550 5.1.1 unknown", "354 go on all the same");
    await talk.gone();
    expect(talk.unheard).toBe("");
  });
  expect(reply).toMatchObject({ phase: "rcpt", code: 550 });
});

test("answers to questions that were not asked deliver nothing", async () => {
  const reply = await sendTo(async (talk) => {
    await talk.hello("PIPELINING");
    talk.say("250 one", "250 two", "250 three", "250 four", "250 five");
    await talk.gone();
  });
  expect(reply.code).not.toBe(250);
});

for (const [what, behind, expected] of [
  ["an acceptance", "250 2.0.0 taken\r\n", { code: null, error: "GARBLED" }],
  ["a refusal", "554 5.7.1 no\r\n", { code: 554, enhanced: "5.7.1" }],
  ["a farewell", "421 4.3.2 closing\r\n", { code: 421 }],
  ["the beginning of an acceptance", "25", { code: null, error: "GARBLED" }],
] as const)
  test.each(["PIPELINING", "8BITMIME"])(
    `${what} that comes with the 354 is none of the message, which is not sent (%s)`,
    async (extension) => {
      let unheard = "?";
      const reply = await sendTo(async (talk) => {
        await talk.hello(extension);
        for (const beginning of ["MAIL", "RCPT"]) {
          await talk.hear(beginning);
          talk.say("250 ok");
        }
        await talk.hear("DATA");
        talk.mutter(`354 go on\r\n${behind}`);
        if (behind === "25") {
          await new Promise((resolve) => setImmediate(resolve));
          talk.mutter("0 taken\r\n");
        }
        await talk.gone();
        unheard = talk.unheard;
      });
      expect(reply).toMatchObject({ phase: "data", ...expected });
      await expect.poll(() => unheard).toBe("");
    },
  );

test("whatever a peer mutters, every recipient is answered exactly once", async () => {
  const saying = fc.constantFrom(
    "220 hi\r\n",
    "250 ok\r\n",
    "250-PIPELINING\r\n",
    "250 PIPELINING\r\n",
    "354 go\r\n",
    "421 bye\r\n",
    "450 later\r\n",
    "550 no\r\n",
    "334 \r\n",
    "\r\n",
    "x",
  );
  const peer = await openPeer(async (talk) => {
    const script = scripts[talk.number % scripts.length] ?? [];
    for (const words of script) {
      talk.mutter(words);
      await new Promise((resolve) => setImmediate(resolve));
    }
    talk.hangUp();
  });
  peers.push(peer);
  let scripts: string[][] = [];
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(saying, { maxLength: 12 }), { minLength: 1, maxLength: 4 }),
      async (drawn) => {
        scripts = drawn.map((script) => ["220 hi\r\n", "250-x\r\n250 PIPELINING\r\n", ...script]);
        const { relay } = relayTo(peer.port, { pool: 2, limits: { waitMsMax: 30 } });
        const sent = Array.from({ length: 6 }, () =>
          relay.send(mailTo(["a@b.test", "c@b.test"]), MESSAGE, ALWAYS),
        );
        for (const replies of await Promise.all(sent)) {
          expect(replies).toHaveLength(2);
          for (const reply of replies) expect(reply.code === null).toBe(reply.error !== null);
        }
        await relay.close(0);
        expect(relay.figures).toMatchObject({ waiting: 0, conversations: 0, idle: 0 });
      },
    ),
    { numRuns: 40 },
  );
});
