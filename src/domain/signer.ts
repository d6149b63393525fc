/**
 * Signs mail with the DKIM keys of its workspace. The key of the sender's domain signs, or else that of the
 * nearest parent domain that has one: receivers accept both as the sender's (relaxed alignment).
 *
 * Promises: mail of a domain with a key never leaves unsigned; if signing fails, the reason is returned as a
 * reply. A key that is activated, retired or removed is known to every process within REFRESH_MS. Postgres is
 * asked once per domain in that time, however many mails wait.
 */
import { messageOf } from "../caught.ts";
import { type SigningKey, signed } from "../message/sign.ts";
import type { Sql } from "../record/db/connect.ts";
import { within } from "../record/db/groupcommit.ts";
import { type SigningRow, signingKeys } from "../record/workspaces/domainkeys.ts";
import { type Reply, troubleOf } from "../smtp/reply.ts";
import { type Sealer, UnusableKey } from "./key.ts";
import { upwards } from "./owners.ts";

const REFRESH_MS = 10_000;
/** An RSA key takes some KB, and a domain without a key next to nothing. */
const KEPT_DOMAINS_MAX = 2_000;
const LOAD_MS_MAX = 5_000;

/** `sealed` tells whether an opened key is still the one in the record. */
type Opened = SigningKey & { sealed: Buffer };
/** `found`: what `keys` resolved with. */
type CachedKeys = { since: number; keys: Promise<readonly Opened[]>; found: readonly Opened[] | null };

export type SignerParts = { sql: Sql; sealer: Sealer; refreshMs?: number };

export class Signer {
  readonly #parts: Required<SignerParts>;
  /** The one used last comes last. */
  readonly #kept = new Map<string, CachedKeys>();
  /** One after the other, mails are mostly of one domain. */
  #last: { workspaceId: string; domain: string; keys: CachedKeys } | null = null;

  constructor(parts: SignerParts) {
    this.#parts = { refreshMs: REFRESH_MS, ...parts };
  }

  /**
   * The message as it is when no domain of the sender has a key: at once when that is known. Never rejects.
   */
  sign(workspaceId: string, domain: string, message: Buffer): Buffer | Promise<Buffer | Reply> {
    const cached = this.#keysOf(workspaceId, domain);
    return cached.found?.length === 0 ? message : this.#signWith(cached.keys, message);
  }

  async #signWith(keys: CachedKeys["keys"], message: Buffer): Promise<Buffer | Reply> {
    try {
      const found = await keys;
      return found.length === 0 ? message : await signed(message, found);
    } catch (error) {
      const trouble = error instanceof UnusableKey ? "KEY_UNUSABLE" : "KEY_UNREAD";
      return troubleOf("session", trouble, `it could not be signed: ${messageOf(error)}`);
    }
  }

  #keysOf(workspaceId: string, domain: string): CachedKeys {
    const now = performance.now();
    const last = this.#last;
    if (
      last?.domain === domain &&
      last.workspaceId === workspaceId &&
      now - last.keys.since <= this.#parts.refreshMs
    )
      return last.keys;
    const name = `${workspaceId} ${domain}`;
    let kept = this.#kept.get(name);
    if (!kept || now - kept.since > this.#parts.refreshMs) {
      const keys = this.#load(workspaceId, domain, kept);
      const asked: CachedKeys = { since: now, keys, found: null };
      keys.then(
        (found) => {
          asked.found = found;
        },
        // the next mail asks again
        () => {
          if (this.#kept.get(name) === asked) this.#kept.delete(name);
          if (this.#last?.keys === asked) this.#last = null;
        },
      );
      kept = asked;
    }
    this.#kept.delete(name);
    this.#kept.set(name, kept);
    if (this.#kept.size > KEPT_DOMAINS_MAX) this.#kept.delete(this.#kept.keys().next().value as string);
    this.#last = { workspaceId, domain, keys: kept };
    return kept;
  }

  async #load(
    workspaceId: string,
    domain: string,
    before: CachedKeys | undefined,
  ): Promise<readonly Opened[]> {
    const rows = await within(signingKeys(this.#parts.sql, workspaceId, upwards(domain)), LOAD_MS_MAX);
    const known = await (before?.keys ?? []);
    const nearest = Math.max(...rows.map((row) => row.domain.length));
    return rows
      .filter((row) => row.domain.length === nearest)
      .sort((a, b) => order(a) - order(b))
      .map((row) => known.find((key) => key.sealed.equals(row.sealedKey)) ?? this.#open(workspaceId, row));
  }

  #open(workspaceId: string, { domain, selector, algorithm, sealedKey }: SigningRow): Opened {
    const key = this.#parts.sealer.open({ workspaceId, domain, selector }, sealedKey);
    return { domain, selector, algorithm, key, sealed: sealedKey };
  }
}

/** A receiver that stops at the first signature finds the one that all of them can verify. */
function order({ algorithm }: SigningRow): number {
  return algorithm === "rsa" ? 0 : 1;
}
