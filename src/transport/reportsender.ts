/**
 * Sends the TLS reports of days that are over (RFC 8460) to whom the receivers' domains name in DNS: by mail,
 * through the engine's own way in and signed as all mail is, and by HTTPS.
 *
 * Promises: one report a day and domain to each of those, over restarts and whatever the number of processes:
 * what was sent is noted before anything else is done, and a mail has an id that follows from its report. A
 * report is sent twice only if the answer to a POST was lost. Nobody waits for it: it is given up after three
 * days.
 */
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { parseMailbox } from "../address.ts";
import { messageOf } from "../caught.ts";
import { type Clock, DAY_MS, HOUR_MS } from "../clock.ts";
import { upwards } from "../domain/owners.ts";
import { derivedId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import type { NewAttachment, NewEmail } from "../record/mail/emails.ts";
import { findStsPolicy } from "../record/transport/stspolicies.ts";
import {
  type DueTlsReport,
  dropOldTlsSessions,
  endTlsReport,
  noteTlsReportSent,
  planTlsReports,
  readTlsSessions,
  takeTlsReports,
} from "../record/transport/tlssessions.ts";
import { workspaceOfDomains } from "../record/workspaces/domains.ts";
import type { StsMode } from "./sts.ts";
import {
  fileNameOf,
  nameOfTarget,
  type OwnReport,
  type ReportTaker,
  reportIdOf,
  reportTargetsIn,
  reportText,
} from "./tlsrpt.ts";
import type { Web } from "./web.ts";

type ReportMail = {
  workspaceId: string;
  handle: string;
  bulk: boolean;
  emails: NewEmail[];
  attachments: NewAttachment[];
};

export type ReportSenderParts = {
  sql: Sql;
  clock: Clock;
  /** The sender; its domain belongs to the workspace that sends. */
  from: string;
  askTxt(name: string): Promise<string[][]>;
  web: Web;
  /** `submitOwn`. */
  submit(mail: ReportMail): Promise<unknown>;
  onFault(error: unknown): void;
};

const LOOK_EVERY_MS = 60_000;
/** The last counts of a day are written some seconds after it. */
const AFTER_MIDNIGHT_MS = 300_000;
/** So that not all reports of the world go out at once. */
const SPREAD_MS = 3 * HOUR_MS;
const PLAN_EVERY_MS = HOUR_MS;
const REPORTS_MAX = 10;
/** Longer than one step takes. */
const CLAIM_MS = 600_000;
const RETRY_MS = HOUR_MS;
const GIVEN_UP_DAYS = 3;
const KEPT_DAYS = 14;
const DROPPED_MAX = 5_000;
const POST_MS_MAX = 20_000;
const ANSWER_BYTES_MAX = 64 * 1024;
const compressed = promisify(gzip);

export class ReportSender {
  readonly #parts: ReportSenderParts;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<unknown> | null = null;
  #plannedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: ReportSenderParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#running ??= this.work()
        .catch(this.#parts.onFault)
        .finally(() => {
          this.#running = null;
        });
    }, LOOK_EVERY_MS);
  }

  async stop(): Promise<void> {
    if (this.#timer) clearInterval(this.#timer);
    await this.#running;
  }

  /** Sends some of the reports that are due. */
  async work(): Promise<void> {
    const { sql, clock, onFault } = this.#parts;
    const now = clock.now();
    if (now - this.#plannedAt >= PLAN_EVERY_MS) await this.#plan(now);
    const due = await takeTlsReports(sql, new Date(now), new Date(now + CLAIM_MS), REPORTS_MAX);
    // together, so that those of a silent host do not outlast the claim of the others
    const sent = await Promise.allSettled(due.map((one) => this.#sendOrPutOff(one, now)));
    for (const one of sent) if (one.status === "rejected") onFault(one.reason);
  }

  async #sendOrPutOff(due: DueTlsReport, now: number): Promise<void> {
    try {
      await this.#send(due, now);
    } catch (error) {
      this.#parts.onFault(error);
      await this.#again(due, now, messageOf(error));
    }
  }

  async #plan(now: number): Promise<void> {
    const { sql } = this.#parts;
    const today = Math.floor((now - AFTER_MIDNIGHT_MS) / DAY_MS);
    await planTlsReports(sql, today, new Date(now), SPREAD_MS);
    await dropOldTlsSessions(sql, today - KEPT_DAYS, DROPPED_MAX);
    this.#plannedAt = now;
  }

  async #send(due: DueTlsReport, now: number): Promise<void> {
    const { sql, askTxt } = this.#parts;
    const records = await askTxt(`_smtp._tls.${due.domain}`).catch(noRecords);
    const targets = reportTargetsIn(records.map((strings) => strings.join("")));
    if (targets.length === 0) return endTlsReport(sql, due, "the domain asks for no reports", null);
    const report = await this.#reportOf(due);
    const body = await compressed(reportText(report));
    const failures: string[] = [];
    for (const target of targets) {
      const name = nameOfTarget(target);
      if (due.sentTo.includes(name)) continue;
      const failure = await this.#sendTo(target, report, body);
      if (failure === null) await noteTlsReportSent(sql, due, name);
      else failures.push(failure);
    }
    if (failures.length === 0) await endTlsReport(sql, due, "sent", null);
    else await this.#again(due, now, failures.join("; "));
  }

  async #again(due: DueTlsReport, now: number, why: string): Promise<void> {
    const { sql } = this.#parts;
    if (Math.floor(now / DAY_MS) - due.day > GIVEN_UP_DAYS)
      return endTlsReport(sql, due, `given up: ${why}`, null);
    await endTlsReport(sql, due, why, new Date(now + RETRY_MS));
  }

  async #reportOf({ domain, day }: DueTlsReport): Promise<OwnReport> {
    const { sql, from } = this.#parts;
    const [sessions, kept] = await Promise.all([
      readTlsSessions(sql, day, domain),
      findStsPolicy(sql, domain),
    ]);
    const mailbox = parseMailbox(from);
    return {
      organization: mailbox?.domain ?? from,
      contact: mailbox?.address ?? from,
      domain,
      day,
      sessions,
      policy: kept && { ...kept, mode: kept.mode as StsMode },
    };
  }

  /** Why it could not be sent. */
  async #sendTo(target: ReportTaker, report: OwnReport, body: Buffer): Promise<string | null> {
    if (target.kind === "mail") return this.#mail(target.address, report, body);
    const answer = await this.#parts.web.ask({
      host: target.host,
      path: target.path,
      method: "POST",
      headers: { "content-type": "application/tlsrpt+gzip" },
      body,
      answerBytesMax: ANSWER_BYTES_MAX,
      deadlineMs: POST_MS_MAX,
    });
    if (answer.kind === "failed") return answer.why;
    return answer.status >= 200 && answer.status < 300 ? null : `${target.host} answers ${answer.status}`;
  }

  async #mail(to: string, report: OwnReport, content: Buffer): Promise<string | null> {
    const { sql, from, submit } = this.#parts;
    const owner = await workspaceOfDomains(sql, upwards(report.organization));
    if (!owner)
      return `no workspace has verified ${report.organization}, the domain of TLS_REPORTS_FROM (postrider domain add)`;
    const { domain, organization, day } = report;
    const hash = createHash("sha256").update(content).digest("hex");
    const id = derivedId((day + 1) * DAY_MS, `TLS report ${day} ${domain} ${to}`);
    const text = `This is the TLS report of ${organization} about connections to ${domain} (RFC 8460).\n`;
    const head = JSON.stringify({
      from,
      to: [to],
      cc: [],
      bcc: [],
      reply_to: [],
      subject: `Report Domain: ${domain} Submitter: ${organization} Report-ID: <${reportIdOf(report)}>`,
    });
    const email: NewEmail = {
      workspaceId: owner.workspaceId,
      id,
      keyId: null,
      bulk: true,
      stream: "",
      head,
      weight: 1,
      bytes: head.length + text.length + content.length,
      html: null,
      plain: text,
      extra: JSON.stringify({
        headers: {
          "TLS-Report-Domain": domain,
          "TLS-Report-Submitter": organization,
          "TLS-Required": "No",
          "Auto-Submitted": "auto-generated",
        },
        attachments: [
          {
            filename: fileNameOf(report),
            hash,
            bytes: content.length,
            content_type: "application/tlsrpt+gzip",
            content_id: null,
          },
        ],
      }),
      scheduledAt: null,
    };
    const attachments = [{ workspaceId: owner.workspaceId, hash, content }];
    const { workspaceId, handle } = owner;
    await submit({ workspaceId, handle, bulk: true, emails: [email], attachments });
    return null;
  }
}

/** No record is an answer; silence is not. */
function noRecords(error: NodeJS.ErrnoException): string[][] {
  if (error.code === "ENOTFOUND" || error.code === "ENODATA") return [];
  throw new Error(`DNS gave no answer (${error.code ?? error.message})`);
}
