/** The clock that the root reads and hands down; tests hand down one that they move. */
export type Clock = {
  now(): number;
  /** What Redis scripts are told: 0 lets them use the store's own time, the one clock of all processes. */
  given(): number;
};
