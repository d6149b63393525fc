/**
 * The order in which rows are locked, for every transaction and every statement. Transactions that keep it
 * may wait for each other, but cannot deadlock.
 *
 * Rules
 * 1. Tables are locked in the order of LOCK_ORDER. What a transaction has locked already it may lock again.
 * 2. Rows of one table are locked in the order of their primary key, in one statement:
 *    `select ... order by ... for update`, or that as a materialized `with` in front of an update or delete.
 *    An update or delete alone locks in the order of its plan, which is any order. An upsert locks in the
 *    order of its input. Who waits for rows of one table in two statements locks all of them before, or keeps
 *    to the order in both together.
 * 3. Rows that are `skip locked` may be locked in any order and at any time, since that waits for nobody;
 *    from then on they count as locked. Rows that are inserted under fresh ids may be inserted at any time:
 *    nobody else knows them.
 * 4. Rows of GUARDED tables are locked by nobody but holders of the named lock, except by statements that
 *    lock nothing else. They need no order.
 *
 * Foreign keys lock the parent after the child is written, against deletion only (`key share`). Nothing
 * deletes a workspace, and who locks one `for update` (keys.ts) holds nothing at that time that others wait
 * for.
 *
 * E-mails of several workspaces are the exception to rule 2. settle.ts updates a thousand rows without a
 * statement that locks them first, which would double its price: its plan takes them partition by partition,
 * within each in the order of their key. For the e-mails of one workspace that is the order of their ids.
 * Everybody else who locks e-mails of several workspaces skips those that are locked.
 *
 * Not here: the schema itself. Partitions are made and dropped in transactions of their own.
 *
 * test/fault/writers-never-deadlock.test.ts holds every writer against this file, alone and against every
 * other.
 */
export const LOCK_ORDER = [
  "report", // taken before whatever it changes
  "audience", // before any change of its contacts
  "contact", // events hold theirs until they are committed, so that nobody erases them meanwhile
  "ledger", // before anything is written that its workspace sends
  "claim",
  "erased_contact",
  "run",
  "entry",
  "event",
  "webhook_attempt",
  "erasure",
  "email", // before its due row, and before the bag that it enters or leaves
  "search_block", // after the e-mails that it holds
  "attachment",
  "due",
  "bag",
  "soft_bounce",
  "suppressed_address",
  "cap_use",
  "tally",
  "part_tally",
  "cap_source",
  "cap_look",
  "cap_state",
  "domain", // its present and its next owner
  "template",
  "account",
  "session",
  "password_reset",
  "member",
  "invitation",
  "workspace",
  "automation",
  "api_key",
  "brake",
  "destination_hold",
  "shaping_file",
  "postmaster_day",
  "provider_day",
  "shadow_policy",
  "shadow_capacity", // under the row of the policy
  "shadow_change",
  "cap_policy", // only ever inserted, each row alone
  "queue_shards", // its one row, alone
  "tick_lease",
  "secret_check",
  "webhook", // after the workspace that tells because of it
  "outbox_batch", // written by triggers, as new rows; deleted by one process at a time
  "event_sequence",
  "sts_policy", // each row alone, or those that nobody else holds
  "tls_report_out", // the plan before its counts go
  "tls_sessions",
  "tls_report_in",
  "definition", // each row alone
  "request", // only ever inserted
  "change", // alone
  "contact_import", // each row alone; old ones are skipped when they are locked
  "workspace_move", // the fence of a workspace that moves takes it with each write; who moves it waits with a timeout
  "workspace_change", // only ever inserted; deleted by who moves the workspace
  "outbox", // written by triggers, as new rows; numbered by one process at a time
] as const;

/** Tables whose rows are only touched under another lock, and which one that is. */
export const GUARDED: Readonly<Record<string, (typeof LOCK_ORDER)[number]>> = {
  suppression: "audience",
  consent: "contact",
  contact_tag: "contact", // written by triggers
  confirmation: "audience", // noteMailed alone takes one row of it, and nothing else
  domain_key: "domain",
  run_step: "run",
  erased_address: "erasure",
  body: "email",
  email_ending: "email", // written by triggers
  capacity: "ledger",
  cap_change: "ledger", // only ever inserted
  sender_limit: "ledger",
  automation_version: "automation",
  template_version: "template",
  webhook_delivery: "webhook",
  webhook_replay: "webhook",
};
