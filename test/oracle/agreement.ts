/**
 * Compares our verdicts with Sisimai's, on the samples of flufl.bounce and on the curated lists put into
 * delivery reports. Both come from Debian (libsisimai-perl, python3-flufl.bounce). Sisimai's verdict is an
 * opinion, not the truth: each disagreement stands in disagreements.tsv with the reason why ours stays.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { verdictOn } from "../../src/outcome/verdict.ts";
import { GONE, LIVING, type Listed } from "./lists.ts";

const SAMPLES = "/usr/lib/python3/dist-packages/flufl/bounce/tests/data";
const SCRIPT = new URL("sisimai.pl", import.meta.url).pathname;
const TIME_MS_MAX = 60_000;

type Opinion = {
  file: string;
  code: string;
  status: string;
  text: string;
  host: string;
  reason: string;
  bounce: "hard" | "soft" | "none";
};
export type Compared = { name: string; theirs: string; ours: string; text: string; agrees: boolean };
export type Set = { title: string; compared: Compared[] };

/** What is missing on this machine, in words; null when both oracles are here. */
export function missingOracle(): string | null {
  try {
    execFileSync("perl", ["-MSisimai", "-e", "1"], { stdio: "ignore", timeout: TIME_MS_MAX });
  } catch {
    return "Sisimai is not installed: apt-get install libsisimai-perl";
  }
  return existsSync(SAMPLES) ? null : "flufl.bounce is not installed: apt-get install python3-flufl.bounce";
}

export function agreement(): Set[] {
  const samples = readdirSync(SAMPLES)
    .filter((file) => file.endsWith(".txt"))
    .sort()
    .map((file) => join(SAMPLES, file));
  return [
    { title: "flufl.bounce's samples", compared: compare(samples) },
    { title: "replies about living addresses", compared: compareListed("living", LIVING) },
    { title: "replies about nobody", compared: compareListed("gone", GONE) },
  ];
}

/** The disagreements that are known, by name, with the reason. */
export function knownDisagreements(): Map<string, string> {
  const text = readFileSync(new URL("disagreements.tsv", import.meta.url), "utf8");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.split("\t")[0] as string, line.split("\t")[1] as string]));
}

function compareListed(name: string, list: readonly Listed[]): Compared[] {
  const folder = mkdtempSync(join(tmpdir(), "postrider-oracle-"));
  try {
    const files = list.map(({ reply }, n) => {
      const file = join(folder, `${name}-${String(n + 1).padStart(3, "0")}`);
      writeFileSync(file, reportOf(reply));
      return file;
    });
    return compare(files);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function compare(files: readonly string[]): Compared[] {
  const lines = execFileSync("perl", [SCRIPT, ...files], {
    encoding: "utf8",
    timeout: TIME_MS_MAX,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const counts = new Map<string, number>();
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Opinion)
    .filter(({ bounce }) => bounce !== "none")
    .map((opinion) => {
      const file = basename(opinion.file);
      const place = (counts.get(file) ?? 0) + 1;
      counts.set(file, place);
      return compared(`${file}#${place}`, opinion);
    });
}

function compared(name: string, { code, status, text, host, reason, bounce }: Opinion): Compared {
  const verdict = verdictOn({ code: code === "" ? null : Number(code), status: status || null, text, host });
  return {
    name,
    theirs: `${bounce} ${reason}`,
    ours: `${verdict.category} ${verdict.reason}`,
    text,
    agrees: (verdict.category === "hard") === (bounce === "hard"),
  };
}

/** RFC 3464, as Postfix writes it. */
function reportOf(reply: string): string {
  const status = /\b5\.\d{1,3}\.\d{1,3}\b/.exec(reply)?.[0] ?? "5.0.0";
  return [
    "From MAILER-DAEMON Sat Nov 21 12:00:00 2026",
    "From: MAILER-DAEMON@mail.example.org (Mail Delivery System)",
    "To: from@example.org",
    "Subject: Undelivered Mail Returned to Sender",
    "Date: Sat, 21 Nov 2026 12:00:00 +0000",
    "MIME-Version: 1.0",
    'Content-Type: multipart/report; report-type=delivery-status; boundary="part"',
    "",
    "--part",
    "Content-Type: text/plain; charset=utf-8",
    "",
    "This is the mail system at host mail.example.org.",
    "",
    `<x@receiver.example>: host mx.receiver.example[192.0.2.9] said: ${reply} (in reply to RCPT TO command)`,
    "",
    "--part",
    "Content-Type: message/delivery-status",
    "",
    "Reporting-MTA: dns; mail.example.org",
    "Arrival-Date: Sat, 21 Nov 2026 12:00:00 +0000",
    "",
    "Final-Recipient: rfc822; x@receiver.example",
    "Action: failed",
    `Status: ${status}`,
    "Remote-MTA: dns; mx.receiver.example",
    `Diagnostic-Code: smtp; ${reply}`,
    "",
    "--part",
    "Content-Type: message/rfc822",
    "",
    "From: from@example.org",
    "To: x@receiver.example",
    "Subject: a test",
    "Message-ID: <1@example.org>",
    "",
    "--part--",
    "",
  ].join("\n");
}
