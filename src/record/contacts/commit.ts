/**
 * Committing changes of contacts: those of many requests in one transaction of the group commit.
 *
 * Promises: a change is decided on the contact as it is then, under the lock of its audience; several changes
 * of one contact in one group happen one after the other. A mail that asks for confirmation is owed from the
 * moment the change is committed.
 */
import { newId } from "../../ids.ts";
import {
  type ChangedContact,
  type Contact,
  type ContactChange,
  change,
  fieldsToCopy,
  type LockedContact,
} from "../../rules/contact.ts";
import { turnIfLate } from "../../turn.ts";
import type { Sql, Statement } from "../db/connect.ts";
import { GroupCommit, type GroupCommitOptions, settled, type Transaction } from "../db/groupcommit.ts";
import { type Audience, lockAudiences } from "./audiences.ts";
import {
  deleteContacts,
  findSuppressed,
  type HeldKey,
  heldName,
  holdContacts,
  insertConsents,
  insertContacts,
  keepSuppressed,
  type NewConsent,
  saveConfirmations,
  updateContacts,
  type Who,
  type WrittenContact,
} from "./contacts.ts";
import { insertErasures } from "./erasures.ts";

/** Of properties in one statement. */
const PIECE_CHARS_MAX = 1024 * 1024;

export type ContactEntry = {
  workspaceId: string;
  audienceId: string;
  who: Who;
  change: ContactChange;
  /**
   * The contact that is added repeats this one, as it is then; nothing comes of it when that one has gone.
   */
  copyOf?: { audienceId: string; id: string };
  keyId: string | null;
  /** The time that a test gives, in ms; 0: that of the transaction. */
  given: number;
  /** Of the request, for the bound of a group. */
  bytes: number;
};

export type ContactVerdict = ChangedContact | { kind: "no audience" };
export type ContactCommit = GroupCommit<ContactEntry, ContactVerdict>;

/** `hashOf` is the keyed hash under which an erased address stays known. */
export function contactCommit(
  options: GroupCommitOptions,
  hashOf: (identity: string) => Buffer,
): ContactCommit {
  return new GroupCommit(
    {
      what: "contacts",
      open: (group) => new ContactTransaction(group, hashOf),
      rowsOf: () => 1,
      bytesOf: ({ bytes }) => bytes,
    },
    options,
  );
}

class ContactTransaction implements Transaction<ContactEntry, ContactVerdict> {
  readonly #group: readonly ContactEntry[];
  readonly #hashOf: (identity: string) => Buffer;
  readonly #given: number;
  readonly #verdicts = new Map<ContactEntry, ContactVerdict>();
  readonly #lists = new Map<string, List>();
  readonly #touched = new Set<LockedContact>();
  /** Who unsubscribed and is no contact any more. */
  readonly #gone: HeldKey[] = [];

  constructor(group: readonly ContactEntry[], hashOf: (identity: string) => Buffer) {
    this.#group = group;
    this.#hashOf = hashOf;
    this.#given = Math.max(...group.map(({ given }) => given));
  }

  async read(tx: Sql): Promise<void> {
    const sources = this.#group.flatMap(({ workspaceId, copyOf }) =>
      copyOf ? [{ workspaceId, audienceId: copyOf.audienceId, who: { id: copyOf.id } }] : [],
    );
    const meant = this.#group.flatMap(({ workspaceId, audienceId, change: asked }) =>
      asked.kind === "unsubscribe" && asked.identity !== undefined
        ? [{ workspaceId, audienceId, who: { identity: asked.identity } }]
        : [],
    );
    const wanted = [...this.#group, ...sources, ...meant];
    const [audiences, held] = await settled([lockAudiences(tx, wanted), holdContacts(tx, wanted)]);
    for (const audience of audiences)
      this.#lists.set(audience.workspaceId + audience.id, {
        audience,
        byId: new Map(),
        byIdentity: new Map(),
        suppressed: new Set(),
      });
    for (const one of held) {
      const list = this.#listOf(one.contact);
      if (list) keep(list, one);
    }
    const newcomers = this.#group.flatMap((entry) => this.#newcomerOf(entry) ?? []);
    if (newcomers.length === 0) return;
    const suppressed = await findSuppressed(tx, newcomers);
    for (const one of newcomers)
      if (suppressed.has(heldName(one))) this.#listOf(one)?.suppressed.add(one.identity);
  }

  /** In turns: a contact may have thousands of properties, and a group thousands of contacts. */
  async write(tx: Sql, transactionTime: number): Promise<Statement[]> {
    const now = new Date(this.#given || transactionTime);
    for (const entry of this.#group) {
      const late = turnIfLate();
      if (late) await late;
      this.#verdicts.set(entry, this.#decide(entry, now));
    }
    const touched = [...this.#touched];
    const kept = touched.filter(({ isErased }) => !isErased);
    const fresh = kept.filter(({ isNew }) => isNew);
    const known = kept.filter(({ isNew }) => !isNew);
    const erased = touched.filter(({ isErased }) => isErased);
    const consents = kept.flatMap((held) => consentsOf(held, now));
    const confirmations = kept.flatMap(({ contact: { workspaceId, id: contactId }, confirmation }) =>
      confirmation ? [{ workspaceId, contactId, ...confirmation }] : [],
    );
    const writes: Statement[] = [];
    // an address that was erased and added again in one group is inserted after it is deleted
    if (erased.length > 0) writes.push(...this.#erase(tx, erased, now));
    if (this.#gone.length > 0)
      writes.push(
        ...keepSuppressed(
          tx,
          this.#gone.map((one) => ({ ...one, isUnsubscribed: true })),
          now,
        ),
      );
    for await (const piece of written(fresh)) writes.push(insertContacts(tx, piece));
    for await (const piece of written(known)) writes.push(updateContacts(tx, piece));
    if (consents.length > 0) writes.push(insertConsents(tx, consents));
    if (confirmations.length > 0) writes.push(saveConfirmations(tx, confirmations));
    // last, as everywhere: others wait for it
    if (erased.length > 0)
      writes.push(
        insertErasures(
          tx,
          erased.map(({ contact }) => contact),
          now,
        ),
      );
    return writes;
  }

  verdictOf(entry: ContactEntry): ContactVerdict {
    return this.#verdicts.get(entry) as ContactVerdict;
  }

  committed(): void {}

  #decide(entry: ContactEntry, now: Date): ContactVerdict {
    const { who, keyId } = entry;
    const list = this.#listOf(entry);
    if (!list) return { kind: "no audience" };
    const asked = this.#changeOf(entry);
    if (!asked) return { kind: "no contact" };
    const { audience, byId, byIdentity, suppressed } = list;
    const meant = asked.kind === "unsubscribe" ? asked.identity : undefined;
    const named = "id" in who ? byId.get(who.id) : byIdentity.get(who.identity);
    const held = named ?? (meant === undefined ? null : (byIdentity.get(meant) ?? null));
    const isSuppressed = asked.kind === "add" && suppressed.has(asked.identity);
    const setting = { audience, isSuppressed, keyId, now };
    const verdict = change(held, asked, setting, (added) => {
      keep(list, added);
      this.#touched.add(added);
    });
    if (verdict.kind === "no contact" && meant !== undefined) {
      const { workspaceId, audienceId } = entry;
      this.#gone.push({ workspaceId, audienceId, hash: this.#hashOf(meant) });
      suppressed.add(meant);
    }
    if (verdict.kind !== "changed") return verdict;
    if (held) this.#touched.add(held);
    if (asked.kind === "erase") noteErased(list, verdict.contact);
    return verdict;
  }

  /** null: who is to be copied has gone. */
  #changeOf({ workspaceId, copyOf, change: asked }: ContactEntry): ContactChange | null {
    if (!copyOf || asked.kind !== "add") return asked;
    const source = this.#listOf({ workspaceId, audienceId: copyOf.audienceId })?.byId.get(copyOf.id);
    if (!source || source.isErased || source.contact.archivedAt !== null) return null;
    return { ...asked, fields: fieldsToCopy(source.contact) };
  }

  #listOf({ workspaceId, audienceId }: Pick<ContactEntry, "workspaceId" | "audienceId">): List | null {
    return this.#lists.get(workspaceId + audienceId) ?? null;
  }

  /**
   * Who is added, and may be one of those that were erased and must not be written to. The hash costs 6 us.
   */
  #newcomerOf(entry: ContactEntry): (HeldKey & { identity: string }) | null {
    const { workspaceId, audienceId, change: asked } = entry;
    if (asked.kind !== "add") return null;
    const list = this.#listOf(entry);
    if (!list?.audience.suppresses || list.byIdentity.has(asked.identity)) return null;
    return { workspaceId, audienceId, identity: asked.identity, hash: this.#hashOf(asked.identity) };
  }

  #erase(tx: Sql, erased: readonly LockedContact[], now: Date): Statement[] {
    const contacts = erased.map(({ contact }) => contact);
    // of one who was erased twice in the group, the last word
    const last = new Map(
      contacts.map((contact) => [
        `${contact.workspaceId} ${contact.audienceId} ${contact.identity}`,
        contact,
      ]),
    );
    const keys = [...last.values()].map(({ workspaceId, audienceId, identity, status }) => ({
      workspaceId,
      audienceId,
      hash: this.#hashOf(identity),
      isUnsubscribed: status === "unsubscribed",
    }));
    return [...deleteContacts(tx, contacts, now), ...keepSuppressed(tx, keys, now)];
  }
}

/** With their properties as JSON, so many as a statement may hold. */
async function* written(held: readonly LockedContact[]): AsyncGenerator<WrittenContact[]> {
  let piece: WrittenContact[] = [];
  let chars = 0;
  for (const { contact } of held) {
    const late = turnIfLate();
    if (late) await late;
    const propertiesText = JSON.stringify(contact.properties);
    if (piece.length > 0 && chars + propertiesText.length > PIECE_CHARS_MAX) {
      yield piece;
      piece = [];
      chars = 0;
    }
    piece.push({ propertiesText, ...contact });
    chars += propertiesText.length;
  }
  if (piece.length > 0) yield piece;
}

function consentsOf({ contact, consents }: LockedContact, recordedAt: Date): NewConsent[] {
  const { workspaceId, id: contactId } = contact;
  return consents.map((consent) => ({
    ...consent,
    workspaceId,
    contactId,
    id: newId(recordedAt.getTime()),
    recordedAt,
  }));
}

/** An audience that is locked, and who of it the group is about. */
type List = {
  audience: Audience;
  byId: Map<string, LockedContact>;
  byIdentity: Map<string, LockedContact>;
  /** By identity. */
  suppressed: Set<string>;
};

function keep({ byId, byIdentity }: List, held: LockedContact): void {
  byId.set(held.contact.id, held);
  byIdentity.set(held.contact.identity, held);
}

/** Who is added again in the same group comes back as in the next one. */
function noteErased({ suppressed }: List, { identity, status }: Contact): void {
  if (status === "unsubscribed") suppressed.add(identity);
  else suppressed.delete(identity);
}
