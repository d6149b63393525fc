/**
 * What is told of a campaign: lines while it runs, the violations with their evidence, and one line at the
 * end.
 */
import type { Verdict } from "./audit.ts";
import type { History, Violation } from "./history.ts";
import { clockOf } from "./rules/repeats.ts";

const SHOWN_MAX = 12;
const EVIDENCE_MAX = 6;
const LINE_CHARS_MAX = 300;

export class Teller {
  readonly #beganAt = Date.now();

  readonly tell = (line: string): void => {
    const now = Date.now();
    const seconds = ((now - this.#beganAt) / 1000).toFixed(1).padStart(6);
    process.stdout.write(`${clockOf(now)} ${seconds} s  ${line}\n`);
  };
}

export function progressOf({ operations, copies, lives }: History, open: string): string {
  const counts = { accepted: 0, refused: 0, unavailable: 0, unknown: 0 };
  for (const { tries } of operations)
    for (const { answer } of tries) {
      if (answer.kind !== "answered" || answer.status === 500) counts.unknown++;
      else if (answer.status < 300) counts.accepted++;
      else if (answer.status === 503) counts.unavailable++;
      else counts.refused++;
    }
  const { accepted, refused, unavailable, unknown } = counts;
  return `${operations.length} operations: ${accepted} answers 2xx, ${refused} 4xx, ${unavailable} 503, ${unknown} unknown; ${copies.length} copies at the sink; ${lives.length} lives; ${open}`;
}

export function movesOf({ moves }: History): string {
  const runs = moves.reduce((sum, move) => sum + move.runs, 0);
  const pauses = moves.flatMap(({ pauseMs }) => pauseMs ?? []).sort((a, b) => a - b);
  return `${moves.length} moves with ${runs} runs of the command; pauses of ${pauses.join(", ")} ms`;
}

export function tellVerdict(verdict: Verdict, tell: (line: string) => void): void {
  const causes = new Map<string, number>();
  for (const { cause } of verdict.repeats) {
    const kind = cause?.split(":")[0] ?? "no permitted cause";
    causes.set(kind, (causes.get(kind) ?? 0) + 1);
  }
  for (const { emailId, recipient, cause } of verdict.repeats
    .filter((one) => one.cause !== null)
    .slice(0, SHOWN_MAX))
    tell(`repeated, permitted: ${emailId} to ${recipient}: ${cause}`);
  for (const [kind, count] of causes) tell(`repeated ${count} times: ${kind}`);
  const byRule = new Map<string, Violation[]>();
  for (const violation of verdict.violations)
    byRule.set(violation.rule, [...(byRule.get(violation.rule) ?? []), violation]);
  for (const [rule, some] of byRule) {
    tell(`VIOLATED ${some.length} times: ${rule}`);
    for (const { subject, what, evidence } of some.slice(0, SHOWN_MAX)) {
      tell(`  ${subject}: ${what}`);
      for (const line of evidence.slice(0, EVIDENCE_MAX)) tell(`      ${line.slice(0, LINE_CHARS_MAX)}`);
    }
    if (some.length > SHOWN_MAX) tell(`  and ${some.length - SHOWN_MAX} more`);
  }
}

/** The last line: scripts read it. */
export function summaryOf({ lost, overQuota, overCap, repeats }: Verdict): string {
  return `lost ${lost}, over quota ${overQuota}, over cap ${overCap}, repeated ${repeats.length}`;
}
