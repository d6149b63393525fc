/** A receiver that is dead, slow or particular concerns its own mail only. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { connectRedis } from "../../src/redis/connect.ts";
import { Rooms } from "../../src/shaping/rooms.ts";
import type { Reply } from "../../src/smtp/reply.ts";
import { type DirectUnderTest, inShort, openWorld, type World } from "../rig/direct.ts";
import type { Script } from "../rig/peer.ts";
import { services } from "../rig/services.ts";

let world: World;
beforeEach(async () => {
  world = await openWorld();
  world.name({
    "a.test": { addresses: ["127.1.0.1"] },
    "b.test": { addresses: ["127.1.0.2"] },
  });
});
afterEach(() => world.end());

function sendMany(
  { send }: DirectUnderTest,
  count: number,
  domain: string,
  local = "user",
): Promise<Reply>[] {
  return Array.from({ length: count }, async (_, n) => {
    const [reply] = await send(`${local}+${n}@${domain}`);
    return reply as Reply;
  });
}

function allTaken(replies: readonly Reply[]): boolean {
  return replies.every(({ phase, code }) => phase === "dot" && code === 250);
}

test("the mail of a dead receiver comes back with what was found there, and is not in the way of others", async () => {
  const other = await world.sinkAt("127.1.0.2");
  const under = world.courier();
  const [dead, alive] = await Promise.all([
    Promise.all(sendMany(under, 300, "a.test")),
    Promise.all(sendMany(under, 300, "b.test")),
  ]);
  expect(allTaken(alive)).toBe(true);
  expect(new Set(inShort(dead))).toEqual(new Set(["connect ECONNREFUSED"]));
  expect(dead[0]?.text).toContain(`a.test[127.1.0.1]:${world.port}`);
  expect(other.ledger.mails).toHaveLength(300);
});

test("a receiver that is down is asked by one connection at a time, ever more seldom, and found again", async () => {
  const sink = await world.sinkAt("127.1.0.1");
  sink.turn({ greetingCode: 421 });
  const under = world.courier();
  const heard = async () => new Set(inShort(await Promise.all(sendMany(under, 20, "a.test"))));
  expect(await heard()).toEqual(new Set(["greeting 421"]));
  expect(sink.connections).toBe(1);
  await heard();
  expect(sink.connections).toBe(1);
  under.pass(5_001);
  await heard();
  expect(sink.connections).toBe(2);
  under.pass(5_001);
  await heard();
  expect(sink.connections).toBe(2);
  under.pass(5_000);
  sink.clearUp();
  expect(await heard()).toEqual(new Set(["dot 250"]));
});

test("a silent receiver is left after five seconds for the next host", async () => {
  world.name({
    "c.test": {
      mx: [
        [10, "silent.test"],
        [20, "mx.test"],
      ],
    },
    "silent.test": { addresses: ["127.1.0.3"] },
    "mx.test": { addresses: ["127.1.0.2"] },
  });
  const silent = await world.peerAt("127.1.0.3", (talk) => talk.gone());
  await world.sinkAt("127.1.0.2");
  const under = world.courier({ limits: { greetingMs: 5_000 }, isTimeStill: true });
  const sent = under.send("one@c.test");
  await expect.poll(() => silent.talks.length).toBe(1);
  under.pass(5_000);
  expect(inShort(await sent)).toEqual(["dot 250"]);
  expect(silent.talks).toHaveLength(1);
});

test("a slow receiver's queue gives its last mails back when others need the room", async () => {
  const [slow] = await Promise.all([world.sinkAt("127.1.0.1"), world.sinkAt("127.1.0.2")]);
  const under = world.courier({ mailsMax: 100 });
  const hanging = sendMany(under, 100, "a.test", "hang-after-data");
  await slow.ledger.replied("hang-after-data+0@a.test", 1);
  under.pass(2_000);
  // half of the room is free again, and each that found none is told of a later turn
  const given = await Promise.all(hanging.slice(-50));
  expect(new Set(inShort(given))).toEqual(new Set(["session BUSY"]));
  const turns = given.map(({ retryMs }) => retryMs as number);
  expect(new Set(turns).size).toBe(50);
  for (let n = 0; n < 10; n++) expect(allTaken(await Promise.all(sendMany(under, 50, "b.test")))).toBe(true);
  expect(under.direct.figures.waiting).toBe(45);
  await under.direct.close(0);
  await Promise.all(hanging);
});

test("silent DNS holds up no mail whose way is known", async () => {
  await world.sinkAt("127.1.0.2");
  const under = world.courier({ mailsMax: 100, dnsTimeoutMs: 1_500 });
  await under.send("one@b.test");
  for (let n = 0; n < 100; n++) world.name({ [`silent${n}.test`]: "is silent" });
  const lost = Promise.all(Array.from({ length: 100 }, (_, n) => under.send(`one@silent${n}.test`)));
  expect(allTaken(await Promise.all(sendMany(under, 50, "b.test")))).toBe(true);
  const words = inShort((await lost).flat());
  expect(words.filter((one) => one === "route DNS_SILENT")).toHaveLength(25);
  expect(words.filter((one) => one === "session BUSY")).toHaveLength(75);
});

test("conversations grow with what gets through, and never past what is allowed", async () => {
  const sink = await world.sinkAt("127.1.0.1");
  sink.turn({ dotDelayMs: 20 });
  const under = world.courier({ limits: { hurryMs: 0 }, manners: { conversationsMax: 8 } });
  const first = sendMany(under, 5, "a.test");
  await Promise.all(first);
  expect(sink.connections).toBeLessThanOrEqual(5);
  expect(allTaken(await Promise.all(sendMany(under, 400, "a.test")))).toBe(true);
  expect(sink.connections).toBe(8);
});

test("a receiver that takes two conversations is served by two, and not asked for a third all the time", async () => {
  let [open, most, refused] = [0, 0, 0];
  await world.peerAt("127.1.0.1", async (talk) => {
    if (open >= 2) {
      refused++;
      talk.say("421 4.7.0 too many connections");
      talk.hangUp();
      return;
    }
    open++;
    most = Math.max(most, open);
    try {
      await talk.hello("PIPELINING");
      for (;;) await talk.takeMail();
    } finally {
      open--;
    }
  });
  const under = world.courier({ limits: { hurryMs: 0 }, isTimeStill: true });
  expect(new Set(inShort(await Promise.all(sendMany(under, 500, "a.test"))))).toEqual(new Set(["dot 250"]));
  expect(most).toBe(2);
  expect(refused).toBeLessThanOrEqual(3);
});

test("all receivers together get no more conversations than there may be; the idle ones make room", async () => {
  const hosts = Array.from({ length: 12 }, (_, n) => `127.1.1.${n + 1}`);
  for (const [n, host] of hosts.entries()) world.name({ [`d${n}.test`]: { addresses: [host] } });
  const sinks = await Promise.all(hosts.map((host) => world.sinkAt(host)));
  const under = world.courier({ conversationsMax: 4, limits: { idleMsMax: 1_000_000 } });
  const replies = await Promise.all(hosts.flatMap((_, n) => sendMany(under, 10, `d${n}.test`)));
  expect(allTaken(replies)).toBe(true);
  expect(under.direct.figures.conversations).toBeLessThanOrEqual(4);
  for (const sink of sinks) expect(sink.ledger.mails).toHaveLength(10);
});

/** Domains of receivers that nobody has heard of, each with an address of its own. */
function strangers(count: number): string[] {
  const domains = Array.from({ length: count }, (_, n) => `tarpit${n}.test`);
  for (const [n, domain] of domains.entries()) world.name({ [domain]: { addresses: [`127.1.2.${n + 1}`] } });
  return domains;
}

/** What each says, and how many lines it has heard by then. */
const TARPITS: Record<string, [Script, number]> = {
  "says nothing": [(talk) => talk.gone(), 0],
  "does not answer EHLO": [
    async (talk) => {
      talk.say("220 tarpit.test");
      await talk.hear("EHLO ");
      await talk.gone();
    },
    1,
  ],
  "does not answer MAIL": [
    async (talk) => {
      await talk.hello();
      await talk.hear("MAIL ");
      await talk.gone();
    },
    2,
  ],
  "does not answer DATA": [
    async (talk) => {
      await talk.hello("PIPELINING");
      await talk.hearEnvelope();
      await talk.gone();
    },
    4,
  ],
};

test.each(Object.entries(TARPITS))(
  "a receiver that %s keeps no connection that others need",
  async (_, [script, heard]) => {
    const domains = strangers(8);
    const tarpits = await Promise.all(domains.map((_, n) => world.peerAt(`127.1.2.${n + 1}`, script)));
    const sink = await world.sinkAt("127.1.0.1");
    const under = world.courier({ conversationsMax: 8, isTimeStill: true });
    const stuck = domains.map((domain) => under.send(`one@${domain}`));
    await expect.poll(() => tarpits.every(({ talks }) => talks[0]?.heard.length === heard)).toBe(true);
    under.pass(7_000);
    const more = domains.map((domain) => under.send(`two@${domain}`));
    expect(inShort(await under.send("one@a.test"))).toEqual(["dot 250"]);
    expect(under.direct.figures.conversations).toBeGreaterThanOrEqual(7);
    await under.direct.close(0);
    const ends = inShort((await Promise.all(stuck)).flat()).map((word) => word.split(" ")[1]);
    expect(ends.filter((end) => end === "TIMEOUT")).toHaveLength(1);
    await Promise.all(more);
    expect(sink.ledger.mails).toHaveLength(1);
  },
);

test("a receiver whose handshake gave way to others is asked for TLS again, not written to in the open", async () => {
  const domains = strangers(8);
  const asked: string[][] = domains.map(() => []);
  const left: number[] = [];
  await Promise.all(
    domains.map((_, n) =>
      world.peerAt(`127.1.2.${n + 1}`, async (talk) => {
        await talk.hello("PIPELINING", "STARTTLS");
        asked[n]?.push(await talk.hear(""));
        await talk.gone();
        left.push(n);
      }),
    ),
  );
  await world.sinkAt("127.1.0.1");
  const under = world.courier({ conversationsMax: 8, isTimeStill: true });
  const stuck = domains.map((domain) => under.send(`one@${domain}`));
  await expect.poll(() => asked.flat()).toHaveLength(8);
  under.pass(7_000);
  const more = domains.map((domain) => under.send(`two@${domain}`));
  expect(inShort(await under.send("one@a.test"))).toEqual(["dot 250"]);
  await expect.poll(() => left).toHaveLength(1);
  const [cut = 0] = left;
  expect(inShort((await stuck[cut]) ?? [])).toEqual([expect.stringMatching(/ TIMEOUT$/)]);
  under.pass(600_000 - 7_001);
  const again = under.send(`three@${domains[cut]}`);
  await expect.poll(() => asked[cut]?.length).toBeGreaterThan(1);
  expect(new Set(asked.flat())).toEqual(new Set(["STARTTLS"]));
  await under.direct.close(0);
  await Promise.all([...stuck, ...more, again]);
});

/** Lets all that wait for it go on, one step at a time. */
class Steps {
  #waiting: (() => void)[] = [];

  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** When so many wait. */
  async step(count: number): Promise<void> {
    await expect.poll(() => this.#waiting.length).toBeGreaterThanOrEqual(count);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

test("a receiver that answers each line in time, but many of them, keeps no connection that others need", async () => {
  const domains = strangers(8);
  const steps = new Steps();
  const script: Script = async (talk) => {
    await talk.hello();
    await talk.hear("MAIL ");
    for (let line = "250 sender"; ; line = "250 recipient") {
      await steps.next();
      talk.say(line);
      await talk.hear("RCPT ");
    }
  };
  for (const n of domains.keys()) await world.peerAt(`127.1.2.${n + 1}`, script);
  const sink = await world.sinkAt("127.1.0.1");
  const under = world.courier({ conversationsMax: 8, isTimeStill: true });
  const stuck = domains.map((domain) =>
    under.send(Array.from({ length: 50 }, (_, n) => `user+${n}@${domain}`)),
  );
  for (let n = 0; n < 6; n++) {
    await steps.step(8);
    under.pass(6_000);
  }
  expect(inShort(await under.send("one@a.test"))).toEqual(["dot 250"]);
  expect(sink.ledger.mails).toHaveLength(1);
  await under.direct.close(0);
  const ends = inShort((await Promise.all(stuck)).map(([reply]) => reply as Reply));
  expect(ends.filter((end) => end === "rcpt TIMEOUT")).toHaveLength(1);
});

test("whoever waits longest for a connection has the next, not who had it and has more mail", async () => {
  const domains = strangers(4);
  const steps = new Steps();
  const script: Script = async (talk) => {
    await talk.hello("PIPELINING");
    for (;;) {
      await talk.hearEnvelope();
      talk.say("354 go on");
      await talk.hearMessage();
      await steps.next();
      talk.say("250 taken");
    }
  };
  for (const n of domains.keys()) await world.peerAt(`127.1.2.${n + 1}`, script);
  await world.sinkAt("127.1.0.1");
  const under = world.courier({ conversationsMax: 4, isTimeStill: true });
  const many = domains.map((domain) => sendMany(under, 20, domain));
  await steps.step(4);
  const sent = under.send("one@a.test");
  await expect.poll(() => under.direct.figures.waiting).toBeGreaterThan(64);
  for (let n = 0; n < 4; n++) {
    under.pass(1_000);
    await steps.step(3);
  }
  expect(inShort(await sent)).toEqual(["dot 250"]);
  await under.direct.close(0);
  await Promise.all(many.flat());
});

test("mails on silent connections are at most half of those in progress, also where connections are left", async () => {
  const domains = strangers(8);
  const [script, heard] = TARPITS["does not answer MAIL"] as [Script, number];
  const tarpits = await Promise.all(domains.map((_, n) => world.peerAt(`127.1.2.${n + 1}`, script)));
  const under = world.courier({ mailsMax: 8, isTimeStill: true });
  const ends: string[] = [];
  const stuck = domains.map(async (domain) => {
    ends.push(...inShort(await under.send(`one@${domain}`)));
  });
  await expect.poll(() => tarpits.every(({ talks }) => talks[0]?.heard.length === heard)).toBe(true);
  under.pass(7_000);
  await expect.poll(() => ends).toEqual(Array(4).fill("mail TIMEOUT"));
  await under.direct.close(0);
  await Promise.all(stuck);
});

test("whoever has all of a mail keeps a connection that others need for a minute", async () => {
  const domains = strangers(4);
  const sinks = await Promise.all(domains.map((_, n) => world.sinkAt(`127.1.2.${n + 1}`)));
  const sink = await world.sinkAt("127.1.0.1");
  const under = world.courier({ conversationsMax: 4, isTimeStill: true });
  const stuck = domains.map((domain) => under.send(`hang-after-data@${domain}`));
  await Promise.all(sinks.map(({ ledger }, n) => ledger.replied(`hang-after-data@${domains[n]}`, 1)));
  under.pass(40_000);
  const sent = under.send("one@a.test");
  await expect.poll(() => under.direct.figures.waiting).toBe(1);
  under.pass(19_000);
  // meanwhile another mail is answered
  expect(await Promise.race([sent, under.send("one@unnamed.test")])).toMatchObject([{ phase: "route" }]);
  expect(sink.connections).toBe(0);
  under.pass(1_000);
  expect(inShort(await sent)).toEqual(["dot 250"]);
  await under.direct.close(0);
  const ends = inShort((await Promise.all(stuck)).flat());
  expect(ends.filter((end) => end === "dot TIMEOUT")).toHaveLength(1);
});

test("a receiver that greets after three seconds gets its mail, also while others wait for connections", async () => {
  const domains = strangers(6);
  const steps = new Steps();
  const heard: string[] = [];
  for (const [n, domain] of domains.entries())
    await world.peerAt(`127.1.2.${n + 1}`, async (talk) => {
      await steps.next();
      await talk.hello("PIPELINING");
      for (;;) {
        await talk.takeMail();
        heard.push(domain);
      }
    });
  const under = world.courier({ conversationsMax: 2, isTimeStill: true });
  const sent = domains.map((domain) => under.send(`one@${domain}`));
  await expect.poll(() => under.direct.figures.waiting).toBe(6);
  for (let n = 0; n < 3; n++) {
    under.pass(5_000);
    await steps.step(2);
    await expect.poll(() => heard.length).toBe(2 * (n + 1));
  }
  expect(new Set(inShort((await Promise.all(sent)).flat()))).toEqual(new Set(["dot 250"]));
  expect(new Set(heard)).toEqual(new Set(domains));
});

test("rules that limit connections hold up nobody while connections are short", async () => {
  const redis = connectRedis(services().redisUrl, "worker", 5_000);
  const faults: string[] = [];
  const rooms = new Rooms({
    ...{ redis, worker: "short", now: () => performance.now() },
    onFault: (error) => faults.push(String(error)),
  });
  const domains = strangers(8);
  for (const n of domains.keys()) await world.sinkAt(`127.1.2.${n + 1}`);
  const under = world.courier({
    conversationsMax: 2,
    connectionsEach: { most: 1, rooms },
    isTimeStill: true,
  });
  const stuck = domains.slice(0, 2).map((domain) => under.send(`hang-after-data@${domain}`));
  await expect.poll(() => under.direct.figures.conversations).toBe(2);
  const rest = domains.slice(2).flatMap((domain) => sendMany(under, 3, domain));
  await expect.poll(() => under.direct.figures.waiting).toBe(18);
  under.pass(60_000);
  expect(allTaken(await Promise.all(rest))).toBe(true);
  expect(faults).toEqual([]);
  await under.direct.close(0);
  await Promise.all(stuck);
  rooms.close();
  redis.disconnect();
});

test("a connection that opens for nobody any more is given up, and its receiver is down", async () => {
  const silent = await world.peerAt("127.1.0.1", (talk) => talk.gone());
  const under = world.courier({ isTimeStill: true });
  const sent = under.send("one@a.test");
  await expect.poll(() => silent.talks.length).toBe(1);
  under.pass(60_000);
  expect(inShort(await sent)).toEqual(["connect TIMEOUT"]);
  await expect.poll(() => under.direct.figures.conversations).toBe(0);
  expect(inShort(await under.send("two@a.test"))).toEqual(["greeting TIMEOUT"]);
  expect(silent.talks).toHaveLength(1);
});

test("a mail whose every answer comes just in time ends after ten minutes before its DATA", async () => {
  let step = () => {};
  const next = () => new Promise<void>((resolve) => (step = resolve));
  const peer = await world.peerAt("127.1.0.1", async (talk) => {
    await talk.hello();
    await talk.hear("MAIL ");
    for (let line = "250 sender"; ; line = "250 recipient") {
      await next();
      talk.say(line);
      await talk.hear("RCPT ");
    }
  });
  const under = world.courier({ isTimeStill: true });
  const sent = under.send(Array.from({ length: 50 }, (_, n) => `user+${n}@a.test`));
  for (let heard = 2; heard <= 4; heard++) {
    await expect.poll(() => peer.talks[0]?.heard.length).toBe(heard);
    under.pass(200_000);
    step();
  }
  expect(new Set(inShort(await sent))).toEqual(new Set(["rcpt TIMEOUT"]));
});

test("a mail that is taken back while it waits is not said anywhere", async () => {
  const sink = await world.sinkAt("127.1.0.1");
  const under = world.courier();
  expect(inShort(await under.send("one@a.test", { mayBegin: () => false }))).toEqual(["session WITHDRAWN"]);
  expect(sink.ledger.repliesTo("one@a.test")).toEqual([]);
});

test("what is not answered after the final dot is not tried at the next host at once", async () => {
  world.name({
    "c.test": {
      mx: [
        [10, "first.test"],
        [20, "second.test"],
      ],
    },
    "first.test": { addresses: ["127.1.0.1"] },
    "second.test": { addresses: ["127.1.0.2"] },
  });
  const [first, second] = [await world.sinkAt("127.1.0.1"), await world.sinkAt("127.1.0.2")];
  const under = world.courier();
  expect(inShort(await under.send("drop-after-data@c.test"))).toEqual(["dot ECONNRESET"]);
  expect(inShort(await under.send("drop-in-data@c.test"))).toEqual(["dot ECONNRESET"]);
  expect(first.ledger.mails).toHaveLength(1);
  expect(second.connections).toBe(0);
});

test("at the end what waits comes back unsent, and nothing stays open", async () => {
  const sink = await world.sinkAt("127.1.0.1");
  const under = world.courier();
  const hanging = sendMany(under, 10, "a.test", "hang-after-data");
  await sink.ledger.replied("hang-after-data+0@a.test", 1);
  await under.direct.close(10);
  const words = inShort(await Promise.all(hanging));
  expect(words.every((one) => one === "session CLOSING" || one === "dot CLOSING")).toBe(true);
  expect(inShort(await under.send("one@a.test"))).toEqual(["session CLOSING"]);
  await expect.poll(() => sink.openConnections).toBe(0);
});
