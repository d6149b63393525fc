/**
 * How far the whole bench is, in one line of a terminal with the running figure; without a terminal, a line
 * for each run.
 */
const WIDTH = 24;

export class Progress {
  readonly #total: number;
  #done = 0;
  #what = "";

  constructor(total: number) {
    this.#total = total;
  }

  begin(what: string): void {
    this.#what = what;
    if (process.stderr.isTTY) this.tell("");
    else process.stderr.write(`${what} ...\n`);
  }

  tell(text: string): void {
    if (!process.stderr.isTTY) return;
    const full = Math.round((this.#done / this.#total) * WIDTH);
    const bar = "█".repeat(full) + "░".repeat(WIDTH - full);
    const line = `${bar} ${this.#done}/${this.#total} ${this.#what} ${text}`;
    process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns || 120) - 1)}`);
  }

  end(): void {
    this.#done++;
    if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
  }
}
