/** uWebSockets.js is native code: whether it has a binary for this Node on this machine. */
export async function hasServerBinary(): Promise<boolean> {
  return import("uWebSockets.js").then(
    () => true,
    () => false,
  );
}
