/**
 * Simulated mail of one class that waits for a cap, oldest first: not e-mails, but how many of which stream
 * arrived when.
 */
export class SimulatedBacklog {
  private readonly bins: number[] = [];
  private readonly streams: number[] = [];
  private readonly counts: number[] = [];
  private head = 0;
  private tail = 0;
  waiting = 0;

  join(bin: number, stream: number, count: number): void {
    if (count === 0) return;
    this.bins[this.tail] = bin;
    this.streams[this.tail] = stream;
    this.counts[this.tail] = count;
    this.tail++;
    this.waiting += count;
  }

  /**
   * Lets the oldest go while there is room; says to `goes` how many of which stream, and when they arrived.
   */
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
    // the arrays keep their size: mostly nothing waits, and to shrink them each time cost a fifth of a
    // simulation
    if (this.waiting === 0) this.head = this.tail = 0;
    return served;
  }
}
