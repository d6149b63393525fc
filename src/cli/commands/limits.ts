/** Limits that both the help of a command tells and the command itself keeps. */
export const RUNS_SHOWN = 50;
/** Those that sent most: a replay of a week takes some 30 ms each. */
export const REPLAYED_WORKSPACES_MAX = 200;
