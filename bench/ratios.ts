/**
 * What one scenario's figures mean beside another's of the same run: ours against floors and peers. A ratio
 * appears when both were measured.
 */

import { type Figure, figure } from "./figure.ts";
import { BATCH_EMAILS } from "./mails.ts";

const SECOND_HALF = "e-mails of the second half";

type Look = (scenario: string, name: string) => number | null;

const RATIOS: { name: string; wanted: string; of(look: Look): number | null }[] = [
  {
    name: "deliver against Postfix",
    wanted: "at least 8",
    of: (look) => over(look("deliver", "e-mails"), look("peers", "Postfix: end to end")),
  },
  {
    name: "deliver against Postfix, the second half",
    wanted: "",
    of: (look) => over(look("deliver", SECOND_HALF), look("peers", "Postfix: end to end, the second half")),
  },
  {
    name: "deliver against Haraka",
    wanted: "",
    of: (look) => over(look("deliver", "e-mails"), look("peers", "Haraka: end to end")),
  },
  {
    name: "deliver against Haraka, the second half",
    wanted: "",
    of: (look) => over(look("deliver", SECOND_HALF), look("peers", "Haraka: end to end, the second half")),
  },
  {
    name: "deliver against the usual stack",
    wanted: "at least 5",
    of: (look) => over(look("deliver", "e-mails"), look("peers", "usual: end to end")),
  },
  {
    name: "deliver against the usual stack, the second half",
    wanted: "",
    of: (look) => over(look("deliver", SECOND_HALF), look("peers", "usual: end to end, the second half")),
  },
  {
    name: "deliver against its floors in a row",
    wanted: "at least 0.5",
    of: (look) => over(look("deliver", "e-mails"), floorOfDelivery(look)),
  },
  {
    name: "signed against bare signatures",
    wanted: "",
    of: (look) => over(look("signed", "e-mails"), look("floor", "RSA-2048 signatures")),
  },
  {
    name: "signed against its floors in a row",
    wanted: "",
    of: (look) => over(look("signed", "e-mails"), floorOfSigned(look)),
  },
  {
    name: "direct against deliver",
    wanted: "",
    of: (look) => over(look("direct", "e-mails"), look("deliver", "e-mails")),
  },
  {
    name: "CPU of direct against deliver",
    wanted: "",
    of: (look) =>
      over(look("direct", "CPU per thousand e-mails"), look("deliver", "CPU per thousand e-mails")),
  },
  {
    name: "deliver with webhooks against deliver",
    wanted: "at least 0.9",
    of: (look) => over(look("webhooks", "e-mails"), look("deliver", "e-mails")),
  },
  {
    name: "accept against the floor of inserts",
    wanted: "at least 0.5",
    of: (look) => over(look("accept", "e-mails in batches"), look("floor", "rows by unnest")),
  },
  {
    name: "CPU of Postfix against deliver",
    wanted: "",
    of: (look) =>
      over(look("peers", "Postfix: CPU per thousand e-mails"), look("deliver", "CPU per thousand e-mails")),
  },
  {
    name: "CPU of the usual stack against deliver",
    wanted: "",
    of: (look) =>
      over(look("peers", "usual: CPU per thousand e-mails"), look("deliver", "CPU per thousand e-mails")),
  },
];

/** These two also tell how fast the machine is, where a scenario has no floor of its own. */
export const DELIVERY_FLOOR = "floors of delivery in a row";
export const CPU_FLOOR = "CPU per request with one EVALSHA";
export const FLOORS_OF_DELIVERY: { name: string; emails: number }[] = [
  { name: "requests with one EVALSHA", emails: BATCH_EMAILS },
  { name: "rows by unnest", emails: 1 },
  { name: "jobs through BullMQ", emails: BATCH_EMAILS },
  { name: "messages by pipelined SMTP", emails: 1 },
];

/**
 * E-mails/s of a path that does nothing but its stages' bare work, one after the other: 1 / sum(1 / floor).
 */
function floorOfDelivery(look: Look): number | null {
  let secondsPerEmail = 0;
  for (const { name, emails } of FLOORS_OF_DELIVERY) {
    const perSecond = look("floor", name);
    if (!perSecond) return null;
    secondsPerEmail += 1 / (perSecond * emails);
  }
  return 1 / secondsPerEmail;
}

/** The same with a signature on each e-mail. */
function floorOfSigned(look: Look): number | null {
  const [unsigned, signatures] = [floorOfDelivery(look), look("floor", "RSA-2048 signatures")];
  return unsigned && signatures ? 1 / (1 / unsigned + 1 / signatures) : null;
}

export type Measured = Figure & { scenario: string };

/** Of one round. */
export function ratiosOf(round: readonly Measured[]): Figure[] {
  const look: Look = (scenario, name) =>
    round.find((one) => one.scenario === scenario && one.name === name)?.value ?? null;
  const floor = floorOfDelivery(look);
  return [
    ...(floor === null ? [] : [figure(DELIVERY_FLOOR, floor, "/s")]),
    ...RATIOS.flatMap(({ name, wanted, of }) => {
      const ratio = of(look);
      return ratio === null ? [] : [figure(name, ratio, "x", wanted)];
    }),
  ];
}

function over(ours: number | null, theirs: number | null): number | null {
  return ours === null || !theirs ? null : ours / theirs;
}
