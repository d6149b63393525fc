/** A receiver that keeps account of what it gets: connections, messages, when they came and from where. */
import type { Script, Talk } from "./peer.ts";

export class Receiver {
  /** When each message was taken, in ms. */
  readonly takenAt: number[] = [];
  /** The address that each of them came from. */
  readonly from: string[] = [];
  open = 0;
  mostOpen = 0;
  mostOfOne = 0;
  /** What it answers to a final dot, as soon as it has decided; null: it takes the message. */
  answer: (talk: Talk, message: string) => string | null | Promise<string | null> = () => null;
  /** What it says instead of its greeting; null: it is ready. */
  greeting: () => string | null = () => null;

  /** For `world.peerAt`. */
  readonly script: Script = async (talk) => {
    const refusal = this.greeting();
    if (refusal !== null) {
      talk.say(refusal);
      talk.hangUp();
      return;
    }
    this.open++;
    this.mostOpen = Math.max(this.mostOpen, this.open);
    try {
      await talk.hello("PIPELINING");
      for (let n = 1; ; n++) {
        await this.#take(talk);
        this.mostOfOne = Math.max(this.mostOfOne, n);
      }
    } finally {
      this.open--;
    }
  };

  async #take(talk: Talk): Promise<void> {
    await talk.hearEnvelope();
    talk.say("354 go on");
    const refusal = await this.answer(talk, await talk.hearMessage());
    if (refusal === null) {
      this.takenAt.push(performance.now());
      this.from.push(talk.from);
    }
    talk.say(refusal ?? "250 2.0.0 taken");
  }
}
