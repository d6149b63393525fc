/**
 * The shaping file: how fast and from where mail goes to which receiver, each field with what it means.
 * Promises that a `ShapingRules` in hand is complete and makes sense as a whole; a file that does not is
 * refused with the path of the field and what to do. ops/shaping.json is the set that is shipped,
 * ops/shaping.schema.json the schema for editors.
 *
 * Replies are matched by phrases, never by regular expressions: a search takes time in proportion to the
 * reply, whoever wrote the file.
 */
import { isIP } from "node:net";
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";
import { fileFault, patterned } from "../schemafault.ts";

const FILE_CHARS_MAX = 1_000_000;
const RULES_MAX = 500;
const NAMES_MAX = 1_000;
const PHRASES_MAX = 50;
const PHRASE_CHARS_MAX = 200;
/** Of all rules: each refusal is searched for all of them, which takes 10 ms at the very worst. */
const PHRASES_CHARS_MAX = 20_000;
const MINUTES_MAX = 10_080;
const MESSAGES_MAX = 1_000_000_000;

const strict = { additionalProperties: false };
const described = (description: string) => ({ ...strict, description });

const NAME = "^[a-z0-9][a-z0-9-]{0,62}$";
const HOST = "^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$";
const name = (description: string) =>
  patterned(NAME, "a name of small letters, digits and -, at most 63", { description });
const host = (description: string) =>
  patterned(HOST, "a host name or domain in small letters", { description });
const most = (maximum: number, description: string) => Type.Integer({ minimum: 0, maximum, description });
const listOf = <T extends Type.TSchema>(items: T, maxItems: number, description: string) =>
  Type.Array(items, { minItems: 1, maxItems, description });
const minutes = (description: string) => Type.Integer({ minimum: 1, maximum: MINUTES_MAX, description });
const namedBy = <T extends Type.TSchema>(values: T, description: string) =>
  Type.Record(Type.String({ pattern: NAME }), values, {
    ...described(description),
    maxProperties: NAMES_MAX,
  });

const Provider = Type.Object(
  {
    mx: listOf(
      host("Mail hosts of the provider: this name and every name below it."),
      NAMES_MAX,
      "A receiver is of the provider when all of its MX hosts are.",
    ),
    domains: Type.Optional(
      listOf(
        host("A domain."),
        NAMES_MAX,
        "Domains of which the provider itself runs the mailboxes. Only replies about them can suspend or slow down the whole provider: others may be worded by a customer.",
      ),
    ),
  },
  described("A provider of mailboxes."),
);

const Source = Type.Object(
  {
    address: Type.String({ description: "The local IP address." }),
    ehlo: Type.Optional(
      host("The name sent in EHLO, as in the PTR record of the address; default: EHLO_NAME."),
    ),
    since: Type.Optional(
      patterned("^\\d{4}-\\d{2}-\\d{2}$", "a date such as 2026-11-30", {
        description: "The first UTC day on which mail leaves from it: day 0 of warm-up curves.",
      }),
    ),
  },
  described("A source address."),
);

const Match = Type.Object(
  {
    provider: Type.Optional(
      listOf(name("A name in `providers`."), NAMES_MAX, "Receivers of these providers."),
    ),
    mx: Type.Optional(
      listOf(
        host("This host and every host below it."),
        NAMES_MAX,
        "Receivers whose MX hosts are all among these.",
      ),
    ),
    domain: Type.Optional(
      listOf(
        host("A domain."),
        NAMES_MAX,
        "Mail to recipients at these domains; it gets connections of its own.",
      ),
    ),
    source: Type.Optional(
      listOf(name("A name in `sources`."), NAMES_MAX, "Mail that leaves from these addresses."),
    ),
  },
  described("What the rule is about. All that is named must hold; without any, it is about all mail."),
);

const Action = Type.Union(
  [
    Type.Object(
      { suspend_minutes: minutes("For how long.") },
      described("Nothing is sent there, from no source address."),
    ),
    Type.Object(
      { rotate_minutes: minutes("For how long.") },
      described(
        "Nothing is sent there from this source address: mail leaves from others of its pool, or waits.",
      ),
    ),
    Type.Object(
      {
        slow_down: Type.Object(
          {
            factor: Type.Number({
              minimum: 0.01,
              maximum: 0.99,
              description:
                "What connections and rates are multiplied by; once more, when it happens again a minute later.",
            }),
            minutes: minutes("For how long."),
          },
          strict,
        ),
      },
      described("Mail from this source address goes there more slowly."),
    ),
  ],
  { description: "What is done." },
);

const OnReply = Type.Object(
  {
    code: Type.Optional(
      listOf(
        Type.Integer({ minimum: 400, maximum: 599 }),
        PHRASES_MAX,
        "SMTP codes: one of them must be the reply's.",
      ),
    ),
    enhanced: Type.Optional(
      listOf(
        patterned("^[45]\\.\\d{1,3}\\.\\d{1,3}$", "an enhanced status code such as 4.7.28"),
        PHRASES_MAX,
        "Enhanced status codes: one of them must be the reply's.",
      ),
    ),
    words: Type.Optional(
      listOf(
        Type.String({ minLength: 3, maxLength: PHRASE_CHARS_MAX }),
        PHRASES_MAX,
        "Phrases: one of them must be in the reply; letter case does not matter.",
      ),
    ),
    do: Action,
  },
  described("What is done when a receiver answers so. All that is named must hold."),
);

const Rule = Type.Object(
  {
    description: Type.Optional(Type.String({ description: "What the rule is for." })),
    match: Match,
    connections: Type.Optional(most(10_000, "Connections at the same time. 0: no limit.")),
    messages_per_connection: Type.Optional(most(MESSAGES_MAX, "Messages over one connection. 0: no limit.")),
    messages_per_second: Type.Optional(most(MESSAGES_MAX, "Messages in any second. 0: no limit.")),
    messages_per_minute: Type.Optional(most(MESSAGES_MAX, "Messages in any minute. 0: no limit.")),
    messages_per_hour: Type.Optional(most(MESSAGES_MAX, "Messages in any hour. 0: no limit.")),
    recipients_per_message: Type.Optional(most(1_000, "Recipients of one message. 0: no limit.")),
    tls: Type.Optional(
      Type.Union(
        [
          Type.Literal("opportunistic"),
          Type.Literal("required"),
          Type.Literal("verified"),
          Type.Literal("off"),
        ],
        {
          description:
            "STARTTLS when offered, always, always with a valid certificate, or never; default: SMTP_TLS. A policy of the receiver's own is obeyed besides.",
        },
      ),
    ),
    warm_up: Type.Optional(
      Type.Union([name("A name in `warm_up`."), Type.Null()], {
        description: "How many messages a day a new source address sends there; null: no curve.",
      }),
    ),
    count: Type.Optional(
      Type.Union([Type.Literal("together"), Type.Literal("by_receiver")], {
        description:
          "Whether the limits of a rule about a provider hold for all of its receivers together (the default) or for each.",
      }),
    ),
    on_reply: Type.Optional(
      listOf(
        OnReply,
        PHRASES_MAX,
        "Automatic rules; those of all rules that match are asked, the first that fits acts.",
      ),
    ),
  },
  described("Limits are fleet-wide, for each source address."),
);

export const ShapingFile = Type.Object(
  {
    $schema: Type.Optional(Type.String({ description: "For editors: ./shaping.schema.json." })),
    description: Type.Optional(Type.String({ description: "What this file is for." })),
    providers: Type.Optional(namedBy(Provider, "Providers of mailboxes, by names of your choice.")),
    sources: Type.Optional(
      namedBy(Source, "Source addresses, by names of your choice; default: DIRECT_SOURCE_ADDRESS alone."),
    ),
    pools: Type.Optional(
      namedBy(
        listOf(name("A name in `sources`."), NAMES_MAX, "Its source addresses."),
        "Pools of source addresses; the pool `default` is used where `use` names none, by default all sources.",
      ),
    ),
    use: Type.Optional(
      Type.Array(
        Type.Object(
          {
            workspace: Type.Optional(
              patterned(
                "^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
                "a workspace's id in small letters",
                {
                  description: "Mail of this workspace.",
                },
              ),
            ),
            stream: Type.Optional(
              patterned("^[a-z0-9-]{1,32}$", "the name of a stream", {
                description:
                  "Mail of this stream: `transactional`, `bulk` (mail of automations is) or one that workspaces define.",
              }),
            ),
            pool: name("A name in `pools`."),
          },
          strict,
        ),
        {
          maxItems: 10_000,
          description: "Which mail leaves from which pool; the last that matches decides.",
        },
      ),
    ),
    warm_up: Type.Optional(
      namedBy(
        listOf(
          Type.Integer({ minimum: 1, maximum: MESSAGES_MAX }),
          400,
          "Messages on day 0, 1, 2 ...; then no limit.",
        ),
        "Warm-up curves.",
      ),
    ),
    rules: Type.Array(Rule, {
      maxItems: RULES_MAX,
      description: "Of several rules that match, the last that sets a field decides it.",
    }),
  },
  { ...strict, title: "Postrider shaping rules" },
);

export type ShapingRules = Static<typeof ShapingFile>;
export type ShapingRule = Static<typeof Rule>;
export type ReplyRule = Static<typeof OnReply>;
export type TlsWish = NonNullable<ShapingRule["tls"]>;

const compiled = Compile(ShapingFile);

/** The rules, or an Error that names the field and the reason. */
export function readShaping(text: string): ShapingRules {
  if (text.length > FILE_CHARS_MAX)
    throw new Error(`The shaping file has over ${FILE_CHARS_MAX} characters.`);
  const json: unknown = JSON.parse(text);
  if (!compiled.Check(json)) throw new Error(fileFault(compiled.Errors(json), ShapingFile, "shaping file"));
  const rules = json as ShapingRules;
  const wrong = contradiction(rules);
  if (wrong) throw new Error(wrong);
  return rules;
}

/** What no single field shows: every name that is used is defined. */
function contradiction({ providers, sources, pools, use, warm_up, rules }: ShapingRules): string | null {
  const unknown = (path: string, names: readonly string[], table: object | undefined, place: string) => {
    const one = names.find((name) => !Object.hasOwn(table ?? {}, name));
    return one === undefined
      ? null
      : `\`${path}\` names \`${one}\`, which \`${place}\` does not have. Add it there.`;
  };
  for (const [name, { address }] of Object.entries(sources ?? {}))
    if (isIP(address) === 0) return `\`sources.${name}.address\` must be an IP address.`;
  for (const [name, members] of Object.entries(pools ?? {})) {
    const wrong = unknown(`pools.${name}`, members, sources, "sources");
    if (wrong) return wrong;
  }
  for (const [n, { pool }] of (use ?? []).entries()) {
    const wrong = unknown(`use.${n}.pool`, [pool], pools, "pools");
    if (wrong) return wrong;
  }
  const phrases = rules.flatMap(({ on_reply = [] }) => on_reply.flatMap(({ words = [] }) => words));
  if (phrases.join("").length > PHRASES_CHARS_MAX)
    return `All \`words\` of \`rules\` together must have at most ${PHRASES_CHARS_MAX} characters.`;
  for (const [n, rule] of rules.entries()) {
    const { match, warm_up: curve, on_reply = [] } = rule;
    const wrong =
      unknown(`rules.${n}.match.provider`, match.provider ?? [], providers, "providers") ??
      unknown(`rules.${n}.match.source`, match.source ?? [], sources, "sources") ??
      unknown(`rules.${n}.warm_up`, curve ? [curve] : [], warm_up, "warm_up");
    if (wrong) return wrong;
    const vague = on_reply.findIndex(({ code, enhanced, words }) => !code && !enhanced && !words);
    if (vague >= 0) return `\`rules.${n}.on_reply.${vague}\` must name \`code\`, \`enhanced\` or \`words\`.`;
  }
  return null;
}
