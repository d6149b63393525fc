/**
 * The e-mail of a send step. Templates see the contact's properties and the event's by their names (the
 * event's win), the contact's own fields, all of both as `contact` and `event`, and `unsubscribe_url`.
 *
 * Promises: every such mail can be unsubscribed from with one click, and carries the id that follows from its
 * run, its step and the recorded time of that step.
 */
import { headerValueOk, identity, parseMailbox, withoutDirectionMarks } from "../address.ts";
import type { Links } from "../audience/links.ts";
import { firstChars } from "../chars.ts";
import { derivedId } from "../ids.ts";
import type { ClaimedRun } from "../record/automations/runs.ts";
import type { Extra, NewEmail } from "../record/mail/emails.ts";
import type { Head } from "../rules/email.ts";
import type { Happening, Person } from "../rules/filters.ts";
import { compiledBytes, type Shelved } from "../template/cache.ts";
import { type Compiled, compile } from "../template/compile.ts";
import { TemplateFault } from "../template/fault.ts";
import { EMAIL_UNITS_MAX, REQUEST_UNITS_MAX } from "../template/meter.ts";
import { RenderBudget, type RenderedEmail, renderEmail } from "../template/render.ts";
import { turnIfLate } from "../turn.ts";
import { type Automation, type AutomationStep, DocumentError, type SendStep } from "./document.ts";

const SUBJECT_CHARS_MAX = 998;

/**
 * What it is written from: the template as it is now, and what the document itself brings (its subject wins).
 */
type StepTexts = { saved: Shelved | null; own: Compiled | null };

/** Its domain must be one that the workspace may write from. */
type WrittenStepEmail = { email: NewEmail; fromDomain: string };

/** Why a mail was not written; goes into the history of the run. */
type Unwritten = { reason: string };

export async function writeStepEmail(
  run: ClaimedRun,
  send: SendStep,
  { contact, event }: { contact: Person; event: Happening },
  { saved, own }: StepTexts,
  links: Links,
  now: number,
): Promise<WrittenStepEmail | Unwritten> {
  const body = send.template === undefined ? own : saved;
  if (!body) return { reason: `there is no template ${send.template}` };
  const { workspaceId, audienceId, contactId } = run;
  const unsubscribeUrl = links.unsubscribeUrl({
    workspaceId,
    audienceId,
    contactId,
    identity: identity(contact.email),
  });
  const variables = variablesOf(contact, event, unsubscribeUrl);
  const budget = new RenderBudget(now, EMAIL_UNITS_MAX);
  const filled = await rendered(send.template ?? null, body, variables, budget);
  if ("reason" in filled) return filled;
  const titled = own && own !== body ? await rendered(null, own, variables, budget) : filled;
  if ("reason" in titled) return titled;
  const from = send.from ?? filled.from;
  const sender = from ? parseMailbox(from) : null;
  if (!from || !sender) return { reason: "no sender" };
  const subject = subjectOf(titled);
  if (subject === "") return { reason: "no subject" };
  if (!headerValueOk(subject)) return { reason: "the subject has characters that no header may have" };
  const head: Head = {
    from,
    to: [contact.email],
    cc: [],
    bcc: [],
    reply_to: send.reply_to ?? filled.replyTo,
    subject,
  };
  const extra: Extra = {
    headers: {
      "List-Unsubscribe": `<${unsubscribeUrl}>`,
      "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    },
    tags: [{ name: "automation", value: run.automationId }],
  };
  const html = filled.html === "" ? null : filled.html;
  const [headText, extraText] = [JSON.stringify(head), JSON.stringify(extra)];
  const email: NewEmail = {
    workspaceId,
    id: emailIdOf(run),
    keyId: null,
    contactId,
    bulk: true,
    stream: "",
    head: headText,
    weight: 1,
    bytes: headText.length + (html?.length ?? 0) + (filled.text?.length ?? 0) + extraText.length,
    html,
    plain: filled.text,
    extra: extraText,
    scheduledAt: null,
  };
  return { email, fromDomain: sender.domain };
}

/** On one line, whatever its variables brought along. */
function subjectOf({ subject }: RenderedEmail): string {
  const line = withoutDirectionMarks(subject ?? "")
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim();
  return firstChars(line, SUBJECT_CHARS_MAX);
}

/** Whoever does the step again makes the same id. */
function emailIdOf({ workspaceId, id, position, steppedAt }: ClaimedRun): string {
  return derivedId(steppedAt.getTime(), `automation ${workspaceId} ${id} ${position}`);
}

/**
 * Parses what a document brings of e-mails itself; one that does not parse refuses the document, and so do
 * those that cost too much together.
 */
export async function checkOwn({ steps }: Automation): Promise<void> {
  let units = 0;
  for (const send of sendsOf(steps)) {
    if (!isOwn(send)) continue;
    const late = turnIfLate();
    if (late) await late;
    units += compileSend(send).units;
    if (units > REQUEST_UNITS_MAX)
      throw new DocumentError(
        "The e-mails in the document take too long to parse, all together. Save some as templates.",
      );
  }
}

function isOwn({ template, subject }: SendStep): boolean {
  return template === undefined || subject !== undefined;
}

/** Of the e-mails that were parsed last. */
const KEPT_BYTES_MAX = 32 * 1024 * 1024;

/** What documents bring of e-mails themselves, parsed when it is sent: a document may have 150 of them. */
export class OwnEmails {
  /** The one used last comes last. */
  readonly #kept = new Map<SendStep, { compiled: Compiled; bytes: number }>();
  #bytes = 0;

  /** Null where the step brings nothing. Throws a DocumentError. */
  of(send: SendStep): Compiled | null {
    if (!isOwn(send)) return null;
    const known = this.#kept.get(send);
    if (known) this.#kept.delete(send);
    const one = known ?? kept(send);
    this.#kept.set(send, one);
    if (!known) this.#bytes += one.bytes;
    for (const [oldest, { bytes }] of this.#kept) {
      if (this.#bytes <= KEPT_BYTES_MAX) break;
      this.#kept.delete(oldest);
      this.#bytes -= bytes;
    }
    return one.compiled;
  }
}

function kept(send: SendStep): { compiled: Compiled; bytes: number } {
  const compiled = compileSend(send);
  return { compiled, bytes: compiledBytes([send.subject, send.html, send.text], compiled.units) };
}

function sendsOf(steps: readonly AutomationStep[]): SendStep[] {
  return steps.flatMap((step) => {
    if (step.kind === "send") return step.send;
    return "branches" in step ? step.branches.flatMap((branch) => sendsOf(branch.steps)) : [];
  });
}

function compileSend({ subject, html, text, from, reply_to }: SendStep): Compiled {
  try {
    return compile({
      subject: subject ?? null,
      html: html ?? "",
      text: text ?? null,
      from: from ?? null,
      replyTo: reply_to ?? [],
      declared: [],
    });
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    throw new DocumentError(`The e-mail "${subject}" does not parse: ${error.place}: ${error.message}.`);
  }
}

/** `name` is that of a saved template. */
async function rendered(
  name: string | null,
  template: Shelved,
  variables: Record<string, unknown>,
  budget: RenderBudget,
): Promise<RenderedEmail | Unwritten> {
  try {
    if (template instanceof TemplateFault) throw template;
    return await renderEmail(template, variables, budget);
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    const what = name === null ? "the e-mail of this step" : `the template ${name}`;
    return {
      reason: error.missing
        ? `${what} needs the variable ${error.missing}, which is missing`
        : `${what} cannot be rendered: ${error.message}`,
    };
  }
}

function variablesOf(contact: Person, event: Happening, unsubscribeUrl: string): Record<string, unknown> {
  const { properties, email, first_name, last_name, id, status, tags } = contact;
  return {
    email,
    first_name,
    last_name,
    ...properties,
    ...event.properties,
    contact: { id, email, first_name, last_name, status, tags, properties },
    event: { name: event.name, properties: event.properties },
    unsubscribe_url: unsubscribeUrl,
  };
}
