/** All contacts of an audience that are not archived, as lines of a CSV file that an import takes again. */
import { listContacts } from "../record/contacts/contacts.ts";
import type { Sql } from "../record/db/connect.ts";
import type { Contact } from "../rules/contact.ts";
import { notFormula } from "../rules/formula.ts";
import { csvLine } from "./csv.ts";
import { EXPORTED_COLUMNS, tagsText } from "./import.ts";

/** Asked before each page but the first; what it throws ends the file. */
type MayGoOn = () => Promise<void>;

/** Held in memory while the reader is slow: a contact may take 100 KB there. */
const PAGE = 250;

export async function* exportedLines(
  sql: Sql,
  workspaceId: string,
  audienceId: string,
  excelSafe: boolean,
  mayGoOn: MayGoOn = async () => {},
): AsyncGenerator<string> {
  yield csvLine(EXPORTED_COLUMNS);
  for (let after: string | null = null; ; ) {
    const page = { after, before: null, limit: PAGE };
    const rows: Contact[] = await listContacts(sql, workspaceId, audienceId, page);
    for (const contact of rows.slice(0, PAGE)) {
      const cells = exported(contact);
      yield csvLine(excelSafe ? cells.map(notFormula) : cells);
    }
    if (rows.length <= PAGE) return;
    await mayGoOn();
    after = (rows[PAGE - 1] as Contact).id;
  }
}

/** In the order of the columns. */
function exported(contact: Contact): string[] {
  const { email, firstName, lastName, status, tags, properties, id, createdAt, updatedAt } = contact;
  return [
    email,
    firstName ?? "",
    lastName ?? "",
    status,
    String(status === "unsubscribed"),
    tagsText(tags),
    JSON.stringify(properties),
    id,
    createdAt.toISOString(),
    updatedAt.toISOString(),
  ];
}
