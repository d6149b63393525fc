/**
 * Streams: what a workspace sends, by what it is. `transactional` and `bulk` are there without being defined;
 * a workspace defines others, each as one of these two kinds.
 */

/** Of an e-mail: its kind, and its name where that is not the name of the kind. */
export type MailStream = { readonly bulk: boolean; readonly stream: string };

/**
 * As a workspace defines it. `gone`: deleted; its name keeps its kind, since mail of it may still be there.
 */
export type StreamDefinition = {
  bulk: boolean;
  /** Of the caps, or for bulk mail of its part of them: kept free of other streams. */
  reserved_share: number;
  /** Source addresses that its mail leaves from; null: as the shaping file says. */
  pool: string | null;
  gone?: true;
};
export type StreamDefinitions = Readonly<Record<string, StreamDefinition>>;

/** What holds of a stream: shares of the caps. `most` of 0: it is paused. */
export type StreamLimit = { bulk: boolean; reserved: number; most: number };
export type StreamLimits = Readonly<Record<string, StreamLimit>>;
/** The shares of streams that are held back, as the policy sets them; others may use all. */
export type StreamShares = Readonly<Record<string, number>>;

export const TRANSACTIONAL = "transactional";
export const BULK = "bulk";
export const TRANSACTIONAL_STREAM: MailStream = { bulk: false, stream: "" };
export const BULK_STREAM: MailStream = { bulk: true, stream: "" };

const NAME = /^[a-z0-9-]{1,32}$/;
/** Of all names, deleted ones included. */
export const STREAMS_MAX = 50;
/** All streams of a workspace together. */
export const RESERVED_SHARES_MAX = 0.5;

export function isStreamName(text: string): boolean {
  // no field that every object has
  return NAME.test(text) && !(text in {});
}

export function isBuiltIn(name: string): boolean {
  return name === TRANSACTIONAL || name === BULK;
}

/** What is wrong with these definitions together; null: nothing. */
export function contradictionIn(definitions: StreamDefinitions): string | null {
  const all = Object.values(definitions);
  if (all.length > STREAMS_MAX)
    return `A workspace can have up to ${STREAMS_MAX} streams; names of deleted ones count.`;
  const reserved = all.reduce((sum, { reserved_share, gone }) => sum + (gone ? 0 : reserved_share), 0);
  return reserved > RESERVED_SHARES_MAX
    ? `The reserved shares of all streams together can be up to ${RESERVED_SHARES_MAX}, not ${reserved}.`
    : null;
}

/** `known`: as `limitsText` writes it. null: the workspace has no such stream. */
export function streamNamed(name: string, known: string): MailStream | null {
  if (name === TRANSACTIONAL) return TRANSACTIONAL_STREAM;
  if (name === BULK) return BULK_STREAM;
  const one = known.split(" ").find((text) => text.startsWith(`${name}:`));
  return one === undefined ? null : { bulk: one.charAt(name.length + 1) === "1", stream: name };
}

export function isDefined(name: string, definitions: StreamDefinitions): boolean {
  return Object.hasOwn(definitions, name) && definitions[name]?.gone !== true;
}

export function nameOfStream({ bulk, stream }: MailStream): string {
  return stream || (bulk ? BULK : TRANSACTIONAL);
}

/** undefined: nothing holds of single streams. */
export function streamLimits(definitions: StreamDefinitions, shares: StreamShares): StreamLimits | undefined {
  const limits: Record<string, StreamLimit> = {};
  for (const [name, { bulk, reserved_share, gone }] of Object.entries(definitions))
    if (!gone) limits[name] = { bulk, reserved: reserved_share, most: shares[name] ?? 1 };
  const bulkMost = shares[BULK] ?? 1;
  if (bulkMost < 1) limits[BULK] = { bulk: true, reserved: 0, most: bulkMost };
  return Object.keys(limits).length > 0 ? limits : undefined;
}

/** For Redis, which knows nothing of JSON here. */
export function limitsText(limits: StreamLimits | undefined): string {
  if (limits === undefined) return "";
  return Object.entries(limits)
    .map(([name, { bulk, reserved, most }]) => `${name}:${bulk ? 1 : 0}:${reserved}:${most}`)
    .join(" ");
}
