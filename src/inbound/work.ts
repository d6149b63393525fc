/**
 * Works off the reports: takes those that are due, reads them, and commits what they change together with
 * their end.
 *
 * Promises: a report whose worker dies is taken by another; what cannot be applied yet comes again, and what
 * can never be applied ends with its reason. Reading a report holds up nobody for longer than a turn of the
 * event loop.
 */
import { atMost, type Clock } from "../clock.ts";
import { upwards } from "../domain/owners.ts";
import { isUuid } from "../ids.ts";
import { Counter } from "../meter.ts";
import { isMoving, movingAmong } from "../record/cells/moving.ts";
import type { Sql, Tx } from "../record/db/connect.ts";
import { isFaultOfOne } from "../record/db/groupcommit.ts";
import type { Looks } from "../record/db/looks.ts";
import { applyReports, type Told } from "../record/mail/applyreports.ts";
import type { HashOf } from "../record/mail/barred.ts";
import {
  type DueReport,
  endReports,
  hasDueReports,
  type ReportEnd,
  takeReports,
} from "../record/mail/reports.ts";
import type { SoftSeries } from "../record/mail/suppressions.ts";
import { type HeardTlsReport, insertTlsReports } from "../record/transport/tlsreports.ts";
import { ownersOf } from "../record/workspaces/domains.ts";
import { workspaceIdsAfter, workspacesOfHandles } from "../record/workspaces/workspaces.ts";
import type { ReturnPathKey } from "../returnpath.ts";
import { StepSize } from "../rules/stepsize.ts";
import { BULK, TRANSACTIONAL } from "../rules/stream.ts";
import { turn } from "../turn.ts";
import { complaintAbout, type Judged, judge } from "./judge.ts";
import type { Complaint } from "./report.ts";
import { readTlsMail } from "./tlsmail.ts";

const APPLIED = new Counter(
  "postrider_reports_total",
  "Reports about mail by what they changed: bounced, complained, delayed, kept (of TLS), ignored",
  ["group", "stream", "result"],
);
/** Of a report that changed no mail. */
const NO_MAIL = { group: "none", stream: "none" };

/** Each may have 128 KB. */
const REPORTS_MAX = 200;
const LOOK_EVERY_MS = 500;
const READ_MS_MAX = 10;
/** A report may be here before its mail is noted as delivered. */
const AGAIN_MS_MIN = 250;
const AGAIN_MS_MAX = 15 * 60_000;
const GIVEN_UP_MS = 7 * 86_400_000;
/** Of a name that may be below one of ours. Twenty of a hundred labels fit into a report of some bytes. */
const LABELS_MAX = 10;
/** How long the marks of workspaces are believed to be all. */
const MARKS_MS = 30_000;
/** Of workspaces: some 5 ms of work. */
const MARKED_AT_ONCE_MAX = 1_000;

export type ReportWorkerParts = {
  sql: Sql;
  paths: ReturnPathKey;
  markOf(workspaceId: string): string;
  clock: Clock;
  /** Under which name counts are kept. */
  worker: string;
  /** As which group mail is counted that no known provider took. */
  otherGroup: string;
  /** Where reports are taken: TLS reports may be about it as well. */
  bounceDomain: string | null;
  /** Under which suppressed addresses are kept. */
  hashOf: HashOf;
  /** Of soft bounces, that suppresses as well. */
  series: SoftSeries | null;
  /** Of a statement on `sql`. */
  timeoutMs: number;
  onFault(error: unknown): void;
};

export class ReportWorker {
  readonly #parts: ReportWorkerParts;
  readonly #size: StepSize;
  #running: Promise<void> | null = null;
  #unfollow = () => {};
  #isStopped = false;
  #isWoken = false;
  #marks = new Map<string, string>();
  #marksAt = Number.NEGATIVE_INFINITY;

  constructor(parts: ReportWorkerParts) {
    this.#parts = parts;
    this.#size = new StepSize({ max: REPORTS_MAX, slowMs: parts.timeoutMs / 2 });
  }

  start(looks: Looks): void {
    this.#unfollow = looks.ask(LOOK_EVERY_MS, hasDueReports, (isDue: boolean) => {
      if (isDue) this.wake();
    });
  }

  /** There may be something to do. */
  wake(): void {
    this.#isWoken = true;
    this.#running ??= this.#run();
  }

  async stop(deadlineMs: number): Promise<void> {
    this.#isStopped = true;
    this.#unfollow();
    if (this.#running) await atMost(deadlineMs, this.#running);
  }

  async #run(): Promise<void> {
    try {
      while (this.#isWoken && !this.#isStopped) {
        this.#isWoken = false;
        if (await this.#size.full((most) => this.#step(most))) this.#isWoken = true;
      }
    } catch (error) {
      this.#parts.onFault(error);
    } finally {
      this.#running = null;
    }
  }

  /** Says how many were taken. */
  async #step(most: number): Promise<number> {
    const taken: DueReport[] = [];
    try {
      const { ends } = await this.#parts.sql.begin(async (tx) => {
        taken.length = 0; // a transaction that lost a deadlock is tried again
        taken.push(...(await takeReports(tx, most)));
        return { ends: taken.length > 0 ? await this.#apply(tx, taken) : [] };
      });
      count(ends);
    } catch (error) {
      if (!isFaultOfOne(error) || taken.length === 0) throw error;
      this.#parts.onFault(error);
      await this.#isolate(taken);
    }
    return taken.length;
  }

  /** One of them is refused by Postgres: each is applied alone, and that one ends. */
  async #isolate(taken: readonly DueReport[]): Promise<void> {
    for (const report of taken)
      try {
        const { ends } = await this.#parts.sql.begin(async (tx) => ({
          ends: await this.#apply(tx, [report]),
        }));
        count(ends);
      } catch (error) {
        if (!isFaultOfOne(error)) throw error;
        // its workspace moves to another cell, and the report with it, or a report to all cells is heeded
        // there
        if (isMoving(error)) continue;
        const ends = [endOf(report, "ignored: it cannot be applied")];
        await this.#parts.sql.begin((tx) => endReports(tx, ends));
        count(ends);
      }
  }

  async #apply(tx: Tx, all: readonly DueReport[]): Promise<CountedEnd[]> {
    const { worker, hashOf, series, clock, otherGroup } = this.#parts;
    const ends: CountedEnd[] = [];
    const told: Told[] = [];
    const [ofTls, reports] = parted(all, ({ source }) => source === "tls_report");
    if (ofTls.length > 0) ends.push(...(await this.#applyTls(tx, ofTls)));
    for (const [n, judged] of (await this.#judgeAll(tx, reports)).entries()) {
      if (judged.kind === "told") told.push(judged.told);
      else ends.push(endOf(reports[n] as DueReport, `ignored: ${reasonOf(judged)}`));
    }
    const byId = new Map(reports.map((report) => [report.id, report]));
    const away = await movingAmong(
      tx,
      told.map(({ workspaceId }) => workspaceId),
    );
    const [waiting, here] = parted(told, ({ workspaceId }) => away.has(workspaceId));
    // on its way to this cell or from it: the report stays as it came, and is read again
    for (const { reportId } of waiting) ends.push(this.#endOf(byId.get(reportId) as DueReport, null));
    const about = new Map(
      here.map(({ reportId, workspaceId, emailId }) => [reportId, { workspaceId, emailId }]),
    );
    const context = { worker, hashOf, series, now: clock.now() };
    for (const { reportId, result, changed } of await applyReports(tx, context, here)) {
      const end = this.#endOf({ ...(byId.get(reportId) as DueReport), ...about.get(reportId) }, result);
      const group = changed?.provider || otherGroup;
      ends.push(changed ? { ...end, group, stream: changed.bulk ? BULK : TRANSACTIONAL } : end);
    }
    await endReports(tx, ends);
    return ends;
  }

  /** Reports of others about connections to us. */
  async #applyTls(tx: Tx, reports: readonly DueReport[]): Promise<ReportEnd[]> {
    const read: { report: DueReport; heard: HeardTlsReport[] | string }[] = [];
    for (const report of reports) {
      read.push({ report, heard: readTlsMail(report.raw) });
      await turn();
    }
    const all = read.flatMap(({ heard, report: { network } }) =>
      typeof heard === "string" ? [] : heard.map((one) => ({ ...one, network: network ?? "" })),
    );
    const names = [...new Set(all.flatMap(({ domain }) => namesAbove(domain)))];
    const owned = new Set(names.length > 0 ? (await ownersOf(tx, names)).map(({ domain }) => domain) : []);
    const { bounceDomain, clock } = this.#parts;
    if (bounceDomain !== null) owned.add(bounceDomain);
    const isOurs = ({ domain }: HeardTlsReport) => namesAbove(domain).some((name) => owned.has(name));
    await insertTlsReports(tx, all.filter(isOurs), new Date(clock.now()));
    return read.map(({ report, heard }) => {
      if (typeof heard === "string") return endOf(report, `ignored: ${heard}`);
      return endOf(report, heard.some(isOurs) ? "kept" : "ignored: it is about no domain of ours");
    });
  }

  #endOf(report: DueReport, result: string | null): ReportEnd {
    const isGivenUp = this.#parts.clock.now() - report.receivedAt.getTime() > GIVEN_UP_MS;
    if (result === null && isGivenUp) return endOf(report, "ignored: the e-mail was never settled");
    return endOf(report, result, Math.min(AGAIN_MS_MIN * 2 ** report.tries, AGAIN_MS_MAX));
  }

  async #judgeAll(tx: Tx, reports: readonly DueReport[]): Promise<Judged[]> {
    const judged: Judged[] = [];
    let until = performance.now() + READ_MS_MAX;
    for (const report of reports) {
      judged.push(this.#judge(report));
      if (performance.now() < until) continue;
      await turn();
      until = performance.now() + READ_MS_MAX;
    }
    return this.#vouch(tx, reports, judged);
  }

  #judge(report: DueReport): Judged {
    try {
      return judge(report);
    } catch (error) {
      this.#parts.onFault(error);
      return { kind: "ignored", reason: "it could not be read" };
    }
  }

  /**
   * Who complains at a feedback address shows that they have the mail: by its return path, or by its id and
   * our mark.
   */
  async #vouch(tx: Tx, reports: readonly DueReport[], judged: readonly Judged[]): Promise<Judged[]> {
    const copies = judged.map((one) => (one.kind === "complaint" ? this.#copyIn(one.complaint) : null));
    const handles = copies.flatMap((copy) => copy?.handle ?? []);
    const byHandle = handles.length > 0 ? await workspacesOfHandles(tx, handles) : new Map<string, string>();
    const all: Judged[] = [];
    for (const [n, one] of judged.entries()) {
      if (one.kind !== "complaint") {
        all.push(one);
        continue;
      }
      const report = reports[n] as DueReport;
      const copy = copies[n] ?? null;
      const workspaceId = copy
        ? byHandle.get(copy.handle)
        : await this.#workspaceOfMark(tx, one.complaint.mark);
      const emailId = copy?.emailId ?? emailIdIn(one.complaint.messageId);
      all.push(
        workspaceId && emailId
          ? complaintAbout(report, one.complaint, { workspaceId, emailId, place: copy?.place ?? null })
          : one,
      );
    }
    return all;
  }

  #copyIn({ paths }: Complaint) {
    for (const path of paths) {
      const read = this.#parts.paths.read(path, this.#parts.clock.now());
      if (read.kind === "copy") return read.copy;
    }
    return null;
  }

  async #workspaceOfMark(tx: Tx, mark: string | null): Promise<string | null> {
    if (mark === null) return null;
    const known = this.#marks.get(mark);
    if (known !== undefined || performance.now() - this.#marksAt < MARKS_MS) return known ?? null;
    this.#marks = await this.#readMarks(tx);
    this.#marksAt = performance.now();
    return this.#marks.get(mark) ?? null;
  }

  /** Anybody can make us calculate those of all workspaces: others have their turn in between. */
  async #readMarks(tx: Tx): Promise<Map<string, string>> {
    const marks = new Map<string, string>();
    let ids: string[] = [];
    do {
      ids = await workspaceIdsAfter(tx, ids.at(-1) ?? null, MARKED_AT_ONCE_MAX);
      for (const id of ids) marks.set(this.#parts.markOf(id), id);
    } while (ids.length === MARKED_AT_ONCE_MAX);
    return marks;
  }
}

/** With what was changed, where something was. */
type CountedEnd = ReportEnd & { group?: string; stream?: string };

/** The first word of a result says what became of the report. */
function count(ends: readonly CountedEnd[]): void {
  for (const { result, group = NO_MAIL.group, stream = NO_MAIL.stream } of ends)
    if (result !== null) APPLIED.add(1, group, stream, result.split(":", 1)[0] as string);
}

/** The name itself and those above it, one of which may be ours. */
function namesAbove(domain: string): string[] {
  return upwards(domain.split(".").slice(-LABELS_MAX).join("."));
}

function parted<T>(all: readonly T[], isFirst: (one: T) => boolean): [T[], T[]] {
  return [all.filter(isFirst), all.filter((one) => !isFirst(one))];
}

function endOf({ id, workspaceId, emailId }: DueReport, result: string | null, againInMs = 0): ReportEnd {
  return { id, result, againInMs, workspaceId, emailId };
}

function reasonOf(judged: Exclude<Judged, { kind: "told" }>): string {
  return judged.kind === "ignored" ? judged.reason : "it shows no mail of ours";
}

/** Ours are made of the id and the sender's domain. */
function emailIdIn(messageId: string | null): string | null {
  const left = messageId?.slice(1).split("@")[0] ?? "";
  return isUuid(left) ? left.toLowerCase() : null;
}
