/** What happens in the workspace: one stream for all screens, and where the browser can for all tabs. */
import { withQuery } from "./call.ts";
import { openStream } from "./stream.ts";
import workerUrl from "./streamworker.ts?worker&url";

const GATHER_MS = 400;
const listeners = new Set<() => void>();
let isGathering = false;

export function listen(accountId: string, workspaceId: string): () => void {
  const path = withQuery("/console/call/live", { workspace: workspaceId, account: accountId });
  if (!("SharedWorker" in globalThis)) return openStream(path, gather).close;
  // a worker is shared by those who give it the same name: other people and workspaces have others
  const worker = new SharedWorker(workerUrl, { name: path });
  const { port } = worker;
  let close = () => {
    port.postMessage("leaves");
    port.close();
  };
  port.onmessage = gather;
  // the server may have been upgraded since this page was loaded
  worker.onerror = () => {
    close = openStream(path, gather).close;
  };
  const leave = () => {
    worker.onerror = null;
    close();
  };
  addEventListener("pagehide", leave);
  return () => {
    removeEventListener("pagehide", leave);
    leave();
  };
}

export function onNews(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** A batch of a hundred e-mails is one reason to look, not a hundred. */
function gather(): void {
  if (isGathering) return;
  isGathering = true;
  setTimeout(() => {
    isGathering = false;
    for (const listener of listeners) listener();
  }, GATHER_MS);
}
