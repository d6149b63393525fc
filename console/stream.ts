/** What happens in a workspace, as the server tells it. */

/**
 * Browsers give up a stream that was refused once, as a proxy does while the console restarts; doubled each
 * time, since a session that has ended stays so.
 */
const AGAIN_MS = 5_000;
const AGAIN_MS_MAX = 60_000;

export type Stream = { isOpen(): boolean; close(): void };

/** `tell`: something happened, or may have. */
export function openStream(path: string, tell: () => void): Stream {
  let again: ReturnType<typeof setTimeout> | undefined;
  let againMs = AGAIN_MS;
  let source = connect();
  function connect(): EventSource {
    const opened = new EventSource(path);
    opened.addEventListener("change", tell);
    // what happened before, since a screen has read or a stream was closed, nobody tells
    opened.addEventListener("ready", () => {
      againMs = AGAIN_MS;
      tell();
    });
    opened.addEventListener("error", () => {
      if (opened.readyState !== EventSource.CLOSED) return;
      again = setTimeout(() => {
        source = connect();
      }, againMs);
      againMs = Math.min(2 * againMs, AGAIN_MS_MAX);
    });
    return opened;
  }
  return {
    isOpen: () => source.readyState === EventSource.OPEN,
    close() {
      clearTimeout(again);
      source.close();
    },
  };
}
