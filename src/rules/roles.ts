/** What a process may do: any of these, or all. */
export const ROLES = [
  "api",
  "deliver",
  "automate",
  "inbound",
  "submission",
  "webhooks",
  "console",
  "keeper",
] as const;
export type Role = (typeof ROLES)[number];
