/**
 * Large attachments, read back in pieces, and stored before their e-mails: in their own transaction, a piece
 * at a time, so that 30 MB neither hold the event loop nor are written under locks. Attachments that no
 * e-mail uses in the end are deleted with the retention of bodies, as all attachments are.
 */
import { concatInTurns } from "../../turn.ts";
import type { Sql } from "../db/connect.ts";
import { within } from "../db/groupcommit.ts";
import { bytes, typed } from "../db/rowshape.ts";
import type { AttachmentRef, NewAttachment } from "./emails.ts";

const LARGE_BYTES = 256 * 1024;
const PIECE_BYTES = 384 * 1024;

const pieceRow = { piece: bytes };
/** All of them may take longer: a distant Postgres does not keep large mail from leaving. */
const PIECE_MS_MAX = 10_000;

/** A piece at a time: to decode all of it at once would hold the event loop. null: it is kept no longer. */
export async function readAttachment(
  sql: Sql,
  workspaceId: string,
  { hash, bytes }: Pick<AttachmentRef, "hash" | "bytes">,
): Promise<Buffer | null> {
  const pieces: Buffer[] = [];
  for (let at = 0; at < Math.max(bytes, 1); at += PIECE_BYTES) {
    const piece = typed(sql, pieceRow)`
      select substring(content from ${at + 1} for ${PIECE_BYTES}) as piece from attachment
      where workspace_id = ${workspaceId} and hash = decode(${hash}, 'hex')`;
    const [row] = await within(piece, PIECE_MS_MAX);
    if (!row) return null;
    pieces.push(row.piece);
  }
  return concatInTurns(pieces);
}

export function isLargeAttachment({ content }: NewAttachment): boolean {
  return content.byteLength > LARGE_BYTES;
}

export async function keepLargeAttachments(
  sql: Sql,
  attachments: readonly NewAttachment[],
  now: Date,
): Promise<void> {
  for (const attachment of attachments)
    if (!(await isKept(sql, attachment, now))) await keep(sql, attachment, now);
}

async function isKept(sql: Sql, { workspaceId, hash }: NewAttachment, now: Date): Promise<boolean> {
  const { count } = await sql`
    update attachment set last_used_at = ${now}
    where workspace_id = ${workspaceId} and hash = decode(${hash}, 'hex')`;
  return count > 0;
}

async function keep(sql: Sql, { workspaceId, hash, content }: NewAttachment, now: Date): Promise<void> {
  await sql.begin(async (tx) => {
    // it stays with its connection, empty
    await tx`create temp table if not exists piece (n int, content bytea) on commit delete rows`;
    for (let at = 0; at < content.byteLength; at += PIECE_BYTES)
      // the driver would write bytes in hexadecimal: twice their size, and copied once more
      await tx`insert into piece values (${at}, decode(${content.toString("base64", at, at + PIECE_BYTES)}, 'base64'))`;
    await tx`
      insert into attachment (workspace_id, hash, content, last_used_at)
      select ${workspaceId}, decode(${hash}, 'hex'), string_agg(content, '' order by n), ${now} from piece
      on conflict (workspace_id, hash) do update set last_used_at = excluded.last_used_at`;
  });
}
