/**
 * Committing changes of contacts: those of many requests in one transaction of the group commit.
 *
 * Promises: a change is decided on the contact as it is then, under the lock of its audience; several changes of one
 * contact in one group happen one after the other. A mail that asks for confirmation is owed from the moment the
 * change is committed.
 */
import { newId } from "../ids.ts";
import { type Audience, lockAudiences } from "./audiences.ts";
import type { Sql, Statement } from "./connect.ts";
import { type Change, type Changed, type Contact, change, type Held } from "./contact.ts";
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
} from "./contacts.ts";
import { insertErasures } from "./erasures.ts";
import { GroupCommit, type GroupCommitOptions, settled, type Transaction } from "./groupcommit.ts";

export type ContactEntry = {
  workspaceId: string;
  audienceId: string;
  who: Who;
  change: Change;
  keyId: string | null;
  now: number;
  /** Of the request, for the bound of a group. */
  bytes: number;
};

export type ContactVerdict = Changed | { kind: "no audience" };
export type ContactCommit = GroupCommit<ContactEntry, ContactVerdict>;

/** `hashOf` is the keyed hash under which an erased address stays known. */
export function contactCommit(
  options: GroupCommitOptions,
  hashOf: (identity: string) => Buffer,
): ContactCommit {
  return new GroupCommit(
    {
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
  readonly #now: Date;
  readonly #verdicts = new Map<ContactEntry, ContactVerdict>();
  readonly #audiences = new Map<string, Audience>();
  readonly #byId = new Map<string, Held>();
  readonly #byIdentity = new Map<string, Held>();
  readonly #touched = new Set<Held>();
  readonly #hashes = new Map<string, Buffer>();
  #suppressed = new Set<string>();

  constructor(group: readonly ContactEntry[], hashOf: (identity: string) => Buffer) {
    this.#group = group;
    this.#hashOf = hashOf;
    this.#now = new Date(Math.max(...group.map(({ now }) => now)));
  }

  async read(tx: Sql): Promise<void> {
    const added = this.#group.flatMap(({ workspaceId, audienceId, change: asked }) =>
      asked.kind === "add" ? [this.#keyOf({ workspaceId, audienceId, identity: asked.identity })] : [],
    );
    const [audiences, held, suppressed] = await settled([
      lockAudiences(tx, this.#group),
      holdContacts(tx, this.#group),
      added.length > 0 ? findSuppressed(tx, added) : Promise.resolve(new Set<string>()),
    ]);
    for (const audience of audiences) this.#audiences.set(audience.workspaceId + audience.id, audience);
    for (const one of held) this.#keep(one);
    this.#suppressed = suppressed;
  }

  write(tx: Sql): Statement[] {
    for (const entry of this.#group) this.#verdicts.set(entry, this.#decide(entry));
    const touched = [...this.#touched];
    const kept = touched.filter(({ isErased }) => !isErased);
    const fresh = kept.filter(({ isNew }) => isNew);
    const known = kept.filter(({ isNew }) => !isNew);
    const erased = touched.filter(({ isErased }) => isErased);
    const consents = kept.flatMap((held) => this.#consentsOf(held));
    const confirmations = kept.flatMap(({ contact: { workspaceId, id: contactId }, confirmation }) =>
      confirmation ? [{ workspaceId, contactId, ...confirmation }] : [],
    );
    const writes: Statement[] = [];
    // an address that was erased and added again in one group is inserted after it is deleted
    if (erased.length > 0) writes.push(...this.#erase(tx, erased));
    if (fresh.length > 0)
      writes.push(
        insertContacts(
          tx,
          fresh.map(({ contact }) => contact),
        ),
      );
    if (known.length > 0)
      writes.push(
        updateContacts(
          tx,
          known.map(({ contact }) => contact),
        ),
      );
    if (consents.length > 0) writes.push(insertConsents(tx, consents));
    if (confirmations.length > 0) writes.push(saveConfirmations(tx, confirmations));
    return writes;
  }

  verdictOf(entry: ContactEntry): ContactVerdict {
    return this.#verdicts.get(entry) as ContactVerdict;
  }

  committed(): void {}

  #decide(entry: ContactEntry): ContactVerdict {
    const { workspaceId, audienceId, who, change: asked, keyId, now } = entry;
    const audience = this.#audiences.get(workspaceId + audienceId);
    if (!audience) return { kind: "no audience" };
    const scope = workspaceId + audienceId;
    const held =
      ("id" in who ? this.#byId.get(scope + who.id) : this.#byIdentity.get(scope + who.identity)) ?? null;
    const isSuppressed =
      asked.kind === "add" &&
      this.#suppressed.has(heldName(this.#keyOf({ workspaceId, audienceId, identity: asked.identity })));
    const setting = { audience, isSuppressed, keyId, now: new Date(now) };
    const verdict = change(held, asked, setting, (added) => {
      this.#keep(added);
      this.#touched.add(added);
    });
    if (verdict.kind === "changed" && held) this.#touched.add(held);
    if (verdict.kind === "changed" && asked.kind === "erase") this.#noteErased(verdict.contact);
    return verdict;
  }

  /** Who is added again in the same group comes back as in the next one. */
  #noteErased(contact: Contact): void {
    const name = heldName(this.#keyOf(contact));
    if (contact.status === "unsubscribed") this.#suppressed.add(name);
    else this.#suppressed.delete(name);
  }

  #keyOf({ workspaceId, audienceId, identity }: Omit<HeldKey, "hash"> & { identity: string }): HeldKey {
    let hash = this.#hashes.get(identity);
    if (!hash) {
      hash = this.#hashOf(identity);
      this.#hashes.set(identity, hash);
    }
    return { workspaceId, audienceId, hash };
  }

  #keep(held: Held): void {
    const { workspaceId, audienceId, id, identity } = held.contact;
    this.#byId.set(workspaceId + audienceId + id, held);
    this.#byIdentity.set(workspaceId + audienceId + identity, held);
  }

  #consentsOf({ contact: { workspaceId, id: contactId }, consents }: Held): NewConsent[] {
    const recordedAt = this.#now;
    return consents.map((consent) => ({
      ...consent,
      workspaceId,
      contactId,
      id: newId(recordedAt.getTime()),
      recordedAt,
    }));
  }

  #erase(tx: Sql, erased: readonly Held[]): Statement[] {
    const contacts = erased.map(({ contact }) => contact);
    // of one who was erased twice in the group, the last word
    const keys = new Map(
      contacts.map((contact) => {
        const key = this.#keyOf(contact);
        return [heldName(key), { ...key, isUnsubscribed: contact.status === "unsubscribed" }];
      }),
    );
    return [
      ...deleteContacts(tx, contacts, this.#now),
      ...keepSuppressed(tx, [...keys.values()], this.#now),
      ...insertErasures(tx, contacts, this.#now),
    ];
  }
}
