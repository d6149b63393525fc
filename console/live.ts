/** What happens in the workspace, as the server tells it: one connection for all screens. */
import { withQuery } from "./call.ts";

const GATHER_MS = 400;
const listeners = new Set<() => void>();
let source: EventSource | null = null;
let isGathering = false;

export function listen(workspaceId: string): () => void {
  source = new EventSource(withQuery("/console/call/live", { workspace: workspaceId }));
  source.addEventListener("change", gather);
  return () => {
    source?.close();
    source = null;
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
