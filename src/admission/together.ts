/**
 * Questions of one kind that share a call: those of the same turn of the event loop, and those that come
 * while a call of their kind is under way, which go together in the next one.
 *
 * A call that fails fails for those who wait behind it, too: they would ask the same store, one deadline
 * later.
 */
type Gathered<Question, Answer> = {
  question: Question;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
};

/** More would hold up Redis, where each counts. */
const GROUP_MAX = 100;

export class Together<Question, Answer> {
  readonly #answer: (questions: readonly Question[]) => Promise<readonly Answer[]>;
  /** By kind; a kind is here while a call of it is planned or under way. */
  readonly #kinds = new Map<string, Gathered<Question, Answer>[]>();

  /** `answer`: of all these, in their order. */
  constructor(answer: (questions: readonly Question[]) => Promise<readonly Answer[]>) {
    this.#answer = answer;
  }

  ask(kind: string, question: Question): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const one = { question, resolve, reject };
      const others = this.#kinds.get(kind);
      if (others) {
        others.push(one);
        return;
      }
      this.#kinds.set(kind, [one]);
      setImmediate(() => void this.#run(kind));
    });
  }

  async #run(kind: string): Promise<void> {
    const waiting = this.#kinds.get(kind) ?? [];
    while (waiting.length > 0) {
      const group = waiting.splice(0, GROUP_MAX);
      try {
        const answers = await this.#answer(group.map(({ question }) => question));
        group.forEach(({ resolve }, place) => void resolve(answers[place] as Answer));
      } catch (error) {
        for (const { reject } of [...group, ...waiting.splice(0)]) reject(error);
      }
    }
    this.#kinds.delete(kind);
  }
}
