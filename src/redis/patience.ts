/**
 * ioredis 6.0.0 judges whether a command is late before it has read what came: after a hold-up it refused
 * answers that were there. The option `commandTimeout` comes to this method, whatever the client.
 */
import { Command } from "ioredis";
import { whenLate } from "../clock.ts";

export function judgeCommandsAfterReading(): void {
  Command.prototype.setTimeout = function (ms: number) {
    const cancel = whenLate(ms, () => this.reject(new Error("Command timed out")));
    this.promise.then(cancel, cancel);
  };
}
