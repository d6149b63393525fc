/** The audit log of the console: what people change, written before it happens. */
import type { Sql } from "../db/connect.ts";
import type { Page } from "../mail/read.ts";

/** Of what concerns the whole installation. */
export const WHOLE_INSTALLATION = "00000000-0000-0000-0000-000000000000";

export type ChangeRow = {
  id: string;
  accountId: string;
  email: string;
  action: string;
  subject: string;
  detail: unknown;
  status: number | null;
};

/** Of an account, which belongs to several workspaces: written for each of them. */
export async function insertChange(
  sql: Sql,
  change: Omit<ChangeRow, "detail"> & { workspaceId: string | null },
): Promise<void> {
  const { workspaceId, id, accountId, email, action, subject, status } = change;
  const workspaces =
    workspaceId === null
      ? sql`(select workspace_id from member where account_id = ${accountId})`
      : sql`(select ${workspaceId}::uuid as workspace_id)`;
  await sql`
    insert into change (workspace_id, id, account_id, email, action, subject, status)
    select workspace_id, ${id}, ${accountId}, ${email}, ${action}, ${subject}, ${status} from ${workspaces} w`;
}

/** How it was answered, and what else there is to know. */
export async function noteChanged(
  sql: Sql,
  change: Pick<ChangeRow, "id" | "accountId" | "status" | "detail"> & { workspaceId: string | null },
): Promise<void> {
  const { workspaceId, id, accountId, status, detail } = change;
  const text = detail === null ? null : JSON.stringify(detail);
  const workspaces =
    workspaceId === null
      ? sql`(select m.workspace_id from member m where m.account_id = ${accountId})`
      : sql`(select ${workspaceId}::uuid)`;
  await sql`
    with told as materialized (
      select workspace_id, id from change where workspace_id in ${workspaces} and id = ${id}
      order by workspace_id, id for update
    )
    update change c set status = ${status}, detail = ${text}::text::jsonb
    from told where c.workspace_id = told.workspace_id and c.id = told.id`;
}

/** A page and one more row, newest first. */
export async function listChanges(
  sql: Sql,
  workspaceId: string,
  { after, before, limit }: Page,
): Promise<ChangeRow[]> {
  const position =
    before !== null ? sql`and id > ${before}` : after !== null ? sql`and id < ${after}` : sql``;
  return sql<ChangeRow[]>`
    select id, account_id as "accountId", email, action, subject, detail, status from change
    where workspace_id = ${workspaceId} ${position}
    order by id ${before === null ? sql`desc` : sql`asc`} limit ${limit + 1}`;
}
