/**
 * The words of a subject, as the function spaced_words of Postgres parts them: case and punctuation are those
 * of ASCII.
 */
export function wordsOf(text: string): string[] {
  const words = text
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase())
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they part words as spaces do
    .split(/[\u0001-\u002f\u003a-\u0060\u007b-\u007f]+/);
  return [...new Set(words)].filter((word) => word !== "");
}
