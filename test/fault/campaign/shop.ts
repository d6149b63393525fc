/** The automations of the campaign, and every way through each of them, as the positions of its steps. */

type Known = {
  event: string;
  entry: "every" | "once";
  ways: readonly string[];
  steps: readonly object[];
};

const letter = (label: string) => ({
  send: {
    from: "Shop <shop@shop.test>",
    subject: `a {{event.properties.operation}} ${label}`,
    text: "Hello {{first_name|friend}}",
  },
});

export const AUTOMATIONS: Record<string, Known> = {
  welcome: {
    event: "signed.up",
    entry: "every",
    ways: ["0 1 2 3 3.a.0 4", "0 1 2 3 3.b.0 3.b.1 4"],
    steps: [
      letter("first"),
      { wait: "2s" },
      { tag: { add: ["greeted"] } },
      { split: { percent: { a: 50, b: 50 }, a: [letter("a")], b: [{ wait: "3s" }, letter("b")] } },
      letter("last"),
    ],
  },
  thanks: {
    event: "ordered",
    entry: "once",
    ways: ["0 1"],
    steps: [letter("thanks"), { tag: { add: ["buyer"] } }],
  },
};
