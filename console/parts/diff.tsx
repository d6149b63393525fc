/** Two texts, line by line: what is gone and what is new. */
import { useMemo } from "preact/hooks";

type Line = { kind: "same" | "gone" | "new"; text: string };
const AROUND = 2;
/** The table of the comparison has a cell for each pair of lines. */
const LINES_MAX = 2_000;

export function Diff({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => near(compare(before.split("\n"), after.split("\n"))), [before, after]);
  if (lines.every((line) => line?.kind === "same")) return <p class="muted">They are the same.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section class="diff" tabIndex={0} aria-label="Differences">
      {lines.map((line, n) => {
        if (line === null) return <span key={n}>…</span>;
        if (line.kind === "gone") return <del key={n}>- {line.text}</del>;
        if (line.kind === "new") return <ins key={n}>+ {line.text}</ins>;
        return <span key={n}>{`  ${line.text}`}</span>;
      })}
    </section>
  );
}

/** By the longest common subsequence, between the ends that are the same. */
export function compare(before: readonly string[], after: readonly string[]): Line[] {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  while (
    tail < before.length - head &&
    tail < after.length - head &&
    before.at(-1 - tail) === after.at(-1 - tail)
  )
    tail++;
  const same = (lines: readonly string[]): Line[] => lines.map((text) => ({ kind: "same", text }));
  const [old, young] = [before.slice(head, before.length - tail), after.slice(head, after.length - tail)];
  return [
    ...same(before.slice(0, head)),
    ...between(old, young),
    ...same(before.slice(before.length - tail)),
  ];
}

function between(old: readonly string[], young: readonly string[]): Line[] {
  const gone = (text: string): Line => ({ kind: "gone", text });
  const fresh = (text: string): Line => ({ kind: "new", text });
  if (old.length > LINES_MAX || young.length > LINES_MAX) return [...old.map(gone), ...young.map(fresh)];
  const width = young.length + 1;
  const longest = new Uint16Array((old.length + 1) * width);
  const at = (i: number, j: number) => longest[i * width + j] as number;
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = young.length - 1; j >= 0; j--)
      longest[i * width + j] =
        old[i] === young[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < old.length && j < young.length) {
    if (old[i] === young[j]) {
      lines.push({ kind: "same", text: old[i++] as string });
      j++;
    } else if (at(i + 1, j) >= at(i, j + 1)) lines.push(gone(old[i++] as string));
    else lines.push(fresh(young[j++] as string));
  }
  return [...lines, ...old.slice(i).map(gone), ...young.slice(j).map(fresh)];
}

/** Lines near a change; null stands for those left out. */
function near(lines: readonly Line[]): (Line | null)[] {
  const isNear = (n: number) =>
    lines.slice(Math.max(0, n - AROUND), n + AROUND + 1).some(({ kind }) => kind !== "same");
  return lines.flatMap((line, n) => {
    if (isNear(n)) return [line];
    return n > 0 && isNear(n - 1) ? [null] : [];
  });
}
