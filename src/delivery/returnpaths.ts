/**
 * Under which return path the mail of a workspace leaves: below the sender's domain where DNS shows that it
 * leads here, so that SPF aligns with it, and else below the domain of the operator.
 *
 * What is known of a workspace and a domain is believed for ten seconds, so that a mail asks nobody.
 */
import { upwards } from "../domain/owners.ts";
import { returnPathName } from "../domain/returnpath.ts";
import type { Sql } from "../record/db/connect.ts";
import { within } from "../record/db/groupcommit.ts";
import { returnPathOf } from "../record/workspaces/domains.ts";
import type { ReturnPathKey } from "../returnpath.ts";

const KEPT_MS = 10_000;
const KEPT_MAX = 20_000;
const LOAD_MS_MAX = 3_000;

export type ReturnPathsParts = {
  sql: Sql;
  key: ReturnPathKey;
  /** The operator's. */
  domain: string;
};

type Known = { writer: PathWriter; at: number };

/** Writes the return path of each recipient of one mail. */
export type PathWriter = (emailId: string, place: number, now: number) => string;

export class ReturnPaths {
  readonly #parts: ReturnPathsParts;
  readonly #known = new Map<string, Known>();

  constructor(parts: ReturnPathsParts) {
    this.#parts = parts;
  }

  /** For mail of the workspace that is from this domain. */
  writer(workspaceId: string, fromDomain: string): PathWriter | Promise<PathWriter> {
    const name = `${workspaceId} ${fromDomain}`;
    const known = this.#known.get(name);
    if (known && performance.now() - known.at < KEPT_MS) return known.writer;
    return this.#load(name, workspaceId, fromDomain);
  }

  async #load(name: string, workspaceId: string, fromDomain: string): Promise<PathWriter> {
    const at = performance.now();
    const { sql, domain } = this.#parts;
    const found = await within(returnPathOf(sql, workspaceId, upwards(fromDomain)), LOAD_MS_MAX);
    const own = found.domain === null ? domain : returnPathName(found.domain);
    const known = { writer: this.#writerOf(found.handle, own), at };
    this.#known.delete(name);
    this.#known.set(name, known);
    if (this.#known.size > KEPT_MAX) this.#known.delete(this.#known.keys().next().value as string);
    return known.writer;
  }

  #writerOf(handle: string, domain: string): PathWriter {
    const { key } = this.#parts;
    return (emailId, place, now) => `${key.write({ handle, emailId, place }, now)}@${domain}`;
  }
}
