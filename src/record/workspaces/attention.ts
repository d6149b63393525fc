/** What of a workspace needs somebody: the first few of each kind. */
import type { Sql } from "../db/connect.ts";
import { boolean, type RowOf, text, typed } from "../db/rowshape.ts";

export async function unverifiedDomains(sql: Sql, workspaceId: string, most: number): Promise<string[]> {
  const rows = await typed(sql, { domain: text })`
    select domain from domain where workspace_id = ${workspaceId} and verified_at is null
    order by domain limit ${most}`;
  return rows.map(({ domain }) => domain);
}

const troubledEndpointRow = {
  endpoint: text,
  isDisabled: boolean,
};
export type TroubledEndpoint = RowOf<typeof troubledEndpointRow>;

/** Those that their owner disabled are no trouble. */
export async function troubledEndpoints(
  sql: Sql,
  workspaceId: string,
  most: number,
): Promise<TroubledEndpoint[]> {
  return typed(sql, troubledEndpointRow)`
    select endpoint, status = 'disabled' as "isDisabled" from webhook
    where workspace_id = ${workspaceId} and (disabled_for is not null or failing_since is not null)
    order by id limit ${most}`;
}
