/**
 * The digest of the secret that this record belongs to: kept by whoever starts first, and compared by all
 * others.
 */
import type { Sql } from "../db/connect.ts";
import { bytes, typed } from "../db/rowshape.ts";

/** False: it is that of another secret. */
export async function keepSecretDigest(sql: Sql, digest: Buffer): Promise<boolean> {
  const found = await findSecretDigest(sql);
  if (found) return found.equals(digest);
  await sql`insert into secret_check (digest) values (${digest}) on conflict do nothing`;
  return (await findSecretDigest(sql))?.equals(digest) ?? false;
}

/** null: none has been kept yet. */
export async function findSecretDigest(sql: Sql): Promise<Buffer | null> {
  const [row] = await typed(sql, { digest: bytes })`select digest from secret_check`;
  return row?.digest ?? null;
}
