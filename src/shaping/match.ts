/**
 * What the shaping file says about one receiver and one source address. Decides, and does nothing.
 *
 * A receiver counts as a provider's only when every one of its MX hosts does: whoever adds a host of a
 * provider to his own gets neither its limits nor a say in its suspension.
 */
import { DAY_MS } from "../clock.ts";
import type { Reply } from "../smtp/reply.ts";
import type { ReplyRule, ShapingRule, ShapingRules, TlsWish } from "./file.ts";

/** Where mail leaves from. Without a shaping file there is one, without a name. */
export type SourceAddress = {
  readonly name: string;
  /** null: chosen by the system. */
  readonly address: string | null;
  /** null: as everywhere. */
  readonly helo: string | null;
  /** Its first day, in days since 1970; null: not new. */
  readonly since: number | null;
};

/** The hosts that take the mail of a domain; a smarthost takes that of all (null). */
export type MailReceiver = { readonly hosts: readonly string[]; readonly domain: string | null };

/** So many messages in any span of time so long. */
export type RateLimit = { readonly most: number; readonly ms: number };

/** Zero: no limit. */
export type Shape = {
  /** The limits are counted under this name; null: for this receiver alone. */
  readonly countedAs: string | null;
  /** The receiver's mail does not share its connections with other domains. */
  readonly isOfDomain: boolean;
  readonly provider: string | null;
  readonly connections: number;
  readonly messagesPerConnection: number;
  readonly recipientsPerMessage: number;
  readonly rates: readonly RateLimit[];
  readonly warmUp: readonly number[] | null;
  /** null: as SMTP_TLS says. */
  readonly tls: TlsWish | null;
  readonly onReply: readonly ReplyRule[];
};

/** Whose mail it is, of which stream, and the pool that the stream names. */
export type PoolWish = {
  readonly workspaceId: string;
  readonly stream: string;
  readonly pool: string | null;
};

export const NO_SHAPE: Shape = {
  countedAs: null,
  isOfDomain: false,
  provider: null,
  connections: 0,
  messagesPerConnection: 0,
  recipientsPerMessage: 0,
  rates: [],
  warmUp: null,
  tls: null,
  onReply: [],
};

const SPANS = [
  ["messages_per_second", 1_000],
  ["messages_per_minute", 60_000],
  ["messages_per_hour", 3_600_000],
] as const;
const DEFAULT_POOL = "default";

export class Shaper {
  readonly #rules: ShapingRules;
  readonly #sources: ReadonlyMap<string, SourceAddress>;
  readonly #pools = new Map<string, readonly SourceAddress[]>();
  readonly #everySource: readonly SourceAddress[];

  constructor(rules: ShapingRules, ownSource: SourceAddress) {
    this.#rules = rules;
    this.#sources = new Map(
      Object.entries(rules.sources ?? {}).map(([name, { address, ehlo = null, since }]) => [
        name,
        { name, address, helo: ehlo, since: since === undefined ? null : Date.parse(since) / DAY_MS },
      ]),
    );
    this.#everySource = this.#sources.size > 0 ? [...this.#sources.values()] : [ownSource];
    for (const [name, members] of Object.entries(rules.pools ?? {}))
      this.#pools.set(
        name,
        members.map((one) => this.#sources.get(one) as SourceAddress),
      );
  }

  get sources(): readonly SourceAddress[] {
    return this.#everySource;
  }

  /**
   * The addresses from which this mail may leave. A pool that the file does not have is as if none were
   * named.
   */
  poolOf({ workspaceId, stream, pool }: PoolWish): readonly SourceAddress[] {
    const ownPool = pool === null ? undefined : this.#pools.get(pool);
    if (ownPool) return ownPool;
    const use = this.#rules.use?.findLast(
      (one) =>
        (one.workspace === undefined || one.workspace === workspaceId) &&
        (one.stream === undefined || one.stream === stream),
    );
    return this.#pools.get(use?.pool ?? DEFAULT_POOL) ?? this.#everySource;
  }

  providerOf(hosts: readonly string[]): string | null {
    const providers = Object.entries(this.#rules.providers ?? {});
    return providers.find(([, { mx }]) => areAllBelow(hosts, mx))?.[0] ?? null;
  }

  /** Whether the provider itself words what is answered about mail to the domain. */
  runs(provider: string, domain: string): boolean {
    return this.#rules.providers?.[provider]?.domains?.includes(domain) ?? false;
  }

  shapeOf({ hosts, domain }: MailReceiver, source: SourceAddress): Shape {
    const provider = this.providerOf(hosts);
    const matching = this.#rules.rules.filter(
      ({ match }) =>
        (match.provider === undefined || (provider !== null && match.provider.includes(provider))) &&
        (match.mx === undefined || areAllBelow(hosts, match.mx)) &&
        (match.domain === undefined || (domain !== null && match.domain.includes(domain))) &&
        (match.source === undefined || match.source.includes(source.name)),
    );
    const last = <Field extends keyof ShapingRule>(field: Field) =>
      matching.findLast((rule) => rule[field] !== undefined)?.[field];
    const curve = last("warm_up");
    const isOfDomain = matching.some(({ match }) => match.domain !== undefined);
    return {
      countedAs: countedAs(matching, provider, isOfDomain ? domain : null),
      isOfDomain,
      provider,
      connections: last("connections") ?? 0,
      messagesPerConnection: last("messages_per_connection") ?? 0,
      recipientsPerMessage: last("recipients_per_message") ?? 0,
      rates: SPANS.flatMap(([field, ms]) => {
        const most = last(field) ?? 0;
        return most > 0 ? [{ most, ms }] : [];
      }),
      warmUp: curve ? (this.#rules.warm_up?.[curve] ?? null) : null,
      tls: last("tls") ?? null,
      onReply: matching.flatMap(({ on_reply = [] }) => on_reply.map(inSmallLetters)),
    };
  }
}

function inSmallLetters(rule: ReplyRule): ReplyRule {
  return rule.words === undefined
    ? rule
    : { ...rule, words: rule.words.map((phrase) => phrase.toLowerCase()) };
}

/** By what the last rule with a limit is about: a domain, a provider as a whole, or each receiver. */
function countedAs(
  matching: readonly ShapingRule[],
  provider: string | null,
  domain: string | null,
): string | null {
  if (domain !== null) return `domain ${domain}`;
  const limiting = matching.findLast((rule) => LIMITS.some((field) => rule[field] !== undefined));
  const isTogether = limiting?.match.provider !== undefined && limiting.count !== "by_receiver";
  return isTogether && provider !== null ? `provider ${provider}` : null;
}

const LIMITS = [
  "connections",
  "messages_per_second",
  "messages_per_minute",
  "messages_per_hour",
  "warm_up",
] as const;

function areAllBelow(hosts: readonly string[], names: readonly string[]): boolean {
  return hosts.length > 0 && hosts.every((host) => names.some((name) => isBelow(host, name)));
}

function isBelow(host: string, name: string): boolean {
  return host === name || host.endsWith(`.${name}`);
}

/** The rates that hold on a day: those of the file, and that of the warm-up of a new source address. */
export function ratesOn(
  day: number,
  { rates, warmUp }: Shape,
  { since }: SourceAddress,
): readonly RateLimit[] {
  if (warmUp === null || since === null) return rates;
  const most = day < since ? 0 : warmUp[day - since];
  return most === undefined ? rates : [...rates, { most, ms: DAY_MS }];
}

/** The first rule that fits a refusal; null: none. Phrases are in small letters. */
export function ruleFor(reply: Reply, rules: readonly ReplyRule[]): ReplyRule | null {
  if (rules.length === 0 || reply.code === null || reply.code < 400) return null;
  const text = reply.text.toLowerCase();
  const rule = rules.find(
    ({ code, enhanced, words }) =>
      (code === undefined || code.includes(reply.code as number)) &&
      (enhanced === undefined || (reply.enhanced !== null && enhanced.includes(reply.enhanced))) &&
      (words === undefined || words.some((phrase) => text.includes(phrase))),
  );
  return rule ?? null;
}
