/** What the roles of people in a workspace allow. */
import { isOneOf } from "../names.ts";
export const PERSON_ROLES = ["owner", "admin", "member"] as const;
export type PersonRole = (typeof PERSON_ROLES)[number];

export function isPersonRole(text: string): text is PersonRole {
  return isOneOf(PERSON_ROLES, text);
}

/** Owners may give every role and take it, admins every role but owner. */
export function mayAppoint(by: PersonRole, role: PersonRole): boolean {
  return by === "owner" || (by === "admin" && role !== "owner");
}
