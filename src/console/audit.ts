/** The audit log: what people changed, newest first. */
import { timeOfId } from "../ids.ts";
import { type ChangeRow, listChanges, WHOLE_INSTALLATION } from "../record/accounts/changes.ts";
import type { Sql } from "../record/db/connect.ts";
import { type ConsoleCall, EVERYONE, operatorCall, workspaceCall } from "./calls.ts";
import { pageIn, pageOfRows } from "./pages.ts";

export function auditCalls(lists: () => Sql): ConsoleCall[] {
  return [
    workspaceCall({
      ...{ method: "GET", path: "audit", roles: EVERYONE },
      async handle({ workspace, query }) {
        const page = pageIn(query);
        return pageOfRows(await listChanges(lists(), workspace.id, page), page, show);
      },
    }),
    operatorCall({
      ...{ method: "GET", path: "operator/audit" },
      async handle({ query }) {
        const page = pageIn(query);
        return pageOfRows(await listChanges(lists(), WHOLE_INSTALLATION, page), page, show);
      },
    }),
  ];
}

function show({ id, accountId, email, action, subject, detail, status }: ChangeRow) {
  return {
    ...{ object: "change", id, at: new Date(timeOfId(id)).toISOString() },
    account: { id: accountId, email },
    ...{ action, subject, detail, status },
  };
}
