/**
 * A policy file as somebody wrote it: read, checked, and compared with another. Faults name the file and the
 * place.
 */
import { readFileSync, statSync } from "node:fs";
import { codeOf, messageOf } from "../caught.ts";
import { checkPolicy } from "./policy/check.ts";
import { pathOfPolicy } from "./policy/shipped.ts";
import type { Policy } from "./policy.ts";

const FILE_BYTES_MAX = 1_048_576;

/** Throws with the file, the place and the reason when it cannot be used. */
export function readPolicyFile(named: string): { text: string; policy: Policy } {
  const path = pathOfPolicy(named);
  try {
    const { size } = statSync(path);
    if (size > FILE_BYTES_MAX) throw new Error(`It has ${size} bytes; at most ${FILE_BYTES_MAX} are read.`);
    const text = readFileSync(path, "utf8");
    return { text, policy: parsePolicy(text) };
  } catch (error) {
    const [code, message] = [codeOf(error), messageOf(error)];
    throw new Error(`${path}: ${FAULTS[code ?? ""] ?? message}`);
  }
}

const FAULTS: Readonly<Record<string, string>> = {
  ENOENT: "There is no such file.",
  EISDIR: "It is a folder.",
};

export function readPolicy(named: string): Policy {
  return readPolicyFile(named).policy;
}

/** A policy, or what `caps policy show --json` prints of one. */
export function parsePolicy(text: string): Policy {
  const json = parseJson(text);
  const shown = json as { digest?: unknown; policy?: unknown } | null;
  return checkPolicy(typeof shown?.digest === "string" && shown.policy ? shown.policy : json);
}

const BYTE_ORDER_MARK = "\ufeff";

export function parseJson(written: string): unknown {
  const text = written.startsWith(BYTE_ORDER_MARK) ? written.slice(BYTE_ORDER_MARK.length) : written;
  try {
    return JSON.parse(text);
  } catch (error) {
    const { message } = error as SyntaxError;
    const before = text.slice(0, positionIn(text, message)).split("\n");
    const place = `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
    throw new Error(`It is not JSON: ${message.replace(/\s+/g, " ")} (${place}).`);
  }
}

/** V8 quotes so many characters on each side of an unexpected one, and says no position then. */
const QUOTED_CHARS = 10;

function positionIn(text: string, message: string): number {
  const position = /at position (\d+)/.exec(message)?.[1];
  if (position !== undefined) return Number(position);
  const found = /^Unexpected token '(.+?)', (\.\.\.)?"(.*)"(\.\.\.)? is not valid JSON$/su.exec(message);
  if (!found) return text.length;
  const [, token = "", cutBefore, quoted = "", cutAfter] = found;
  if (cutBefore !== undefined) return text.indexOf(quoted) + QUOTED_CHARS;
  return cutAfter === undefined ? text.indexOf(token) : quoted.length - QUOTED_CHARS;
}

/** A number or list that two policies decide differently. */
export type PolicyDifference = { field: string; before: unknown; after: unknown };

export function policyDifferences(before: Policy, after: Policy): PolicyDifference[] {
  const [known, next] = [fieldsOf(before), fieldsOf(after)];
  return [...new Set([...known.keys(), ...next.keys()])]
    .filter((field) => JSON.stringify(known.get(field)) !== JSON.stringify(next.get(field)))
    .map((field) => ({ field, before: known.get(field) ?? null, after: next.get(field) ?? null }));
}

/** `shrink.factor` and its value; not what a file only says about itself. */
function fieldsOf(policy: Policy): Map<string, unknown> {
  const { $schema: _schema, description: _description, ...decides } = policy;
  const fields = new Map<string, unknown>();
  const add = (path: string, value: unknown) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) fields.set(path, value);
    else for (const [name, part] of Object.entries(value)) add(path === "" ? name : `${path}.${name}`, part);
  };
  add("", decides);
  return fields;
}
