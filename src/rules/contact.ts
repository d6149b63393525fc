/**
 * What a change does to a contact. Pure: the contact commit calls `change` on the locked state, so that what
 * is decided here is decided once, whoever asks at the same time.
 *
 * Nobody is subscribed against their word: one who is pending or unsubscribed becomes subscribed only by
 * confirming, or by a consent record in place of that. At most one confirmation mail a day is asked for, and
 * three in all until one is answered. An archived contact is not there, except for being added again,
 * unsubscribed and erased.
 */
import { isJsonbOver } from "./jsonb.ts";

export const PROPERTIES_BYTES_MAX = 16_384;
export const TAGS_MAX = 200;
const ASKS_MAX = 3;
const ASK_EVERY_MS = 24 * 3_600_000;
export const CONFIRM_WITHIN_MS = 7 * 24 * 3_600_000;

export type ContactStatus = "pending" | "subscribed" | "unsubscribed";
export type Properties = Record<string, unknown>;

export type Contact = {
  workspaceId: string;
  id: string;
  audienceId: string;
  identity: string;
  /** As first spelt. */
  email: string;
  firstName: string | null;
  lastName: string | null;
  properties: Properties;
  /** Sorted. */
  tags: string[];
  status: ContactStatus;
  createdAt: Date;
  updatedAt: Date;
  archivedAt: Date | null;
};

/** How often a contact was asked to confirm; `askedAt` names the last mail and its link. */
export type Confirmation = { asked: number; askedAt: Date; isOpen: boolean; isMailed: boolean };

/** What a caller can show for a contact's agreement. */
export type GivenConsent = {
  source: string;
  capturedAt: Date;
  ipAddress: string | null;
  userAgent: string | null;
  wording: string | null;
  textVersion: string | null;
};
export type Consent = GivenConsent & { kind: "given" | "confirmed" | "withdrawn"; keyId: string | null };

/** Absent stays as it is, null clears. */
export type ContactFields = {
  firstName?: string | null;
  lastName?: string | null;
  properties?: Properties | null;
  unsubscribed?: boolean;
  /** Those given are added. */
  tags?: readonly string[] | null;
};

export type OptIn = {
  /** true: must confirm in any audience; false: the consent record stands in for it. */
  doubleOptIn?: boolean;
  consent: GivenConsent | null;
};

export type LinkVisitor = { ipAddress: string | null; userAgent: string | null };

export type ContactChange =
  /** `onlyNew`: a contact that is there stays as it is. */
  | {
      kind: "add";
      id: string;
      identity: string;
      email: string;
      fields: ContactFields;
      optIn: OptIn;
      onlyNew?: boolean;
    }
  | { kind: "edit"; fields: ContactFields; optIn: OptIn }
  | { kind: "tag"; add: readonly string[]; remove: readonly string[] }
  | { kind: "archive" }
  | { kind: "erase" }
  /** `identity`: whom it means once the contact is gone. */
  | { kind: "unsubscribe"; source: string; visitor: LinkVisitor; identity?: string }
  /** The link of the mail that was asked for at `askedAt`. */
  | { kind: "confirm"; askedAt: number; visitor: LinkVisitor };

/** A contact as the transaction holds it: changed in place, in the order of the changes. */
export type LockedContact = {
  contact: Contact;
  confirmation: Confirmation | null;
  isNew: boolean;
  isErased: boolean;
  consents: Consent[];
};

export type ChangeContext = {
  audience: { workspaceId: string; id: string; doubleOptIn: boolean };
  /** Erased before, and must not be written to. */
  isSuppressed: boolean;
  keyId: string | null;
  now: Date;
};

export type ChangedContact =
  | { kind: "changed"; contact: Contact; asks: boolean }
  | { kind: "no contact" }
  /** It was there already, and only a new one was asked for; or it has confirmed by this link before. */
  | { kind: "known" }
  /** A limit that only the whole contact can break. */
  | { kind: "too much"; field: "properties" | "tags"; message: string }
  /** The link was used, is too old, or was overtaken by another. */
  | { kind: "not open" };

/** `held` is null when there is no such contact; one that is added is handed back through `keep`. */
export function change(
  held: LockedContact | null,
  asked: ContactChange,
  setting: ChangeContext,
  keep: (held: LockedContact) => void,
): ChangedContact {
  if (asked.kind === "add") {
    if (held && !held.isErased) {
      if (asked.onlyNew && !held.contact.archivedAt) return { kind: "known" };
      return addKnown(held, asked, setting);
    }
    const added = addNew(asked, setting);
    if (added.result.kind === "changed") keep(added.held);
    return added.result;
  }
  if (!held || held.isErased) return { kind: "no contact" };
  const seesArchived = asked.kind === "erase" || asked.kind === "unsubscribe";
  if (held.contact.archivedAt && !seesArchived) return { kind: "no contact" };
  switch (asked.kind) {
    case "edit":
      if (isEmpty(asked)) return { kind: "changed", contact: held.contact, asks: false };
      return edit(held, asked.fields, asked.optIn, setting);
    case "tag":
      return edit(held, {}, NO_OPT_IN, setting, asked);
    case "archive":
      held.contact.archivedAt = setting.now;
      return changed(held, setting);
    case "erase":
      held.isErased = true;
      return { kind: "changed", contact: held.contact, asks: false };
    case "unsubscribe":
      if (held.contact.status !== "unsubscribed")
        withdraw(held, { source: asked.source, ...asked.visitor, keyId: setting.keyId }, setting);
      return changed(held, setting);
    case "confirm":
      return confirm(held, asked, setting);
  }
}

/** What another audience gets of a contact. Whoever has unsubscribed stays so. */
export function fieldsToCopy({ firstName, lastName, properties, tags, status }: Contact): ContactFields {
  return { firstName, lastName, properties, tags, ...(status === "unsubscribed" && { unsubscribed: true }) };
}

type Add = Extract<ContactChange, { kind: "add" }>;
const NO_OPT_IN: OptIn = { consent: null };
const NOBODY: LinkVisitor = { ipAddress: null, userAgent: null };

function addNew(
  { id, identity, email, fields, optIn }: Add,
  setting: ChangeContext,
): { held: LockedContact; result: ChangedContact } {
  const { audience, now, isSuppressed } = setting;
  const mustConfirm = optIn.doubleOptIn ?? audience.doubleOptIn;
  // as of one who is known to have unsubscribed: a consent record alone, of a list, does not undo it
  const isBack = fields.unsubscribed === false && isSkipping(optIn);
  const isUnsubscribed = fields.unsubscribed === true || (isSuppressed && !isBack);
  const status: ContactStatus = isUnsubscribed ? "unsubscribed" : mustConfirm ? "pending" : "subscribed";
  const held: LockedContact = {
    contact: {
      workspaceId: audience.workspaceId,
      id,
      audienceId: audience.id,
      identity,
      email,
      firstName: null,
      lastName: null,
      properties: {},
      tags: [],
      status,
      createdAt: now,
      updatedAt: now,
      archivedAt: null,
    },
    confirmation: null,
    isNew: true,
    isErased: false,
    consents: [],
  };
  const { unsubscribed, ...rest } = fields;
  const result = edit(held, rest, { consent: optIn.consent }, setting);
  if (unsubscribed === true) withdraw(held, { source: "api", ...NOBODY, keyId: setting.keyId }, setting);
  const asks = status === "pending" || (status === "unsubscribed" && unsubscribed === false);
  if (result.kind === "changed" && asks) result.asks = ask(held, now);
  return { held, result };
}

function addKnown(held: LockedContact, { fields, optIn }: Add, setting: ChangeContext): ChangedContact {
  const wasArchived = held.contact.archivedAt;
  held.contact.archivedAt = null;
  const result = edit(held, fields, optIn, setting);
  if (result.kind !== "changed") held.contact.archivedAt = wasArchived;
  // whoever signs up once more while the mail lies unanswered may get another
  else if (held.contact.status === "pending" && !result.asks) result.asks = ask(held, setting.now);
  return result;
}

/** Nothing of the contact changes when something of it is refused. */
function edit(
  held: LockedContact,
  fields: ContactFields,
  optIn: OptIn,
  setting: ChangeContext,
  tagging: { add: readonly string[]; remove: readonly string[] } = {
    add: fields.tags ?? [],
    remove: fields.tags === null ? held.contact.tags : [],
  },
): ChangedContact {
  const { contact } = held;
  const properties = merged(contact.properties, fields.properties);
  if (fields.properties && isJsonbOver(properties, PROPERTIES_BYTES_MAX))
    return {
      kind: "too much",
      field: "properties",
      message: `must have at most ${PROPERTIES_BYTES_MAX} bytes in all, as JSON, with all numbers written out in full`,
    };
  const tags = retagged(contact.tags, tagging);
  if (tags === null)
    return { kind: "too much", field: "tags", message: `must be at most ${TAGS_MAX} in all` };
  contact.properties = properties;
  contact.tags = tags;
  if (fields.firstName !== undefined) contact.firstName = fields.firstName;
  if (fields.lastName !== undefined) contact.lastName = fields.lastName;
  if (optIn.consent) held.consents.push({ kind: "given", ...optIn.consent, keyId: setting.keyId });
  const result = changed(held, setting);
  result.asks = restatus(held, fields.unsubscribed, optIn, setting);
  return result;
}

/** Moves the status as far as a caller may; says whether the contact is asked to confirm. */
function restatus(
  held: LockedContact,
  unsubscribed: boolean | undefined,
  optIn: OptIn,
  setting: ChangeContext,
): boolean {
  const { contact } = held;
  if (contact.status === "subscribed" || unsubscribed === true) {
    if (unsubscribed === true && contact.status !== "unsubscribed")
      withdraw(held, { source: "api", ...NOBODY, keyId: setting.keyId }, setting);
    return false;
  }
  const isWanted =
    contact.status === "pending"
      ? unsubscribed === false || optIn.doubleOptIn !== undefined
      : unsubscribed === false;
  if (!isWanted) return false;
  if (!isSkipping(optIn)) return ask(held, setting.now);
  contact.status = "subscribed";
  close(held);
  return false;
}

function isSkipping({ doubleOptIn, consent }: OptIn): boolean {
  return doubleOptIn === false && consent !== null;
}

function ask(held: LockedContact, now: Date): boolean {
  const { confirmation } = held;
  const asked = confirmation?.asked ?? 0;
  if (asked >= ASKS_MAX) return false;
  if (confirmation && now.getTime() - confirmation.askedAt.getTime() < ASK_EVERY_MS) return false;
  held.confirmation = { asked: asked + 1, askedAt: now, isOpen: true, isMailed: false };
  return true;
}

function confirm(
  held: LockedContact,
  { askedAt, visitor }: Extract<ContactChange, { kind: "confirm" }>,
  setting: ChangeContext,
): ChangedContact {
  const { confirmation, contact } = held;
  const isNewest = confirmation?.askedAt.getTime() === askedAt;
  // a second press of the button is told what the first was
  if (isNewest && !confirmation.isOpen && contact.status === "subscribed") return { kind: "known" };
  const isOpen = isNewest && confirmation.isOpen;
  if (!isOpen || setting.now.getTime() > askedAt + CONFIRM_WITHIN_MS) return { kind: "not open" };
  contact.status = "subscribed";
  close(held);
  held.consents.push({ ...ownConsent("confirmation", visitor, setting.now), kind: "confirmed", keyId: null });
  return changed(held, setting);
}

/** The links that were sent open nothing any more, and the count of mails begins anew. */
function close(held: LockedContact): void {
  if (held.confirmation)
    held.confirmation = { ...held.confirmation, asked: 0, isOpen: false, isMailed: true };
}

function withdraw(
  held: LockedContact,
  { source, keyId, ...visitor }: LinkVisitor & { source: string; keyId: string | null },
  { now }: ChangeContext,
): void {
  held.contact.status = "unsubscribed";
  if (held.confirmation) held.confirmation = { ...held.confirmation, isOpen: false, isMailed: true };
  held.consents.push({ ...ownConsent(source, visitor, now), kind: "withdrawn", keyId });
}

function ownConsent(source: string, visitor: LinkVisitor, now: Date): GivenConsent {
  return { source, capturedAt: now, ...visitor, wording: null, textVersion: null };
}

function changed(held: LockedContact, { now }: ChangeContext): Extract<ChangedContact, { kind: "changed" }> {
  held.contact.updatedAt = now;
  return { kind: "changed", contact: held.contact, asks: false };
}

function isEmpty({ fields, optIn }: Extract<ContactChange, { kind: "edit" }>): boolean {
  const given = [...Object.values(fields), optIn.doubleOptIn, optIn.consent ?? undefined];
  return given.every((value) => value === undefined);
}

function merged(known: Properties, given: Properties | null | undefined): Properties {
  if (given === undefined) return known;
  if (given === null) return {};
  // a map: a property may be called __proto__
  const all = new Map(Object.entries(known));
  for (const [name, value] of Object.entries(given)) {
    if (value === null) all.delete(name);
    else all.set(name, value);
  }
  return Object.fromEntries(all);
}

/** null: they would be too many, and more than before. */
function retagged(
  known: string[],
  { add, remove }: { add: readonly string[]; remove: readonly string[] },
): string[] | null {
  if (add.length === 0 && remove.length === 0) return known;
  const tags = new Set([...known, ...add]);
  for (const tag of remove) tags.delete(tag);
  // before they are sorted: a file may name twenty thousand
  return tags.size > TAGS_MAX && tags.size > known.length ? null : [...tags].sort();
}
