/** Waiting for what becomes true by itself and is no signal. */
import { vi } from "vitest";

/** Of Vitest it would be one second, and a busy machine stands still for longer. */
const PATIENCE_MS = 30_000;

type Patience = { timeout?: number; interval?: number };

/** What `look` hands back as soon as it does not throw; else its last error. */
export function eventually<T>(look: () => T | Promise<T>, patience: Patience = {}): Promise<T> {
  return vi.waitFor(look, { timeout: PATIENCE_MS, ...patience });
}
