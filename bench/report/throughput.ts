/**
 * The chart of the README: mail from the request to the sink, as an SVG file of its own that says what it was
 * measured on.
 */
import type { Results } from "../results.ts";
import { escaped, WIDTH } from "./charts.ts";
import { barsOf, DELIVERED } from "./page.ts";

const TOP = 46;
const BOTTOM = 30;
/** Colours are written out: an image does not know the variables of a page. */
const STYLE = `text { fill: #1c2430; font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.title { font-size: 15px; font-weight: 600; } .note { fill: #667085; font-size: 11px; }
.value { font-weight: 600; }
.bar.ours { fill: #2f6fed; } .bar.peer { fill: #9aa7ba; } .bar.floor { fill: #dfe5ee; stroke: #9aa7ba; stroke-dasharray: 3 3; }
.whisker { stroke: #1c2430; stroke-width: 1.2; fill: none; opacity: .65; }
@media (prefers-color-scheme: dark) { text { fill: #e6eaf2; } .note { fill: #98a3b5; } .whisker { stroke: #e6eaf2; }
.bar.ours { fill: #6c9bff; } .bar.peer { fill: #66748a; } .bar.floor { fill: #333e4f; stroke: #66748a; } }`;

export function throughputChart({ machine, options, rows }: Results): string {
  const drawing = barsOf(rows, DELIVERED);
  if (drawing === null)
    throw new Error("These results have no `deliver`, `signed` or `peers`: there is nothing to draw.");
  const { seconds, runs } = options as { seconds: number; runs: number };
  const where = `Commit ${machine.commit}, ${machine.cores} cores of ${machine.cpu}, everything on this machine. Loads of ${seconds} s, up to ${runs} runs: median, least, most.`;
  const height = TOP + drawing.height + BOTTOM;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img">
<title>E-mails per second, from the request to the sink</title>
<style>${STYLE}</style>
<text class="title" x="10" y="24">E-mails per second, from the request to the sink</text>
<g transform="translate(0 ${TOP - 6})">
${drawing.content}
</g>
<text class="note" x="10" y="${height - 10}">${escaped(where)}</text>
</svg>
`;
}
