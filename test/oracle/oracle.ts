/** `npm run oracle`: how far our verdicts agree with those of Sisimai, and on what they do not. */
import { agreement, knownDisagreements, missingOracle } from "./agreement.ts";

const missing = missingOracle();
if (missing) {
  console.log(missing);
} else {
  const known = knownDisagreements();
  const sets = agreement();
  const all = { title: "all", compared: sets.flatMap(({ compared }) => compared) };
  console.log("set                              decoded  agree on hard");
  for (const { title, compared } of [...sets, all]) {
    const agreed = compared.filter(({ agrees }) => agrees).length;
    const percent = ((100 * agreed) / compared.length).toFixed(1);
    console.log(
      `${title.padEnd(32)} ${String(compared.length).padStart(7)}  ${String(agreed).padStart(5)}  ${percent} %`,
    );
  }
  for (const { name, theirs, ours, text } of all.compared.filter(({ agrees }) => !agrees))
    console.log(
      `\n${name}: Sisimai says ${theirs}, we say ${ours}\n  ${text.slice(0, 140)}\n  ${known.get(name) ?? "NOT LISTED"}`,
    );
}
