/** Characters as limits of fields count them: one that takes two places in a string of JavaScript is one. */

export function charsOf(text: string): number {
  return [...text].length;
}

export function firstChars(text: string, most: number): string {
  return [...text].slice(0, most).join("");
}
