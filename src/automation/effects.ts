/**
 * What steps do to the world: e-mails written, contacts tagged. Each effect may be repeated: an e-mail has
 * the id of its step and is written once, a tag that is there stays.
 *
 * Promises: a step whose effect is uncertain, because a store did not answer, has no result; the others have
 * theirs. A e-mail that nobody can write is skipped, so that it holds up no other, and so is one that
 * Postgres can never keep.
 */
import type { Links } from "../audience/links.ts";
import type { Clock } from "../clock.ts";
import type { Owners } from "../domain/owners.ts";
import type { ClaimedRun } from "../record/automations/runs.ts";
import type { ContactCommit } from "../record/contacts/commit.ts";
import { isRefusal } from "../record/db/lost.ts";
import type { NewEmail } from "../record/mail/emails.ts";
import type { Happening } from "../rules/filters.ts";
import { BrokenMail, type SubmitOwn } from "../submit.ts";
import type { Shelved, TemplateCache } from "../template/cache.ts";
import { turnIfLate } from "../turn.ts";
import type { Move } from "./advance.ts";
import { DocumentError } from "./document.ts";
import type { VersionPlan } from "./plans.ts";
import { OwnEmails, writeStepEmail } from "./stepemail.ts";

const TAG_ENTRY_BYTES = 500;
const EMAILS_BYTES_MAX = 16 * 1024 * 1024;
/** At hand together. */
const TEMPLATES_MAX = 10;
/** Well within the lease of the runs: what refuses every mail is not asked about each of them. */
const HALVING_MS_MAX = 4_000;

export type EffectParts = {
  submitOwn: SubmitOwn;
  contacts: ContactCommit;
  templates: TemplateCache;
  owners: Owners;
  links: Links;
  clock: Clock;
  onFault(error: unknown): void;
};

/** A run, what started it, and what it follows. */
export type RunInHand = { run: ClaimedRun; event: Happening; plan: VersionPlan };
export type StepToTake = { runInHand: RunInHand; move: Move };
export type EffectResult = { result: string; detail: string | null };
/** Steps that have to be tried again are missing. */
type Results = Map<ClaimedRun, EffectResult>;
export type Happened = { results: Results; isRefused: boolean };

type StepEmail = { run: ClaimedRun; email: NewEmail; fromDomain: string };
type SendEffect = { runInHand: RunInHand; move: Extract<Move, { kind: "send" }> };
type Tag = { runInHand: RunInHand; move: Extract<Move, { kind: "tag" }> };

export class Effects {
  readonly #parts: EffectParts;
  readonly #own = new OwnEmails();

  constructor(parts: EffectParts) {
    this.#parts = parts;
  }

  /** `isRefused`: mail is not taken for now, and whoever is next need not hurry. */
  async happen(steps: readonly StepToTake[]): Promise<Happened> {
    const results: Results = new Map();
    const sends = new Map<string, SendEffect[]>();
    const tags: Tag[] = [];
    for (const { runInHand, move } of steps) {
      const { workspaceId } = runInHand.run;
      if (move.kind === "tag") tags.push({ runInHand, move });
      if (move.kind !== "send") continue;
      const some = sends.get(workspaceId);
      if (some) some.push({ runInHand, move });
      else sends.set(workspaceId, [{ runInHand, move }]);
    }
    let isRefused = false;
    const refused = (error: unknown) => {
      isRefused = true;
      this.#parts.onFault(error);
    };
    await Promise.all([
      ...[...sends].map(([workspaceId, some]) => this.#send(workspaceId, some, results).catch(refused)),
      ...tags.map((tag) => this.#tag(tag, results)),
    ]);
    return { results, isRefused };
  }

  /** Compiled templates take up to 9 MB each. */
  async #send(workspaceId: string, sends: readonly SendEffect[], results: Results): Promise<void> {
    const byTemplate = new Map<string, SendEffect[]>();
    for (const send of sends) {
      const ref = send.move.send.template ?? "";
      const some = byTemplate.get(ref);
      if (some) some.push(send);
      else byTemplate.set(ref, [send]);
    }
    for (let rest = [...byTemplate]; rest.length > 0; rest = rest.slice(TEMPLATES_MAX)) {
      const some = rest.slice(0, TEMPLATES_MAX);
      const refs = some.map(([ref]) => ref).filter((ref) => ref !== "");
      await this.#sendSome(
        workspaceId,
        refs,
        some.flatMap(([, these]) => these),
        results,
      );
    }
  }

  /** The mails of one workspace are submitted together, as far as they fit into memory. */
  async #sendSome(
    workspaceId: string,
    refs: readonly string[],
    sends: readonly SendEffect[],
    results: Results,
  ): Promise<void> {
    const saved =
      refs.length === 0 ? new Map<string, Shelved>() : await this.#parts.templates.fetch(workspaceId, refs);
    let written: StepEmail[] = [];
    let bytes = 0;
    for (const send of sends) {
      const late = turnIfLate();
      if (late) await late;
      const { run } = send.runInHand;
      const step = await this.#write(send, saved);
      if ("reason" in step) {
        results.set(run, { result: "skipped", detail: step.reason });
        continue;
      }
      written.push({ run, ...step });
      bytes += step.email.bytes;
      if (bytes < EMAILS_BYTES_MAX) continue;
      await this.#submit(workspaceId, written, results);
      [written, bytes] = [[], 0];
    }
    if (written.length > 0) await this.#submit(workspaceId, written, results);
  }

  async #submit(workspaceId: string, written: readonly StepEmail[], results: Results): Promise<void> {
    const { owners } = this.#parts;
    const domains = written.map(({ fromDomain }) => fromDomain);
    const foreign = await owners.refused({ workspaceId, version: 0 }, domains);
    const own = written.filter(({ run, fromDomain }) => {
      if (!foreign.has(fromDomain)) return true;
      results.set(run, {
        result: "skipped",
        detail: `the domain ${fromDomain} is not verified for this workspace`,
      });
      return false;
    });
    if (own.length > 0) await this.#submitAll(own, results, performance.now() + HALVING_MS_MAX);
  }

  /** All together; where Postgres refuses one of them, the halves, so that it costs no other. */
  async #submitAll(own: readonly StepEmail[], results: Results, until: number): Promise<void> {
    const { submitOwn, onFault } = this.#parts;
    const { workspaceId, handle } = (own[0] as StepEmail).run;
    const emails = own.map(({ email }) => email);
    try {
      const submitted = await submitOwn({ workspaceId, handle, bulk: true, emails });
      const ids = submitted.kind === "written" ? submitted.ids : emails.map(({ id }) => id);
      for (const [n, { run }] of own.entries())
        results.set(run, { result: "done", detail: ids[n] as string });
    } catch (error) {
      if (!(error instanceof BrokenMail) || performance.now() > until) throw error;
      if (own.length > 1) {
        const half = Math.ceil(own.length / 2);
        await this.#submitAll(own.slice(0, half), results, until);
        await this.#submitAll(own.slice(half), results, until);
        return;
      }
      onFault(error);
      const reason = whyNeverKept(error);
      if (reason !== null) results.set((own[0] as StepEmail).run, { result: "skipped", detail: reason });
    }
  }

  async #write({ runInHand: { run, event }, move }: SendEffect, saved: ReadonlyMap<string, Shelved>) {
    const { links, clock, onFault } = this.#parts;
    const { send, contact } = move;
    const template = (send.template !== undefined && saved.get(send.template)) || null;
    try {
      const own = this.#own.of(send);
      return await writeStepEmail(
        run,
        send,
        { contact, event },
        { saved: template, own },
        links,
        clock.now(),
      );
    } catch (error) {
      // right when it was applied, under other limits
      if (error instanceof DocumentError) return { reason: error.message };
      onFault(error);
      return { reason: "the e-mail could not be written" };
    }
  }

  async #tag({ runInHand: { run }, move }: Tag, results: Results): Promise<void> {
    const { contacts, clock, onFault } = this.#parts;
    const { workspaceId, audienceId, contactId } = run;
    const verdict = await contacts.submit({
      workspaceId,
      audienceId,
      who: { id: contactId },
      change: { kind: "tag", ...move.tag },
      keyId: null,
      given: clock.given(),
      bytes: TAG_ENTRY_BYTES,
    });
    switch (verdict.kind) {
      case "changed":
        results.set(run, { result: "done", detail: null });
        return;
      case "too much":
        results.set(run, { result: "skipped", detail: `${verdict.field} ${verdict.message}` });
        return;
      case "no contact":
      case "no audience":
      case "not open":
        // archived or erased since it was read: found so when the step is tried again
        return;
      case "failed":
      case "unknown":
        onFault(verdict.error);
    }
  }
}

/**
 * Its own data are refused, whenever it is tried again; null: a constraint, which may be mended.
 */
function whyNeverKept({ cause }: BrokenMail): string | null {
  return isRefusal(cause) && /^(22|54)/.test(cause.code)
    ? `the e-mail cannot be kept: ${cause.message}`
    : null;
}
