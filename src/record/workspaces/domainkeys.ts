/**
 * Keys that sign the mail of a domain. Of each algorithm at most one signs and one waits until DNS shows it;
 * who takes its place retires it in the same transaction, and what is retired has forgotten its private key.
 * Keys change under the locked row of their domain: locks on the keys themselves would miss one that is just
 * being inserted.
 */

import { codeOf } from "../../caught.ts";
import type { Algorithm } from "../../rules/signing.ts";
import type { Sql, Tx } from "../db/connect.ts";
import { bytes, oneOf, type RowOf, text, timestamp, typed } from "../db/rowshape.ts";
import { lockDomains, nameDomain } from "./domains.ts";

const UNIQUE_VIOLATION = "23505";
const FOREIGN_KEY_VIOLATION = "23503";

export type KeyName = { workspaceId: string; domain: string; selector: string };

const domainKeyRow = {
  domain: text,
  selector: text,
  algorithm: oneOf("rsa", "ed25519"),
  state: oneOf("waiting", "signing", "retired"),
  /** SubjectPublicKeyInfo */
  publicKey: bytes,
  createdAt: timestamp,
};
export type DomainKey = RowOf<typeof domainKeyRow>;

export type NewDomainKey = KeyName & { algorithm: Algorithm; publicKey: Buffer; sealedKey: Buffer };
const signingRow = {
  domain: text,
  selector: text,
  algorithm: oneOf("rsa", "ed25519"),
  sealedKey: bytes,
};
export type SigningRow = RowOf<typeof signingRow>;

/**
 * It signs at once, in the place of the one that did, or waits. With its first key a workspace names the
 * domain.
 */
export async function insertDomainKey(
  sql: Sql,
  key: NewDomainKey,
  state: "waiting" | "signing",
  now: Date,
): Promise<"inserted" | "taken" | "unknown workspace"> {
  const { workspaceId, domain, selector, algorithm, publicKey, sealedKey } = key;
  try {
    await sql.begin(async (tx) => {
      await nameDomain(tx, workspaceId, domain, now);
      if (state === "signing") await retire(tx, workspaceId, domain, algorithm);
      await tx`
        insert into domain_key (workspace_id, domain, selector, algorithm, state, public_key, sealed_key,
          created_at)
        values (${workspaceId}, ${domain}, ${selector}, ${algorithm}, ${state}, ${publicKey}, ${sealedKey},
          ${now})`;
    });
    return "inserted";
  } catch (error) {
    const code = codeOf(error);
    if (code === UNIQUE_VIOLATION) return "taken";
    if (code === FOREIGN_KEY_VIOLATION) return "unknown workspace";
    throw error;
  }
}

/** A waiting key begins to sign. False when it does not wait (any more). */
export async function putToUse(sql: Sql, { workspaceId, domain, selector }: KeyName): Promise<boolean> {
  return sql.begin(async (tx) => {
    const named = await lockDomains(tx, domain, [workspaceId]);
    if (named.length === 0) return false;
    const [key] = await typed(tx, { algorithm: oneOf("rsa", "ed25519") })`
      select algorithm from domain_key
      where workspace_id = ${workspaceId} and domain = ${domain} and selector = ${selector}
        and state = 'waiting'`;
    if (!key) return false;
    await retire(tx, workspaceId, domain, key.algorithm);
    await tx`update domain_key set state = 'signing'
      where workspace_id = ${workspaceId} and domain = ${domain} and selector = ${selector}`;
    return true;
  });
}

async function retire(tx: Tx, workspaceId: string, domain: string, algorithm: Algorithm): Promise<void> {
  await tx`update domain_key set state = 'retired', sealed_key = null
    where workspace_id = ${workspaceId} and domain = ${domain} and algorithm = ${algorithm}
      and state = 'signing'`;
}

/** Of a whole workspace, or of one domain: by domain, the oldest first. */
export async function listDomainKeys(
  sql: Sql,
  workspaceId: string,
  domain: string | null = null,
): Promise<DomainKey[]> {
  return typed(sql, domainKeyRow)`
    select domain, selector, algorithm, state, public_key as "publicKey", created_at as "createdAt"
    from domain_key where workspace_id = ${workspaceId} and (${domain}::text is null or domain = ${domain})
    order by domain, created_at, selector`;
}

/** What signs for any of these domains. */
export async function signingKeys(
  sql: Sql,
  workspaceId: string,
  domains: readonly string[],
): Promise<SigningRow[]> {
  return typed(sql, signingRow)`
    select domain, selector, algorithm, sealed_key as "sealedKey" from domain_key
    where workspace_id = ${workspaceId} and domain = any(${domains}::text[]) and state = 'signing'`;
}

/** False when it signs, or is gone already. */
export async function deleteDomainKey(
  sql: Sql,
  { workspaceId, domain, selector }: KeyName,
): Promise<boolean> {
  return sql.begin(async (tx) => {
    const named = await lockDomains(tx, domain, [workspaceId]);
    if (named.length === 0) return false;
    const gone = await tx`
      delete from domain_key
      where workspace_id = ${workspaceId} and domain = ${domain} and selector = ${selector}
        and state <> 'signing'`;
    return gone.count > 0;
  });
}
