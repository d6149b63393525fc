/** What happens in the workspace, as the server tells it: one connection for all screens. */
import { withQuery } from "./call.ts";

const GATHER_MS = 400;
/** Browsers give up a stream that was refused once, as a proxy does while the console restarts. */
const AGAIN_MS = 5_000;
const listeners = new Set<() => void>();
let source: EventSource | null = null;
let isGathering = false;
let again: ReturnType<typeof setTimeout> | undefined;

export function listen(workspaceId: string): () => void {
  connect(withQuery("/console/call/live", { workspace: workspaceId }));
  return () => {
    clearTimeout(again);
    source?.close();
    source = null;
  };
}

function connect(path: string): void {
  const opened = new EventSource(path);
  source = opened;
  opened.addEventListener("change", gather);
  // what happened before, since a screen has read or a stream was closed, nobody tells
  opened.addEventListener("ready", gather);
  opened.addEventListener("error", () => {
    if (opened.readyState === EventSource.CLOSED) again = setTimeout(() => connect(path), AGAIN_MS);
  });
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
