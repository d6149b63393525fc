/**
 * Clients that nobody here wrote send through the submission ports with nothing but their usual settings.
 * Those that are not on this machine are left out, and say so. nodemailer has a story of its own:
 * mail-is-submitted-over-smtp.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Engine, startEngine } from "../rig/engine.ts";
import type { TestWorkspace } from "../rig/workspace.ts";

let engine: Engine;
let workspace: TestWorkspace;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "postrider-clients-"));
  engine = await startEngine(["api", "submission"], {
    settings: { SUBMISSION_PORT: "0", SUBMISSION_TLS_PORT: "0" },
  });
  workspace = await engine.workspace();
});
afterAll(async () => {
  await engine.stop();
  rmSync(folder, { recursive: true, force: true });
});

const MESSAGE = [
  "From: Acme <orders@example.com>",
  "To: one@example.net",
  "Subject: Gr=?utf-8?q?=C3=BC=C3=9Fe?=",
  "MIME-Version: 1.0",
  "Content-Type: text/plain; charset=utf-8",
  "Content-Transfer-Encoding: 8bit",
  "",
  "Thänks",
  ".",
  "",
].join("\n");

const PATCH = [
  "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001",
  "From: Acme <orders@example.com>",
  "Date: Sun, 22 Nov 2026 06:00:00 +0000",
  "Subject: [PATCH] One line",
  "",
  "---",
  " file | 1 +",
  "",
].join("\n");

const PYTHON = `
import smtplib, ssl, sys
from email.message import EmailMessage
port, key = int(sys.argv[1]), sys.argv[2]
message = EmailMessage()
message["From"], message["To"], message["Subject"] = "orders@example.com", "one@example.net", "Grüße"
message.set_content("Thänks")
message.add_alternative("<p>Thänks</p>", subtype="html")
message.add_attachment(b"a file", maintype="application", subtype="octet-stream", filename="file.bin")
with smtplib.SMTP("127.0.0.1", port) as smtp:
    smtp.starttls(context=ssl._create_unverified_context())
    smtp.login("anybody", key)
    smtp.send_message(message)
`;

/** git wants to know who works, even for a mail. */
const AUTHOR = {
  GIT_AUTHOR_NAME: "Acme",
  GIT_AUTHOR_EMAIL: "orders@example.com",
  GIT_COMMITTER_NAME: "Acme",
  GIT_COMMITTER_EMAIL: "orders@example.com",
};

type ForeignClient = {
  name: string;
  /** Says that it is there. */
  probe: string[];
  command(): { args: string[]; input?: string };
  subject: string;
  says: object;
};

const key = () => workspace.client.key;
const port = () => String(engine.submissionPort);
const file = (name: string, content: string) => {
  const path = join(folder, name);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
};

const CLIENTS: ForeignClient[] = [
  {
    name: "swaks with STARTTLS and AUTH LOGIN",
    probe: ["swaks", "--version"],
    command: () => ({
      args: [
        ...["swaks", "--server", "127.0.0.1", "--port", port(), "--tls", "--auth", "LOGIN"],
        ...["--auth-user", "anybody", "--auth-password", key(), "--from", "orders@example.com"],
        ...["--to", "one@example.net", "--header", "Subject: by swaks", "--body", "Thanks"],
        "--suppress-data",
      ],
    }),
    subject: "by swaks",
    says: { from: "orders@example.com", to: ["one@example.net"], text: expect.stringMatching(/^Thanks\n+$/) },
  },
  {
    name: "swaks with TLS from the first byte and AUTH PLAIN",
    probe: ["swaks", "--version"],
    command: () => ({
      args: [
        ...["swaks", "--server", "127.0.0.1", "--port", String(engine.submissionTlsPort), "--tlsc"],
        ...["--auth", "PLAIN", "--auth-user", "anybody", "--auth-password", key()],
        ...["--from", "orders@example.com", "--to", "one@example.net,two@example.net"],
        ...["--header", "Subject: by swaks in TLS", "--attach-body", "Thanks", "--suppress-data"],
      ],
    }),
    subject: "by swaks in TLS",
    says: { to: ["one@example.net", "two@example.net"] },
  },
  {
    name: "msmtp",
    probe: ["msmtp", "--version"],
    command: () => ({
      args: [
        "msmtp",
        "--file",
        file(
          "msmtprc",
          `account default\nhost 127.0.0.1\nport ${port()}\ntls on\ntls_certcheck off\nauth on\nuser anybody\npassword ${key()}\nfrom orders@example.com\n`,
        ),
        "--read-recipients",
      ],
      input: MESSAGE.replace(/^Subject.*$/m, "Subject: by msmtp"),
    }),
    subject: "by msmtp",
    says: { from: "Acme <orders@example.com>", to: ["one@example.net"], text: "Thänks\n.\n" },
  },
  {
    name: "curl",
    probe: ["curl", "--version"],
    command: () => ({
      args: [
        ...["curl", "--silent", "--show-error", "--ssl-reqd", "--insecure", `smtp://127.0.0.1:${port()}`],
        ...["--user", `anybody:${key()}`, "--mail-from", "orders@example.com"],
        ...["--mail-rcpt", "one@example.net", "--upload-file", "-", "--crlf"],
      ],
      input: MESSAGE.replace(/^Subject.*$/m, "Subject: by curl"),
    }),
    subject: "by curl",
    says: { from: "Acme <orders@example.com>", text: "Thänks\n.\n" },
  },
  {
    name: "git send-email",
    probe: [
      "sh",
      "-c",
      "git send-email --dump-aliases && perl -MMail::Address -MIO::Socket::SSL -MAuthen::SASL -e 1",
    ],
    command: () => ({
      args: [
        ...[
          "git",
          "-c",
          "sendemail.smtpSSLCertPath=",
          "send-email",
          "--quiet",
          "--confirm=never",
          "--suppress-cc=all",
        ],
        ...["--smtp-server=127.0.0.1", `--smtp-server-port=${port()}`, "--smtp-encryption=tls"],
        ...["--smtp-user=anybody", `--smtp-pass=${key()}`, "--smtp-domain=a.example"],
        ...["--from=Acme <orders@example.com>", "--to=one@example.net", file("one.patch", PATCH)],
      ],
    }),
    subject: "[PATCH] One line",
    says: { from: "Acme <orders@example.com>", to: ["one@example.net"] },
  },
  {
    name: "Python's smtplib",
    probe: ["python3", "-c", "import smtplib, ssl"],
    command: () => ({ args: ["python3", file("send.py", PYTHON), port(), key()] }),
    subject: "Grüße",
    says: { text: "Thänks\n", html: "<p>Thänks</p>\n" },
  },
];

async function run(args: string[], input = ""): Promise<{ status: number | null; said: string }> {
  const [program = "", ...rest] = args;
  const child = spawn(program, rest, { cwd: folder, env: { ...process.env, HOME: folder, ...AUTHOR } });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  child.stdin.end(input);
  const status = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { status, said };
}

for (const client of CLIENTS)
  test(client.name, async (context) => {
    const [program = "", ...args] = client.probe;
    if (spawnSync(program, args).status !== 0) return context.skip(`${client.name} is not on this machine`);
    const command = client.command();
    const { status, said } = await run(command.args, command.input);
    expect(status, said).toBe(0);
    const list = await workspace.client.get<{ data: { id: string; subject: string }[] }>("/emails");
    const sent = list.body.data.filter(({ subject }) => subject === client.subject);
    expect(sent, said).toHaveLength(1);
    const { body } = await workspace.client.get(`/emails/${sent[0]?.id}`);
    expect(body).toMatchObject(client.says);
  });

test("a client with a wrong key hears why", async (context) => {
  if (spawnSync("curl", ["--version"]).status !== 0) return context.skip("curl is not on this machine");
  const { status, said } = await run(
    [
      ...["curl", "--silent", "--verbose", "--ssl-reqd", "--insecure", `smtp://127.0.0.1:${port()}`],
      ...[
        "--user",
        "anybody:pr_live_nothing",
        "--mail-from",
        "a@example.com",
        "--mail-rcpt",
        "b@example.net",
      ],
      ...["--upload-file", "-"],
    ],
    MESSAGE,
  );
  expect(status).not.toBe(0);
  expect(said).toContain("535 5.7.8 API key is invalid.");
});
