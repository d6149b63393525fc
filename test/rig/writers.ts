/**
 * Everything in the process that writes the record, each as one call with arguments drawn from rows that all
 * of them share. test/fault/writers-never-deadlock.test.ts lets every two of them run at the same time, and
 * fails when an exported function of src/record that locks rows is missing here.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { newEventId, newId } from "../../src/ids.ts";
import {
  keepReset,
  resetPassword,
  setOperator,
  setPassword,
  setTotpSecret,
  takeTotpStep,
} from "../../src/record/accounts/accounts.ts";
import { dropOldChanges, insertChange, noteChanged } from "../../src/record/accounts/changes.ts";
import {
  acceptInvitation,
  changeMember,
  dropInvitation,
  insertInvitation,
} from "../../src/record/accounts/members.ts";
import { beginSession, endSession, endSessions, noteSessionUse } from "../../src/record/accounts/sessions.ts";
import {
  applyAutomation,
  deleteAutomation,
  renameAutomation,
  setAutomationState,
} from "../../src/record/automations/automations.ts";
import { type EventCommit, eventCommit } from "../../src/record/automations/events.ts";
import {
  type ClaimedRun,
  claimRuns,
  claimShares,
  dropEntries,
  dropOldRuns,
  moveRuns,
  type RunMove,
  releaseRuns,
  stopRuns,
} from "../../src/record/automations/runs.ts";
import {
  defaultAudience,
  deleteAudience,
  insertAudience,
  insertDefaultAudience,
  renameAudience,
} from "../../src/record/contacts/audiences.ts";
import { type ContactCommit, contactCommit } from "../../src/record/contacts/commit.ts";
import { noteMailed } from "../../src/record/contacts/confirmations.ts";
import {
  beginErasure,
  emptyDeletedAudience,
  eraseSizes,
  eraseStep,
} from "../../src/record/contacts/erasures.ts";
import { insertImport, noteImport } from "../../src/record/contacts/imports.ts";
import type { Sql, Tx } from "../../src/record/db/connect.ts";
import { endTickLease, extendTickLease, takeTickLease } from "../../src/record/db/ticklease.ts";
import { applyReports, type Told } from "../../src/record/mail/applyreports.ts";
import { keepAhead } from "../../src/record/mail/attachments.ts";
import {
  adoptUnnamed,
  claimBag,
  deleteBags,
  type HeldBag,
  markComposing,
  narrowBag,
  releaseBags,
  renewLeases,
  splitBag,
} from "../../src/record/mail/bagleases.ts";
import { type Bagging, noteEpoch, unqueue } from "../../src/record/mail/bags.ts";
import { barOpen } from "../../src/record/mail/barred.ts";
import { cancel, cancelScheduled, reschedule } from "../../src/record/mail/change.ts";
import { type MailCommit, mailCommit } from "../../src/record/mail/commit.ts";
import {
  dropEndedHolds,
  holdByRule,
  keepShaping,
  letGoOfHeld,
  resumeDestination,
  suspendDestination,
} from "../../src/record/mail/destinations.ts";
import { holdDue } from "../../src/record/mail/due.ts";
import type { NewEmail } from "../../src/record/mail/emails.ts";
import { dropOldClaims } from "../../src/record/mail/idempotency.ts";
import {
  endExpiredLeases,
  onlyOne,
  packDeferred,
  packScheduled,
  release,
  renewGrant,
  unqueueOtherEpochs,
} from "../../src/record/mail/keeperwork.ts";
import { watchOverload } from "../../src/record/mail/overload.ts";
import { leaveClosedShards, setShards } from "../../src/record/mail/queueshards.ts";
import { bounceDeferred, cancelDeferred, retryDeferred } from "../../src/record/mail/queueview.ts";
import { dropOldReports, endReports, insertReports, takeReports } from "../../src/record/mail/reports.ts";
import { dropOldAttachments } from "../../src/record/mail/retention.ts";
import {
  auditBlocks,
  cutBlocks,
  dropOldBlocks,
  FIRST_BLOCK,
  forgetBlocks,
  readBlocks,
} from "../../src/record/mail/searchblocks.ts";
import { type Settled, settle } from "../../src/record/mail/settle.ts";
import {
  addComplaints,
  addSuppressions,
  dropOldSoftBounces,
  undoSuppressions,
} from "../../src/record/mail/suppressions.ts";
import {
  amendTemplate,
  deleteTemplate,
  insertTemplate,
  putTemplate,
  type TemplateContent,
} from "../../src/record/mail/templates.ts";
import {
  claimWebhooks,
  disableFailing,
  noteTold,
  type Report,
  releaseWebhooks,
  renewWebhooks,
  saveReport,
} from "../../src/record/outbox/dispatch.ts";
import { logEvents, numberEvents, numberEventsOf } from "../../src/record/outbox/outbox.ts";
import { insertTest, replayEvent, replayFailed, replayRange } from "../../src/record/outbox/replay.ts";
import {
  changeSecrets,
  changeWebhook,
  deleteWebhook,
  dropOldDeliveries,
  insertWebhook,
  stopTelling,
  type WebhookKey,
} from "../../src/record/outbox/webhooks.ts";
import {
  dropExpiredStsPolicies,
  keepStsPolicy,
  noteStsPolicyUsed,
  takeStsPolicies,
} from "../../src/record/transport/stspolicies.ts";
import { dropOldTlsReports, insertTlsReports } from "../../src/record/transport/tlsreports.ts";
import {
  addTlsSessions,
  dropOldTlsSessions,
  endTlsReport,
  noteTlsReportSent,
  planTlsReports,
  takeTlsReports,
} from "../../src/record/transport/tlssessions.ts";
import { dropOldLooks, noteLooks, noteStates } from "../../src/record/workspaces/caplooks.ts";
import { insertCapPolicy } from "../../src/record/workspaces/cappolicies.ts";
import {
  dropOldCounts,
  insertCapChange,
  noteCapUse,
  saveDecision,
} from "../../src/record/workspaces/caps.ts";
import {
  deleteDefinition,
  insertDefinition,
  updateDefinition,
} from "../../src/record/workspaces/definitions.ts";
import { deleteDomainKey, insertDomainKey, putToUse } from "../../src/record/workspaces/domainkeys.ts";
import {
  forgetDomain,
  giveDomain,
  nameDomain,
  noteChecked,
  noteReturnPath,
  noteSeen,
  takeDomain,
} from "../../src/record/workspaces/domains.ts";
import { putPostmasterDays } from "../../src/record/workspaces/evidence.ts";
import { insertKey, markRevoked, noteLastUsed } from "../../src/record/workspaces/keys.ts";
import { expectReleaseNow } from "../../src/record/workspaces/ledgers.ts";
import { insertRequests } from "../../src/record/workspaces/requests.ts";
import { keepSecretDigest } from "../../src/record/workspaces/secretcheck.ts";
import { putShadow, saveShadow } from "../../src/record/workspaces/shadow.ts";
import { changeStreams } from "../../src/record/workspaces/streams.ts";
import { letGoOn, resumeWorkspace, suspendWorkspace } from "../../src/record/workspaces/suspension.ts";
import { changeWorkspace, insertOwner, insertWorkspace } from "../../src/record/workspaces/workspaces.ts";
import type { ContactChange } from "../../src/rules/contact.ts";
import { SUPPRESSION_REASONS } from "../../src/rules/suppression.ts";
import {
  ATTACHMENT_HASHES,
  CLAIM_KEYS,
  DOMAIN,
  EVENT,
  SELECTORS,
  SEQUENCE,
  type SharedBag,
  type SharedContact,
  type SharedRows,
  type SharedWorkspace,
  WEBHOOK_TOKEN,
  WORKER,
} from "./sharedrows.ts";

const hashOf = (identity: string): Buffer => Buffer.from(identity);
/** Whoever holds the lease of a tick. */
const TOKENS = [randomUUID(), randomUUID()];
const DAY_MS = 86_400_000;
const DESTINATIONS = ["one.example", "two.example", "three.example"];
const MOST = 1_000;
const NUMBERING_LOCK = 7_165_900;
const TIMEOUT_MS = 5_000;

const POLICY_DOMAINS = ["a.example", "b.example", "c.example"];
const TLS_SESSIONS = {
  day: 20_000,
  policy: "sts",
  result: "",
  mxHost: "mx.example",
  mxIp: "192.0.2.1",
  sourceIp: "",
  sessions: 1,
};
const HEARD_TLS_REPORT = {
  organization: "Somebody",
  reportId: "1",
  beginsAt: new Date(0),
  endsAt: new Date(0),
  policy: "sts",
  succeeded: 1,
  failed: 0,
  failures: [],
};

export type Writer = {
  name: string;
  /** The exported functions of src/record that it calls, as `file.ts name`. */
  calls: readonly string[];
  run(at: Place, rows: SharedRows): Promise<unknown>;
};

/** A connection, and the group commits on it: what one process at work is. */
export class Place {
  readonly sql: Sql;
  readonly mail: MailCommit;
  readonly contacts: ContactCommit;
  readonly events: EventCommit;

  constructor(sql: Sql) {
    const options = { connect: () => sql, timeoutMs: TIMEOUT_MS };
    this.sql = sql;
    this.mail = mailCommit(options, () => {}, hashOf);
    this.contacts = contactCommit(options, hashOf);
    this.events = eventCommit(options);
  }
}

export const WRITERS: readonly Writer[] = [
  writer("mail/attachments.ts keepAhead", ({ sql }, rows) => {
    const ws = rows.workspace();
    const some = rows.some(ATTACHMENT_HASHES).map((hash, n) => ({
      workspaceId: ws.id,
      hash,
      content: Buffer.alloc(n % 2 === 0 ? 300 * 1024 : 300, hash),
    }));
    return keepAhead(sql, some, rows.date);
  }),
  writer("contacts/audiences.ts insertAudience", ({ sql }, rows) => {
    const audience = {
      workspaceId: rows.workspace().id,
      id: newId(rows.now),
      name: "new",
      doubleOptIn: false,
    };
    return insertAudience(sql, audience, rows.date);
  }),
  writer("contacts/audiences.ts insertDefaultAudience", ({ sql }, rows) =>
    insertDefaultAudience(sql, rows.workspace().id, rows.date),
  ),
  writer("contacts/audiences.ts defaultAudience", ({ sql }, rows) =>
    defaultAudience(sql, rows.workspace().id, rows.date),
  ),
  writer("contacts/audiences.ts renameAudience", ({ sql }, rows) => {
    const ws = rows.workspace();
    return renameAudience(sql, ws.id, rows.pick(ws.audiences).id, "renamed");
  }),
  writer("contacts/audiences.ts deleteAudience", ({ sql }, rows) => {
    const ws = rows.workspace();
    return deleteAudience(sql, ws.id, rows.pick(ws.audiences).id, rows.date);
  }),
  writer("contacts/imports.ts insertImport", ({ sql }, rows) => {
    const ws = rows.workspace();
    const [{ id: audienceId }, id] = [rows.pick(ws.audiences), newId(rows.now)];
    return insertImport(sql, { workspaceId: ws.id, audienceId, id }, rows.date);
  }),
  writer("contacts/imports.ts noteImport", ({ sql }, rows) => {
    const { id: workspaceId } = rows.workspace();
    const counts = { total: 0, created: 0, updated: 0, skipped: 0, failed: 0 };
    return noteImport(sql, { workspaceId, id: workspaceId }, "completed", counts, rows.date);
  }),
  writer("automations/automations.ts applyAutomation", ({ sql }, rows) => {
    const ws = rows.workspace();
    const { name, audienceId } = rows.pick(ws.automations);
    const terms = { name, audience_id: audienceId, event: EVENT, entry: "every" as const };
    const document = { version: rows.pick([1, 2, 3]) };
    return applyAutomation(sql, ws.id, newId(rows.now), { terms, filters: [], document }, rows.date);
  }),
  writer("automations/automations.ts renameAutomation", ({ sql }, rows) => {
    const ws = rows.workspace();
    return renameAutomation(
      sql,
      ws.id,
      rows.pick(ws.automations).id,
      `renamed ${rows.pick([1, 2])}`,
      rows.date,
    );
  }),
  writer("automations/automations.ts deleteAutomation", ({ sql }, rows) =>
    deleteAutomation(sql, rows.workspace().id, randomUUID()),
  ),
  writer("automations/automations.ts setAutomationState", ({ sql }, rows) => {
    const ws = rows.workspace();
    const state = rows.pick(["active", "paused"] as const);
    return setAutomationState(sql, ws.id, rows.pick(ws.automations).id, state, rows.date);
  }),
  writer("mail/barred.ts barOpen", ({ sql }, rows) => {
    const bag = rows.pick(someBags(rows));
    const barred = rows
      .some(bag.emailIds)
      .map((id) => [id, [{ place: 0, address: "a@b.example", why: "" }]] as const);
    return barOpen(sql, heldOf(bag), new Map(barred), 0);
  }),
  writer("mail/bags.ts noteEpoch", ({ sql }, rows) => noteEpoch(sql, someBags(rows).map(bagRow), "epoch-2")),
  writer("mail/bags.ts unqueue", ({ sql }, rows) => unqueue(sql, someBags(rows).map(bagRow))),
  writer("mail/overload.ts watchOverload", ({ sql }, rows) => {
    const limits = { backlogMax: rows.pick([-1, 1_000_000]), diskFreeMinBytes: 0, dataFolder: null };
    return sql.begin((tx) => watchOverload(tx, limits, null, rows.date));
  }),
  writer("workspaces/caplooks.ts noteLooks", ({ sql }, rows) => {
    const day = new Date(Math.floor(rows.now / DAY_MS) * DAY_MS).toISOString().slice(0, 10);
    const none = {
      attempted: 0,
      delivered: 0,
      bounced: 0,
      blocked: 0,
      complained: 0,
      fblDelivered: 0,
      delayed: 0,
    };
    const days = rows
      .some(rows.workspaces)
      .map(({ id }) => ({ ...none, workspaceId: id, day, used: rows.pick([1, 2]) }));
    return noteLooks(sql, days, rows.now);
  }),
  writer("workspaces/caplooks.ts noteStates", ({ sql }, rows) => {
    const states = rows
      .some(rows.workspaces)
      .map(({ id }) => ({ workspaceId: id, state: {}, override: null }));
    return noteStates(sql, states, rows.now);
  }),
  writer("workspaces/caplooks.ts dropOldLooks", ({ sql }, rows) =>
    dropOldLooks(sql, "00000000-0000-0000-0000-000000000000", rows.now, MOST),
  ),
  writer("workspaces/shadow.ts putShadow", ({ sql }, rows) => {
    const shadow = { text: "{}", digest: rows.pick(["a", "b"]), author: "test", since: rows.date };
    return putShadow(sql, rows.chance(0.8) ? shadow : null);
  }),
  writer("workspaces/shadow.ts saveShadow", ({ sql }, rows) => {
    const change = {
      dayBefore: 1,
      dayAfter: 2,
      levelBefore: "normal",
      level: "frozen",
      reason: "x",
      counts: null,
    };
    const judged = rows.some(rows.workspaces).map(({ id }) => ({ workspaceId: id, state: {}, change }));
    return saveShadow(sql, rows.pick(["a", "b"]), judged, rows.date);
  }),
  writer("workspaces/evidence.ts putPostmasterDays", ({ sql }, rows) => {
    const of = { domain: "a.example", complaintRate: 0.001, delivered: null, reputation: null };
    const days = rows.some(rows.workspaces).map(({ id }) => ({
      ...{ ...of, workspaceId: id, day: 20_000 },
      provider: rows.pick([null, "google"]),
    }));
    return putPostmasterDays(sql, days, rows.date);
  }),
  writer("workspaces/cappolicies.ts insertCapPolicy", ({ sql }, rows) => {
    const policy = { text: "{}", digest: "0", author: "test", reason: "test" };
    return insertCapPolicy(sql, policy, rows.pick([0, 1, 2]), rows.date);
  }),
  writer("workspaces/caps.ts noteCapUse", ({ sql }, rows) =>
    noteCapUse(sql, rows.some(rows.workspaces).map(idOf)),
  ),
  writer("workspaces/caps.ts saveDecision", ({ sql }, rows) => saveDecision(sql, decision(rows), rows.date)),
  writer("workspaces/caps.ts insertCapChange", ({ sql }, rows) =>
    insertCapChange(sql, rows.workspace().id, CAP_CHANGE, rows.date),
  ),
  writer("workspaces/caps.ts dropOldCounts", ({ sql }, rows) =>
    dropOldCounts(sql, "00000000-0000-0000-0000-000000000000", rows.now, MOST),
  ),
  writer("mail/change.ts reschedule", ({ sql }, rows) => {
    const { workspaceId, id } = anEmail(rows);
    return reschedule(sql, { workspaceId, id, keyId: null }, rows.now, rows.date);
  }),
  writer("mail/change.ts cancel", ({ sql }, rows) => {
    const { workspaceId, id } = anEmail(rows);
    return cancel(sql, { workspaceId, id, keyId: null }, rows.date);
  }),
  writer("mail/bagleases.ts claimBag", ({ sql }, rows) => {
    const bag = rows.pick(someBags(rows));
    return claimBag(sql, { ...heldOf(bag), token: newId(rows.now) }, 0);
  }),
  writer("mail/change.ts cancelScheduled", ({ sql }, rows) => {
    const ws = rows.workspace();
    return cancelScheduled(sql, { workspaceId: ws.id, keyId: rows.pick(ws.keys) }, rows.date);
  }),
  writer("mail/bagleases.ts adoptUnnamed", ({ sql }, rows) => {
    const bag = rows.pick(someBags(rows));
    return adoptUnnamed(sql, heldOf(bag), rows.some(bag.emailIds));
  }),
  writer("mail/bagleases.ts narrowBag", ({ sql }, rows) => {
    const bag = rows.pick(someBags(rows));
    return narrowBag(sql, heldOf(bag), rows.some(bag.emailIds));
  }),
  writer("mail/bagleases.ts markComposing", ({ sql }, rows) =>
    markComposing(sql, heldOf(rows.pick(someBags(rows))), rows.pick([0, 1, 2])),
  ),
  writer("mail/bagleases.ts splitBag", ({ sql }, rows) => {
    const bag = rows.pick(someBags(rows));
    const emails = rows.some(bag.emailIds).map((id) => ({ id, bytes: 100 }));
    return splitBag(sql, heldOf(bag), emails, () => newId(rows.now), rows.date);
  }),
  writer("mail/bagleases.ts renewLeases", ({ sql }, rows) => renewLeases(sql, someBags(rows).map(heldOf))),
  writer("mail/bagleases.ts releaseBags", ({ sql }, rows) => releaseBags(sql, someBags(rows).map(heldOf))),
  writer("mail/bagleases.ts deleteBags", ({ sql }, rows) => deleteBags(sql, someBags(rows).map(heldOf))),
  writer("mail/idempotency.ts dropOldClaims", ({ sql }, rows) => dropOldClaims(sql, rows.date, MOST)),
  writer("mail/commit.ts mailCommit", ({ mail }, rows) =>
    together(3, () => {
      const ws = rows.workspace();
      return mail.submit({
        workspaceId: ws.id,
        version: rows.pick([null, 1]),
        given: rows.now,
        counted: 2,
        claim: rows.chance(0.5) ? claimIn(rows, ws, "send") : null,
        emails: [newEmail(rows, ws), newEmail(rows, ws)],
        attachments: rows
          .some(ATTACHMENT_HASHES)
          .map((hash) => ({ workspaceId: ws.id, hash, content: Buffer.from("content") })),
      });
    }),
  ),
  writer("contacts/confirmations.ts noteMailed", ({ sql }, rows) => {
    const { ws, contact } = aContact(rows);
    const owed = {
      workspaceId: ws.id,
      handle: ws.handle,
      audienceId: contact.audienceId,
      audienceName: "",
      contactId: contact.id,
      identity: contact.identity,
      email: contact.identity,
      firstName: null,
      lastName: null,
      askedAt: rows.date,
    };
    return noteMailed(sql, owed);
  }),
  writer("contacts/commit.ts contactCommit", ({ contacts }, rows) =>
    together(5, () => changeContact(contacts, rows, aChange(rows))),
  ),
  {
    name: "contactcommit.ts contactCommit, erasures alone",
    calls: ["contacts/commit.ts contactCommit"],
    run: ({ contacts }, rows) => together(5, () => changeContact(contacts, rows, { kind: "erase" })),
  },
  writer("workspaces/domainkeys.ts insertDomainKey", ({ sql }, rows) => {
    const key = {
      workspaceId: rows.workspace().id,
      domain: DOMAIN,
      selector: rows.pick([...SELECTORS, "s3"]),
      algorithm: "rsa" as const,
      publicKey: Buffer.from([0]),
      sealedKey: Buffer.from([0]),
    };
    return insertDomainKey(sql, key, rows.pick(["waiting", "signing"] as const), rows.date);
  }),
  writer("workspaces/domainkeys.ts putToUse", ({ sql }, rows) =>
    putToUse(sql, { workspaceId: rows.workspace().id, domain: DOMAIN, selector: rows.pick(SELECTORS) }),
  ),
  writer("workspaces/domainkeys.ts deleteDomainKey", ({ sql }, rows) =>
    deleteDomainKey(sql, {
      workspaceId: rows.workspace().id,
      domain: DOMAIN,
      selector: rows.pick([...SELECTORS, "s3"]),
    }),
  ),
  writer("workspaces/suspension.ts suspendWorkspace", ({ sql }, rows) =>
    suspendWorkspace(sql, rows.workspace().id, "abuse", rows.date),
  ),
  writer("workspaces/suspension.ts resumeWorkspace", ({ sql }, rows) =>
    resumeWorkspace(sql, rows.workspace().id, "all clear", rows.date),
  ),
  writer("workspaces/suspension.ts letGoOn", ({ sql }, rows) =>
    onlyOne(sql, "pack", rows.now, (tx) => letGoOn(tx, rows.pick([1, MOST]))),
  ),
  writer("mail/due.ts holdDue", ({ sql }, rows) => {
    const ws = rows.workspace();
    const keys = rows.some(ws.emails).map(({ id }) => ({ workspaceId: ws.id, emailId: id }));
    return sql.begin((tx) => holdDue(tx, keys));
  }),
  writer("workspaces/definitions.ts insertDefinition", ({ sql }, rows) =>
    insertDefinition(
      sql,
      rows.workspace().id,
      "event",
      { id: newId(rows.now), name: rows.pick(["a", "b"]), content: {} },
      rows.date,
    ),
  ),
  writer("workspaces/definitions.ts updateDefinition", ({ sql }, rows) =>
    updateDefinition(sql, rows.workspace().id, randomUUID(), {}, rows.date),
  ),
  writer("workspaces/definitions.ts deleteDefinition", ({ sql }, rows) =>
    deleteDefinition(sql, rows.workspace().id, randomUUID()),
  ),
  writer("workspaces/domains.ts noteSeen", ({ sql }, rows) =>
    noteSeen(sql, { workspaceId: rows.workspace().id, domain: DOMAIN }, { [DOMAIN]: "verified" }, rows.date),
  ),
  writer("workspaces/requests.ts insertRequests", ({ sql }, rows) =>
    insertRequests(sql, [
      {
        ...{ workspaceId: rows.workspace().id, id: newId(Date.now()), keyId: randomUUID() },
        ...{ method: "GET", route: "/emails", status: 200, ms: 1, requestId: randomUUID() },
      },
    ]),
  ),
  writer("workspaces/domains.ts nameDomain", ({ sql }, rows) =>
    nameDomain(sql, rows.workspace().id, rows.pick([DOMAIN, `other.${DOMAIN}`]), rows.date),
  ),
  writer("workspaces/domains.ts giveDomain", ({ sql }, rows) => {
    const [to, from] = rows.some(rows.workspaces).map(idOf) as [string, string?];
    const times = { now: rows.date, checkAt: rows.date };
    return giveDomain(sql, DOMAIN, { to, from: from ?? null }, times);
  }),
  writer("workspaces/domains.ts takeDomain", ({ sql }, rows) =>
    takeDomain(sql, rows.workspace().id, DOMAIN, rows.date),
  ),
  writer("workspaces/domains.ts forgetDomain", ({ sql }, rows) =>
    forgetDomain(sql, rows.workspace().id, DOMAIN, rows.date),
  ),
  writer("workspaces/domains.ts noteChecked", ({ sql }, rows) => {
    const checked = { workspaceId: rows.workspace().id, domain: DOMAIN };
    return noteChecked(sql, checked, { checkAt: rows.date, missingSince: rows.pick([null, rows.date]) });
  }),
  writer("workspaces/domains.ts noteReturnPath", ({ sql }, rows) =>
    noteReturnPath(sql, { workspaceId: rows.workspace().id, domain: DOMAIN }, rows.pick([null, rows.date])),
  ),
  writer("contacts/erasures.ts beginErasure", ({ sql }, rows) =>
    beginErasure(sql, rows.pick([null, rows.workspace().id])),
  ),
  writer("contacts/erasures.ts eraseStep", ({ sql }, rows) => {
    const { id: workspaceId, erasureId: id } = rows.workspace();
    // looked through for e-mails, or at its end
    const nextDay = rows.chance(0.8) ? Math.floor(rows.now / DAY_MS) : 0;
    return eraseStep(
      sql,
      { workspaceId, id, nextDay, nextId: null, only: null },
      rows.date,
      eraseSizes(1_000),
    );
  }),
  writer("contacts/erasures.ts emptyDeletedAudience", ({ sql }, rows) =>
    emptyDeletedAudience(sql, rows.date, MOST),
  ),
  writer("automations/events.ts eventCommit", ({ events }, rows) =>
    together(5, () => {
      const { ws, contact } = aContact(rows);
      const { scope: _, ...claim } = claimIn(rows, ws, "");
      return events.submit({
        workspaceId: ws.id,
        audienceId: contact.audienceId,
        identity: contact.identity,
        id: newEventId(rows.now),
        name: EVENT,
        properties: null,
        given: rows.now,
        bytes: 100,
        claim: rows.chance(0.5) ? claim : null,
        answer: () => "null",
      });
    }),
  ),
  writer("mail/keeperwork.ts packDeferred", ({ sql }, rows) =>
    onlyOne(sql, "pack", rows.now, (tx) => packDeferred(tx, rows.now, MOST, baggingOf(rows))),
  ),
  writer("mail/keeperwork.ts packScheduled", ({ sql }, rows) =>
    onlyOne(sql, "pack", rows.now, (tx) => packScheduled(tx, rows.now, MOST, baggingOf(rows))),
  ),
  writer("mail/keeperwork.ts renewGrant", ({ sql }, rows) => {
    const bag = rows.pick(someBags(rows));
    return renewGrant(sql, heldOf(bag), rows.some(bag.emailIds), rows.now);
  }),
  writer("mail/keeperwork.ts release", ({ sql }, rows) =>
    sql.begin((tx) => release(tx, rows.workspace().id, rows.now, rows.pick([2, MOST]), baggingOf(rows))),
  ),
  writer("mail/queueshards.ts setShards", ({ sql }, rows) => setShards(sql, rows.pick([1, 2]))),
  writer("mail/queueshards.ts leaveClosedShards", ({ sql }, rows) =>
    leaveClosedShards(sql, rows.pick([1, 2]), rows.date, MOST),
  ),
  writer("mail/keeperwork.ts unqueueOtherEpochs", ({ sql }) => unqueueOtherEpochs(sql, 0, "epoch-3", MOST)),
  writer("mail/keeperwork.ts endExpiredLeases", ({ sql }) => endExpiredLeases(sql, new Date(), MOST)),
  writer("workspaces/keys.ts insertKey", ({ sql }, rows) => {
    const key = {
      workspaceId: rows.workspace().id,
      id: newId(rows.now),
      hash: randomBytes(32).toString("hex"),
      shown: "pr_live_",
      name: "new",
      permissions: 1,
      audienceIds: null,
      stream: "transactional",
    };
    return insertKey(sql, key, rows.date, () => null);
  }),
  writer("workspaces/keys.ts markRevoked", ({ sql }, rows) => {
    const ws = rows.workspace();
    return markRevoked(sql, ws.id, rows.pick(ws.keys), rows.date);
  }),
  writer("workspaces/streams.ts changeStreams", ({ sql }, rows) => {
    const news = { bulk: true, reserved_share: 0.1, pool: null };
    return changeStreams(sql, rows.workspace().id, (known) => ({ ...known, news }), rows.date);
  }),
  writer("workspaces/keys.ts noteLastUsed", ({ sql }, rows) =>
    noteLastUsed(
      sql,
      rows.some(
        rows.workspaces.flatMap(({ id, keys }) =>
          keys.map((keyId) => ({ workspaceId: id, keyId, at: rows.now })),
        ),
      ),
    ),
  ),
  writer("workspaces/ledgers.ts expectReleaseNow", ({ sql }, rows) =>
    expectReleaseNow(sql, rows.workspace().id, rows.date),
  ),
  writer("outbox/outbox.ts numberEvents", ({ sql }) =>
    sql.begin(async (tx) => {
      // the keeper's tick runs in one process at a time
      const [row] = await tx<
        { taken: boolean }[]
      >`select pg_try_advisory_xact_lock(${NUMBERING_LOCK}) as taken`;
      return row?.taken ? numberEvents(tx, MOST) : 0;
    }),
  ),
  writer("outbox/outbox.ts numberEventsOf", ({ sql }, rows) =>
    sql.begin(async (tx) => {
      // whoever moves a workspace has met all its writers, and the keeper
      await tx`select pg_advisory_xact_lock(${NUMBERING_LOCK})`;
      return numberEventsOf(tx, rows.workspace().id, MOST);
    }),
  ),
  writer("outbox/outbox.ts logEvents", ({ sql }, rows) =>
    logEvents(sql, rows.workspace().id, rows.pick([true, false])),
  ),
  writer("outbox/webhooks.ts insertWebhook", ({ sql }, rows) => {
    const webhook = { endpoint: "https://hooks.example/", events: null, publicKey: null };
    const key = { workspaceId: rows.workspace().id, id: newId(rows.now) };
    return insertWebhook(sql, { ...key, ...webhook, secrets: Buffer.alloc(1) }, MOST, rows.date);
  }),
  writer("outbox/webhooks.ts changeWebhook", ({ sql }, rows) =>
    changeWebhook(sql, aWebhook(rows), { status: "enabled" }, rows.date),
  ),
  writer("outbox/webhooks.ts changeSecrets", ({ sql }, rows) =>
    changeSecrets(sql, aWebhook(rows), (secrets) => ({ secrets, publicKey: null })),
  ),
  writer("outbox/webhooks.ts deleteWebhook", ({ sql }, rows) => deleteWebhook(sql, aWebhook(rows))),
  writer("outbox/webhooks.ts stopTelling", ({ sql }) => stopTelling(sql)),
  writer("outbox/webhooks.ts dropOldDeliveries", ({ sql }, rows) =>
    sql.begin((tx) => dropOldDeliveries(tx, rows.date, MOST)),
  ),
  writer("outbox/dispatch.ts claimWebhooks", ({ sql }, rows) =>
    claimWebhooks(sql, WEBHOOK_TOKEN, {
      ...{ leaseMs: 1_000, now: rows.date, most: MOST, mostOfOne: MOST },
      ...{ held: new Map(), fullHosts: [], from: rows.workspace().id },
    }),
  ),
  writer("outbox/dispatch.ts renewWebhooks", ({ sql }, rows) =>
    renewWebhooks(sql, WEBHOOK_TOKEN, someWebhooks(rows), 1_000),
  ),
  writer("outbox/dispatch.ts releaseWebhooks", ({ sql }, rows) =>
    releaseWebhooks(sql, WEBHOOK_TOKEN, someWebhooks(rows)),
  ),
  writer("outbox/dispatch.ts saveReport", ({ sql }, rows) =>
    saveReport(sql, WEBHOOK_TOKEN, webhookReport(rows), rows.date),
  ),
  writer("outbox/dispatch.ts noteTold", ({ sql }, rows) => {
    const { id: mailId } = anEmail(rows);
    return noteTold(sql, { ...aWebhook(rows), disabledFor: null }, mailId);
  }),
  writer("outbox/dispatch.ts disableFailing", ({ sql }, rows) =>
    disableFailing(sql, { now: rows.now, failingMs: 0, noticeMs: 0, most: MOST }),
  ),
  writer("outbox/replay.ts replayEvent", ({ sql }, rows) => {
    const { id: subjectId } = anEmail(rows);
    return replayEvent(sql, aWebhook(rows), { subjectId, sequence: SEQUENCE + 1 }, rows.date);
  }),
  writer("outbox/replay.ts replayFailed", ({ sql }, rows) =>
    replayFailed(sql, aWebhook(rows), MOST, rows.date),
  ),
  writer("outbox/replay.ts replayRange", ({ sql }, rows) =>
    replayRange(sql, aWebhook(rows), { id: newId(rows.now), from: 1, to: 9 }, rows.date),
  ),
  writer("outbox/replay.ts insertTest", ({ sql }, rows) =>
    insertTest(sql, aWebhook(rows), { type: "webhook.test", tries: 9 }, rows.date),
  ),
  writer("mail/queueview.ts retryDeferred", ({ sql }, rows) =>
    retryDeferred(sql, { workspaceId: rows.pick([null, rows.workspace().id]), destination: null }, rows.date),
  ),
  writer("mail/queueview.ts cancelDeferred", ({ sql }, rows) =>
    cancelDeferred(sql, rows.workspace().id, null, rows.date),
  ),
  writer("mail/queueview.ts bounceDeferred", ({ sql }, rows) =>
    bounceDeferred(sql, DOMAIN, "bounced by an operator", rows.date),
  ),
  writer("mail/destinations.ts suspendDestination", ({ sql }, rows) =>
    suspendDestination(
      sql,
      { destination: rows.pick(DESTINATIONS), until: rows.pick([null, rows.date]), reason: "test" },
      rows.date,
    ),
  ),
  writer("mail/destinations.ts holdByRule", ({ sql }, rows) =>
    holdByRule(
      sql,
      {
        destination: rows.pick(DESTINATIONS),
        source: rows.pick(["", "a"]),
        kind: rows.pick(["suspended", "slowed"]),
        factor: 0.5,
        until: rows.date,
        reason: "test",
      },
      rows.date,
    ),
  ),
  writer("mail/destinations.ts resumeDestination", ({ sql }, rows) =>
    resumeDestination(sql, rows.pick(DESTINATIONS)),
  ),
  writer("mail/destinations.ts dropEndedHolds", ({ sql }, rows) =>
    sql.begin((tx) => dropEndedHolds(tx, rows.date, MOST)),
  ),
  writer("mail/destinations.ts letGoOfHeld", ({ sql }, rows) =>
    sql.begin((tx) => letGoOfHeld(tx, rows.date, MOST)),
  ),
  writer("mail/destinations.ts keepShaping", ({ sql }, rows) =>
    keepShaping(sql, `{"rules": [], "description": "${rows.now}"}`, rows.date),
  ),
  writer("mail/reports.ts insertReports", ({ sql }, rows) => {
    const { workspaceId, id: emailId } = anEmail(rows);
    const nobody = { source: "api" as const, handle: null, network: null, raw: Buffer.from("{}") };
    return insertReports(sql, [{ ...nobody, id: newId(rows.now), workspaceId, emailId, place: 0 }]);
  }),
  {
    name: "mail/reports.ts, worked off",
    calls: ["mail/reports.ts takeReports", "mail/applyreports.ts applyReports", "mail/reports.ts endReports"],
    run: ({ sql }, rows) => sql.begin((tx) => workOff(tx, rows)),
  },
  writer("mail/reports.ts dropOldReports", ({ sql }, rows) =>
    sql.begin((tx) => dropOldReports(tx, new Date(rows.now - DAY_MS), MOST)),
  ),
  writer("transport/stspolicies.ts keepStsPolicy", ({ sql }, rows) =>
    keepStsPolicy(
      sql,
      { domain: rows.pick(POLICY_DOMAINS), id: "1", mode: "enforce", mx: ["mx.example"], maxAgeSeconds: 60 },
      { fetchedAt: rows.date, refreshAt: rows.date },
    ),
  ),
  writer("transport/stspolicies.ts noteStsPolicyUsed", ({ sql }, rows) =>
    noteStsPolicyUsed(sql, rows.pick(POLICY_DOMAINS), rows.date),
  ),
  writer("transport/stspolicies.ts takeStsPolicies", ({ sql }, rows) =>
    takeStsPolicies(sql, { now: rows.date, usedSince: new Date(0), againAt: rows.date }, MOST),
  ),
  writer("transport/stspolicies.ts dropExpiredStsPolicies", ({ sql }, rows) =>
    dropExpiredStsPolicies(sql, rows.date, MOST),
  ),
  writer("transport/tlssessions.ts addTlsSessions", ({ sql }, rows) =>
    addTlsSessions(
      sql,
      rows.some(POLICY_DOMAINS).map((domain) => ({ ...TLS_SESSIONS, domain })),
    ),
  ),
  writer("transport/tlssessions.ts planTlsReports", ({ sql }, rows) =>
    planTlsReports(sql, TLS_SESSIONS.day + 1, rows.date, 1),
  ),
  writer("transport/tlssessions.ts takeTlsReports", ({ sql }, rows) =>
    takeTlsReports(sql, rows.date, rows.date, MOST),
  ),
  writer("transport/tlssessions.ts noteTlsReportSent", ({ sql }, rows) =>
    noteTlsReportSent(sql, { ...TLS_SESSIONS, domain: rows.pick(POLICY_DOMAINS) }, "mailto:a@b.example"),
  ),
  writer("transport/tlssessions.ts endTlsReport", ({ sql }, rows) =>
    endTlsReport(sql, { ...TLS_SESSIONS, domain: rows.pick(POLICY_DOMAINS) }, "sent", rows.date),
  ),
  writer("transport/tlssessions.ts dropOldTlsSessions", ({ sql }) =>
    dropOldTlsSessions(sql, TLS_SESSIONS.day + 1, MOST),
  ),
  writer("transport/tlsreports.ts insertTlsReports", ({ sql }, rows) => {
    const heard = rows
      .some(POLICY_DOMAINS)
      .map((domain) => ({ ...HEARD_TLS_REPORT, network: "192.0.2.0/24", domain }));
    return sql.begin((tx) => insertTlsReports(tx, heard, rows.date));
  }),
  writer("transport/tlsreports.ts dropOldTlsReports", ({ sql }, rows) =>
    dropOldTlsReports(sql, rows.date, MOST),
  ),
  writer("mail/retention.ts dropOldAttachments", ({ sql }) =>
    sql.begin((tx) => dropOldAttachments(tx, MOST)),
  ),
  writer("mail/searchblocks.ts cutBlocks", ({ sql }, rows) =>
    cutBlocks(sql, rows.workspace().id, rows.now, MOST),
  ),
  writer("mail/searchblocks.ts readBlocks", ({ sql }) => readBlocks(sql, MOST)),
  writer("mail/searchblocks.ts forgetBlocks", async ({ sql }, rows) => {
    const { id: workspaceId, emails } = rows.workspace();
    await forgetBlocks(
      sql,
      rows.some(emails).map(({ id }) => ({ workspaceId, id })),
    );
  }),
  writer("mail/searchblocks.ts auditBlocks", ({ sql }) => auditBlocks(sql, FIRST_BLOCK, MOST)),
  writer("mail/searchblocks.ts dropOldBlocks", ({ sql }) => dropOldBlocks(sql, MOST)),
  writer("automations/runs.ts claimRuns", ({ sql }, rows) =>
    claimRuns(sql, { now: rows.now, leaseMs: 1_000, most: rows.pick([3, MOST]) }),
  ),
  writer("automations/runs.ts claimShares", ({ sql }, rows) =>
    claimShares(sql, [rows.workspace().id], { now: rows.now, leaseMs: 1_000, most: 3 }),
  ),
  writer("automations/runs.ts moveRuns", ({ sql }, rows) => moveRuns(sql, someMoves(rows))),
  writer("automations/runs.ts releaseRuns", ({ sql }, rows) =>
    releaseRuns(
      sql,
      someMoves(rows).map(({ run }) => run),
      rows.now,
    ),
  ),
  writer("automations/runs.ts stopRuns", ({ sql }, rows) => {
    const ws = rows.workspace();
    const which = {
      automationId: rows.pick(ws.automations).id,
      ...(rows.chance(0.5) && { runId: rows.pick(ws.runs).id }),
    };
    return stopRuns(sql, ws.id, which, "stopped", rows.date);
  }),
  writer("automations/runs.ts dropEntries", ({ sql }, rows) => {
    const ws = rows.workspace();
    return dropEntries(sql, ws.id, rows.pick(ws.automations).id);
  }),
  writer("automations/runs.ts dropOldRuns", ({ sql }, rows) =>
    sql.begin((tx) => dropOldRuns(tx, new Date(rows.now - DAY_MS), MOST)),
  ),
  writer("mail/settle.ts settle", ({ sql }, rows) => {
    const bags = rows.some(rows.workspaces.flatMap(bagsOf).filter(({ bag }) => bag.token));
    const notes = bags.flatMap(({ ws, bag }) =>
      rows.some(bag.emailIds).map((emailId) => noteOf(rows, ws, heldOf({ ws, bag }), emailId)),
    );
    const finished = bags.map((bag) => ({ bag: heldOf(bag), isDoubtful: rows.chance(0.5) }));
    return settle(sql, WORKER, rows.some(notes), finished, { bounces: 1, days: 1 });
  }),
  writer("mail/suppressions.ts addSuppressions", ({ sql }, rows) =>
    addSuppressions(sql, someSuppressions(rows), rows.date),
  ),
  writer("mail/suppressions.ts dropOldSoftBounces", ({ sql }, rows) =>
    sql.begin((tx) => dropOldSoftBounces(tx, rows.date, MOST)),
  ),
  writer("mail/suppressions.ts addComplaints", ({ sql }, rows) =>
    addComplaints(sql, someSuppressions(rows), () => newId(rows.now), rows.date),
  ),
  writer("mail/suppressions.ts undoSuppressions", ({ sql }, rows) => {
    const ws = rows.workspace();
    const hashes = rows.some(ws.contacts).map(({ identity }) => ({ hash: hashOf(identity) }));
    return undoSuppressions(sql, ws.id, hashes, { now: rows.date, by: "key" });
  }),
  writer("mail/templates.ts putTemplate", ({ sql }, rows) => {
    const ws = rows.workspace();
    const { externalId } = rows.pick(ws.templates);
    return putTemplate(sql, { workspaceId: ws.id, id: newId(rows.now), externalId }, LETTER, rows.date);
  }),
  writer("mail/templates.ts insertTemplate", ({ sql }, rows) => {
    const externalId = rows.pick(["letter-0", "letter-1", "letter-2", null]);
    const template = { workspaceId: rows.workspace().id, id: newId(rows.now), externalId };
    return insertTemplate(sql, template, LETTER, rows.date);
  }),
  writer("mail/templates.ts amendTemplate", ({ sql }, rows) => {
    const ws = rows.workspace();
    const rename = rows.pick(["letter-0", "letter-1", "letter-2", null]);
    return amendTemplate(sql, ws.id, rows.pick(ws.templates).id, rename, async () => LETTER, rows.date);
  }),
  writer("mail/templates.ts deleteTemplate", ({ sql }, rows) => {
    const ws = rows.workspace();
    return deleteTemplate(sql, ws.id, rows.pick(ws.templates).id);
  }),
  writer("workspaces/secretcheck.ts keepSecretDigest", ({ sql }) => keepSecretDigest(sql, randomBytes(32))),
  writer("db/ticklease.ts takeTickLease", ({ sql }, rows) =>
    takeTickLease(sql, "erase", rows.pick(TOKENS), rows.pick([1, 1_000])),
  ),
  writer("db/ticklease.ts extendTickLease", ({ sql }, rows) =>
    extendTickLease(sql, "erase", rows.pick(TOKENS), 1_000),
  ),
  writer("db/ticklease.ts endTickLease", ({ sql }, rows) => endTickLease(sql, "erase", rows.pick(TOKENS))),
  writer("workspaces/workspaces.ts insertWorkspace", ({ sql }, rows) => {
    const id = newId(rows.now);
    const workspace = { id, handle: id, name: "new", plan: "pro" as const, limits: {} };
    return insertWorkspace(sql, workspace, rows.date);
  }),
  writer("workspaces/workspaces.ts changeWorkspace", ({ sql }, rows) =>
    changeWorkspace(sql, rows.workspace().id, { plan: rows.pick(["pro", "standard"] as const) }, rows.date),
  ),
  writer("workspaces/workspaces.ts insertOwner", ({ sql }, rows) => {
    const email = `${rows.workspace().handle}@owner.example`;
    const owner = { id: newId(rows.now), workspaceId: rows.workspace().id, email, passwordHash: "-" };
    return insertOwner(sql, owner, rows.date);
  }),
  writer("accounts/accounts.ts setPassword", ({ sql }, rows) =>
    setPassword(sql, rows.workspace().id, "-", {
      former: rows.pick([null, "-"]),
      sessionKept: rows.chance(0.5) ? hashOfId(rows.workspace().id) : null,
    }),
  ),
  writer("accounts/accounts.ts setTotpSecret", ({ sql }, rows) =>
    setTotpSecret(sql, rows.workspace().id, Buffer.from("sealed")),
  ),
  writer("accounts/accounts.ts takeTotpStep", ({ sql }, rows) =>
    takeTotpStep(sql, rows.workspace().id, rows.now),
  ),
  writer("accounts/accounts.ts setOperator", ({ sql }, rows) =>
    setOperator(sql, rows.workspace().id, rows.chance(0.5)),
  ),
  writer("accounts/accounts.ts keepReset", ({ sql }, rows) =>
    keepReset(sql, rows.workspace().id, randomBytes(16), rows.date),
  ),
  writer("accounts/accounts.ts resetPassword", ({ sql }, rows) =>
    resetPassword(sql, { link: hashOfId(rows.workspace().id), since: new Date(0) }, "-"),
  ),
  writer("accounts/sessions.ts beginSession", ({ sql }, rows) => {
    const replaced = rows.chance(0.5) ? hashOfId(rows.workspace().id) : null;
    const session = { hash: randomBytes(16), accountId: rows.workspace().id, passwordHash: "-", replaced };
    const span = { begunSince: new Date(0), usedSince: new Date(0) };
    return beginSession(sql, session, span, 2, rows.date);
  }),
  writer("accounts/sessions.ts noteSessionUse", ({ sql }, rows) =>
    noteSessionUse(sql, hashOfId(rows.workspace().id), rows.date),
  ),
  writer("accounts/sessions.ts endSession", ({ sql }, rows) =>
    endSession(sql, hashOfId(rows.workspace().id)),
  ),
  writer("accounts/sessions.ts endSessions", ({ sql }, rows) => endSessions(sql, rows.workspace().id)),
  writer("accounts/members.ts changeMember", ({ sql }, rows) => {
    const { id } = rows.workspace();
    return changeMember(sql, id, id, rows.pick(["admin", "owner", null]), id);
  }),
  writer("accounts/members.ts insertInvitation", ({ sql }, rows) => {
    const { id: workspaceId, handle } = rows.workspace();
    const email = `${handle}@invited.example`;
    const offer = { workspaceId, email, role: "member" as const, invitedBy: workspaceId };
    const invitation = { ...offer, id: newId(rows.now), hash: randomBytes(16) };
    return insertInvitation(sql, invitation, new Date(0), 5, rows.date);
  }),
  writer("accounts/members.ts dropInvitation", ({ sql }, rows) => {
    const { id } = rows.workspace();
    return dropInvitation(sql, id, id, () => true);
  }),
  writer("accounts/members.ts acceptInvitation", ({ sql }, rows) => {
    const { id, handle } = rows.workspace();
    const fresh = { id: newId(rows.now), email: `${handle}@invited.example`, passwordHash: "-" };
    const invitee = rows.pick([{ id: rows.workspace().id }, fresh]);
    return acceptInvitation(sql, { workspaceId: id, id, role: "member" }, invitee, rows.date);
  }),
  writer("accounts/changes.ts insertChange", ({ sql }, rows) => {
    const accountId = rows.workspace().id;
    const change = {
      id: newId(rows.now),
      accountId,
      email: "-",
      action: "POST keys",
      subject: "",
      status: null,
    };
    return insertChange(sql, { ...change, workspaceId: rows.pick([accountId, null]) });
  }),
  writer("accounts/changes.ts dropOldChanges", ({ sql }, rows) =>
    dropOldChanges(sql, "00000000-0000-0000-0000-000000000000", rows.now, MOST),
  ),
  writer("accounts/changes.ts noteChanged", ({ sql }, rows) => {
    const { id } = rows.workspace();
    const change = { id, accountId: id, status: 200, detail: { id } };
    return noteChanged(sql, { ...change, workspaceId: rows.pick([id, null]) });
  }),
];

const baggingOf = (rows: SharedRows): Bagging => ({ newId: () => newId(rows.now), shards: 2 });
const hashOfId = (id: string): Buffer => Buffer.from(id.replaceAll("-", ""), "hex");

function writer(name: string, work: Writer["run"]): Writer {
  return { name, calls: [name], run: async (place, rows) => await work(place, rows) };
}

/** Several entries of one group commit. What the commit could not write is thrown. */
async function together(count: number, submit: () => Promise<{ kind: string }>): Promise<void> {
  const verdicts = await Promise.all(Array.from({ length: count }, submit));
  for (const verdict of verdicts) if ("error" in verdict) throw verdict.error;
}

const idOf = ({ id }: { id: string }) => id;

type BagOf = { ws: SharedWorkspace; bag: SharedBag };

function bagsOf(ws: SharedWorkspace): BagOf[] {
  return ws.bags.map((bag) => ({ ws, bag }));
}

function someBags(rows: SharedRows): (BagOf & { emailIds: string[] })[] {
  return rows.some(rows.workspaces.flatMap(bagsOf)).map((one) => ({ ...one, emailIds: one.bag.emailIds }));
}

function bagRow({ ws, bag }: BagOf) {
  return { workspaceId: ws.id, id: bag.id, generation: 0, shard: 0 };
}

/** Whoever asks for a bag that nobody holds has a token that is out of date. */
function heldOf({ ws, bag }: BagOf): HeldBag {
  return { workspaceId: ws.id, id: bag.id, generation: 0, token: bag.token ?? ws.id };
}

function anEmail(rows: SharedRows): { workspaceId: string; id: string } {
  const ws = rows.workspace();
  return { workspaceId: ws.id, id: rows.pick(ws.emails.filter(({ why }) => why !== null)).id };
}

function someSuppressions(rows: SharedRows) {
  const ws = rows.workspace();
  return rows.some(ws.contacts).map(({ identity }) => suppressionOf(rows, ws, identity));
}

function suppressionOf(rows: SharedRows, { id: workspaceId }: SharedWorkspace, identity: string) {
  const terms = { scope: "", reason: rows.pick(SUPPRESSION_REASONS), evidence: null, emailId: null };
  const who = { id: newId(rows.now), hash: hashOf(identity), identity, email: identity };
  return { workspaceId, ...who, ...terms, countedDay: rows.pick([null, Math.floor(rows.now / DAY_MS)]) };
}

function aWebhook(rows: SharedRows): WebhookKey {
  const ws = rows.workspace();
  return { workspaceId: ws.id, id: rows.pick(ws.webhooks) };
}

function someWebhooks(rows: SharedRows): WebhookKey[] {
  return rows.some(rows.workspaces.flatMap((ws) => ws.webhooks.map((id) => ({ workspaceId: ws.id, id }))));
}

function webhookReport(rows: SharedRows): Report {
  const keys = someWebhooks(rows);
  const { id: subjectId } = anEmail(rows);
  const event = { at: rows.date, type: "email.delivered", subjectId, entry: null, detail: null };
  return {
    progress: keys.map((key) => ({
      ...key,
      ...{ cursor: 1, missed: 0, failures: 0, deliveredAt: rows.now, failingSince: null, retryAt: null },
      ...{ isGone: false, isBack: true, updatedAt: rows.date },
      ...{ replay: { id: key.id, cursor: 1, isOver: rows.chance(0.5) } },
    })),
    rows: keys.map((key) => ({
      ...key,
      ...event,
      sequence: SEQUENCE + 5,
      tries: 1,
      dueAt: rows.now,
      failedAt: null,
    })),
    done: keys.map((key) => ({ ...key, sequence: SEQUENCE + 1 })),
    freed: keys.map((key) => ({ ...key, subjectId })),
    attempts: keys.map((key) => ({
      ...key,
      ...{ attemptId: newId(rows.now), sequence: 5, at: rows.now, status: 500, ms: 5, type: event.type },
      ...{ error: null, response: "no", subjectId },
    })),
  };
}

function aContact(rows: SharedRows): { ws: SharedWorkspace; contact: SharedContact } {
  const ws = rows.workspace();
  return { ws, contact: rows.pick(ws.contacts) };
}

function claimIn(rows: SharedRows, ws: SharedWorkspace, scope: string) {
  return { workspaceId: ws.id, scope, key: rows.pick(CLAIM_KEYS), digest: "ab", answer: "null" };
}

function newEmail(rows: SharedRows, ws: SharedWorkspace): NewEmail {
  return {
    workspaceId: ws.id,
    id: newId(rows.now),
    keyId: null,
    bulk: rows.chance(0.3),
    stream: rows.pick(["", "news"]),
    head: JSON.stringify({
      from: "a@example.com",
      to: ["b@example.net"],
      cc: [],
      bcc: [],
      reply_to: [],
      subject: "",
    }),
    weight: 1,
    bytes: 100,
    html: "<p></p>",
    plain: null,
    extra: null,
    scheduledAt: rows.chance(0.3) ? rows.now + DAY_MS : null,
    // of the engine's own mail only
    ...(rows.chance(0.5) ? { contactId: rows.pick(ws.contacts).id } : {}),
  };
}

async function workOff(tx: Tx, rows: SharedRows): Promise<void> {
  const taken = await takeReports(tx, rows.pick([3, MOST]));
  const told = taken.map(({ id, workspaceId, emailId, place }): Told => {
    const what = rows.pick([{ kind: "bounced", category: "hard" }, { kind: "complained" }] as const);
    const about = {
      workspaceId: workspaceId as string,
      emailId: emailId as string,
      place,
      recipient: null,
      onlyFor: null,
      isMixed: false,
    };
    return { ...about, reportId: id, what, detail: "550 no", at: rows.now };
  });
  const applied = await applyReports(
    tx,
    { worker: WORKER, hashOf: Buffer.from, series: { bounces: 2, days: 14 }, now: rows.now },
    told,
  );
  const ends = applied.map(({ reportId, result }) => {
    const { workspaceId, emailId } = told.find((one) => one.reportId === reportId) as Told;
    return { id: reportId, result, againInMs: 0, workspaceId, emailId };
  });
  if (ends.length > 0) await endReports(tx, ends);
}

function changeContact(contacts: ContactCommit, rows: SharedRows, change: ContactChange) {
  const { ws, contact } = aContact(rows);
  return contacts.submit({
    workspaceId: ws.id,
    audienceId: contact.audienceId,
    who: { identity: contact.identity },
    ...(change.kind === "add" && rows.chance(0.5) && { copyOf: rows.pick(ws.contacts) }),
    change: change.kind === "add" ? { ...change, identity: contact.identity } : change,
    keyId: null,
    given: rows.now,
    bytes: 100,
  });
}

function aChange(rows: SharedRows): ContactChange {
  const optIn = { doubleOptIn: true, consent: null };
  return rows.pick<ContactChange>([
    { kind: "erase" },
    { kind: "erase" },
    { kind: "archive" },
    { kind: "tag", add: ["tag"], remove: [] },
    { kind: "unsubscribe", source: "link", visitor: { ipAddress: null, userAgent: null } },
    { kind: "confirm", askedAt: rows.now, visitor: { ipAddress: null, userAgent: null } },
    { kind: "add", id: newId(rows.now), identity: "", email: "new@example.net", fields: {}, optIn },
  ]);
}

const CAP_CHANGE = {
  before: { day: 1, hour: 1 },
  after: { day: 2, hour: 2 },
  level: "steady",
  reason: "test",
  counts: null,
  policyVersion: null,
  by: "test",
};

function decision(rows: SharedRows) {
  return {
    workspaceId: rows.workspace().id,
    known: { state: {}, override: null },
    state: {},
    override: null,
    isTroubled: true,
    policyVersion: "1",
    parts: rows.chance(0.5)
      ? null
      : { shares: { news: 0 }, limits: [{ stream: "bulk", provider: "p", perDay: 50, reason: "" }] },
    caps: { day: 1_000, hour: 1_000, reservedShare: 0.1 },
    isNew: rows.chance(0.8),
    changes: [CAP_CHANGE],
  };
}

function someMoves(rows: SharedRows): RunMove[] {
  const runs = rows.workspaces.flatMap((ws) => ws.runs.map((run) => ({ ws, run })));
  return rows.some(runs).map(({ ws, run }) => {
    const claimed: ClaimedRun = {
      workspaceId: ws.id,
      handle: ws.handle,
      id: run.id,
      automationId: run.automationId,
      version: 1,
      audienceId: run.contact.audienceId,
      contactId: run.contact.id,
      eventId: run.eventId,
      position: "0",
      seq: 1,
      claims: 1,
      steppedAt: rows.date,
      createdAt: rows.date,
    };
    const to = rows.pick<RunMove["to"]>([
      { kind: "on", position: "1" },
      { kind: "sleep", position: "1", wakeAt: rows.now },
      { kind: "end", state: "finished", reason: null },
      { kind: "end", state: "finished", reason: null },
    ]);
    return { run: claimed, note: { kind: "wait", result: "done", detail: null }, at: rows.now, to };
  });
}

function noteOf(rows: SharedRows, ws: SharedWorkspace, bag: HeldBag, emailId: string): Settled {
  const status = rows.pick(["delivered", "deferred", "bounced"] as const);
  return {
    bag,
    emailId,
    status,
    marks: { delivered: "dd", deferred: "do", bounced: "bb" }[status],
    attemptedAt: rows.now,
    at: rows.now - rows.pick([0, DAY_MS]),
    events: [{ type: status, at: rows.date.toISOString() }],
    places: [0],
    nextAt: status === "deferred" ? rows.now : null,
    domain: "example.net",
    reply: null,
    counts: { attempted: 1 },
    feedbackFrom: rows.some(["yahoo.com", "aol.com"]),
    softBounces:
      status === "bounced" ? rows.some(ws.contacts).map((one) => suppressionOf(rows, ws, one.identity)) : [],
    hardBounces:
      status === "bounced" ? rows.some(ws.contacts).map((one) => suppressionOf(rows, ws, one.identity)) : [],
  };
}

const LETTER: TemplateContent = {
  name: "letter",
  subject: null,
  from: null,
  replyTo: [],
  html: "<p></p>",
  plain: null,
  variables: [],
  declared: [],
};
