/** Says how far something is, four times a second, until it is ended or all is. */
import type { Endings } from "./endings.ts";

const TELL_EVERY_MS = 250;

export function telling(endings: Endings, tell: () => void): () => Promise<void> {
  const timer = setInterval(tell, TELL_EVERY_MS);
  return endings.add(() => clearInterval(timer));
}
