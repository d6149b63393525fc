/**
 * The leash between the root of `npm start` and its children: an IPC channel. When the root goes, however it goes, the
 * channel closes, and the child ends itself. A process that nobody holds on a leash is its own master.
 */
export type Report =
  | { kind: "ready"; port: number | null }
  | { kind: "failed"; reason: string }
  | { kind: "stores"; found: Record<string, string>; pids: Record<string, number> }
  | { kind: "progress"; line: string };

export function isOnLeash(): boolean {
  return process.connected === true;
}

export function report(message: Report): void {
  // the root may be gone: the disconnect says so too
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

export function onLeashLost(end: () => void): void {
  if (isOnLeash()) process.once("disconnect", end);
}
