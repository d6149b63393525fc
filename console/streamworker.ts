/**
 * A worker that tabs share, and in it the one stream of one person in one workspace: its name is the stream's
 * path. A browser has six connections to a server without HTTP/2, and a stream takes one for good.
 */
import { openStream, type Stream } from "./stream.ts";

const tabs = new Set<MessagePort>();
let stream: Stream | null = null;

addEventListener("connect", (event) => {
  const [tab] = (event as MessageEvent).ports as [MessagePort];
  tabs.add(tab);
  const leave = () => {
    tabs.delete(tab);
    if (tabs.size > 0) return;
    stream?.close();
    stream = null;
  };
  // a tab has one thing to say: that it leaves
  tab.onmessage = leave;
  // newer browsers tell of one that crashed
  tab.addEventListener("close", leave);
  stream ??= openStream(self.name, tellAll);
  // what happened since it has read, the others were told
  if (stream.isOpen()) tab.postMessage(null);
});

function tellAll(): void {
  for (const tab of tabs) tab.postMessage(null);
}
