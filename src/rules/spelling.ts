/** Which known name an unknown one was probably meant to be. The cost is that of comparing short names. */

const WRONG_LETTERS_MAX = 2;

/** null: it is like none of them. */
export function nearestOf(name: string, known: readonly string[]): string | null {
  const letters = lettersOf(name);
  let nearest: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const one of known) {
    const theirs = lettersOf(one);
    // the shorter the name, the less of it may be wrong
    const allowed = Math.min(WRONG_LETTERS_MAX, Math.floor((theirs.length + 1) / 3));
    if (Math.abs(theirs.length - letters.length) > allowed) continue;
    const wrong = wrongLetters(letters, theirs);
    if (wrong > allowed || wrong >= least) continue;
    nearest = one;
    least = wrong;
  }
  return nearest;
}

/** `replyTo` and `Reply-To` are `reply_to` in another style. */
function lettersOf(name: string): string {
  return name.toLowerCase().replace(/[_-]/g, "");
}

/** How many letters to add, drop, change or swap with the next to make one word the other. */
function wrongLetters(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, n) => n);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        (last[j] as number) + 1,
        (row[j - 1] as number) + 1,
        (last[j - 1] as number) + (isSame ? 0 : 1),
        isSwapped ? (beforeLast[j - 2] as number) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] as number;
}
