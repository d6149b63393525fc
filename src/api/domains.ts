/** /domains: from which domains the workspace writes, what DNS should say of them, and whether it does. */
import Type from "typebox";
import { Unavailable } from "../admission/unavailable.ts";
import { atMost, type Clock } from "../clock.ts";
import { makeKey, newSelector, publicPartOf, readDomain, Sealer } from "../domain/key.ts";
import { ownershipName, ownershipText } from "../domain/ownership.ts";
import { type DomainDns, recordsOf, verifyRecords } from "../domain/records.ts";
import { isUuid } from "../ids.ts";
import { expectHere } from "../record/cells/moving.ts";
import type { Sql } from "../record/db/connect.ts";
import { insertDomainKey, listDomainKeys } from "../record/workspaces/domainkeys.ts";
import {
  countDomains,
  findShownDomain,
  forgetDomain,
  ownerOf,
  pageOfDomains,
  type Raised,
  type ShownDomain,
} from "../record/workspaces/domains.ts";
import { checker } from "./check.ts";
import { envelope, LIST_QUERY, pageOf } from "./page.ts";
import { type Refusal, refuse } from "./problem.ts";
import type { Answer, Call, Route } from "./routes.ts";
import { Id, inner, listOf, orNull, shape, Text, Time, told } from "./shapes.ts";
import { iso } from "./time.ts";

const PATH = "/api/v1/domains";
const DOMAINS_MAX = 1_000;
/** To make a key takes a core some tenths of a second: one after the other, and at most so many. */
const KEYS_UNDER_WAY_MAX = 8;
/** Of one workspace, which may ask for more of them again and again. */
const KEYS_OF_ONE_MAX = 3;
const CHECKS_UNDER_WAY_MAX = 16;
/** Of one workspace, whose DNS may be made to answer slowly. */
const CHECKS_OF_ONE_MAX = 4;
/** Then the answer goes out, and DNS is asked on. */
const CHECK_MS_MAX = 1_000;

const Capability = Type.Optional(Type.Enum(["enabled", "disabled"]));
const offers = {
  open_tracking: Type.Optional(Type.Boolean({ description: "only false: opens are not tracked" })),
  click_tracking: Type.Optional(Type.Boolean({ description: "only false: clicks are not tracked" })),
  tls: Type.Optional(
    Type.Enum(["opportunistic", "enforced"], { description: "only `opportunistic`: the operator decides" }),
  ),
  capabilities: Type.Optional(Type.Object({ sending: Capability, receiving: Capability })),
};
const NewDomain = Type.Object(
  {
    name: Type.String({ description: "the part behind @ of senders; those below it are covered too" }),
    ...offers,
  },
  { $id: "NewDomain" },
);
const UpdateDomain = Type.Object(offers, { $id: "UpdateDomain" });
const checkNew = checker(NewDomain);
const checkUpdate = checker(UpdateDomain);

const RecordAnswer = shape("DnsRecord", {
  record: Type.Enum(["DKIM", "Ownership", "SPF", "DMARC", "Return-Path"]),
  type: Type.Enum(["TXT", "CNAME"]),
  name: Text,
  value: Text,
  ttl: Text,
  status: Type.Enum(["not_started", "pending", "verified", "failed", "temporary_failure"]),
});
const domainFields = {
  id: Id,
  name: Text,
  status: Type.Enum(["not_started", "pending", "partially_verified", "verified"]),
  created_at: Time,
  region: Type.Null(),
  capabilities: inner({ sending: Text, receiving: Text }),
  open_tracking: Type.Literal(false),
  click_tracking: Type.Literal(false),
};
/**
 * How a workspace comes to have a domain that may be another's: whose record is in DNS decides, and nothing
 * expires.
 */
const ClaimAnswer = shape("DomainClaim", {
  object: Type.Literal("domain_claim"),
  id: Id,
  name: Text,
  status: Type.Enum(["pending", "blocked", "completed"]),
  domain_id: Id,
  region: Type.Null(),
  record: inner({ type: Type.Literal("TXT"), name: Text, value: Text, ttl: Text }),
  blocked_reason: Type.Null(),
  failure_reason: orNull(Text),
  created_at: Time,
  expires_at: Type.Null(),
});
const NewDomainAnswer = shape("DomainMade", { ...domainFields, records: Type.Array(RecordAnswer) });
const DomainAnswer = shape("Domain", {
  object: Type.Literal("domain"),
  ...domainFields,
  records: Type.Array(RecordAnswer),
});

export type DomainParts = {
  reads: Sql;
  clock: Clock;
  serverSecret: string;
  dns: DomainDns;
  /** Copies of these workspaces are out of date. */
  onRaised(raised: readonly Raised[]): Promise<void>;
  onFault(error: unknown): void;
};

export function domainRoutes(parts: DomainParts): Route[] {
  const permissions = ["full"] as const;
  const domains = new Domains(parts);
  return [
    {
      method: "POST",
      path: PATH,
      permissions,
      summary: "Add a domain that the workspace writes from, with a new DKIM key",
      success: 201,
      request: NewDomain,
      answer: NewDomainAnswer,
      commits: true,
      handle: (call) => domains.create(call),
    },
    {
      method: "GET",
      path: PATH,
      permissions,
      summary: "List domains, newest first",
      success: 200,
      answer: listOf(shape("DomainItem", domainFields)),
      query: LIST_QUERY,
      handle: (call) => domains.list(call),
    },
    {
      method: "GET",
      path: `${PATH}/{id}`,
      permissions,
      summary: "Get a domain, with the DNS records to publish and what DNS showed of them",
      success: 200,
      answer: DomainAnswer,
      handle: (call) => domains.get(call),
    },
    {
      method: "POST",
      path: `${PATH}/{id}/verify`,
      permissions,
      summary: "Ask DNS for the records of a domain, and put to use what is there",
      success: 200,
      answer: told("domain"),
      handle: (call) => domains.verify(call),
    },
    {
      method: "POST",
      path: `${PATH}/claim`,
      permissions,
      summary:
        "Claim a domain that another workspace may have: adds it, and says which record proves ownership",
      success: 201,
      request: NewDomain,
      answer: ClaimAnswer,
      commits: true,
      handle: (call) => domains.claim(call),
    },
    {
      method: "GET",
      path: `${PATH}/{id}/claim`,
      permissions,
      summary: "Get the claim of a domain",
      success: 200,
      answer: ClaimAnswer,
      handle: (call) => domains.getClaim(call),
    },
    {
      method: "POST",
      path: `${PATH}/{id}/claim/verify`,
      permissions,
      summary: "Ask DNS for the record of a claim: who shows theirs alone gets the domain",
      success: 200,
      answer: ClaimAnswer,
      handle: (call) => domains.verifyClaim(call),
    },
    {
      method: "PATCH",
      path: `${PATH}/{id}`,
      permissions,
      summary: "Takes the settings of the official client; none of them changes anything here",
      success: 200,
      request: UpdateDomain,
      answer: told("domain"),
      handle: (call) => domains.update(call),
    },
    {
      method: "DELETE",
      path: `${PATH}/{id}`,
      permissions,
      summary: "Remove a domain and its keys: the workspace can no longer send from it",
      success: 200,
      answer: told("domain", { deleted: Type.Literal(true) }),
      handle: (call) => domains.remove(call),
    },
  ];
}

class Domains {
  readonly #parts: DomainParts;
  /** Whose keys are being made. */
  readonly #keysUnderWay: string[] = [];
  #lastKey: Promise<unknown> = Promise.resolve();
  readonly #checks = new Map<string, { workspaceId: string; check: Promise<void> }>();

  constructor(parts: DomainParts) {
    this.#parts = parts;
  }

  async create({ caller: { workspaceId }, body }: Call): Promise<Answer> {
    const domain = nameIn(body);
    const known = await findShownDomain(this.#parts.reads, workspaceId, { domain });
    if (known) throw taken(known);
    const made = await this.#add(workspaceId, domain);
    return { status: 201, body: JSON.stringify(await this.#whole(made)) };
  }

  async claim({ caller: { workspaceId }, body }: Call): Promise<Answer> {
    const domain = nameIn(body);
    const known = await findShownDomain(this.#parts.reads, workspaceId, { domain });
    return this.#showClaim(201, known ?? (await this.#add(workspaceId, domain)));
  }

  async getClaim(call: Call): Promise<Answer> {
    return this.#showClaim(200, await this.#find(call));
  }

  async verifyClaim(call: Call): Promise<Answer> {
    await atMost(CHECK_MS_MAX, this.#check(await this.#find(call)));
    return this.#showClaim(200, await this.#find(call));
  }

  async #showClaim(status: number, found: ShownDomain): Promise<Answer> {
    const owner = found.verifiedAt === null ? await ownerOf(this.#parts.reads, found.domain) : null;
    return { status, body: JSON.stringify(claimOf(found, owner !== null)) };
  }

  async #add(workspaceId: string, domain: string): Promise<ShownDomain> {
    const { reads } = this.#parts;
    if ((await countDomains(reads, workspaceId)) >= DOMAINS_MAX)
      throw refuse("validation_error", `A workspace has at most ${DOMAINS_MAX} domains. Remove one first.`);
    await this.#makeKey(workspaceId, domain);
    const made = await findShownDomain(reads, workspaceId, { domain });
    if (!made) throw unknownDomain();
    return made;
  }

  async #makeKey(workspaceId: string, domain: string): Promise<void> {
    const { reads, serverSecret, clock } = this.#parts;
    const ofOne = this.#keysUnderWay.filter((one) => one === workspaceId).length;
    if (this.#keysUnderWay.length >= KEYS_UNDER_WAY_MAX || ofOne >= KEYS_OF_ONE_MAX)
      throw new Unavailable("capacity", "too many keys are being made");
    this.#keysUnderWay.push(workspaceId);
    try {
      const made = this.#lastKey.then(() => makeKey("rsa"));
      this.#lastKey = made.catch(() => {});
      const privateKey = await made;
      const name = { workspaceId, domain, selector: newSelector() };
      const sealedKey = new Sealer(serverSecret).seal(name, privateKey);
      const key = {
        ...name,
        algorithm: privateKey.algorithm,
        publicKey: publicPartOf(privateKey),
        sealedKey,
      };
      // another request may have added the domain meanwhile: then its key stays
      await insertDomainKey(reads, key, "waiting", new Date(clock.now()));
    } finally {
      this.#keysUnderWay.splice(this.#keysUnderWay.indexOf(workspaceId), 1);
    }
  }

  async list({ caller, query }: Call): Promise<Answer> {
    const { reads } = this.#parts;
    const page = pageOf(query);
    const rows = await pageOfDomains(reads, caller.workspaceId, page);
    if (rows.length === 0) await expectHere(reads, caller.workspaceId);
    return { status: 200, body: envelope(rows, page, summary) };
  }

  async get(call: Call): Promise<Answer> {
    return {
      status: 200,
      body: JSON.stringify({ object: "domain", ...(await this.#whole(await this.#find(call))) }),
    };
  }

  async verify(call: Call): Promise<Answer> {
    const found = await this.#find(call);
    await atMost(CHECK_MS_MAX, this.#check(found));
    return answer((await this.#find(call)).id);
  }

  /** One at a time for each domain: whoever asks meanwhile waits for the one under way. */
  #check(found: ShownDomain): Promise<void> {
    const { workspaceId } = found;
    const name = workspaceId + found.domain;
    const known = this.#checks.get(name);
    if (known) return known.check;
    const ofOne = [...this.#checks.values()].filter((one) => one.workspaceId === workspaceId).length;
    if (this.#checks.size >= CHECKS_UNDER_WAY_MAX || ofOne >= CHECKS_OF_ONE_MAX)
      throw new Unavailable("capacity", "too many domains are being verified");
    const { reads, dns, clock, onRaised, onFault } = this.#parts;
    const check = verifyRecords(reads, dns, found, clock.now())
      .then(onRaised)
      .catch(onFault)
      .finally(() => this.#checks.delete(name));
    this.#checks.set(name, { workspaceId, check });
    return check;
  }

  async update(call: Call): Promise<Answer> {
    refuseOffers(checkUpdate(call.body));
    return answer((await this.#find(call)).id);
  }

  async remove(call: Call): Promise<Answer> {
    const { reads, clock, onRaised } = this.#parts;
    const { workspaceId, domain, id } = await this.#find(call);
    const raised = await forgetDomain(reads, workspaceId, domain, new Date(clock.now()));
    // somebody else was faster, or the workspace has left for another cell
    if (raised.length === 0) throw unknownDomain();
    await onRaised(raised);
    return { status: 200, body: JSON.stringify({ object: "domain", id, deleted: true }) };
  }

  async #find({ caller, params }: Call): Promise<ShownDomain> {
    const id = params[0] ?? "";
    if (!isUuid(id)) throw refuse("invalid_parameter", "The `id` of a domain must be a UUID.");
    const found = await findShownDomain(this.#parts.reads, caller.workspaceId, { id: id.toLowerCase() });
    if (!found) throw unknownDomain();
    return found;
  }

  async #whole(found: ShownDomain) {
    const keys = await listDomainKeys(this.#parts.reads, found.workspaceId, found.domain);
    const bounceDomain = this.#parts.dns.returnPaths?.bounceDomain ?? null;
    const records = recordsOf(found, keys, bounceDomain).map((record) => ({
      ...record,
      ttl: "Auto",
      status: found.seen[record.name] ?? (found.seenAt === null ? "not_started" : "pending"),
    }));
    return { ...summary(found), records };
  }
}

/** The domain that a request adds. */
function nameIn(body: Call["body"]): string {
  const { name, ...asked } = checkNew(body);
  refuseOffers(asked);
  const domain = readDomain(name);
  if (domain === null)
    throw refuse("validation_error", "The `name` field must be a domain, such as `example.com`.");
  return domain;
}

/** `isAnothers`: another workspace has it verified. */
function claimOf(found: ShownDomain, isAnothers: boolean) {
  const { id, domain, verifiedAt, createdAt } = found;
  const name = ownershipName(domain);
  const isBlocked = isAnothers && found.seen[name] === "verified";
  return {
    ...{ object: "domain_claim", id, name: domain, domain_id: id, region: null },
    status: verifiedAt !== null ? "completed" : isBlocked ? "blocked" : "pending",
    record: { type: "TXT", name, value: ownershipText(found), ttl: "Auto" },
    blocked_reason: null,
    failure_reason: isBlocked
      ? "Another workspace has this domain, and its own record is in DNS too. Remove that record, and verify again."
      : null,
    created_at: iso(createdAt),
    expires_at: null,
  };
}

type Offers = {
  open_tracking?: boolean;
  click_tracking?: boolean;
  tls?: string;
  capabilities?: { sending?: string; receiving?: string };
};

function refuseOffers({ open_tracking, click_tracking, tls, capabilities }: Offers): void {
  const no = (field: string, why: string) =>
    refuse("validation_error", `The \`${field}\` field cannot have this value: ${why}.`);
  if (open_tracking) throw no("open_tracking", "this engine does not track opens");
  if (click_tracking) throw no("click_tracking", "this engine does not track clicks");
  if (tls === "enforced") throw no("tls", "the operator decides for all mail");
  if (capabilities?.receiving === "enabled")
    throw no("capabilities.receiving", "this engine receives no e-mail");
  if (capabilities?.sending === "disabled")
    throw no("capabilities.sending", "to stop sending from it, remove the domain");
}

function taken({ domain, id }: ShownDomain): Refusal {
  return refuse("validation_error", `The domain \`${domain}\` was added before; its id is \`${id}\`.`);
}

function unknownDomain(): Refusal {
  return refuse("not_found", "There is no domain with this id.");
}

function answer(id: string): Answer {
  return { status: 200, body: JSON.stringify({ object: "domain", id }) };
}

/** Verified domains whose mail is not signed yet are so in part. */
function statusOf({ verifiedAt, seenAt, isSigned }: ShownDomain): string {
  if (verifiedAt !== null) return isSigned ? "verified" : "partially_verified";
  return seenAt === null ? "not_started" : "pending";
}

function summary(found: ShownDomain) {
  const { id, domain, createdAt } = found;
  return {
    id,
    name: domain,
    status: statusOf(found),
    created_at: iso(createdAt),
    region: null,
    capabilities: { sending: "enabled", receiving: "disabled" },
    open_tracking: false,
    click_tracking: false,
  };
}
