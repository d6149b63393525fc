/** An audience with a thousand contacts, and an automation that every `go` of them enters. */
import { apply } from "../src/automation/apply.ts";
import { newId } from "../src/ids.ts";
import { insertAudience } from "../src/record/contacts/audiences.ts";
import { insertContacts } from "../src/record/contacts/contacts.ts";
import type { Contact } from "../src/rules/contact.ts";
import type { Bench, Workspace } from "./machine.ts";

const CONTACTS = 1_000;

/** Hands back a body for each contact: its event. */
export async function audienceOf(
  { sql }: Bench,
  { id: workspaceId }: Workspace,
  steps: object[],
): Promise<string[]> {
  const now = new Date();
  const audienceId = newId(now.getTime());
  await insertAudience(sql, { workspaceId, id: audienceId, name: "Bench", doubleOptIn: false }, now);
  const contacts = Array.from({ length: CONTACTS }, (_, n): Contact => {
    const email = `user${n}@example.net`;
    return {
      workspaceId,
      id: newId(now.getTime()),
      audienceId,
      identity: email,
      email,
      firstName: `User ${n}`,
      lastName: null,
      properties: { city: "Rome" },
      tags: [],
      status: "subscribed",
      createdAt: now,
      updatedAt: now,
      archivedAt: null,
    };
  });
  await insertContacts(sql, contacts);
  const document = { name: "Bench", audience_id: audienceId, event: "go", entry: "every", steps };
  await apply(sql, workspaceId, document, now.getTime());
  const properties = { order: 17, total: 99.5, items: ["lamp", "table"] };
  return contacts.map(({ email }) =>
    JSON.stringify({ audience_id: audienceId, email, name: "go", properties }),
  );
}
