/** The curated replies: about addresses that are alive, and about those where nobody is. */
import { readFileSync } from "node:fs";

export type Listed = { receiver: string; source: string; reply: string };

export const LIVING = listed("living.tsv");
export const GONE = listed("gone.tsv");

function listed(file: string): Listed[] {
  return readFileSync(new URL(file, import.meta.url), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [receiver = "", source = "", reply = ""] = line.split("\t");
      return { receiver, source, reply };
    });
}
