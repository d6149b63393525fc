/**
 * Loaded before a process of a test: its wall clock is off by `WRONG_CLOCK_MS`, as on a machine whose time is
 * set wrong. Timers and `performance.now()` are right, as they are there. The test may change the offset
 * while the process runs; each change is answered when it holds.
 */

const RealDate = Date;
let offsetMs = Number(process.env.WRONG_CLOCK_MS ?? 0);
const now = () => RealDate.now() + offsetMs;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, created) => Reflect.construct(target, args.length > 0 ? args : [now()], created),
  apply: () => new RealDate(now()).toString(),
  get: (target, name, receiver) => (name === "now" ? now : Reflect.get(target, name, receiver)),
});
RealDate.prototype.constructor = Date;

process.on("message", (message) => {
  if (message.kind !== "set clock") return;
  offsetMs = message.offsetMs;
  process.send?.({ kind: "clock set" });
});
