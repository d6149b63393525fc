/**
 * The tie between the root of `npm start` and its children: an IPC channel. When the root goes, however it
 * goes, the channel closes, and the child ends: at once while it is still starting, gently once it has said
 * how. Without a channel a process runs unsupervised.
 */
export type ChildReport =
  | { kind: "progress"; line: string }
  | ({ kind: "ready" } & ServingPorts)
  | { kind: "stores"; stores: StoresReport }
  /** `status` is what the process ends with. */
  | { kind: "failed"; reason: string; status: number; isPortTaken: boolean };

export type ServingPorts = {
  port: number | null;
  inboundPort: number | null;
  submissionPort: number | null;
  submissionTlsPort: number | null;
  metricsPort: number | null;
  consolePort: number | null;
};

/** What the process that holds the stores brought up. */
export type StoresReport = {
  /** Settings for the processes that use them. */
  env: Record<string, string>;
  databaseUrl: string | null;
  redisUrl: string | null;
  mailboxUrl: string | null;
  pids: Record<string, number>;
};

let end = (): void => process.exit(1);

// the root may be gone before this line is reached: then there is still a way to send, but no channel any
// more
if (process.send && !process.connected) end();
process.once("disconnect", () => end());

export function onParentGone(gently: () => void): void {
  end = gently;
}

export function report(message: ChildReport): void {
  // the root may be gone: the channel says so too
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
