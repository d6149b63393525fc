import { afterAll, beforeAll, expect, test } from "vitest";
import { commandLine } from "../rig/command.ts";
import { openSink, type Sink } from "../rig/sink.ts";

type Sent = {
  delivered: boolean;
  reply: string;
  phase: string;
  host: string;
  conversation: { who: string; text: string }[];
};

let sink: Sink;
beforeAll(async () => {
  sink = await openSink();
});
afterAll(() => sink.down());

const settings = { PORT: "0" };
const command = () => commandLine({ smtpUrl: `smtp://127.0.0.1:${sink.port}`, settings });

test("every line of both sides is printed, and the mail is there", async () => {
  const { status, out } = await command().postrider(
    "send-test",
    ...["--to", "ada@example.net", "--from", "shop@example.com"],
  );
  expect(status).toBe(0);
  const lines = out.trimEnd().split("\n");
  expect(lines[0]).toBe(`-- connecting to 127.0.0.1, port ${sink.port}`);
  expect(lines).toContain("-> MAIL FROM:<shop@example.com>".concat(sizeOf(out)));
  expect(lines).toContain("-> RCPT TO:<ada@example.net>");
  expect(lines.some((line) => /^<- 250 /.test(line))).toBe(true);
  expect(lines.some((line) => /^-> \(\d+ bytes: the message and its final dot\)$/.test(line))).toBe(true);
  expect(lines).toContain("-> QUIT");
  expect(lines.at(-1)).toMatch(/^Taken: 250 /);
  const [mail] = await sink.ledger.received(1, ({ to }) => to.includes("ada@example.net"));
  expect(mail?.from).toBe("shop@example.com");
});

/** What the sink's SIZE makes of the line, if it offers that. */
function sizeOf(out: string): string {
  return /-> MAIL FROM:<[^>]*>(.*)/.exec(out)?.[1] ?? "";
}

test("a refusal ends with status 1 and the receiver's words", async () => {
  const { status, out } = await command().postrider(
    "send-test",
    ...["--to", "refuse-550@example.net", "--from", "shop@example.com", "--json"],
  );
  expect(status).toBe(1);
  const sent = JSON.parse(out) as Sent;
  expect(sent).toMatchObject({ delivered: false, phase: "rcpt", host: "127.0.0.1" });
  expect(sent.reply).toMatch(/^550 /);
  expect(sent.conversation.filter(({ who }) => who === "them").length).toBeGreaterThan(3);
});

test("a smarthost that is away is named", async () => {
  const away = commandLine({ smtpUrl: "smtp://127.0.0.1:1", settings });
  const { status, out } = await away.postrider(
    "send-test",
    ...["--to", "a@example.net", "--from", "b@example.com"],
  );
  expect(status).toBe(1);
  expect(out).toContain("Not accepted: ");
  expect(out).toContain("ECONNREFUSED 127.0.0.1:1");
});

test("a password is not printed", async () => {
  const away = commandLine({ smtpUrl: `smtp://ada:secret-word@127.0.0.1:${sink.port}`, settings });
  const { out } = await away.postrider("send-test", ...["--to", "a@example.net", "--from", "b@example.com"]);
  expect(out).not.toContain("secret-word");
  expect(out).not.toContain(Buffer.from("\0ada\0secret-word").toString("base64"));
});
