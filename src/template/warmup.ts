/**
 * Machine code is made of what ran often, and the prices hold for that: without it, the first large template
 * of a process takes up to ten times as long, and everybody waits for it. So a process that renders begins
 * with small ones, a few ms at a time.
 */
import { compile } from "./compile.ts";
import { RenderBudget, renderInPieces } from "./render.ts";

const ROUNDS = 100;
const PAUSE_MS = 20;
const SOURCE = `{% for i in list %}{% if i.n > 3 and i.n != 5 or i.name contains "x" %}{{ i.name | upcase }}{% elsif i.n == 1 %}
{{ i.n | plus: 1 | times: 2.5 | round: 1 }}{% else %}{{name|friend}}{% endif %}{% unless i.no %}{{{ i.name }}}{% endunless %}
{% case i.n %}{% when 1, 2 %}a{% else %}b{% endcase %}{% assign a = i.name | default: "y" | append: name %}{{ a }}{% endfor %}
{% capture c %}{{ list | map: "n" | sort | join: ", " }}{% endcapture %}{{ c | escape }}{% cycle name, "b" %}
{{ "now" | date: "%Y-%m-%d" }}{{ list[0].name }}{{ list.size }}{% tablerow x in (1..3) cols: 2 %}{{ x }}{% endtablerow %}`;

/** Goes on by itself, and keeps no process from ending. */
export function warmUp(round = 1): void {
  const list = Array.from({ length: 10 }, (_, n) => ({ n, name: `name <${n}>`, no: n % 2 === 0 }));
  const source = { subject: "{{name}}", html: SOURCE, text: null, from: null, replyTo: [], declared: [] };
  for (const _ of renderInPieces(compile(source), { name: "Ann", list }, new RenderBudget(0)));
  if (round < ROUNDS) setTimeout(warmUp, PAUSE_MS, round + 1).unref();
}
