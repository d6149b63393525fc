/** What the roles of people in a workspace allow. */
export const PERSON_ROLES = ["owner", "admin", "member"] as const;
export type PersonRole = (typeof PERSON_ROLES)[number];

/** Owners may give every role and take it, admins every role but owner. */
export function mayAppoint(by: PersonRole, role: PersonRole): boolean {
  return by === "owner" || (by === "admin" && role !== "owner");
}
