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

/** With the same roles on one machine: as many as there may be cores. */
export const PROCESSES_MAX = 64;
