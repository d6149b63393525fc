/**
 * ioredis 6.0.0 judges whether Redis is late before it has read what came: after a hold-up it refused answers
 * that were there, and left connections that had spoken. Its two deadlines are ours instead, whatever the
 * client: `commandTimeout` of a command and `socketTimeout` of a connection that owes an answer.
 */
import type { Socket } from "node:net";
import { Command, Redis } from "ioredis";
import { whenLate } from "../clock.ts";

/** What is private there. */
type CommandParts = {
  setTimeout(ms: number): void;
  _clearTimers(): void;
  reject(error: Error): void;
  cancelDeadline?: (() => void) | undefined;
};
type RedisParts = {
  setSocketTimeout(): void;
  /** Not undefined: it is watched. */
  socketTimeoutTimer: object | undefined;
  stream: Socket;
  options: { socketTimeout: number };
  commandQueue: { length: number };
};

export function judgeAfterReading(): void {
  judgeCommands(Command.prototype as unknown as CommandParts);
  judgeConnections(Redis.prototype as unknown as RedisParts);
}

function judgeCommands(command: CommandParts): void {
  const clearTimers = command._clearTimers;
  command.setTimeout = function (ms) {
    this.cancelDeadline ??= whenLate(ms, () => this.reject(new Error("Command timed out")));
  };
  command._clearTimers = function () {
    this.cancelDeadline?.();
    this.cancelDeadline = undefined;
    clearTimers.call(this);
  };
}

function judgeConnections(redis: RedisParts): void {
  redis.setSocketTimeout = function () {
    const { stream, options } = this;
    const { socketTimeout: ms } = options;
    const cancel = whenLate(ms, () => stream.destroy(new Error(`Socket timeout: nothing came in ${ms} ms`)));
    const over = () => {
      cancel();
      stream.off("data", heard).off("close", over);
      this.socketTimeoutTimer = undefined;
    };
    const heard = () => {
      over();
      if (this.commandQueue.length > 0) this.setSocketTimeout();
    };
    stream.on("data", heard).on("close", over);
    this.socketTimeoutTimer = WATCHED;
  };
}

const WATCHED = {};
