/**
 * `npm start` in a folder of its own, with receivers that refuse some mail, and the mail catcher behind them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createTransport } from "nodemailer";
import { SMTPServer } from "smtp-server";
import type { ReadyFile } from "../../../src/embedded/home.ts";
import { startMailbox } from "../../../src/embedded/mailbox.ts";

const MAIN = fileURLToPath(new URL("../../../dist/process/start.js", import.meta.url));

/** What receivers say, by the domain of the recipient. */
const REFUSALS: Record<string, [number, string]> = {
  "mail.pemberton.example": [451, "4.7.1 Greylisted, please try again in 5 minutes"],
  "post.oakfield.example": [421, "4.7.0 Too many connections from your address, slow down"],
  "oldmail.example": [550, "5.1.1 The account that you tried to reach does not exist"],
};

export type Place = { ready: ReadyFile; end(): Promise<void> };

export async function openPlace(): Promise<Place> {
  const home = mkdtempSync(join(tmpdir(), "postrider-screens-"));
  chmodSync(home, 0o755);
  const mailbox = await startMailbox();
  const receivers = await startReceivers(mailbox.smtpUrl);
  const child = spawn(process.execPath, [MAIN], {
    env: {
      PATH: process.env.PATH,
      POSTRIDER_HOME: home,
      PORT: "0",
      SMTP_URL: receivers.url,
      MAILBOX_URL: mailbox.url,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const end = async () => {
    const ended = child.exitCode === null ? once(child, "exit") : null;
    child.kill("SIGTERM");
    await ended;
    await Promise.all([receivers.stop(), mailbox.stop()]);
    rmSync(home, { recursive: true, force: true });
  };
  try {
    return { ready: await readyFile(child, join(home, "ready.json")), end };
  } catch (error) {
    await end();
    throw error;
  }
}

/** `npm start` ends its words with how to stop it. */
async function readyFile(child: ChildProcess, file: string): Promise<ReadyFile> {
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error("the engine did not start")));
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      if (text.includes("Ctrl-C")) resolve();
    });
  });
  return JSON.parse(readFileSync(file, "utf8")) as ReadyFile;
}

async function startReceivers(mailboxUrl: string): Promise<{ url: string; stop(): Promise<void> }> {
  const onward = createTransport(mailboxUrl);
  const server = new SMTPServer({
    disabledCommands: ["AUTH", "STARTTLS"],
    authOptional: true,
    disableReverseLookup: true,
    logger: false,
    onRcptTo({ address }, _session, done) {
      const [code, words] = REFUSALS[address.split("@").at(-1) ?? ""] ?? [];
      done(code === undefined ? null : Object.assign(new Error(words), { responseCode: code }));
    },
    onData(stream, { envelope: { mailFrom, rcptTo } }, done) {
      const from = mailFrom === false ? "" : mailFrom.address;
      const to = rcptTo.map(({ address }) => address);
      onward.sendMail({ envelope: { from, to }, raw: stream }).then(
        () => done(null, "2.0.0 Ok: queued as 4XkqZ93mQz"),
        (error: Error) => done(error),
      );
    },
  });
  server.on("error", () => {}); // a connection that ends in the middle
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.server.address() as { port: number };
  return {
    url: `smtp://127.0.0.1:${port}`,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
