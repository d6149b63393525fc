/**
 * Attachments. Those of a request that are large or many are stored before their e-mails, so that neither
 * 30 MB nor thousands of rows hold the event loop or are written under locks. What is larger than a piece is
 * written a piece at a time, each in a transaction of its own: the disk decides how fast, and no commit of
 * others waits behind more than a few pieces. Attachments that no e-mail uses in the end are deleted with the
 * retention of bodies, as all attachments are.
 */
import { HOUR_MS } from "../../clock.ts";
import { concatInTurns, turnIfLate } from "../../turn.ts";
import { columns, plainArray } from "../db/arrays.ts";
import type { Sql, Statement, Tx } from "../db/connect.ts";
import { within } from "../db/groupcommit.ts";
import { boolean, bytes, onlyRow, orNull, text, typed } from "../db/rowshape.ts";
import type { AttachmentRef, NewAttachment } from "./emails.ts";

/** Of one, as it is read, or of all that a request has. */
const LARGE_BYTES = 256 * 1024;
/** Of one statement, and of one row: what is kept already is read by it, so that it cannot change. */
const PIECE_BYTES = 384 * 1024;
const PIECES_MIGRATION = "0052_attachment_pieces.sql";
const PIECE_ROWS = 500;
/** So many small ones of a request are written with its e-mails. */
const WITH_EMAILS_MAX = 100;
/** Of so many it is looked which are the same, as of a batch with one for all: of 66,000 it took 50 ms. */
const COMPARED_MAX = 1_000;

const pieceRow = { piece: orNull(bytes) };
type Piece = { workspaceId: string; key: AttachmentKey; from: number };
/** All of them may take longer: a distant Postgres does not keep large mail from leaving. */
const PIECE_MS_MAX = 10_000;

/** A piece at a time: to decode all of it at once would hold the event loop. null: it is kept no longer. */
async function readAttachment(sql: Sql, workspaceId: string, key: AttachmentKey): Promise<Buffer | null> {
  const pieces: Buffer[] = [];
  for (let from = 0; from < Math.max(key.bytes, 1); from += PIECE_BYTES) {
    const piece = await readPiece(sql, { workspaceId, key, from });
    if (piece === null) return null;
    pieces.push(piece);
  }
  return concatInTurns(pieces);
}

/** From this byte on, where a piece begins. The version before kept all of it in one row. */
export async function readPiece(sql: Sql, { workspaceId, key, from }: Piece): Promise<Buffer | null> {
  const piece = typed(sql, pieceRow)`
    select coalesce(
      substring(content from ${from + 1} for ${PIECE_BYTES}),
      (select content from attachment
       where workspace_id = ${workspaceId} and hash = decode(${hashOfPiece(key.hash, from)}, 'hex'))) as piece
    from attachment where workspace_id = ${workspaceId} and hash = decode(${key.hash}, 'hex')`;
  const [row] = await within(piece, PIECE_MS_MAX);
  return row?.piece ?? null;
}

type AttachmentKey = Pick<AttachmentRef, "hash" | "bytes">;

/** With its number behind it: longer than a hash, so that no contents have it. */
function hashOfPiece(hash: string, from: number): string {
  return hash + (from / PIECE_BYTES).toString(16).padStart(8, "0");
}

const keptRow = { hash: text, content: bytes };

/** Those of an e-mail, in their order; null: it is kept no longer. Small ones come many at a time. */
export async function readAttachments(
  sql: Sql,
  workspaceId: string,
  keys: readonly AttachmentKey[],
): Promise<(Buffer | null)[]> {
  const found = new Map<string, Buffer | null>();
  const [small, large] = [keys.filter(({ bytes }) => bytes <= LARGE_BYTES), keys.filter(isLarge)];
  const pieces = Array.from(
    inPieces(small, ({ bytes }) => bytes),
    async (piece) => {
      for (const { hash, content } of await within(readSmall(sql, workspaceId, piece), PIECE_MS_MAX))
        found.set(hash, content);
    },
  );
  const wholes = large.map(async (key) => {
    found.set(key.hash, await readAttachment(sql, workspaceId, key));
  });
  await Promise.all([...pieces, ...wholes]);
  return keys.map(({ hash }) => found.get(hash) ?? null);
}

function isLarge({ bytes }: AttachmentKey): boolean {
  return bytes > LARGE_BYTES;
}

function readSmall(sql: Sql, workspaceId: string, keys: readonly AttachmentKey[]) {
  return typed(sql, keptRow)`
    select encode(hash, 'hex') as hash, content from attachment
    where workspace_id = ${workspaceId} and hash = any(array(
      select decode(one, 'hex') from unnest(${plainArray(keys.map(({ hash }) => hash))}::text[]) as one))`;
}

function* inPieces<One>(all: readonly One[], bytesOf: (one: One) => number): Generator<One[]> {
  let piece: One[] = [];
  let bytes = 0;
  for (const one of all) {
    bytes += bytesOf(one);
    if (piece.length === PIECE_ROWS || (piece.length > 0 && bytes > PIECE_BYTES)) {
      yield piece;
      piece = [];
      bytes = bytesOf(one);
    }
    piece.push(one);
  }
  if (piece.length > 0) yield piece;
}

/** Of a request, each once unless they are many. `ahead`: to be kept before the e-mails are written. */
export function partAhead(attachments: readonly NewAttachment[]): {
  ahead: readonly NewAttachment[];
  rest: NewAttachment[];
} {
  if (attachments.length > COMPARED_MAX) return { ahead: attachments, rest: [] };
  const each = [...new Map(attachments.map((one) => [one.hash, one])).values()];
  const bytes = each.reduce((sum, one) => sum + contentBytes(one), 0);
  const isMuch = each.length > WITH_EMAILS_MAX || bytes > LARGE_BYTES;
  return isMuch ? { ahead: each, rest: [] } : { ahead: [], rest: each };
}

function contentBytes({ content }: NewAttachment): number {
  return content.byteLength;
}

/** Each of them once, in an order that everyone keeps, so that no two wait for each other. */
export function keepAttachments(tx: Tx | Sql, attachments: readonly NewAttachment[], now: Date): Statement[] {
  const inOrder = [...attachments].sort((a, b) => (a.workspaceId + a.hash < b.workspaceId + b.hash ? -1 : 1));
  return Array.from(inPieces(inOrder, contentBytes), (piece) => insertAttachments(tx, piece, now));
}

function insertAttachments(tx: Tx | Sql, attachments: readonly NewAttachment[], now: Date): Statement {
  const rows = columns<NewAttachment>(tx, attachments, {
    workspace_id: ["uuid", ({ workspaceId }) => workspaceId],
    hash: ["word", ({ hash }) => hash],
    // the driver would write bytes in hexadecimal: twice their size, and copied once more
    content: ["text", ({ content }) => content.toString("base64")],
  });
  return tx`
    insert into attachment (workspace_id, hash, content, last_used_at)
    select workspace_id, decode(hash, 'hex'), decode(content, 'base64'), ${now.toISOString()}::timestamptz
    from (select ${rows}) a
    on conflict (workspace_id, hash) do update set last_used_at = excluded.last_used_at
      where attachment.last_used_at < excluded.last_used_at - interval '1 hour'`;
}

/** Those of one workspace. `isWanted` is asked between statements: whoever gave up is not served on. */
export async function keepAhead(
  sql: Sql,
  attachments: readonly NewAttachment[],
  now: Date,
  isWanted = () => true,
): Promise<void> {
  for (const piece of inPieces(attachments, contentBytes)) {
    const late = turnIfLate();
    if (late) await late;
    const each = [...new Map(piece.map((one) => [one.hash, one])).values()];
    const wholes = each.filter((one) => contentBytes(one) <= PIECE_BYTES);
    for (const statement of keepAttachments(sql, wholes, now)) {
      if (!isWanted()) return;
      await statement;
    }
    for (const one of each.filter((one) => contentBytes(one) > PIECE_BYTES)) {
      if (!isWanted()) return;
      if (await areAllToReadPieces(sql)) await keepInPieces(sql, one, now, isWanted);
      else await keepInOneRow(sql, one, now);
    }
  }
}

/** The whole comes last: where it is, all of its pieces are. What an earlier try has written is there. */
async function keepInPieces(
  sql: Sql,
  attachment: NewAttachment,
  now: Date,
  isWanted: () => boolean,
): Promise<void> {
  const { workspaceId, hash } = attachment;
  const pieces = piecesOf(attachment);
  const kept = await renew(sql, [attachment, ...pieces], now);
  if (kept.isWhole) return;
  for (const piece of pieces) {
    if (kept.hashes.has(piece.hash)) continue;
    if (!isWanted()) return;
    await insertAttachments(sql, [piece], now);
  }
  if (kept.hashes.has(hash)) return;
  await sql`
    insert into attachment (workspace_id, hash, content, last_used_at)
    values (${workspaceId}, decode(${hash}, 'hex'), null, ${now})
    on conflict (workspace_id, hash) do update set last_used_at = excluded.last_used_at`;
}

function piecesOf({ workspaceId, hash, content }: NewAttachment): NewAttachment[] {
  const pieces: NewAttachment[] = [];
  for (let from = 0; from < content.byteLength; from += PIECE_BYTES) {
    const piece = content.subarray(from, from + PIECE_BYTES);
    pieces.push({ workspaceId, hash: hashOfPiece(hash, from), content: piece });
  }
  return pieces;
}

const renewedRow = { hash: text, is_whole: boolean };

/**
 * What is there of a whole and its pieces is in use again. What was used within the hour is left as it is:
 * nothing deletes that yet, and a large attachment of many e-mails would be many rows for each.
 * `isWhole`: all of it stands in one row.
 */
async function renew(
  sql: Sql,
  [whole, ...pieces]: readonly [NewAttachment, ...NewAttachment[]],
  now: Date,
): Promise<{ hashes: ReadonlySet<string>; isWhole: boolean }> {
  const usedLately = new Date(now.getTime() - HOUR_MS);
  const renewed = await typed(sql, renewedRow)`
    with kept as materialized (
      select hash, last_used_at, content is not null as has_content from attachment
      where workspace_id = ${whole.workspaceId} and hash = any(array(
        select decode(one, 'hex')
        from unnest(${plainArray([whole, ...pieces].map(({ hash }) => hash))}::text[]) as one))
    ), unused as (
      select hash from attachment
      where workspace_id = ${whole.workspaceId}
        and hash in (select hash from kept where last_used_at < ${usedLately})
      order by hash for no key update
    ), renewed as (
      update attachment a set last_used_at = ${now} from unused
      where a.workspace_id = ${whole.workspaceId} and a.hash = unused.hash
      returning a.hash, a.content is not null as has_content
    ), used as (
      select hash, has_content from kept where last_used_at >= ${usedLately}
      union all select hash, has_content from renewed
    )
    select encode(hash, 'hex') as hash, has_content and hash = decode(${whole.hash}, 'hex') as is_whole
    from used`;
  return {
    hashes: new Set(renewed.map(({ hash }) => hash)),
    isWhole: renewed.some(({ is_whole }) => is_whole),
  };
}

// ---- while the version before, which reads no pieces, may still deliver

/** Of these databases it is known. */
const readyFor = new WeakSet<Sql>();

/** In a database that this version made, or migrated a day ago. */
async function areAllToReadPieces(sql: Sql): Promise<boolean> {
  if (readyFor.has(sql)) return true;
  const { is_ready } = onlyRow(
    await typed(sql, { is_ready: boolean })`
      select coalesce(max(applied_at) filter (where name = ${PIECES_MIGRATION}) < greatest(
        now() - interval '1 day', min(applied_at) + interval '1 hour'), true) as is_ready from migration`,
  );
  if (is_ready) readyFor.add(sql);
  return is_ready;
}

async function keepInOneRow(sql: Sql, attachment: NewAttachment, now: Date): Promise<void> {
  const { workspaceId, hash, content } = attachment;
  if ((await renew(sql, [attachment], now)).isWhole) return;
  await sql.begin(async (tx) => {
    // it stays with its connection, empty
    await tx`create temp table if not exists piece (n int, content bytea) on commit delete rows`;
    for (let at = 0; at < content.byteLength; at += PIECE_BYTES)
      await tx`insert into piece values (${at}, decode(${content.toString("base64", at, at + PIECE_BYTES)}, 'base64'))`;
    await tx`
      insert into attachment (workspace_id, hash, content, last_used_at)
      select ${workspaceId}, decode(${hash}, 'hex'), string_agg(content, '' order by n), ${now} from piece
      on conflict (workspace_id, hash) do update
        set last_used_at = excluded.last_used_at, content = coalesce(attachment.content, excluded.content)`;
  });
}
