/** Characters as limits of fields count them: one that takes two places in a string of JavaScript is one. */

/** At no more cost than of a short text, however long it is. */
export function hasMoreChars(text: string, most: number): boolean {
  return text.length > most && [...text.slice(0, 2 * most + 1)].length > most;
}

export function firstChars(text: string, most: number): string {
  return [...text.slice(0, 2 * most)].slice(0, most).join("");
}
