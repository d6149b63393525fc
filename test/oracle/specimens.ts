/**
 * Reports and replies as the systems of the field write them, each with what an operator would make of it.
 */
import { readFileSync } from "node:fs";

export type SpecimenReport = { name: string; expected: string; message: Buffer };
export type SpecimenReply = { isHard: boolean; receiver: string; reply: string };

/** Each begins with a line `=== name | what it comes to`. */
export function specimenReports(): SpecimenReport[] {
  return textOf("reports.txt")
    .split(/^=== /m)
    .slice(1)
    .map((one) => {
      const [, name = "", expected = "", message = ""] = /^(.*) \| (.*)\n([\s\S]*)$/.exec(one) ?? [];
      return { name, expected, message: Buffer.from(message.replaceAll("\n", "\r\n")) };
    });
}

export function specimenReplies(): SpecimenReply[] {
  const lines = textOf("specimens.tsv").split("\n");
  return lines
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [kind, receiver = "", reply = ""] = line.split("\t");
      return { isHard: kind === "hard", receiver, reply };
    });
}

function textOf(file: string): string {
  return readFileSync(new URL(file, import.meta.url), "utf8");
}
