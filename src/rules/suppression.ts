/** Why an address is not written to. */
export const SUPPRESSION_REASONS = ["bounce", "complaint", "manual"] as const;
export type SuppressionReason = (typeof SUPPRESSION_REASONS)[number];

/** By key so many bounces of a day no longer count, or this share of them; the same of complaints. */
const BY_KEY_EACH_DAY = 5;
const BY_KEY_SHARE = 0.1;

/** How many counts of a day a key may still take back: a sender could undo all that its caps heed. */
export function leftToUndoByKey({ counted, undone }: { counted: number; undone: number }): number {
  return Math.max(BY_KEY_EACH_DAY, Math.floor(counted * BY_KEY_SHARE)) - undone;
}
