/** Simulated mail of one class that waits for a cap, oldest first: not e-mails, but how many of which stream arrived when. */
export class Line {
  private readonly bins: number[] = [];
  private readonly streams: number[] = [];
  private readonly counts: number[] = [];
  private head = 0;
  waiting = 0;

  join(bin: number, stream: number, count: number): void {
    if (count === 0) return;
    this.bins.push(bin);
    this.streams.push(stream);
    this.counts.push(count);
    this.waiting += count;
  }

  /** Lets the oldest go while there is room; says to `goes` how many of which stream, and when they arrived. */
  serve(room: number, goes: (count: number, stream: number, arrived: number) => void): number {
    let left = Math.min(room, this.waiting);
    const served = left;
    while (left > 0) {
      const here = this.counts[this.head] as number;
      const count = Math.min(left, here);
      goes(count, this.streams[this.head] as number, this.bins[this.head] as number);
      left -= count;
      if (count === here) this.head++;
      else this.counts[this.head] = here - count;
    }
    this.waiting -= served;
    if (this.waiting === 0) this.empty();
    return served;
  }

  private empty(): void {
    this.bins.length = this.streams.length = this.counts.length = this.head = 0;
  }
}
