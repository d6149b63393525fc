/**
 * The look of a report: one column, both colour schemes; colours that the colour-blind tell apart (after
 * Okabe and Ito).
 */
export const STYLE = `
:root { color-scheme: light dark; --paper: #f6f7f9; --card: #ffffff; --ink: #17202c; --soft: #5c6878; --line: #e2e6ec;
  --blue: #0062a8; --orange: #c77700; --green: #00805d; --purple: #9c4f86; --red: #b8430a; }
@media (prefers-color-scheme: dark) { :root { --paper: #0f141b; --card: #171e28; --ink: #e6ebf2; --soft: #93a1b3;
  --line: #293443; --blue: #56b4e9; --orange: #e69f00; --green: #2fc49a; --purple: #d995bf; --red: #ee7733; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 32px 20px 48px; }
header { margin-bottom: 24px; }
h1 { font-size: 30px; margin: 2px 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 0 0 12px; }
p { margin: 0 0 8px; }
.kicker { text-transform: uppercase; letter-spacing: 0.09em; font-size: 12px; color: var(--soft); }
.facts, footer { color: var(--soft); font-size: 13.5px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 20px; margin-bottom: 18px; }
.answer { border-left: 5px solid var(--blue); font-size: 16.5px; }
.answer p:last-child { margin: 0; }
.key { display: inline-block; width: 22px; height: 12px; margin-right: 6px; vertical-align: -1px; }
svg .span { fill: var(--ink); font-weight: 600; paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
svg .limit { fill: currentColor; paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
svg .moment { fill: var(--ink); }
.pattern { display: inline-block; width: 26px; height: 14px; vertical-align: -2px; margin-right: 6px; }
figure { margin: 0 0 18px; }
figcaption { font-weight: 600; font-size: 14px; margin-bottom: 4px; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 11.5px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 12.5px; color: var(--soft); margin-top: 4px; }
.legend i, .dot { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
td:first-child, .reason { white-space: normal; }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; }
code { font: 12px ui-monospace, Menlo, Consolas, monospace; color: var(--soft); }
.numbers code { margin-left: 8px; }
summary { cursor: pointer; font-size: 14px; color: var(--soft); margin-bottom: 6px; }
details { overflow-x: auto; }
.multiples { display: grid; grid-template-columns: repeat(auto-fill, minmax(380px, 1fr)); gap: 8px 20px; }
`;
