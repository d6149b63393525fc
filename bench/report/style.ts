/** How the report looks, by day and by night, on a screen and on paper. */
export const STYLE = `
:root { color-scheme: light dark; --ink: #1c2430; --soft: #667085; --line: #e3e7ee; --paper: #fbfcfe; --card: #fff;
  --ours: #2f6fed; --peer: #9aa7ba; --floor: #dfe5ee; --good: #16794c; --bad: #b42318;
  --c0: #2f6fed; --c1: #e8762d; --c2: #17976b; --c3: #a155d6; --c4: #d6417f; --c5: #8a7a12; --c6: #0d94a8; --c7: #667085; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf2; --soft: #98a3b5; --line: #2b3442; --paper: #12161d; --card: #191f29;
  --ours: #6c9bff; --peer: #66748a; --floor: #333e4f; --good: #4cc38a; --bad: #ff8f84;
  --c0: #6c9bff; --c1: #ff9a57; --c2: #43c596; --c3: #c58af0; --c4: #f278a8; --c5: #cdbb4a; --c6: #45c2d4; --c7: #98a3b5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 40px 20px 80px; max-width: 860px; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { margin: 0; font-size: 28px; letter-spacing: -.02em; }
h2 { margin: 48px 0 8px; font-size: 20px; letter-spacing: -.01em; }
h3 { margin: 28px 0 6px; font-size: 15px; }
h3 small, header p, section > p { color: var(--soft); font-weight: 400; font-size: 14px; }
header p { margin: 4px 0 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 12px; margin-top: 28px; }
.tile { padding: 14px 16px; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
.tile b { display: block; font-size: 26px; line-height: 1.2; letter-spacing: -.02em; font-variant-numeric: tabular-nums; }
.tile span, .tile small { display: block; }
.tile small { color: var(--soft); font-size: 12.5px; }
figure { margin: 16px 0; padding: 16px 18px 12px; border: 1px solid var(--line); border-radius: 10px; background: var(--card); break-inside: avoid; }
figcaption { margin-bottom: 10px; font-weight: 600; font-size: 14px; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
svg text { fill: var(--ink); } svg .tick, svg .legend { fill: var(--soft); } svg .value { font-weight: 600; font-variant-numeric: tabular-nums; }
.bar.ours { fill: var(--ours); } .bar.peer { fill: var(--peer); } .bar.floor { fill: var(--floor); stroke: var(--peer); stroke-dasharray: 3 3; }
.whisker { stroke: var(--ink); stroke-width: 1.2; fill: none; opacity: .65; }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .area { opacity: .1; }
table { width: 100%; border-collapse: collapse; font-size: 13.5px; }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 500; } .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.better td:last-child { color: var(--good); font-weight: 600; } .worse td:last-child { color: var(--bad); font-weight: 600; }
.warning { padding: 8px 12px; border-left: 3px solid var(--bad); background: var(--card); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; font-size: 13.5px; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin: 8px 0; } summary { cursor: pointer; } pre { overflow: auto; padding: 12px; border: 1px solid var(--line); border-radius: 8px; background: var(--card); font-size: 12px; }
.wide { overflow-x: auto; } .runs { color: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media (max-width: 600px) { body { padding: 24px 14px 48px; } figure { padding: 12px 10px 8px; overflow-x: auto; } figcaption { position: sticky; left: 0; } svg { min-width: 640px; } .name { min-width: 8em; } .tiles { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); } .tile b { font-size: 21px; } }
@media print { body { max-width: none; padding: 0; } .tile, figure { border-color: #ccc; } }
`;
