/**
 * submission: mail over SMTP on 20 kept connections, with STARTTLS and a login each, accepted and committed;
 * then the same mail by the same client to Postfix, without TLS and without a login, which brings it to the
 * sink meanwhile, as in peers.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as secure } from "node:tls";
import { freePort } from "../../src/embedded/port.ts";
import { figure } from "../figure.ts";
import type { Bench } from "../machine.ts";
import { finishedMessage } from "../message.ts";
import { costFigures, cpuSeconds, Meter } from "../meter.ts";
import { NotHere } from "../peers/peer.ts";
import { postfix } from "../peers/postfix.ts";
import type { Scenario } from "../scenario.ts";

const CONNECTIONS = 20;
/** Not counted: processes start, code is compiled, pools fill. */
const WARMUP_MAILS = 3_000;
const LOGIN = (key: string) => `AUTH PLAIN ${Buffer.from(`\0bench\0${key}`).toString("base64")}`;

const submission: Scenario = {
  name: "submission",
  does: "mail over SMTP on 20 connections, accepted and committed, against Postfix",
  async run(bench, { seconds, tell }) {
    const { key } = await bench.workspace();
    const port = await freePort();
    const role = await bench.role("submission", { SUBMISSION_PORT: String(port) });
    const message = await finishedMessage();
    await load(port, message, { mails: WARMUP_MAILS }, key);
    const meter = bench.meter();
    const before = cpuSeconds(role.pid);
    const ours = await load(port, message, { seconds }, key);
    const cpu = cpuSeconds(role.pid) - before;
    const metered = meter.stop();
    tell(`${Math.round(ours)} mails/s`);
    await role.stop();
    const { figures, skipped } = await againstPostfix(bench, message, seconds, ours);
    return {
      figures: [
        figure("mails accepted", ours, "/s"),
        ...figures,
        figure("submission CPU per thousand", (cpu * 1000) / (ours * seconds), "s"),
        ...costFigures(metered, ours * seconds),
      ],
      skipped,
    };
  },
};

export const scenarios = [submission];

async function againstPostfix(bench: Bench, message: Buffer, seconds: number, ours: number) {
  try {
    const peer = await postfix.start(bench);
    if (peer.intake.kind !== "smtp") throw new Error("Postfix takes mail by SMTP only");
    const { port } = peer.intake;
    await load(port, message, { mails: WARMUP_MAILS }, null);
    const meter = new Meter(peer.processes, []);
    bench.endings.add(() => meter.end());
    const theirs = await load(port, message, { seconds }, null);
    const metered = meter.stop();
    await peer.stop();
    const figures = [
      figure("Postfix: mails accepted", theirs, "/s"),
      figure("against Postfix", ours / theirs, "x", "at least 10"),
      ...costFigures(metered, theirs * seconds, "Postfix: "),
    ];
    return { figures, skipped: [] };
  } catch (error) {
    if (!(error instanceof NotHere)) throw error;
    return { figures: [], skipped: [`Postfix: ${error.message}`] };
  }
}

type Much = { seconds: number } | { mails: number };

/** Mails a second. `key`: after STARTTLS and with a login; null: neither. */
async function load(port: number, message: Buffer, much: Much, key: string | null): Promise<number> {
  const content = Buffer.concat([message, Buffer.from(".\r\n")]);
  const talks = await Promise.all(Array.from({ length: CONNECTIONS }, () => opened(port, key)));
  let sent = 0;
  const began = performance.now();
  const goesOn =
    "mails" in much
      ? () => sent++ < much.mails
      : () => performance.now() < began + much.seconds * 1_000 && ++sent > 0;
  await Promise.all(talks.map((talk) => talk.sendWhile(goesOn, content)));
  return sent / ((performance.now() - began) / 1_000);
}

async function opened(port: number, key: string | null): Promise<Talk> {
  const plain = new Talk(connect({ port, host: "127.0.0.1", noDelay: true }));
  await plain.hears(1);
  await plain.say("EHLO bench.example", 1);
  if (key === null) return plain;
  await plain.say("STARTTLS", 1);
  const socket = secure({ socket: plain.release(), rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const talk = new Talk(socket);
  await talk.say("EHLO bench.example", 1);
  await talk.say(LOGIN(key), 1);
  return talk;
}

const TRANSACTION = "MAIL FROM:<orders@example.com>\r\nRCPT TO:<user1@example.net>\r\nDATA";
const LF = 0x0a;
const SPACE = 0x20;

class Talk {
  readonly #socket: Socket;
  #heard = 0;
  #wanted = 0;
  #onHeard = () => {};
  readonly #read = (bytes: Buffer) => {
    for (let at = 0; at >= 0 && at < bytes.length; at = bytes.indexOf(LF, at) + 1 || -1) {
      if (bytes[at] === 0x34 || bytes[at] === 0x35) throw new Error(`refused: ${bytes}`);
      if (bytes[at + 3] === SPACE) this.#heard++;
    }
    if (this.#heard >= this.#wanted) this.#onHeard();
  };

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", this.#read);
  }

  release(): Socket {
    return this.#socket.off("data", this.#read);
  }

  say(line: string, answers: number): Promise<void> {
    this.#socket.write(`${line}\r\n`);
    return this.hears(answers);
  }

  async hears(answers: number): Promise<void> {
    this.#wanted += answers;
    if (this.#heard >= this.#wanted) return;
    await new Promise<void>((resolve) => {
      this.#onHeard = resolve;
    });
  }

  /** One after the other, each in two round trips. */
  async sendWhile(goesOn: () => boolean, content: Buffer): Promise<void> {
    while (goesOn()) {
      await this.say(TRANSACTION, 3);
      this.#socket.write(content);
      await this.hears(1);
    }
    // what becomes of the connection after the last mail is nobody's concern
    this.#socket.on("error", () => {}).end("QUIT\r\n");
  }
}
