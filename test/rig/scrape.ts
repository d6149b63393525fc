/** What Prometheus would read: the samples of one scrape, by name and labels. */

export type Scrape = {
  text: string;
  /** Of HELP lines: a family may have no samples yet. */
  families: ReadonlySet<string>;
  /** Summed over all series that have these labels. */
  value(name: string, labels?: Record<string, string>): number;
};

export async function scrape(url: string): Promise<Scrape> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} was answered ${response.status}`);
  const text = await response.text();
  const samples = text.split("\n").flatMap((line) => {
    const [, name, labels = "", value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined) return [];
    const named = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text]);
    return [{ name, labels: Object.fromEntries(named) as Record<string, string>, value: Number(value) }];
  });
  return {
    text,
    families: new Set([...text.matchAll(/^# HELP (\w+)/gm)].map(([, name]) => name as string)),
    value: (name, wanted = {}) =>
      samples
        .filter(
          (one) => one.name === name && Object.entries(wanted).every(([key, is]) => one.labels[key] === is),
        )
        .reduce((sum, one) => sum + one.value, 0),
  };
}
