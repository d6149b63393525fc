import type { Contact, Properties } from "../../rules/contact.ts";
import { arrayOf, json, oneOf, orNull, type ShapeFor, text, timestamp } from "../db/rowshape.ts";

export const contactRow = {
  workspaceId: text,
  id: text,
  audienceId: text,
  identity: text,
  /** As first spelt. */
  email: text,
  firstName: orNull(text),
  lastName: orNull(text),
  properties: json<Properties>(),
  /** Sorted. */
  tags: arrayOf(text),
  status: oneOf("pending", "subscribed", "unsubscribed"),
  createdAt: timestamp,
  updatedAt: timestamp,
  archivedAt: orNull(timestamp),
} satisfies ShapeFor<Contact>;
