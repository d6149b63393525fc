/**
 * The streams of workspaces. Each change locks the workspace, as making a key does, and raises its version.
 */
import { isDefined, type StreamDefinitions } from "../../rules/stream.ts";
import type { Sql } from "../db/connect.ts";
import { integer, json, type RowOf, text, typed } from "../db/rowshape.ts";

const changedStreamsRow = {
  handle: text,
  version: integer,
};
export type ChangedStreams = RowOf<typeof changedStreamsRow>;

/** `change` decides under the lock, and says what is wrong by throwing. null: there is no such workspace. */
export async function changeStreams(
  sql: Sql,
  workspaceId: string,
  change: (known: StreamDefinitions) => StreamDefinitions,
  now: Date,
): Promise<ChangedStreams | null> {
  return sql.begin(async (tx) => {
    const [workspace] = await typed(tx, { streams: json<StreamDefinitions>() })`
      select streams from workspace where id = ${workspaceId} for update`;
    if (!workspace) return null;
    const streams = change(workspace.streams);
    const [named] = await typed(tx, { stream: text })`
      select stream from api_key where workspace_id = ${workspaceId} and revoked_at is null
        and stream not in ('transactional', 'bulk')
        and stream <> all(${Object.keys(streams).filter((name) => isDefined(name, streams))}::text[]) limit 1`;
    if (named)
      throw new StreamInUse(
        `Keys of the workspace send in the stream ${named.stream}. Revoke them first: \`postrider key list --workspace ${workspaceId}\` lists them.`,
      );
    const [row] = await typed(tx, changedStreamsRow)`
      update workspace set streams = ${tx.json(streams)}, version = version + 1, changed_at = ${now}
      where id = ${workspaceId} returning handle, version::int`;
    return row ?? null;
  });
}

export class StreamInUse extends Error {}

/** null: there is no such workspace. */
export async function findStreams(sql: Sql, workspaceId: string): Promise<StreamDefinitions | null> {
  const [row] = await typed(sql, { streams: json<StreamDefinitions>() })`
    select streams from workspace where id = ${workspaceId}`;
  return row?.streams ?? null;
}
